# SPDX-License-Identifier: Apache-2.0
"""Displacements counted from home: any tendon actuators, less where their tendons stood at the straight pose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonActuators, TendonReading, never

Vector = NDArray[np.float64]


class ZeroedActuators:
    """Tendon actuators whose displacements count from :attr:`zero_m`; all else is theirs.

    Parameters
    ----------
    actuators : that know no home

    Attributes
    ----------
    inner : the actuators as given
    simulated, tendon_count : theirs
    zero_m : their displacement at the straight pose, shape (N,), m; zeros at first; may be replaced between readings
    """

    def __init__(self, actuators: TendonActuators) -> None:
        self.inner = actuators
        self.simulated, self.tendon_count = actuators.simulated, actuators.tendon_count
        self.zero_m: Vector = np.zeros(actuators.tendon_count)

    def open(self) -> None:
        """As theirs."""
        self.inner.open()

    def enable(self, aborted: Aborted = never) -> None:
        """As theirs.

        Parameters
        ----------
        aborted : whether to stop
        """
        self.inner.enable(aborted)

    def read(self, now_s: float) -> TendonReading:
        """Their reading, with displacements from home."""
        reading = self.inner.read(now_s)
        # Spelt out: dataclasses.replace takes longer than all else that a cycle does with a reading.
        return TendonReading(
            reading.stamp_s,
            reading.displacement_m - self.zero_m,
            reading.velocity_m_per_s,
            reading.tension_n,
            reading.current_a,
            reading.temperature_c,
            reading.age_s,
            reading.device_faults,
        )

    def write(self, tension_n: Vector, now_s: float) -> None:
        """As theirs."""
        self.inner.write(tension_n, now_s)

    def disable(self) -> None:
        """As theirs."""
        self.inner.disable()

    def close(self) -> None:
        """As theirs."""
        self.inner.close()

    def clear_faults(self) -> None:
        """As theirs."""
        self.inner.clear_faults()
