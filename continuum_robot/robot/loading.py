# SPDX-License-Identifier: Apache-2.0
"""Reading robot files: strict YAML with line numbers, into the dataclasses of this folder."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.description import SCHEMA_VERSION, Robot
from continuum_robot.robot.schema import Source, read
from continuum_robot.robot.shipped_files import shipped_folders


def shipped_robots() -> dict[str, Path]:
    """Name and path of every shipped robot file."""
    found: dict[str, Path] = {}
    for folder in shipped_folders("robots"):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def find_robot_file(robot: str | Path) -> Path:
    """The path of a robot file given by path, or by the name of a shipped one.

    Raises
    ------
    RobotFileError : neither a file nor a shipped name; names the shipped ones
    """
    path = Path(robot)
    if str(robot).startswith("~"):
        # Not expanduser(): it raises for a user that does not exist.
        path = Path(os.path.expanduser(path))
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
    """Read a robot from YAML text; ``file`` is only for the messages.

    Raises
    ------
    RobotFileError : as of :func:`load_robot`
    """
    path = None if file is None else Path(file)
    mapping, lines = plain_yaml(text, path)
    if isinstance(mapping, dict) and mapping.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise RobotFileError(
            path,
            "schema_version",
            mapping["schema_version"],
            f"{SCHEMA_VERSION}, the version that this release reads; see CHANGELOG.md for what changed",
            lines.get("schema_version"),
        )
    source = Source(path, lines)
    robot: Robot = read(Robot, mapping, source)
    try:
        robot.check_hardware()
    except RobotFileError as error:
        raise source.error(error.key, error.value, error.expected) from None
    for index, key in enumerate(robot.assumed):
        if not _exists(robot, key):
            raise RobotFileError(
                path, f"assumed[{index}]", key, "the dotted key of a value in this file", lines.get(f"assumed[{index}]")
            )
    object.__setattr__(robot, "file_name", "" if path is None else str(path))
    return robot


def plain_yaml(text: str, path: Path | None = None) -> tuple[Any, dict[str, int]]:
    """Plain values of YAML text, and the line of every dotted key.

    Parameters
    ----------
    text : YAML
    path : for the messages

    Raises
    ------
    RobotFileError : not well-formed, or a key twice
    """
    lines: dict[str, int] = {}
    try:
        root = yaml.compose(text.removeprefix("\ufeff"), Loader=yaml.SafeLoader)
        mapping = None if root is None else _Plain(path, lines).read(root, "")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise RobotFileError(path, "", getattr(error, "problem", str(error)), "well-formed YAML", line) from error
    except RecursionError:
        raise RobotFileError(path, "", "brackets in brackets", "well-formed YAML, not nested as deep") from None
    return mapping, lines


class _Plain:
    """Turns YAML nodes into plain values and notes the line of every dotted key."""

    def __init__(self, file: Path | None, lines: dict[str, int]) -> None:
        self.file, self.lines = file, lines
        self._open: list[yaml.Node] = []

    def read(self, node: yaml.Node, key: str) -> Any:
        """The value of a node that stands at a dotted key."""
        line = node.start_mark.line + 1
        self.lines.setdefault(key, line)
        if any(node is outer for outer in self._open):
            raise RobotFileError(self.file, key, "an alias", "no alias to what encloses it", line)
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, f"{key}[{index}]") for index, item in enumerate(node.value)]
            return self._scalar(node, key, line)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for name_node, value_node in node.value:
            if name_node.tag == "tag:yaml.org,2002:merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            name = str(getattr(name_node, "value", name_node))
            inner = f"{key}.{name}" if key else name
            line = name_node.start_mark.line + 1
            if name in mapping:
                raise RobotFileError(self.file, inner, name, "each key once", line)
            self.lines.setdefault(inner, line)  # a merged mapping is read later, and its own lines do not count
            mapping[name] = self.read(value_node, inner)
        for other in merged:
            inherited = self.read(other, key)
            if not isinstance(inherited, dict):
                raise RobotFileError(self.file, key, inherited, "a mapping to merge with <<", other.start_mark.line + 1)
            mapping = {**inherited, **mapping}
        return mapping

    def _scalar(self, node: yaml.Node, key: str, line: int) -> Any:
        try:
            value = yaml.SafeLoader("").construct_object(node)
        except ValueError as error:  # such as a date with a 13th month
            raise RobotFileError(self.file, key, node.value, f"a value that YAML can read ({error})", line) from error
        # YAML 1.1 reads 1:30 as ninety.
        return node.value if ":" in node.value and isinstance(value, (int, float)) else value


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
