# SPDX-License-Identifier: Apache-2.0
"""Settings of a node as a dataclass: their ranges, types and rules."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange

from continuum_robot.errors import ParameterError
from continuum_robot.robot.schema import Quantity, Source, quantity_of, read

_LARGEST_INTEGER = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A parameter's path in the dataclass, and its rules."""

    path: tuple[str | int, ...]
    quantity: Quantity


@dataclasses.dataclass(frozen=True, slots=True)
class Collected:
    """The parameters of a dataclass while they are collected."""

    item_names: Mapping[str, Sequence[str]]
    leave_out: Sequence[str]
    leaves: dict[str, Leaf]
    defaults: dict[str, Any]


class Settings:
    """A dataclass of the robot file as parameters. Made by :meth:`ParameterServer.declare_settings`."""

    def __init__(
        self,
        prefix: str,
        value: Any,
        leaves: dict[str, Leaf],
        ceilings: Mapping[str, float],
        check: Callable[[Any], None],
        take: Callable[[Any, set[str]], None],
    ) -> None:
        self.value = self.declared = value
        self.prefix, self.leaves, self.take = prefix, leaves, take
        self._ceilings, self._check = ceilings, check

    def candidate(self, changes: Mapping[str, Any]) -> Any:
        """The settings with some parameters changed, all checks passed."""
        mapping = _plain(self.value)
        for name, value in changes.items():
            leaf = self.leaves[name]
            self._refuse_above(name, value)
            place: Any = mapping
            for part in leaf.path[:-1]:
                place = place[part]
            place[leaf.path[-1]] = value
        candidate = read(type(self.value), mapping)
        self._check(candidate)
        return candidate

    def _refuse_above(self, name: str, value: Any) -> None:
        ceiling = self._ceilings.get(name, math.inf)
        if isinstance(value, (int, float)) and value > ceiling:
            unit = f" {self.leaves[name].quantity.unit}".rstrip()
            raise ParameterError(
                name,
                value,
                f"at most {ceiling:g}{unit}, the robot file's: a parameter can only lower it; change the file to raise"
                " it, then cleanup and configure",
            )


def collect(value: Any, prefix: str, path: tuple[str | int, ...], into: Collected) -> None:
    """Add the parameters of a dataclass ``value`` under ``prefix`` to ``into``; ``path`` leads to it."""
    for field in dataclasses.fields(value):
        if field.name in into.leave_out or not field.init:
            continue
        name = f"{prefix}.{field.name}" if prefix else field.name
        inner = getattr(value, field.name)
        if isinstance(inner, tuple) and inner and dataclasses.is_dataclass(inner[0]):
            for index, (item, item_name) in enumerate(zip(inner, into.item_names[field.name], strict=True)):
                collect(item, f"{name}.{item_name}", (*path, field.name, index), into)
        elif dataclasses.is_dataclass(inner):
            collect(inner, name, (*path, field.name), into)
        else:
            into.leaves[name] = Leaf((*path, field.name), quantity_of(field))
            into.defaults[name] = list(inner) if isinstance(inner, tuple) else inner


def of_robot_file(settings: Settings) -> bool:
    """Whether the settings stand in the robot file as they are, and are not computed from it."""
    return type(settings.declared).__module__.startswith(Source.__module__.rpartition(".")[0])


def equal_values(one: Any, other: Any) -> bool:
    """Whether ``one`` and ``other``, values of a parameter, are equal; lists come as arrays from rclpy."""
    if isinstance(one, (int, float, str, bool)) or one is None:
        return bool(one == other)
    return list(one) == list(other)


def _plain(value: Any) -> Any:
    """Nested dataclasses as the mapping that :func:`read` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def ranges(default: Any, rules: Quantity) -> dict[str, Any]:
    """Arguments of a ParameterDescriptor for the range of a number: of its ``default``'s type, by the ``rules``."""
    low = rules.ge if rules.ge is not None else rules.gt
    high = rules.le if rules.le is not None else rules.lt
    if low is None and high is None:
        return {}
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return {}
    if isinstance(default, int):
        span = IntegerRange(
            from_value=-_LARGEST_INTEGER if low is None else math.ceil(low),
            to_value=_LARGEST_INTEGER if high is None else math.floor(high),
            step=0,
        )
        return {"integer_range": [span]}
    infinite = 1.7e308
    span = FloatingPointRange(
        from_value=-infinite if low is None else float(low), to_value=infinite if high is None else float(high)
    )
    return {"floating_point_range": [span]}


def desired_type(current: Any, rules: Quantity) -> str:
    """The type of the ``current`` value and the unit of the ``rules``, as an error message asks for them."""
    unit = f" {rules.unit}" if rules.unit else ""
    if isinstance(current, bool):
        return "true or false"
    if isinstance(current, int):
        return f"a whole number{unit}"
    if isinstance(current, float):
        return f"a decimal number{unit}, written with a point, for example 5.0 instead of 5"
    if isinstance(current, str):
        return "text"
    return f"a list of decimal numbers{unit}, written with points, for example [1.0, 2.0]"


def shown(value: Any) -> Any:
    """A parameter's value as rclpy takes it."""
    return value if isinstance(value, (int, float, str, bool)) or value is None else list(value)
