# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot convert``: a robot file of an older version as one of the newest."""

from __future__ import annotations

import itertools
from pathlib import Path

from rich.console import Console

from continuum_robot.app.output import say
from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.parts import VERSION, newest_values
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml, yaml_text
from continuum_robot.robot.file.whole_file import write_whole
from continuum_robot.robot.loading import parse_robot


def run_convert(file: Path, out: Path) -> None:
    """Convert a file, and check what was written."""
    text = read_yaml(file, "robot file")
    before, lines = plain_yaml(text, file)
    values = newest_values(text, file)
    if before.get("schema_version", VERSION) == VERSION:
        expected = f"an older version: the file has version {VERSION} already"
        raise RobotFileError(file, "schema_version", VERSION, expected, lines.get("schema_version"))
    if values == {**before, "schema_version": VERSION}:
        rows = text.splitlines(keepends=True)
        row = lines["schema_version"] - 1
        rows[row] = rows[row].replace(str(before["schema_version"]), str(VERSION), 1)
        text = "".join(rows)
    else:
        head = itertools.takewhile(lambda row: row.startswith("#"), text.splitlines(keepends=True))
        text = "".join(head) + yaml_text(values)
    parse_robot(text, file)
    try:
        write_whole(out, text)
    except OSError as error:
        raise RobotFileError(out, "", str(error), "a path that can be written") from error
    say(Console(), f"robot file of version {VERSION}: {out}")
