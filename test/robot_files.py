# SPDX-License-Identifier: Apache-2.0
"""Files of shipped robots with what tests change: all that they include, and all that follows, is written out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.derived import fill
from continuum_robot.robot.file.parts import whole_robot
from continuum_robot.robot.file.plain_yaml import place_of, read_yaml, yaml_text
from continuum_robot.robot.loading import find_robot_file, parse_robot

FIVE_TENDONS = "opencr_five_tendon"
GONE = object()
"""Value of a key that a test leaves out."""


def robot_values(changes: Mapping[str, Any] | None = None, robot: str | Path = FIVE_TENDONS) -> dict[str, Any]:
    """The values of a robot with other ones at dotted keys; without ``assumed``, whose keys a test may leave out."""
    path = find_robot_file(robot)
    values = whole_robot(read_yaml(path, "robot file"), path)[0]
    fill(values)
    values.pop("assumed", None)
    for key, value in (changes or {}).items():
        place = place_of(values, key)
        assert place is not None, key
        if value is GONE:
            del place[0][place[1]]
        else:
            place[0][place[1]] = value
    return values


def made(values: Mapping[str, Any], file: str = "robot.yaml") -> Robot:
    """The robot that a file with these values describes."""
    return parse_robot(yaml_text(values), file)


def changed_robot(changes: Mapping[str, Any], robot: str | Path = FIVE_TENDONS) -> Robot:
    """The robot of :func:`robot_values`."""
    return made(robot_values(changes, robot))


def written(values: Mapping[str, Any], folder: Path, name: str = "robot") -> str:
    """Path of a file with these values."""
    file = folder / f"{name}.yaml"
    file.write_text(yaml_text(values), encoding="utf-8")
    return str(file)


def robot_file(
    folder: Path, changes: Mapping[str, Any] | None = None, robot: str | Path = FIVE_TENDONS, name: str = "robot"
) -> str:
    """Path of a file with :func:`robot_values`."""
    return written(robot_values(changes, robot), folder, name)


def documented_robot(folder: Path) -> str:
    """Path of a file with the example of docs/reference/robot_file.md, as it is printed there."""
    page = (Path(__file__).parents[1] / "docs" / "reference" / "robot_file.md").read_text(encoding="utf-8")
    file = folder / "my_robot.yaml"
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    return str(file)
