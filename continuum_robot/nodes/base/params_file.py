# SPDX-License-Identifier: Apache-2.0
"""Files of ROS parameters, as rcl reads them, with the line of each value for what is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from continuum_robot.errors import ContinuumRobotError, ParameterError, RobotFileError
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.file.shipped_files import did_you_mean

_KEY = "ros__parameters"
_WILD = {"**": r"(/\w+)*", "*": r"/\w+"}


class ParamsFile:
    """A file of ROS parameters."""

    def __init__(self, file: Path | str) -> None:
        self.file = Path(file)
        content, self._lines = plain_yaml(read_yaml(self.file, "file of ROS parameters"), self.file)
        if not isinstance(content, dict):
            raise RobotFileError(self.file, "", content, f"sections of nodes, each with {_KEY}")
        self._sections: dict[str, dict[str, Any]] = {}
        for section, inner in content.items():
            values = inner.get(_KEY) if isinstance(inner, dict) else None
            if not isinstance(values, dict):
                raise self._refused(section, inner, f"a mapping {_KEY}")
            self._sections[section] = dict(_flat(values))

    def of(self, node: str, namespace: str = "") -> dict[str, Any]:
        """Parameters of a node by their dotted names; a later section wins over an earlier one."""
        found: dict[str, Any] = {}
        for section in self._of_node(node, namespace):
            found |= self._sections[section]
        return found

    def check_sections(self, nodes: Collection[str]) -> None:
        """Refuse a section that is no node's, in whatever namespace."""
        for section in self._sections:
            name = section.rpartition("/")[2]
            if name not in nodes and name not in _WILD:
                expected = f"/**, or one of {', '.join(nodes)}{did_you_mean(name, nodes)}"
                raise self._refused(section, section, expected)

    def check_names(self, node: str, namespace: str, known: Collection[str]) -> None:
        """Refuse a parameter that a section of this very node sets, and the node does not have."""
        for section in self._of_node(node, namespace):
            of_this_node = section.endswith(node)
            for name, value in self._sections[section].items() if of_this_node else ():
                if name not in known and not name.startswith("qos_overrides."):
                    raise self._refused(section, value, f"a parameter of {node}{did_you_mean(name, known)}", name)

    def located(self, error: ParameterError, node: str, namespace: str) -> ContinuumRobotError:
        """The same refusal with file, line and section, where the value came from this file."""
        sections: Sequence[str] = [one for one in self._of_node(node, namespace) if error.name in self._sections[one]]
        return self._refused(sections[-1], error.value, error.expected, error.name) if sections else error

    def _of_node(self, node: str, namespace: str) -> list[str]:
        stripped = namespace.strip("/")
        full_name = f"/{stripped}/{node}" if stripped else f"/{node}"
        return [section for section in self._sections if _pattern(section).fullmatch(full_name)]

    def _refused(self, section: str, value: Any, expected: str, name: str = "") -> RobotFileError:
        key = f"{section}.{_KEY}.{name}" if name else section
        return RobotFileError(self.file, key, value, expected, self._lines.get(key))


def _pattern(section: str) -> re.Pattern[str]:
    tokens = section.strip("/").split("/")
    return re.compile("".join(_WILD.get(token, "/" + re.escape(token)) for token in tokens))


def _flat(values: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
