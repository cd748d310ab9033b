# SPDX-License-Identifier: Apache-2.0
"""Simulated actuators for a driver in the thread that moves them, in lock-step: simulated_link without a wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonReading, never
from continuum_robot.drivers.simulated_link.actuators import refuse_other_robot, simulator_ended
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators

Vector = NDArray[np.float64]


class OwnLink:
    """The simulator moves the robot and reads it; commands act from its next step on."""

    simulated = True

    def __init__(
        self,
        actuators: SimulatedTendonActuators,
        newest: Callable[[], TendonReading | None],
        tendon_count: int,
        *,
        takes_displacements: bool = False,
        receive_timeout_s: float = 0.1,
    ) -> None:
        self.tendon_count, self.takes_displacements = tendon_count, takes_displacements
        self._actuators, self._newest, self._receive_timeout_s = actuators, newest, receive_timeout_s

    def open(self) -> None:
        refuse_other_robot(self._actuators.tendon_count, self.tendon_count)
        self._actuators.set_receive_timeout(self._receive_timeout_s)
        self._actuators.disable()

    def enable(self, aborted: Aborted = never) -> None:
        """As the actuators' own."""
        self._actuators.enable(aborted)

    def read(self, now_s: float) -> TendonReading:  # noqa: ARG002 - what the simulator read when it moved the robot
        reading = self._newest()
        if reading is None:
            raise simulator_ended()
        return reading

    def write(self, command: Vector, now_s: float) -> None:
        self._actuators.write(command, now_s)

    def disable(self) -> None:
        self._actuators.disable()

    def close(self) -> None:
        self._actuators.disable()

    def step_with(self, parts: Any) -> None:
        """As the actuators' own."""
        self._actuators.step_with(parts)

    def clear_faults(self) -> None:
        """As the actuators' own."""
        self._actuators.clear_faults()
