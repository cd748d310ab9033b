# SPDX-License-Identifier: Apache-2.0
"""Rules for motors behind a transmission that take tensions: what they can make of these is commanded, and no more.

Interpreted only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.limits import LIMITED_MAXIMUM, LIMITED_MINIMUM, LIMITED_RATE, LIMITED_TOTAL
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.fault_codes import FROZEN_READING_BIT
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tension_rules import TensionRules
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import reading_thresholds

Vector = NDArray[np.float64]

_RUBBING = 0.1
"""Of the preload: friction of the tendons in their paths, within which a motor may stand."""
_BITS = np.array([LIMITED_MAXIMUM, LIMITED_MINIMUM, LIMITED_RATE, LIMITED_TOTAL, LIMITED_MAXIMUM])


class SharedTensionRules(TensionRules):
    """Commands are tensions, N, of which T^T F goes to the motors; ``command`` has the tensions that these then make.

    Motors that share tendons say what the tendons pull against each other, and the preload the rest. The limits hold
    for all tendons and motors: each motor goes as far to what is wanted as its tendons allow, one after the other. A
    stop lets the motors go idle, which leaves the preload, or hold the place.
    """

    def __init__(
        self,
        robot: Robot,
        settings: SafetySettings,
        tolerated_a: Sequence[float],
        mismatch_s: float,
        longest_step_s: float,
    ) -> None:
        super().__init__(robot, settings, tolerated_a, mismatch_s, longest_step_s)
        self._coupling = coupling = Coupling(robot)
        motors = coupling.matrix.shape[1]
        self._largest_n, self._rates_n_per_s = np.full(motors, np.inf), self._limits.each("rate_n_per_s", self._count)
        if robot.actuators is not None:
            largest_n = self._newton_per_ampere * robot.actuators.maximum_current_a
            self._largest_n = np.abs(coupling.each_motors(largest_n))
        thresholds = reading_thresholds(robot)
        preload_n = 0.0 if robot.transmission is None else robot.transmission.preload_n
        self._moves_from_n = max(float(thresholds.frozen_force_n.max()), _RUBBING * preload_n)
        self._stands_for_s = max(settings.frozen_time_s, thresholds.frozen_begin_s)
        self._place, self._pulled_from, self._stood_s = np.full(motors, np.nan), np.zeros(motors), np.zeros(motors)

    def prepare(self, reading: TendonReading, known: bool) -> list[str]:
        tension = np.asarray(reading.tension_n, dtype=float)
        told = np.where(np.isfinite(tension), tension, np.array(self._safe_n))
        return super().prepare(replace(reading, tension_n=told), known)

    def start(self) -> None:
        """From what the motors make of the tensions of :meth:`prepare`."""
        super().start()
        self._make(self._forces)

    def compare(self, reading: ReadingBuffer, dt: float, engaged: bool, obeys: bool) -> int:
        """As :class:`TensionRules`, for the current of each motor; and whether one stands that is pulled to move.

        Where tendons share motors, no other tendon shows that: they tell the same.
        """
        coupling = self._coupling
        radius = coupling.radius_at(np.array(reading.displacement_m)) if reading.valid else 1.0
        force = self._forces * np.where(np.isfinite(radius), radius, 1.0)
        self.motor_n[:] = coupling.each_tendons(force).tolist()
        if reading.valid and reading.stamp_s != self._compared_s:
            place = coupling.each_motors(np.array(reading.displacement_m))
            moved = (place != self._place) | (not engaged)
            self._place, self._pulled_from = place, np.where(moved, self._forces, self._pulled_from)
            pulled = np.abs(self._forces - self._pulled_from) > self._moves_from_n
            self._stood_s = np.where(pulled, self._stood_s + min(dt, self._longest_step_s), 0.0)
        found = super().compare(reading, dt, engaged, obeys)
        return found | FROZEN_READING_BIT if obeys and (self._stood_s > self._stands_for_s).any() else found

    def limit(self, command: Sequence[float], since_s: float) -> None:
        ceiling = self._limiter.ceiling
        self._swing.ceilings(self.command, since_s, ceiling)
        self._go(command, np.array(ceiling), since_s)

    def hold(self, reading: ReadingBuffer, place: bool, dt: float) -> None:
        self._hold(reading, place)
        self._go(self._hold_n, np.array(self._maximum_n), dt)

    def release(self, dt: float) -> None:
        """As :class:`TensionRules`: to the preload."""
        super().release(dt)
        self._make(self._forces)

    @property
    def _forces(self) -> Vector:
        """Of the motors that the command asks for, (M,), N."""
        return self._coupling.forces(np.array(self.command))

    def _make(self, force_n: Vector) -> None:
        self.command[:] = self._coupling.loads(force_n).tolist()

    def _go(self, wanted: Sequence[float], ceiling: Vector, dt: float) -> None:
        """Lead each motor to what is wanted, as far as all limits let it; none further beyond one that is exceeded."""
        coupling, limits = self._coupling, self._limits
        force, begin = self._forces, np.array(self.command)
        change = coupling.forces(np.array(wanted)) - force
        bits = np.zeros(self._count, dtype=int)
        for motor in np.flatnonzero(change):
            sense, asked = np.sign(change[motor]), abs(change[motor])
            tension, pulls = coupling.loads(force), sense * coupling.told[:, motor]
            step = self._rates_n_per_s * dt + np.sign(pulls) * (begin - tension)
            none = np.full(self._count, np.inf)
            room = np.array([
                np.divide(ceiling - tension, pulls, out=none.copy(), where=pulls > 0),
                np.divide(np.array(self._minimum_n) - tension, pulls, out=none.copy(), where=pulls < 0),
                np.divide(step, np.abs(pulls), out=none.copy(), where=pulls != 0),
                none if pulls.sum() <= 0 else np.full(self._count, (limits.total_n - tension.sum()) / pulls.sum()),
                np.full(self._count, self._largest_n[motor] - sense * force[motor]),
            ])  # fmt: skip
            least = max(room.min(), 0.0)
            if least < asked:
                bits[pulls != 0] |= _BITS[room.argmin() // self._count]
            force[motor] += sense * min(least, asked)
        self._make(force)
        self.limited[:] = bits.tolist()
