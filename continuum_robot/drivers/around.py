# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators around others: what is passed on as it is. Subclasses change what is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonActuators, TendonReading, never

Vector = NDArray[np.float64]


class Around:
    """Actuators that pass everything on."""

    def __init__(self, actuators: TendonActuators) -> None:
        self.actuators: Any = actuators
        self.simulated, self.tendon_count = actuators.simulated, actuators.tendon_count
        self.takes_displacements = bool(getattr(actuators, "takes_displacements", False))

    def open(self) -> None:
        """As the actuators'."""
        self.actuators.open()

    def enable(self, aborted: Aborted = never) -> None:
        """As the actuators'; ``aborted`` too."""
        self.actuators.enable(aborted)

    def read(self, now_s: float) -> TendonReading:
        """As the actuators', at ``now_s`` (s)."""
        reading: TendonReading = self.actuators.read(now_s)
        return reading

    def write(self, command: Vector, now_s: float) -> None:
        """As the actuators': ``command`` (m, or N) at ``now_s`` (s)."""
        self.actuators.write(command, now_s)

    def disable(self) -> None:
        """As the actuators'."""
        self.actuators.disable()

    def close(self) -> None:
        """As the actuators'."""
        self.actuators.close()

    def clear_faults(self) -> None:
        """As the actuators'."""
        self.actuators.clear_faults()


class AroundCounts(Around):
    """The same around actuators that count from their power-on."""

    @property
    def aligned(self) -> bool:
        """As the actuators'."""
        return bool(self.actuators.aligned)

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """As the actuators'."""
        lost: NDArray[np.bool_] = self.actuators.zero_lost
        return lost

    def counters(self) -> dict[str, dict[str, Any]]:
        """As the actuators'."""
        return dict(self.actuators.counters())
