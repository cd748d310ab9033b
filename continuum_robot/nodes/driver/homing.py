# SPDX-License-Identifier: Apache-2.0
"""The stored homing: whether one is needed, taken over where there is one, and lost with a board's power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from continuum_robot.drivers.protocols import CountsFromPowerOn, TendonActuators
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.identification.procedures.cogging_record import forget_angles
from continuum_robot.identification.procedures.record import (
    HOME_FIRST,
    HomingRecord,
    load_record,
    record_path,
)
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.recordings.records import record_folder
from continuum_robot.runtime.cycle.driver_loop import DriverLoop, configured


class StoredHoming:
    """From where displacements count."""

    def __init__(
        self, node: ManagedNode, loop: Callable[[], DriverLoop | None], publish_status: Callable[[], None]
    ) -> None:
        self._node, self._loop, self._publish_status = node, loop, publish_status
        self.missing = ""
        self._was_aligned = False

    @property
    def folder(self) -> Path:
        """Where homings of this robot are kept."""
        return record_folder(self._node)

    @property
    def required(self) -> bool:
        """Whether a stored homing is needed to be activated."""
        policy = self._node.parameters.get("homing")
        return policy == "required" or (policy == "auto" and not self._node.simulated)

    def read(self, loop: DriverLoop) -> None:
        """Take the stored homing over, or note why there is none. Before the loop runs."""
        inner = loop.actuators
        self._was_aligned = isinstance(inner, CountsFromPowerOn) and inner.aligned
        self.missing = ""
        loop.safety.positions_known = not self.required
        if not self.required:
            return
        try:
            record = load_record(loop.robot, record_path(loop.robot, self.folder))
            self._require_power(inner)
        except ContinuumRobotError as error:
            self.missing = str(error)
            self._node.get_logger().warning(self.missing)
            return
        self._use(record, loop)

    def take(self, record: HomingRecord) -> None:
        """Count displacements from a homing from now on. Raises :class:`DeviceError` while not configured."""
        loop = configured(self._loop())
        loop.call(lambda: self._use(record, loop))
        inner = loop.actuators
        if not self._node.simulated and isinstance(inner, CountsFromPowerOn) and not self._was_aligned:
            self._was_aligned = True
            if forget_angles(loop.robot, self.folder):
                loop.compensate_cogging(on=False)
                self._node.get_logger().warning("the motors were aligned again: calibrate their cogging again")
        self._publish_status()

    def require(self, actuators: TendonActuators) -> None:
        """Raise :class:`DeviceError` where a homing is needed and missing."""
        if self.missing:
            raise DeviceError("tendon_driver", self.missing.removesuffix(f" {HOME_FIRST}").rstrip("."), HOME_FIRST)
        self._require_power(actuators)

    def _use(self, record: HomingRecord, loop: DriverLoop) -> None:
        loop.cycle.set_zero(record.zero.tolist())
        loop.safety.positions_known = True
        self.missing = ""
        self._node.get_logger().info(f"homed on {record.date} at {record.tension_n:g} N")

    def _require_power(self, actuators: TendonActuators) -> None:
        """A board that was switched off since forgot its alignment, and where it stood."""
        if not isinstance(actuators, CountsFromPowerOn):
            return
        expected = self.required or self._was_aligned
        if actuators.zero_lost.any() or (expected and not actuators.aligned):
            raise DeviceError("motor boards", "one lost its power, or its position, since the homing", HOME_FIRST)
