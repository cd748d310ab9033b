# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from the same declarations as the robot file: type, range, unit, meaning, and checks across fields.

A change is validated as a whole candidate and refused with a sentence, or applied as a whole: the node takes the new
settings at its next cycle. Each configuration takes the robot file's values again, except for parameters that somebody
set: by a launch file, ``params_file``, the command line or ``ros2 param set``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from continuum_robot.errors import ContinuumRobotError, ParameterError, RobotFileError
from continuum_robot.nodes.base.settings import (
    Collected,
    Leaf,
    Settings,
    collect,
    desired_type,
    equal_values,
    of_robot_file,
    ranges,
    shown,
)
from continuum_robot.robot.schema import Quantity, check_rules


class ChangeBudget:
    """How many changes of parameters a node takes: each costs milliseconds, in which its callbacks wait."""

    def __init__(self, at_once: int = 100, per_s: float = 100.0) -> None:
        self.at_once, self.per_s = at_once, per_s
        self._left, self._newest_s = float(at_once), 0.0

    def takes(self, now_s: float) -> bool:
        """Whether there is one left at ``now_s``, s of a monotonic clock; it is used then."""
        self._left = min(float(self.at_once), self._left + self.per_s * (now_s - self._newest_s))
        self._newest_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class ParameterServer:
    """Declares a node's parameters, validates candidates and hands over what was accepted."""

    def __init__(
        self,
        node: Node,
        guarded: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda callback: callback,
        located: Callable[[ParameterError], ContinuumRobotError] = lambda error: error,
    ) -> None:
        self._node, self._guarded, self._located = node, guarded, located
        self._budget = ChangeBudget()
        # What a launch file, params_file or the command line sets.
        self._overrides: Mapping[str, Parameter[Any]] = node._parameter_overrides
        self._given = set(self._overrides)
        self._own_change = False
        self._rules: dict[str, Quantity] = {}
        self._takers: dict[str, Callable[[Any], None]] = {}
        self._settings: list[Settings] = []
        self._accepted: list[tuple[Settings, Any]] = []
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
        take: Callable[[Any], None] | None = None,
    ) -> Any:
        """Declare a parameter and return its value, which a launch file or the command line may have set."""
        rules = rules or Quantity(description)
        unit = f" [{rules.unit}]" if rules.unit else ""
        descriptor = ParameterDescriptor(
            description=description + unit, read_only=read_only, dynamic_typing=any_type, **ranges(default, rules)
        )
        if rules.choices or rules.gt is not None or rules.lt is not None:
            descriptor.additional_constraints = rules.expected()
        self._rules[name] = rules
        if take is not None:
            self._takers[name] = take
        self._own_change = True
        try:
            return self._node.declare_parameter(name, default, descriptor).value
        except InvalidParameterTypeException:
            wrong = ParameterError(name, self._overrides[name].value, desired_type(default, rules))
            raise self._located(wrong) from None
        except InvalidParameterValueException:
            raise self._located(ParameterError(name, self._overrides[name].value, rules.expected())) from None
        finally:
            self._own_change = False

    def declare_settings(
        self,
        prefix: str,
        value: Any,
        *,
        item_names: Mapping[str, Sequence[str]] | None = None,
        check: Callable[[Any], None] | None = None,
        take: Callable[[Any, set[str]], None] | None = None,
        leave_out: Sequence[str] = (),
        all_live: bool = False,
        only_lower: Sequence[str] = (),
        quiet: bool = False,
    ) -> Settings:
        """Declare every field of a robot-file dataclass, nested ones included; again at each configuration.

        Fields that are not ``live`` become read-only, unless ``all_live``: they take start-up values only. A parameter
        that was not set has the value given here from now on; one that was set keeps its own. The log says
        either where the two differ, unless ``quiet``.
        """
        leaves: dict[str, Leaf] = {}
        defaults: dict[str, Any] = {}
        collect(value, prefix, (), Collected(item_names or {}, leave_out, leaves, defaults))
        ceilings = {name: defaults[name] for name, leaf in leaves.items() if leaf.path[0] in only_lower}
        check, take = check or (lambda _candidate: None), take or (lambda _candidate, _names: None)
        settings = Settings(prefix, value, leaves, ceilings, check, take)
        self._forget(settings)
        before = {name: self.get(name) for name in leaves if self._known(name)}
        self._take_over({name: defaults[name] for name in before if name not in self._given})
        for name, leaf in leaves.items():
            if name not in before:
                read_only = not (all_live or leaf.quantity.live)
                self.declare(name, defaults[name], leaf.quantity.doc, rules=leaf.quantity, read_only=read_only)
        values = {name: self.get(name) for name in leaves}
        try:
            settings.value = settings.candidate(values)
        except ParameterError as error:
            raise self._located(error) from error
        self._settings.append(settings)
        if not quiet:
            self._say_what_wins(settings, defaults, before, values)
        return settings

    def _forget(self, new: Settings) -> None:
        """Forget settings of the same prefix that were declared before, and parameters that are not among the new.

        Without a prefix, of the same class: a node's own parameters stand beside those of the robot file.
        """
        replaced = [
            one
            for one in self._settings
            if one.prefix == new.prefix and (new.prefix or type(one.value) is type(new.value))
        ]
        self._settings = [one for one in self._settings if one not in replaced]
        for name in {name for settings in replaced for name in settings.leaves} - set(new.leaves):
            self._node.describe_parameter(name).read_only = False
            self._node.undeclare_parameter(name)
            del self._rules[name]

    def _take_over(self, values: Mapping[str, Any]) -> None:
        """Give declared parameters that nobody set other values, read-only ones too: rclpy has no call for that."""
        changes = {name: value for name, value in values.items() if not equal_values(self.get(name), value)}
        if not changes:
            return
        descriptors = [self._node.describe_parameter(name) for name in changes]
        locked = [descriptor for descriptor in descriptors if descriptor.read_only]
        self._own_change = True
        try:
            for descriptor in locked:
                descriptor.read_only = False
            parameters = [Parameter(name, value=value) for name, value in changes.items()]
            result = self._node.set_parameters_atomically(parameters)
        finally:
            self._own_change = False
            for descriptor in locked:
                descriptor.read_only = True
        if not result.successful:
            raise ParameterError("robot", self.get("robot"), f"values that the node takes over: {result.reason}")

    def _say_what_wins(
        self, settings: Settings, defaults: Mapping[str, Any], before: Mapping[str, Any], values: Mapping[str, Any]
    ) -> None:
        source = "the robot file's" if of_robot_file(settings) else "the default"
        for name, value in values.items():
            unit = f" {settings.leaves[name].quantity.unit}".rstrip()
            if not equal_values(value, defaults[name]):
                self._node.get_logger().info(
                    f"{name} = {shown(value)}{unit}, as it was set (launch file, params_file, command line or"
                    f" ros2 param set), holds over {source} {shown(defaults[name])}{unit}"
                )
            elif name in before and not equal_values(before[name], value):
                self._node.get_logger().info(
                    f"{name} = {shown(value)}{unit}, {source} now, holds; it was {shown(before[name])}{unit}"
                )

    def add_check(self, check: Callable[[Mapping[str, Any]], None]) -> None:
        """``check`` gets all parameters as they would be, and raises :class:`ContinuumRobotError` to refuse them."""
        self._checks.append(check)

    def on_change(self, listener: Callable[[set[str]], None]) -> None:
        """``listener`` gets the names of parameters that have been changed, after the change; it can refuse nothing."""
        self._listeners.append(self._guarded(listener))

    @property
    def of_robot(self) -> tuple[set[str], set[str]]:
        """Names of the parameters whose default is the robot file's, and of those computed from it."""
        from_file: set[str] = set()
        computed: set[str] = set()
        for settings in self._settings:
            kind = type(settings.declared)
            if of_robot_file(settings):
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
        """Value of a parameter."""
        return self._node.get_parameter(name).value

    def refuse(self, parameters: Sequence[Parameter[Any]], *, limited: bool) -> str:
        """A sentence where a parameter is read-only or of another type, or too many come, else empty.

        rclpy's own is a pair of numbers.
        """
        if limited and not self._own_change and not self._budget.takes(time.monotonic()):
            return f"more than {self._budget.per_s:g} changes of parameters a second: set them together, or less often"
        for parameter in parameters:
            name = parameter.name
            if not self._known(name):
                continue
            current, descriptor = self._node.get_parameter(name), self._node.describe_parameter(name)
            if descriptor.read_only:
                expected = f"no change of {shown(current.value)}: it is read-only, and takes start-up values only"
                return str(ParameterError(name, shown(parameter.value), expected))
            if descriptor.dynamic_typing or current.type_ == parameter.type_:
                continue
            rules = self._rules.get(name, Quantity(""))
            return str(ParameterError(name, shown(parameter.value), desired_type(current.value, rules)))
        return ""

    def _validate(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        changes = {parameter.name: parameter.value for parameter in parameters}
        try:
            self._accepted = self._check_changes(changes)
            if not self._own_change:
                for settings, candidate in self._accepted:
                    settings.take(candidate, set(changes) & set(settings.leaves))
                for name in changes.keys() & self._takers.keys():
                    self._takers[name](changes[name])
        except RobotFileError as error:
            refusal = f"{error.key} = {error.value!r} -- expected {error.expected}"
            return SetParametersResult(successful=False, reason=refusal)
        except ContinuumRobotError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _check_changes(self, changes: Mapping[str, Any]) -> list[tuple[Settings, Any]]:
        """The settings that change, as they would be."""
        for name, value in changes.items():
            rules = self._rules.get(name)
            if rules is not None:
                check_rules(name, value, rules)
        found = []
        for settings in self._settings:
            mine = {name: value for name, value in changes.items() if name in settings.leaves}
            if mine:
                found.append((settings, settings.candidate(mine)))
        if self._checks:
            known = [name for name in self._rules if self._known(name)]
            values: dict[str, Any] = {name: self._node.get_parameter(name).value for name in known}
            for check in self._checks:
                check({**values, **changes})
        return found

    def _known(self, name: str) -> bool:
        return self._node.has_parameter(name)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        for settings, candidate in self._accepted:
            settings.value = candidate
        self._accepted = []
        if self._own_change:
            return
        names = {parameter.name for parameter in parameters}
        self._given |= names
        for listener in self._listeners:
            listener(names)
