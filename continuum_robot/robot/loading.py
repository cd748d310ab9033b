# SPDX-License-Identifier: Apache-2.0
"""Reading robot files: strict YAML with line numbers, into the dataclasses of description.py."""

from __future__ import annotations

import dataclasses
import sysconfig
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.description import SCHEMA_VERSION, Robot
from continuum_robot.robot.schema import Source, read

_SHARE = "share/continuum_robot/config/robots"


def robot_folders() -> list[Path]:
    """Folders in which shipped robot files are looked for: the checkout's, then the installed one."""
    checkout = Path(__file__).resolve().parents[2] / "config" / "robots"
    installed = [parent / _SHARE for parent in Path(__file__).resolve().parents if (parent / _SHARE).is_dir()]
    candidates = [checkout, *installed, Path(sysconfig.get_path("data")) / _SHARE]
    return [folder for folder in dict.fromkeys(candidates) if folder.is_dir()]


def shipped_robots() -> dict[str, Path]:
    """Name and path of every shipped robot file."""
    found: dict[str, Path] = {}
    for folder in robot_folders():
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def find_robot_file(robot: str | Path) -> Path:
    """The path of a robot file given by path, or by the name of a shipped one.

    Raises
    ------
    RobotFileError : neither a file nor a shipped name; names the shipped ones
    """
    path = Path(robot).expanduser()
    if path.is_file():
        return path
    shipped = shipped_robots()
    if str(robot) in shipped:
        return shipped[str(robot)]
    names = ", ".join(shipped) or "none found"
    raise RobotFileError(path, "", None, f"an existing robot file, or the name of a shipped robot ({names})")


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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RobotFileError(path, "", str(error), "a readable text file in UTF-8") from error
    return parse_robot(text, path)


def parse_robot(text: str, file: Path | str | None = None) -> Robot:
    """Read a robot from YAML text; ``file`` is only for the messages. Raises as :func:`load_robot`."""
    path = None if file is None else Path(file)
    lines: dict[str, int] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        mapping = None if root is None else _plain(root, "", lines, path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise RobotFileError(path, "", getattr(error, "problem", str(error)), "well-formed YAML", line) from error
    if isinstance(mapping, dict) and mapping.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise RobotFileError(
            path,
            "schema_version",
            mapping["schema_version"],
            f"{SCHEMA_VERSION}, the version that this release reads; see CHANGELOG.md for what changed",
            lines.get("schema_version"),
        )
    robot: Robot = read(Robot, mapping, Source(path, lines))
    for index, key in enumerate(robot.assumed):
        if not _exists(robot, key):
            raise RobotFileError(
                path, f"assumed[{index}]", key, "the dotted key of a value in this file", lines.get(f"assumed[{index}]")
            )
    object.__setattr__(robot, "file_name", "" if path is None else str(path))
    return robot


def _plain(node: yaml.Node, key: str, lines: dict[str, int], file: Path | None) -> Any:
    lines[key] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = str(getattr(name_node, "value", name_node))
            inner = f"{key}.{name}" if key else name
            if name in mapping:
                raise RobotFileError(file, inner, name, "each key once", name_node.start_mark.line + 1)
            mapping[name] = _plain(value_node, inner, lines, file)
            lines[inner] = name_node.start_mark.line + 1
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, f"{key}[{index}]", lines, file) for index, item in enumerate(node.value)]
    return yaml.SafeLoader("").construct_object(node)


def _exists(robot: Robot, key: str) -> bool:
    value: Any = robot
    for part in key.replace("[", ".[").split("."):
        if part.startswith("["):
            index = part[1:-1]
            if not isinstance(value, tuple) or not index.isdigit() or int(index) >= len(value):
                return False
            value = value[int(index)]
        elif dataclasses.is_dataclass(value) and part in {field.name for field in dataclasses.fields(value)}:
            value = getattr(value, part)
        else:
            return False
    return True
