# SPDX-License-Identifier: Apache-2.0
"""Strict reading of nested mappings into frozen dataclasses whose fields carry unit, range and meaning."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.doors import added, offered

_MISSING = dataclasses.MISSING
_UNITS = {
    **{name: name for name in ("m", "mm", "um", "kg", "s", "ms", "rad", "deg")},
    **{"n": "N", "nm": "N.m", "ns": "N.s", "nms": "N.m.s", "pa": "Pa", "hz": "Hz", "bps": "bit/s", "c": "degC"},
    **{"a": "A", "w": "W", "k": "K", "per": "/"},
}
_UNIT = re.compile(f"({'|'.join(_UNITS)})([2-9]?)")


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """What a field means and which values it may take."""

    doc: str
    unit: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()
    length: int | None = None
    live: bool = False
    filled: bool = False
    door: str = ""
    several: Callable[[Iterable[Any]], Any] | None = None

    def expected(self) -> str:
        """The allowed values as a phrase for an error message."""
        if self.choices:
            return "one of " + ", ".join([*self.choices, *(offered(self.door) if self.door else ())])
        low = f"[{self.ge:g}" if self.ge is not None else f"({self.gt:g}" if self.gt is not None else "(-inf"
        high = f"{self.le:g}]" if self.le is not None else f"{self.lt:g})" if self.lt is not None else "inf)"
        text = "a number" if low == "(-inf" and high == "inf)" else f"a number in {low}, {high}"
        if self.unit:
            text += f" {self.unit}"
        return text if self.length is None else f"{self.length} values, each {text}"

    def allows(self, text: str) -> bool:
        """Whether a text is among the choices, or a name of the door; where there are choices."""
        return not self.choices or text in self.choices or (bool(self.door) and text in offered(self.door))

    def admits(self, value: float) -> bool:
        """Whether a number is finite and within the bounds."""
        return (
            math.isfinite(value)
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


def quantity(doc: str, unit: str = "", *, default: Any = _MISSING, factory: Any = _MISSING, **bounds: Any) -> Any:
    """A dataclass field with a :class:`Quantity`; without ``default`` or ``factory`` the key is required."""
    metadata = {"quantity": Quantity(doc, unit, **bounds)}
    if factory is not _MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    if default is not _MISSING:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(metadata=metadata)


def check_rules(name: str, value: Any, rules: Quantity) -> None:
    """Raise :class:`ParameterError` where the value of parameter ``name`` breaks its ``rules``."""
    if isinstance(value, str) and not rules.allows(value):
        raise ParameterError(name, value, rules.expected())
    numbers = value if isinstance(value, (list, tuple)) else [value]
    for number in numbers:
        # An array parameter arrives as array.array, whose items are numbers as well.
        if isinstance(number, (int, float)) and not isinstance(number, bool) and not rules.admits(number):
            raise ParameterError(name, number, rules.expected())


@functools.cache
def quantity_of(field: dataclasses.Field[Any]) -> Quantity:
    """The :class:`Quantity` of a dataclass field, with its unit; an empty one for a field declared without."""
    rules: Quantity = field.metadata.get("quantity", Quantity(""))
    return dataclasses.replace(rules, unit=rules.unit or unit_of(field.name))


def unit_of(name: str) -> str:
    """The unit in which a name ends: N.s/m of ``damping_ns_per_m``; "" where it ends in none."""
    found: list[str] = []
    for word in reversed(name.split("_")[1:]):
        known = _UNIT.fullmatch(word)
        if known is None:
            break
        symbol = _UNITS[known[1]]
        found.insert(0, f"{symbol}^{known[2]}" if known[2] else symbol)
    over, _, under = (part.strip(".") for part in ".".join(found).partition("/"))
    return f"{over or 1}/{f'({under})' if '.' in under else under}" if under else over


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a mapping came from: the file, and the line of each dotted key, for error messages."""

    file: Path | None = None
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)
    files: Mapping[str, Path | None] = dataclasses.field(default_factory=dict)

    def error(self, key: str, value: Any, expected: str) -> RobotFileError:
        """A :class:`RobotFileError` at ``key``; at the line of what encloses it, where the key itself is not there."""
        place = key
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return RobotFileError(self.files.get(place, self.file), key, value, expected, self.lines.get(place))


_PYTHON = Source()
"""Of what was made in Python: no mapping stands for a dataclass there."""


def read(kind: type[Any], value: Any, source: Source | None = None, key: str = "") -> Any:
    """Read a mapping into the dataclass ``kind``, nested dataclasses and lists of them included."""
    source = source or Source()
    if not isinstance(value, Mapping):
        raise source.error(key, value, f"a mapping with the keys {', '.join(_keys(kind))}")
    known = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in value:
        if name not in known:
            place = _join(key, str(name))
            raise source.error(place, value[name], _unknown(str(name), list(known)))
    hints = _hints(typing.cast("Hashable", kind))
    arguments = {}
    for name, field in known.items():
        inner = _join(key, name)
        if name in value:
            arguments[name] = _convert(hints[name], value[name], quantity_of(field), source, inner)
        elif field.default is _MISSING and field.default_factory is _MISSING:
            raise source.error(inner, None, f"this key ({quantity_of(field).doc or 'required'})")
    try:
        return kind(**arguments)
    except RobotFileError as error:  # raised by __post_init__, which knows its key but not the file
        raise source.error(_join(key, error.key), error.value, error.expected) from None


@functools.cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def check_values(made: Any, key: str = "") -> None:
    """Check a dataclass that was made in Python as :func:`read` checks one from a file, nested ones included."""
    hints = _hints(typing.cast("Hashable", type(made)))
    try:
        for field in (one for one in dataclasses.fields(made) if one.init):
            _convert(hints[field.name], getattr(made, field.name), quantity_of(field), _PYTHON, _join(key, field.name))
    except RobotFileError as error:
        raise ParameterError(error.key, error.value, error.expected) from None


def checked(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A dataclass from values that no file holds, such as a request's: the checks of :func:`read`."""
    try:
        return read(kind, values)
    except RobotFileError as error:
        raise ParameterError(error.key, error.value, error.expected) from None


def refuse(key: str, value: Any, expected: str) -> RobotFileError:
    """The error that a dataclass raises in ``__post_init__`` for values that do not fit together."""
    return RobotFileError(None, key, value, expected)


def refuse_repeated(values: Sequence[Any], key: str, expected: str) -> None:
    """Refuse a value that stands twice; ``{}`` in ``key`` is its index, in ``expected`` that of the first."""
    for index, value in enumerate(values):
        if (first := values.index(value)) < index:
            raise refuse(key.format(index), value, expected.format(first))


def _convert(hint: Any, value: Any, rules: Quantity, source: Source, key: str) -> Any:
    if dataclasses.is_dataclass(value):  # made in Python
        check_values(value, key)
        return value
    if rules.several is not None and isinstance(value, (list, tuple)):
        one = dataclasses.replace(rules, several=None)
        return rules.several(_convert(hint, item, one, source, f"{key}[{i}]") for i, item in enumerate(value))
    origin = typing.get_origin(hint)
    options = typing.get_args(hint) if origin in (typing.Union, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    if len(options) > 1 or (rules.door and hint is not str):
        hint = _option(options, value, rules.door, source, key)
        origin = typing.get_origin(hint)
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise source.error(key, value, f"a list, {_entries(inner, rules)}")
        if rules.length is not None and len(value) != rules.length:
            raise source.error(key, value, rules.expected())
        return tuple(_convert(inner, item, rules, source, f"{key}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(hint) and source is _PYTHON:
        raise source.error(key, value, getattr(hint, "__name__", ""))
    if dataclasses.is_dataclass(hint):
        return read(typing.cast("type", hint), value, source, key)
    if hint is dict:  # whose keys are not known here
        if not isinstance(value, Mapping):
            raise source.error(key, value, f"a mapping: {rules.doc}")
        return dict(value)
    if hint is bool:
        if not isinstance(value, bool):
            raise source.error(key, value, "true or false")
        return value
    if hint is str:
        if not isinstance(value, str) or not rules.allows(value):
            raise source.error(key, value, rules.expected() if rules.choices else "text")
        if rules.filled and not value.strip():
            raise source.error(key, value, "text that is not empty")
        return value
    return _number(hint, value, rules, source, key)


def _option(options: Sequence[Any], value: Any, door: str, source: Source, key: str) -> Any:
    """Which type of a union a value is of: the dataclass of its ``kind``; without kinds, that of most of its keys."""
    options = [option for option in options if option is not type(None)]
    if door:  # a protocol only says what the mappings of the door have in common
        options = [option for option in options if dataclasses.is_dataclass(option)]
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if len(options) == 1 and (not door or kind is None):
        return options[0]
    kinds = {kind_of(option): option for option in options}
    if "" in kinds:
        given = set(value) if isinstance(value, Mapping) else set()
        return max(options, key=lambda option: len(given & set(_keys(option))))
    if kind is None and isinstance(value, Mapping):
        near = difflib.get_close_matches("kind", [str(name) for name in value], 1, 0.6)
        if near:
            raise source.error(_join(key, near[0]), value[near[0]], _unknown(near[0], ["kind"]))
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]
    device = added(door, kind, _join(key, "kind")) if door and isinstance(kind, str) else None
    if device is None:
        names = [*kinds, *(offered(door) if door else ())]
        raise source.error(_join(key, "kind"), kind, "one of " + ", ".join(names))
    if not dataclasses.is_dataclass(settings := getattr(device, "settings", device)):
        raise source.error(
            _join(key, "kind"), kind, f"a dataclass, or a class with one as settings: {device!r} is none"
        )
    return settings


def kind_of(kind: type[Any]) -> str:
    """The one value that a dataclass allows in its field ``kind``, by which a union knows it; or ""."""
    choices = next((quantity_of(field).choices for field in dataclasses.fields(kind) if field.name == "kind"), ())
    return choices[0] if len(choices) == 1 else ""


def _number(hint: Any, value: Any, rules: Quantity, source: Source, key: str) -> float | int:
    if isinstance(value, str):
        # YAML 1.1 reads 58e9 without a decimal point as text.
        try:
            value = float(value)
        except ValueError:
            raise source.error(key, value, rules.expected()) from None
    # An integer may be greater than any double; infinity is one.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or sys.float_info.max < abs(value) != math.inf:
        raise source.error(key, value, rules.expected())
    if hint is int:
        if not math.isfinite(value) or int(value) != value:
            raise source.error(key, value, f"a whole number, {rules.expected()}")
        value = int(value)
    else:
        value = float(value)
    if not rules.admits(value):
        raise source.error(key, value, rules.expected())
    return value


def _entries(kind: Any, rules: Quantity) -> str:
    if dataclasses.is_dataclass(kind):
        return f"each entry a mapping with the keys {', '.join(_keys(typing.cast('type', kind)))}"
    return "each entry text" if kind is str else f"each entry {rules.expected()}"


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"one of the keys {', '.join(known)}{hint}"


def _keys(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name
