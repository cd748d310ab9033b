# SPDX-License-Identifier: Apache-2.0
"""What a cycle read from the tendon actuators, in memory that is made once."""

from __future__ import annotations

import math

import cython
import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, stepped, vector


@cython.cclass
class ReadingBuffer:
    """A :class:`TendonReading` that each cycle overwrites: same names, units and signs, NaN where unknown."""

    tendon_count: cython.int
    valid: cython.bint
    device_faults: cython.int
    stamp_s: cython.double
    displacement_m: cython.double[::1]
    velocity_m_per_s: cython.double[::1]
    tension_n: cython.double[::1]
    current_a: cython.double[::1]
    temperature_c: cython.double[::1]
    age_s: cython.double[::1]

    def __init__(self, tendon_count: int) -> None:
        self.tendon_count = tendon_count
        self.displacement_m = vector([math.nan] * tendon_count)
        self.velocity_m_per_s = vector([math.nan] * tendon_count)
        self.tension_n = vector([math.nan] * tendon_count)
        self.current_a = vector([math.nan] * tendon_count)
        self.temperature_c = vector([math.nan] * tendon_count)
        self.age_s = vector([math.inf] * tendon_count)
        self.valid = False
        self.device_faults = 0
        self.stamp_s = 0.0

    @stepped
    def fail(self, now_s: cython.double) -> cython.void:
        """The devices could not be read at ``now_s``: unknown values, as old as the last good ones."""
        j: cython.int
        passed_s: cython.double = now_s - self.stamp_s
        for j in indices(self.tendon_count):
            self.displacement_m[j] = self.velocity_m_per_s[j] = UNKNOWN
            self.tension_n[j] = self.current_a[j] = self.temperature_c[j] = UNKNOWN
            self.age_s[j] = self.age_s[j] + passed_s
        self.valid = False
        self.stamp_s = now_s

    @stepped
    def older_than(self, limit_s: cython.double, now_s: cython.double) -> cython.bint:
        """Whether some of it is older than ``limit_s`` at ``now_s``, on the clock of its stamp; an unknown age is."""
        j: cython.int
        since_s: cython.double = now_s - self.stamp_s
        age_s: cython.double[::1] = self.age_s
        if not since_s <= limit_s:
            return True
        for j in indices(self.tendon_count):
            if not since_s + age_s[j] <= limit_s:
                return True
        return False

    @stepped
    def copy(self, reading: ReadingBuffer) -> cython.void:
        """Take over a ``reading`` of as many tendons."""
        n: cython.int = self.tendon_count
        copy_into(self.displacement_m, reading.displacement_m, n)
        copy_into(self.velocity_m_per_s, reading.velocity_m_per_s, n)
        copy_into(self.tension_n, reading.tension_n, n)
        copy_into(self.current_a, reading.current_a, n)
        copy_into(self.temperature_c, reading.temperature_c, n)
        copy_into(self.age_s, reading.age_s, n)
        self.stamp_s, self.valid, self.device_faults = reading.stamp_s, reading.valid, reading.device_faults

    def set(self, reading: TendonReading) -> None:
        """Take over a reading, whose faults are counted."""
        j: cython.int
        displacement, velocity = reading.displacement_m.tolist(), reading.velocity_m_per_s.tolist()
        tension, current = reading.tension_n.tolist(), reading.current_a.tolist()
        temperature, age = reading.temperature_c.tolist(), reading.age_s.tolist()
        for j in range(self.tendon_count):
            self.displacement_m[j], self.velocity_m_per_s[j] = displacement[j], velocity[j]
            self.tension_n[j], self.current_a[j] = tension[j], current[j]
            self.temperature_c[j], self.age_s[j] = temperature[j], age[j]
        self.stamp_s, self.valid, self.device_faults = reading.stamp_s, True, len(reading.device_faults)

    def get(self, device_faults: tuple[str, ...] = ()) -> TendonReading:
        """What is in here, as arrays of its own."""
        return TendonReading(
            self.stamp_s,
            np.array(self.displacement_m, dtype=float),
            np.array(self.velocity_m_per_s, dtype=float),
            np.array(self.tension_n, dtype=float),
            np.array(self.current_a, dtype=float),
            np.array(self.temperature_c, dtype=float),
            np.array(self.age_s, dtype=float),
            device_faults,
        )
