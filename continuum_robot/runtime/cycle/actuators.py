# SPDX-License-Identifier: Apache-2.0
"""Any tendon actuators as the driver's cycle uses them: their errors are kept, and end no cycle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.errors import ContinuumRobotError


class CycleActuators:
    """Actuators that read and write NumPy arrays, in the interpreted form of the cycle."""

    def __init__(self, actuators: TendonActuators) -> None:
        self._actuators = actuators
        self.error: ContinuumRobotError | None = None
        self.device_faults: tuple[str, ...] = ()

    def read_into(self, reading: ReadingBuffer, now_s: float) -> bool:
        """Read; False where it failed."""
        try:
            found = self._actuators.read(now_s)
        except ContinuumRobotError as error:
            self.error = error
            return False
        self.error = None
        self.device_faults = found.device_faults
        reading.set(found)
        return True

    def write_commands(self, command: Sequence[float], now_s: float) -> bool:
        """Write; False where it failed."""
        try:
            self._actuators.write(np.array(command), now_s)
        except ContinuumRobotError as error:
            self.error = error
            return False
        return True

    def switch_off(self) -> bool:
        """Switch the torque off; False where it failed."""
        try:
            self._actuators.disable()
        except ContinuumRobotError as error:
            self.error = error
            return False
        return True

    def needs_service(self) -> bool:
        """These look after themselves."""
        return False

    def service(self, now_s: float) -> None:
        """Nothing."""
