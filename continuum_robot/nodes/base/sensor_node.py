# SPDX-License-Identifier: Apache-2.0
"""What nodes have in common that read one sensor in a loop of their own and publish what it reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from builtin_interfaces.msg import Time

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.diagnostics import LoopThresholds
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.lockstep.flow import FlowLoop
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.schema import Quantity

Reading = TypeVar("Reading")


class SensorNode(ManagedNode, Generic[Reading]):
    """Reads a sensor at ``rate_hz`` from configure to cleanup; a reading that fails is reported once and not
    published.
    """

    def __init__(
        self, name: str, *, sensor: str, rate_hz: float, rate_meaning: str, fastest_hz: float, **node_options: Any
    ) -> None:
        super().__init__(name, **node_options)
        self.parameters.declare(
            "rate_hz", rate_hz, rate_meaning, rules=Quantity("", "Hz", ge=1, le=fastest_hz), read_only=True
        )
        self.thresholds = LoopThresholds(self)
        self.loop: FlowLoop | None = None
        self.reading: Reading | None = None
        self.read_problem = ""
        self.read_errors = 0
        self._sensor_name = sensor
        self._read: Callable[[float], Reading] | None = None

    @abstractmethod
    def publish(self, reading: Reading, before: Reading | None) -> None:
        """Say what was read; ``before`` is the reading that came before it, None for the first."""

    def start_reading(self, read: Callable[[float], Reading]) -> None:
        """Begin the loop; ``read`` takes the monotonic time in s."""
        self._read, self.read_problem = read, ""
        self.loop = self.flow.create_loop(
            self.get_name(), 1.0 / self.parameters.get("rate_hz"), self._cycle, self._on_loop_failure
        )
        self.loop.start()

    def stop_reading(self) -> None:
        """End the loop and forget what it read."""
        loop, self.loop = self.loop, None
        if loop is not None and not loop.stop():
            self.get_logger().error(f"the {self._sensor_name} loop hangs in a call to the device")
        self._read = self.reading = None

    def stamp(self, stamp: Time, acquired_s: float) -> None:
        """Write the stamp of an instant that is known on the node's monotonic clock, s."""
        conversions.set_stamp(stamp, self.clock.stamp_ns(acquired_s))

    def _cycle(self, now_s: float, _elapsed_s: float) -> None:
        read, before = self._read, self.reading
        if read is None:
            return
        try:
            reading = read(now_s)
        except ContinuumRobotError as error:
            # Nothing is published: the age of the last message shows consumers, an old value would not.
            self.read_errors += 1
            if str(error) != self.read_problem:
                self.read_problem = str(error)
                self.get_logger().error(self.read_problem)
            return
        self.read_problem, self.reading = "", reading
        self.publish(reading, before)

    def _on_loop_failure(self, error: BaseException) -> None:
        self.defect = repr(error)
        self.report_error(f"the {self._sensor_name} loop failed", error)
