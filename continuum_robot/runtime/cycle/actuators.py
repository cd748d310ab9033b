# SPDX-License-Identifier: Apache-2.0
"""Any tendon actuators around the driver's cycle: their errors are kept, and end no cycle."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.errors import ContinuumRobotError


class ActuatorsAround:
    """Reads actuators before a cycle, and sends them after it what the cycle wrote into its device."""

    def __init__(self, actuators: TendonActuators, parts: Any) -> None:
        self._actuators, self.device = actuators, parts.HandedDevice(actuators.tendon_count)
        self.error: ContinuumRobotError | None = None
        self.device_faults: tuple[str, ...] = ()

    def read(self, now_s: float) -> None:
        """Hand the next cycle what there is to read."""
        try:
            found = self._actuators.read(now_s)
        except ContinuumRobotError as error:
            self.error = error
            self.device.hand(None)
            return
        self.error, self.device_faults = None, found.device_faults
        self.device.hand(found)

    def write(self, now_s: float) -> bool:
        """Send what the newest cycle wrote; False where that failed."""
        cut, command = self.device.cut(), self.device.command()
        try:
            if cut:
                self._actuators.disable()
            if command is not None:
                self._actuators.write(np.array(command), now_s)
        except ContinuumRobotError as error:
            self.error = error
            return False
        return True

    def needs_service(self) -> bool:
        """These look after themselves."""
        return False

    def service(self, now_s: float) -> None:
        """Nothing."""
