# SPDX-License-Identifier: Apache-2.0
"""Reading robot files into the dataclasses of this folder, and a robot as the plain values of its file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.derived import fill
from continuum_robot.robot.file.parts import INCLUDE, VERSION, newest_values, whole_robot
from continuum_robot.robot.file.plain_yaml import place_of, read_yaml
from continuum_robot.robot.file.shipped_files import did_you_mean, shipped_robots
from continuum_robot.robot.schema import read


def find_robot_file(robot: str | Path) -> Path:
    """The path of a robot file given by path, or by the name of a shipped one."""
    path = Path(robot)
    if str(robot).startswith("~"):
        # Not expanduser(): it raises for a user that does not exist.
        path = Path(os.path.expanduser(path))
    if os.path.isfile(path):  # not is_file(): it raises for a name that is too long
        return path
    shipped = shipped_robots()
    if str(robot) in shipped:
        return shipped[str(robot)]
    names = ", ".join(shipped) or "none found"
    what = "a folder" if os.path.isdir(path) else "no such file"
    expected = f"an existing robot file, or the name of a shipped robot ({names}){did_you_mean(path.stem, shipped)}"
    raise RobotFileError(path, "", what, expected)


def load_robot(robot: str | Path) -> Robot:
    """Read and check a robot file.

    Parameters
    ----------
    robot : path of a YAML file, or the name of a shipped robot such as ``opencr_five_tendon``

    Returns
    -------
    the robot, in SI units

    Raises
    ------
    RobotFileError : missing or malformed file, unknown or missing key, value out of range or of the wrong type,
        or values that do not fit together; names file, line, key, value and what is allowed
    """
    path = find_robot_file(robot)
    return parse_robot(read_yaml(path, "robot file"), path)


def parse_robot(text: str, file: Path | str | None = None, values: Mapping[str, Any] | None = None) -> Robot:
    """Read a robot from YAML text; ``file`` is only for the messages. ``values`` stand at dotted keys in place of its
    own, and what follows from them is derived anew, as where a file gives them under ``set``.
    """
    path = None if file is None else Path(file)
    mapping, source = whole_robot(text, path, values)
    derived = fill(mapping)
    robot: Robot = read(Robot, mapping, source)
    if "schema_version" not in mapping:
        raise source.error("schema_version", None, f"this key: {VERSION}, the version of this file format")
    try:
        robot.check_hardware()
    except RobotFileError as error:
        raise source.error(error.key, error.value, error.expected) from None
    for index, key in enumerate(robot.assumed):
        if place_of(robot, key) is None:
            raise source.error(f"assumed[{index}]", key, "the dotted key of a value in this file")
    object.__setattr__(robot, "file_name", "" if path is None else str(path))
    object.__setattr__(robot, "derived", derived)
    return robot


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
