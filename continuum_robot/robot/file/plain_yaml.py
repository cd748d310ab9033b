# SPDX-License-Identifier: Apache-2.0
"""Plain values of YAML that users hand in: each key once, the line of every key, and bounds on what a text may become.

Aliases of aliases make a text of some hundred bytes a billion values; what is read is counted, and refused in time.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.errors import RobotFileError


@dataclass(frozen=True, slots=True)
class YamlBounds:
    """How much a YAML text may hold; the largest shipped file has about 500 values in 6 kB, 7 deep."""

    characters: int = 1 << 17
    values: int = 5_000
    expanded_characters: int = 1 << 18
    depth: int = 32
    key_characters: int = 200


BOUNDS = YamlBounds()
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, ten times as fast, where PyYAML was built with it."""
_NESTING = "nesting"
"""In libyaml's own message that brackets are too deep, "exceeded maximum nesting depth" from PyYAML 6.0.4 on."""
_READABLE = (type(None), bool, int, float, str)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MERGE = "tag:yaml.org,2002:merge"
_WITH_ALIASES = ", every alias counted as all that it stands for; leave out what repeats"


def read_yaml(path: Path, what: str, bounds: YamlBounds = BOUNDS) -> str:
    """Text of a file, no more of it than :func:`plain_yaml` takes."""
    try:
        with path.open("rb") as stream:
            # A character has four bytes at most; never all of a file without an end.
            text = stream.read(4 * bounds.characters + 1).decode("utf-8")
    except (OSError, ValueError) as error:
        raise RobotFileError(path, "", str(error), f"a readable {what} in UTF-8") from error
    _check_length(text, path, bounds)
    return text


def plain_yaml(text: str, path: Path | None = None, bounds: YamlBounds = BOUNDS) -> tuple[Any, dict[str, int]]:
    """Plain values of YAML text, and the line of every dotted key."""
    reader = PlainReader(path, bounds)
    return reader.read(text), reader.lines


def yaml_text(values: Any) -> str:
    """Plain values as YAML, equal ones written out."""
    return yaml.dump(values, Dumper=_Plain, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """No value gets an anchor."""
        return True


class PlainReader:
    """Turns YAML text into plain values, and counts them."""

    def __init__(self, path: Path | None = None, bounds: YamlBounds = BOUNDS) -> None:
        self.bounds = bounds
        self.lines: dict[str, int] = {}
        self.values = self.expanded_characters = self.depth = 0
        self._file = path
        self._open: list[yaml.Node] = []
        self._scalars = yaml.constructor.SafeConstructor()

    def read(self, text: str) -> Any:
        """The plain value of a text."""
        _check_length(text, self._file, self.bounds)
        try:
            root = _compose(text.removeprefix("\ufeff"), self._file, self.bounds)
            return None if root is None else self._value(root, "")
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            # The end of a text counts as a line of its own in libyaml.
            line = None if mark is None else min(mark.line + 1, max(1, len(text.splitlines())))
            problem = getattr(error, "problem", None) or str(error)
            if _NESTING in problem:  # libyaml has a bound of its own, and looks far ahead
                raise _too_deep(self._file, self.bounds, line or 0) from error
            raise RobotFileError(self._file, "", problem, "well-formed YAML", line) from error

    def _value(self, node: yaml.Node, key: str) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(key, line)
        self._count(key, line)
        if any(node is outer for outer in self._open):
            raise RobotFileError(self._file, key, "an alias", "no alias to what encloses it", line)
        if not isinstance(node, yaml.CollectionNode):
            return self._scalar(node, key, line)
        self._open.append(node)
        self.depth = max(self.depth, len(self._open))
        if self.depth > self.bounds.depth:
            raise _too_deep(self._file, self.bounds, line, key)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            return [self._value(item, f"{key}[{index}]") for index, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _count(self, key: str, line: int) -> None:
        self.values += 1
        if self.values > self.bounds.values:
            raise _too_many(self._file, self.bounds.values, f"values{_WITH_ALIASES}", key, line)

    def _count_text(self, text: str, key: str, line: int) -> None:
        self.expanded_characters += len(text)
        if self.expanded_characters > self.bounds.expanded_characters:
            most = self.bounds.expanded_characters
            raise _too_many(self._file, most, f"characters of text{_WITH_ALIASES}", key, line)

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if name_node.tag == _MERGE:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            name = self._name(name_node, key, line)
            inner = f"{key}.{name}" if key else name
            if name in mapping:
                raise RobotFileError(self._file, inner, name, "each key once", line)
            self.lines.setdefault(inner, line)  # a merged mapping is read later, and its own lines do not count
            mapping[name] = self._value(value_node, inner)
        for other in merged:
            inherited = self._value(other, key)
            if not isinstance(inherited, dict):
                raise RobotFileError(
                    self._file, key, inherited, "a mapping to merge with <<", other.start_mark.line + 1
                )
            for name, value in inherited.items():
                mapping.setdefault(name, value)
        return mapping

    def _name(self, node: yaml.Node, key: str, line: int) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise RobotFileError(self._file, key, "a list or a mapping as a key", "keys that are text", line)
        name = str(node.value)
        if len(name) > self.bounds.key_characters or not name.isprintable():
            expected = f"keys of at most {self.bounds.key_characters} characters, all printable"
            raise RobotFileError(self._file, key, name, expected, line)
        self._count_text(name, key, line)
        return name

    def _scalar(self, node: yaml.Node, key: str, line: int) -> Any:
        self._count_text(node.value, key, line)
        # YAML 1.1 reads 1:30 as ninety.
        if node.tag in _NUMBERS and ":" in node.value:
            return str(node.value)
        try:
            value = self._scalars.construct_object(node)
            if isinstance(value, int):
                float(value)
        # PyYAML's own readers of !!int, !!bool and the like raise these for text that is none.
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
            problem = f"a value that YAML can read ({str(error)[:100]})"
            raise RobotFileError(self._file, key, node.value, problem, line) from error
        if not isinstance(value, _READABLE):
            problem = "text, a number, true, false or null; put a date between quotes"
            raise RobotFileError(self._file, key, node.value, problem, line)
        return value


def _compose(text: str, path: Path | None, bounds: YamlBounds) -> yaml.Node | None:
    """The YAML nodes of a text: counted first, so that the bounds stop it before memory or the stack do."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            line = 0 if event.start_mark is None else event.start_mark.line + 1
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
            if depth > bounds.depth:
                raise _too_deep(path, bounds, line)
            if nodes > 2 * bounds.values + 1:
                raise _too_many(path, bounds.values, "values", line=line)
    return yaml.compose(text, Loader=_LOADER)


def _check_length(text: str, path: Path | None, bounds: YamlBounds = BOUNDS) -> None:
    if len(text) > bounds.characters:
        raise _too_many(path, bounds.characters, "characters")


def _too_many(path: Path | None, most: int, what: str, key: str = "", line: int | None = None) -> RobotFileError:
    return RobotFileError(path, key, f"more than {most} {what.partition(',')[0]}", f"at most {most} {what}", line)


def _too_deep(path: Path | None, bounds: YamlBounds, line: int, key: str = "") -> RobotFileError:
    expected = f"well-formed YAML, lists and mappings at most {bounds.depth} deep in each other"
    return RobotFileError(path, key, "brackets in brackets", expected, line)


_WORD = re.compile(r"\.?(\w+)|\[(\d{1,9})\]", re.ASCII)
_NOTHING = object()


def place_of(values: Any, key: str, *, make: bool = False) -> tuple[Any, Any] | None:
    """The mapping or list, and the name or index in it, that a dotted key means; None where there is no such place."""
    words = [name or int(index) for name, index in _WORD.findall(key)]
    if not words or "".join(match.group() for match in _WORD.finditer(key)) != key:
        return None
    *way, last = words
    for word in way:
        if make and isinstance(values, dict):
            values.setdefault(word, {})
        values = _inner(values, word)
    there = _inner(values, last) is not _NOTHING or (isinstance(values, dict) and isinstance(last, str))
    return (values, last) if there else None


def value_at(values: Any, key: str) -> Any:
    """What stands at a dotted key, None where nothing does."""
    place = place_of(values, key)
    found = _NOTHING if place is None else _inner(*place)
    return None if found is _NOTHING else found


def _inner(values: Any, word: str | int) -> Any:
    if isinstance(word, int):
        return values[word] if isinstance(values, (list, tuple)) and word < len(values) else _NOTHING
    if isinstance(values, dict):
        return values.get(word, _NOTHING)
    known = dataclasses.is_dataclass(values) and word in {field.name for field in dataclasses.fields(values)}
    return getattr(values, word) if known else _NOTHING
