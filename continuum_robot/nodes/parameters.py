# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from the same declarations as the robot file: type, range, unit, meaning, and checks across fields.

A change is validated as a whole candidate and refused with a sentence, or applied as a whole: the node takes the new
settings at its next cycle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from continuum_robot.errors import ContinuumRobotError, ParameterError, RobotFileError
from continuum_robot.robot.schema import Quantity, Source, quantity_of, read

_LARGEST_INTEGER = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[str | int, ...]
    quantity: Quantity


@dataclasses.dataclass(frozen=True, slots=True)
class _Collected:
    item_names: Mapping[str, Sequence[str]]
    leave_out: Sequence[str]
    leaves: dict[str, _Leaf]
    defaults: dict[str, Any]


class Settings:
    """A dataclass of the robot file as parameters. Made by :meth:`ParameterServer.declare_settings`.

    Parameters
    ----------
    leaves : the parameter of each dotted name
    check : raises for values that do not fit together

    Attributes
    ----------
    value : the settings as they are now, a frozen dataclass
    declared : as they were declared, before start-up values were taken over
    """

    def __init__(self, value: Any, leaves: dict[str, _Leaf], check: Callable[[Any], None]) -> None:
        self.value = self.declared = value
        self.leaves = leaves
        self._check = check

    def candidate(self, changes: Mapping[str, Any]) -> Any:
        """The settings with some parameters changed, all checks passed.

        Parameters
        ----------
        changes : new value by the parameter's name

        Raises
        ------
        ContinuumRobotError : a value out of range, or values that do not fit together
        """
        mapping = _plain(self.value)
        for name, value in changes.items():
            leaf = self.leaves[name]
            place: Any = mapping
            for part in leaf.path[:-1]:
                place = place[part]
            place[leaf.path[-1]] = value
        candidate = read(type(self.value), mapping)
        self._check(candidate)
        return candidate


class ParameterServer:
    """Declares a node's parameters, validates candidates and hands over what was accepted.

    Parameters
    ----------
    node : the node that has the parameters
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rules: dict[str, Quantity] = {}
        self._settings: list[Settings] = []
        self._listeners: list[Callable[[set[str]], None]] = []
        self._checks: list[Callable[[Mapping[str, Any]], None]] = []
        node.add_on_set_parameters_callback(self._validate)
        node.add_post_set_parameters_callback(self._apply)

    def declare(
        self,
        name: str,
        default: Any,
        description: str,
        *,
        rules: Quantity | None = None,
        read_only: bool = False,
        any_type: bool = False,
    ) -> Any:
        """Declare a parameter and return its value, which a launch file or the command line may have set.

        Parameters
        ----------
        name : name, dots separate groups
        default : value without an override; fixes the type
        description : one sentence
        rules : unit, range, choices; without, only the type is checked
        read_only : only a start-up value may change it
        any_type : let the type be free

        Raises
        ------
        ParameterError : the start-up value has the wrong type or is out of range
        """
        rules = rules or Quantity(description)
        unit = f" [{rules.unit}]" if rules.unit else ""
        descriptor = ParameterDescriptor(
            description=description + unit, read_only=read_only, dynamic_typing=any_type, **_ranges(default, rules)
        )
        if rules.choices:
            descriptor.additional_constraints = "one of " + ", ".join(rules.choices)
        elif rules.gt is not None or rules.lt is not None:
            descriptor.additional_constraints = rules.expected()
        self._rules[name] = rules
        try:
            return self._node.declare_parameter(name, default, descriptor).value
        except InvalidParameterTypeException as error:
            raise ParameterError(name, _between_quotes(str(error), 1), _wanted_type(default, rules)) from None
        except InvalidParameterValueException as error:
            value = str(error).split("(", 1)[-1].split(")", 1)[0]
            raise ParameterError(name, value, rules.expected()) from None

    def declare_settings(
        self,
        prefix: str,
        value: Any,
        *,
        item_names: Mapping[str, Sequence[str]] | None = None,
        check: Callable[[Any], None] | None = None,
        leave_out: Sequence[str] = (),
        all_live: bool = False,
    ) -> Settings:
        """Declare every field of a robot-file dataclass, nested ones included.

        Fields that are not ``live`` become read-only, unless ``all_live``: they take start-up values only.

        Parameters
        ----------
        prefix : put before every name, empty for none
        value : the settings that the robot file gives, the defaults of the parameters
        item_names : for a field that is a tuple of dataclasses, a name for each item
        check : raises for a candidate that does not fit to something else
        leave_out : names of fields that do not become parameters
        all_live : let every parameter be changed while the node runs

        Returns
        -------
        the settings, start-up values taken over

        Raises
        ------
        ContinuumRobotError : start-up values of the wrong type, out of range, or that do not fit together
        """
        leaves: dict[str, _Leaf] = {}
        defaults: dict[str, Any] = {}
        collected = _Collected(item_names or {}, leave_out, leaves, defaults)
        _collect(value, prefix, (), collected)
        settings = Settings(value, leaves, check or (lambda _candidate: None))
        values = {}
        for name, leaf in leaves.items():
            if self._node.has_parameter(name):
                values[name] = self._node.get_parameter(name).value
                continue
            read_only = not (all_live or leaf.quantity.live)
            values[name] = self.declare(
                name, defaults[name], leaf.quantity.doc, rules=leaf.quantity, read_only=read_only
            )
        settings.value = settings.candidate(values)
        self._settings.append(settings)
        return settings

    def forget_settings(self, settings: Settings | None) -> None:
        """Let go of settings that are declared anew at the next configuration; their parameters keep their values."""
        if settings in self._settings:
            self._settings.remove(settings)

    def add_check(self, check: Callable[[Mapping[str, Any]], None]) -> None:
        """``check`` gets all parameters as they would be, and raises :class:`ContinuumRobotError` to refuse them."""
        self._checks.append(check)

    def on_change(self, listener: Callable[[set[str]], None]) -> None:
        """``listener`` gets the names of parameters that have been changed, after the change."""
        self._listeners.append(listener)

    @property
    def of_robot(self) -> tuple[set[str], set[str]]:
        """Names of the parameters whose default is the robot file's, and of those computed from it."""
        from_file: set[str] = set()
        computed: set[str] = set()
        for settings in self._settings:
            kind = type(settings.declared)
            if kind.__module__.startswith(Source.__module__.rpartition(".")[0]):
                from_file |= set(settings.leaves)
            else:
                usual = {field.name: field.default for field in dataclasses.fields(kind)}
                computed |= {
                    name
                    for name, leaf in settings.leaves.items()
                    if getattr(settings.declared, str(leaf.path[0])) != usual[str(leaf.path[0])]
                }
        return from_file, computed

    def get(self, name: str) -> Any:
        """Value of a parameter.

        Parameters
        ----------
        name : dotted
        """
        return self._node.get_parameter(name).value

    def refuse_type(self, parameters: Sequence[Parameter[Any]]) -> str:
        """A sentence when a parameter's type is not the declared one, else empty. rclpy's own is a pair of numbers."""
        for parameter in parameters:
            if not self._node.has_parameter(parameter.name):
                continue
            current = self._node.get_parameter(parameter.name)
            if self._node.describe_parameter(parameter.name).dynamic_typing or current.type_ == parameter.type_:
                continue
            rules = self._rules.get(parameter.name, Quantity(""))
            return str(ParameterError(parameter.name, _shown(parameter.value), _wanted_type(current.value, rules)))
        return ""

    def _validate(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        changes = {parameter.name: parameter.value for parameter in parameters}
        try:
            for name, value in changes.items():
                rules = self._rules.get(name)
                if rules is not None:
                    _check_rules(name, value, rules)
            for settings in self._settings:
                mine = {name: value for name, value in changes.items() if name in settings.leaves}
                if mine:
                    settings.candidate(mine)
            if self._checks:
                values = {name: self._node.get_parameter(name).value for name in self._rules if self._known(name)}
                for check in self._checks:
                    check(values | changes)
        except RobotFileError as error:
            refusal = f"{error.key} = {error.value!r} -- expected {error.expected}"
            return SetParametersResult(successful=False, reason=refusal)
        except ContinuumRobotError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _known(self, name: str) -> bool:
        return self._node.has_parameter(name)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        changes = {parameter.name: parameter.value for parameter in parameters}
        for settings in self._settings:
            mine = {name: value for name, value in changes.items() if name in settings.leaves}
            if mine:
                settings.value = settings.candidate(mine)
        for listener in self._listeners:
            listener(set(changes))


def _collect(value: Any, prefix: str, path: tuple[str | int, ...], into: _Collected) -> None:
    for field in dataclasses.fields(value):
        if field.name in into.leave_out or not field.init:
            continue
        name = f"{prefix}.{field.name}" if prefix else field.name
        inner = getattr(value, field.name)
        if isinstance(inner, tuple) and inner and dataclasses.is_dataclass(inner[0]):
            for index, (item, item_name) in enumerate(zip(inner, into.item_names[field.name], strict=True)):
                _collect(item, f"{name}.{item_name}", (*path, field.name, index), into)
        elif dataclasses.is_dataclass(inner):
            _collect(inner, name, (*path, field.name), into)
        else:
            into.leaves[name] = _Leaf((*path, field.name), quantity_of(field))
            into.defaults[name] = list(inner) if isinstance(inner, tuple) else inner


def _plain(value: Any) -> Any:
    """Nested dataclasses as the mapping that :func:`read` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _ranges(default: Any, rules: Quantity) -> dict[str, Any]:
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


def _check_rules(name: str, value: Any, rules: Quantity) -> None:
    if rules.choices and isinstance(value, str) and value not in rules.choices:
        raise ParameterError(name, value, rules.expected())
    numbers = value if isinstance(value, (list, tuple)) else [value]
    for number in numbers:
        # An array parameter arrives as array.array, whose items are numbers as well.
        if isinstance(number, (int, float)) and not isinstance(number, bool) and not rules.admits(number):
            raise ParameterError(name, number, rules.expected())


def _wanted_type(current: Any, rules: Quantity) -> str:
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


def _shown(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) else list(value)


def _between_quotes(text: str, index: int) -> str:
    parts = text.split("'")
    position = 2 * index + 1
    return parts[position] if len(parts) > position else text
