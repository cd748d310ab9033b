# SPDX-License-Identifier: Apache-2.0
"""A robot as the plain values of its file, to be changed and written again."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.parts import INCLUDE, newest_values, whole_robot
from continuum_robot.robot.file.plain_yaml import read_yaml
from continuum_robot.robot.loading import load_robot


def file_values(robot: Robot) -> dict[str, Any]:
    """Values of the robot's file with those of the files that it includes, or its own where it came from none."""
    if not robot.file_name:
        values: dict[str, Any] = plain(dataclasses.asdict(robot))
        for name in ("file_name", "derived"):
            values.pop(name)
        return values
    path = Path(load_robot(robot.file_name).file_name)
    whole: dict[str, Any] = whole_robot(read_yaml(path, "robot file"), path)[0]
    return whole


def own_values(robot: Robot, folder: Path) -> dict[str, Any]:
    """As :func:`file_values`, but without what the file includes: it is included by a file in another folder too."""
    if not robot.file_name:
        return file_values(robot)
    path = Path(load_robot(robot.file_name).file_name)
    values = newest_values(read_yaml(path, "robot file"), path)
    if INCLUDE in values:
        parts = ((name, path.parent / Path(name).expanduser()) for name in values[INCLUDE])
        values[INCLUDE] = [os.path.relpath(part, folder) if part.is_file() else name for name, part in parts]
    return values


def plain(value: Any) -> Any:
    """A value as YAML takes it: tuples as lists, without what is None."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
