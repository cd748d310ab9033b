# SPDX-License-Identifier: Apache-2.0
"""A robot as the plain values of its file, to be changed and written again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.loading import load_robot


def file_values(robot: Robot) -> dict[str, Any]:
    """Values of the robot's file as they stand there, or its own where it came from none.

    Parameters
    ----------
    robot : of any kind

    Raises
    ------
    RobotFileError : its file is gone
    """
    if not robot.file_name:
        values: dict[str, Any] = plain(dataclasses.asdict(robot))
        values.pop("file_name")
        return values
    load_robot(robot.file_name)
    path = Path(robot.file_name)
    loaded: dict[str, Any] = plain_yaml(read_yaml(path, "robot file"), path)[0]
    return loaded


def plain(value: Any) -> Any:
    """A value as YAML takes it: tuples as lists, without what is None.

    Parameters
    ----------
    value : mappings and sequences of plain values, in any depth
    """
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
