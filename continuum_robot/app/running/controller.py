# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot controller``: which controller commands the tendons of a running stack; switches to another."""

from __future__ import annotations

import typer

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.srv import SwitchController


def run_controller(name: str, namespace: str) -> int:
    """Switch where a name is given, and say which controller commands then."""
    link = StackLink(namespace, "controller_command")
    try:
        if name:
            link.switch_controller(name)
        answer = link.call(SwitchController, "switch_controller")
    finally:
        link.close()
    typer.echo(f"{answer.active or 'none'} commands the tendons; available: {', '.join(answer.available)}")
    return 0
