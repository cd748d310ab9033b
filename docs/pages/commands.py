# SPDX-License-Identifier: Apache-2.0
"""docs/reference/command_line.md: what typer itself writes of the commands."""

from __future__ import annotations

import typer
from typer.cli import get_docs_for_click

from continuum_robot.app.command_line import application
from pages.text import WRITTEN_BY

VERSION = f"<!-- typer {typer.__version__} -->"
"""Of what wrote it: another one may write it otherwise."""


def page() -> str:
    """The whole page."""
    command = typer.main.get_command(application)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="continuum-robot")
    title, rest = text.split("\n", 1)
    return f"{title}\n\n{WRITTEN_BY}\n{VERSION}\n{rest.rstrip()}\n"
