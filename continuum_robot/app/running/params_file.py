# SPDX-License-Identifier: Apache-2.0
"""A YAML file of ROS parameters, as launch files and `--ros-args --params-file` take it, for the nodes of a stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml

_KEY = "ros__parameters"
_ALL = "/**"


def read_params_file(file: Path, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parameters of each node, by dotted names.

    Parameters
    ----------
    file : sections ``/**`` for all nodes, or a node's name, with or without ``/**/`` before it
    nodes : names of all nodes that there may be

    Raises
    ------
    RobotFileError : not readable, a section of no node, or one without ``ros__parameters``
    """
    content, lines = plain_yaml(read_yaml(file, "file of ROS parameters"), file)
    if not isinstance(content, dict):
        raise RobotFileError(file, "", content, f"sections of nodes, each with {_KEY}")
    found: dict[str, dict[str, Any]] = {}
    for section, inner in content.items():
        name = str(section).rpartition("/")[2] if str(section) != _ALL else _ALL
        if name != _ALL and name not in nodes:
            raise RobotFileError(
                file, str(section), section, f"{_ALL}, or one of {', '.join(nodes)}", lines.get(section)
            )
        values = inner.get(_KEY) if isinstance(inner, dict) else None
        if not isinstance(values, dict):
            raise RobotFileError(file, str(section), inner, f"a mapping {_KEY}", lines.get(section))
        for one in nodes if name == _ALL else (name,):
            found.setdefault(one, {}).update(_flat(values))
    return found


def _flat(values: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
