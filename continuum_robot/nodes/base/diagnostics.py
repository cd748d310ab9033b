# SPDX-License-Identifier: Apache-2.0
"""Each node's health on /diagnostics, once or twice a second, for rqt, aggregators and the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.reports import LoopReport

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

RATE_HZ = 1.0


class Level(IntEnum):
    """Level of a status, as in diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


class StatusBuilder:
    """One status while a task fills it in."""

    def __init__(self, name: str, hardware_id: str) -> None:
        self.level, self.message = Level.OK, ""
        self._name, self._hardware_id = name, hardware_id
        self._values: list[KeyValue] = []

    def summary(self, level: Level, message: str) -> None:
        """Set the level and the sentence; a worse level wins over what was set before."""
        if level > self.level or not self.message:
            self.level, self.message = max(level, self.level), message
        elif level == self.level and level != Level.OK and message not in self.message:
            self.message += "; " + message

    def add(self, key: str, value: Any) -> None:
        """Add a value: numbers to six digits, lists joined by commas."""
        self._values.append(KeyValue(key=key, value=_text(value)))

    def add_all(self, values: Mapping[str, Any]) -> None:
        """Add several."""
        for key, value in values.items():
            self.add(key, value)

    def to_message(self) -> DiagnosticStatus:
        """The message."""
        return DiagnosticStatus(
            level=bytes([self.level]),
            name=self._name,
            message=self.message or "ok",
            hardware_id=self._hardware_id,
            values=self._values,
        )


class Diagnostics:
    """Runs a node's diagnostic tasks on a steady clock and publishes them."""

    def __init__(self, node: ManagedNode, hardware_id: str) -> None:
        self._node, self.hardware_id = node, hardware_id
        self._tasks: dict[str, Callable[[StatusBuilder], None]] = {}
        # Absolute by convention: aggregators and monitors listen there, the status names carry the namespace.
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", qos.events())
        rate_hz = node.parameters.declare(
            "diagnostics.rate_hz",
            RATE_HZ,
            "how often the node reports its health",
            rules=Quantity("", "Hz", ge=0.2, le=10.0),
            read_only=True,
        )
        self._timer = node.create_timer(1.0 / rate_hz, self.publish, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def add_task(self, name: str, task: Callable[[StatusBuilder], None]) -> None:
        """``task`` fills in the status ``<node>: <name>`` each time."""
        self._tasks[name] = task

    def status(self, name: str) -> DiagnosticStatus:
        """Run one task now."""
        builder = StatusBuilder(f"{self._node.full_name}: {name}", self.hardware_id)
        self._tasks[name](builder)
        return builder.to_message()

    def publish(self) -> None:
        """Run all tasks and publish them."""
        message = DiagnosticArray(status=[self.status(name) for name in self._tasks])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


class LoopThresholds:
    """Parameters that say when a loop's timing is a warning and when an error, and the task that compares."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        percent = Quantity("", "%", ge=0.0, le=100.0)
        for name, default in (("loop.missed_warn_percent", 0.5), ("loop.missed_error_percent", 5.0)):
            node.parameters.declare(name, default, "fraction of missed cycles at which to complain", rules=percent)
        fraction = Quantity("", "%", gt=0.0, le=1000.0)
        for name, default in (("loop.execution_warn_percent", 70.0), ("loop.execution_error_percent", 100.0)):
            node.parameters.declare(
                name, default, "99th percentile of a cycle's duration, in percent of the period", rules=fraction
            )
        node.parameters.add_check(self._ordered)

    @staticmethod
    def _ordered(values: Any) -> None:
        for kind in ("missed", "execution"):
            warn, error = f"loop.{kind}_warn_percent", f"loop.{kind}_error_percent"
            if warn in values and error in values and values[warn] > values[error]:
                raise ParameterError(warn, values[warn], f"at most {error} = {values[error]:g}")

    def diagnose(self, status: StatusBuilder, report: LoopReport, period_s: float) -> None:
        """Fill in a status from a loop's report."""
        get = self._node.parameters.get
        execution = 100.0 * report.execution_p99_us / (period_s * 1e6)
        for value, kind, what in (
            (report.missed_percent, "missed", f"{report.missed_percent:.2f} % of the cycles missed"),
            (execution, "execution", f"a cycle takes {report.execution_p99_us:.0f} us (p99)"),
        ):
            if value >= get(f"loop.{kind}_error_percent"):
                status.summary(Level.ERROR, what)
            elif value >= get(f"loop.{kind}_warn_percent"):
                status.summary(Level.WARN, what)
        status.summary(Level.OK, f"{report.rate_hz:.1f} Hz")
        status.add("loop_rate_hz", report.rate_hz)
        status.add("cycles", report.cycles)
        status.add("missed_cycles", report.missed)
        status.add("missed_cycles_percent", report.missed_percent)
        for key in ("period_mean_us", "period_deviation_us", "period_p99_us", "period_max_us"):
            status.add(key, getattr(report, key))
        for key in ("execution_mean_us", "execution_deviation_us", "execution_p99_us", "execution_max_us"):
            status.add(key, getattr(report, key))


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """The key-value pairs of a status."""
    return {item.key: item.value for item in status.values}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return ", ".join(_text(item) for item in (value.tolist() if hasattr(value, "tolist") else value))
    return str(value)
