# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with the readings of tendons: old, not finite, jumped, frozen, or of no shape."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety_settings import SafetySettings
from continuum_robot.drivers.tendon_faults import (
    DEVICE_FAULT,
    DISPLACEMENT_JUMP,
    DISPLACEMENT_OUT_OF_RANGE,
    FROZEN_READING,
    INCONSISTENT_DISPLACEMENT,
    READING_NOT_FINITE,
    READING_TIMEOUT,
    TENSION_OUT_OF_RANGE,
)
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.actuation import TensionLimits

Vector = NDArray[np.float64]


class ReadingWatch:
    """Judges each reading by itself and beside the previous one. Pure.

    Parameters
    ----------
    limits : of the robot
    manifold : of its tendons
    settings : further thresholds
    """

    def __init__(self, limits: TensionLimits, manifold: ClarkeManifold, settings: SafetySettings) -> None:
        self._limits = limits
        self._settings = settings
        self._manifold = manifold
        # One product gives what misses the manifold and what the other tendons predict.
        off_manifold = np.eye(manifold.tendon_count) - manifold.displacement_matrix @ manifold.clarke_matrix
        self._observed = np.vstack([off_manifold, _leave_one_out(manifold.displacement_matrix)])
        self.restart()

    def restart(self) -> None:
        """Forget the past, so that a gap in the readings is no jump and no standstill."""
        self._previous: TendonReading | None = None
        self._changed_s: list[float] | None = None

    def check(
        self, reading: TendonReading | None, now_s: float, command: Vector, *, moving: bool, known: bool
    ) -> list[str]:
        """Names of what is wrong with the newest reading.

        Parameters
        ----------
        reading : the newest; None where none came, its predecessor then grows old
        now_s : on the clock of the reading's stamp, s
        command : newest tensions to the actuators, shape (N,), N
        moving : the tendons are tight and may be told to move
        known : displacements count from home
        """
        if reading is None:
            reading = self._previous
            if reading is None:
                return [READING_TIMEOUT]
        # Lists and built-in functions: for a handful of tendons they take a tenth of NumPy's time, in every cycle.
        found = []
        limits, settings = self._limits, self._settings
        since_s = now_s - reading.stamp_s
        if not all(since_s + age <= limits.reading_timeout_s for age in (0.0, *reading.age_s.tolist())):
            found.append(READING_TIMEOUT)
        if reading.device_faults:
            found.append(DEVICE_FAULT)
        if not _finite(reading):
            found.append(READING_NOT_FINITE)
            return found
        q, tensions = reading.displacement_m.tolist(), reading.tension_n.tolist()
        observed = (self._observed @ reading.displacement_m).tolist()
        if known and max(map(abs, q)) > limits.maximum_displacement_m:
            found.append(DISPLACEMENT_OUT_OF_RANGE)
        elif known and self._inconsistent(observed):
            found.append(INCONSISTENT_DISPLACEMENT)
        margin = settings.tension_margin_n
        if max(tensions) > limits.maximum_n + margin or min(tensions) < -margin:
            found.append(TENSION_OUT_OF_RANGE)
        before = None if self._previous is None else self._previous.displacement_m.tolist()
        if before is not None and self._jumped(reading, q, before):
            found.append(DISPLACEMENT_JUMP)
        if self._frozen(reading.stamp_s, q, before, observed[len(q) :], command=command, moving=moving and known):
            found.append(FROZEN_READING)
        self._previous = reading
        return found

    def _inconsistent(self, missed: list[float]) -> bool:
        """Whether the root mean square over a segment's tendons of what misses the manifold exceeds the limit."""
        square_m2 = self._limits.inconsistency_m**2
        return any(
            sum(value * value for value in missed[rows]) > square_m2 * (rows.stop - rows.start)
            for rows in self._manifold.tendon_slices
        )

    def _jumped(self, reading: TendonReading, q: list[float], before: list[float]) -> bool:
        previous = self._previous
        if previous is None or reading.stamp_s <= previous.stamp_s:
            return False
        # Values that the device repeated, with their age, may make up for it in one reading.
        jump_m, speed = self._settings.jump_m, self._settings.maximum_speed_m_per_s
        elapsed_s = reading.stamp_s - previous.stamp_s
        return any(
            abs(new - old) > jump_m + speed * (elapsed_s + age)
            for new, old, age in zip(q, before, previous.age_s.tolist(), strict=True)
        )

    def _frozen(
        self,
        stamp_s: float,
        q: list[float],
        before: list[float] | None,
        predicted: list[float],
        *,
        command: Vector,
        moving: bool,
    ) -> bool:
        """Whether a tendon repeats its value while the others, or the commanded forces, say that it must move.

        Without tension a tendon may rest where its motor's cogging holds it: then nothing is found. A tendon that was
        found frozen stays so until its value changes.
        """
        if before is None or self._changed_s is None:
            self._changed_s = [stamp_s] * len(q)
            self._at_change = predicted
            self._command_at_change = command
            self._stands = [False] * len(q)
            return False
        settings, stood = self._settings, 0
        if not moving or q != before:
            self._command_at_change = command
        for j, value in enumerate(q):
            moved = value != before[j]
            if moved:
                self._stands[j] = False
            if moved or not moving:
                self._changed_s[j] = stamp_s
                self._at_change[j] = predicted[j]
            if stamp_s - self._changed_s[j] >= settings.frozen_time_s:
                stood += 1
                if abs(predicted[j] - self._at_change[j]) > settings.frozen_motion_m:
                    self._stands[j] = True
        if stood == len(q):
            force = self._manifold.generalized_force(command - self._command_at_change)
            if np.abs(force).max() > settings.frozen_force_n:
                self._stands = [True] * len(q)
        return any(self._stands)


def _finite(reading: TendonReading) -> bool:
    """Whether displacements are finite, and so are tensions and currents unless the device measures none of them."""
    # A sum is finite only if all its terms are; it is the cheapest test.
    if not math.isfinite(reading.stamp_s + sum(reading.displacement_m.tolist())):
        return False
    for values in (reading.velocity_m_per_s, reading.tension_n, reading.current_a):
        if math.isfinite(sum(values.tolist())):
            continue
        finite = np.isfinite(values)
        if not finite.all() and not np.isnan(values).all():
            return False
    return True


def _leave_one_out(displacement_matrix: Vector) -> Vector:
    """Matrix L with a zero diagonal: L q predicts each tendon's displacement from all others, least squares."""
    count = displacement_matrix.shape[0]
    predictor = np.zeros((count, count))
    for j in range(count):
        others = np.delete(np.arange(count), j)
        predictor[j, others] = displacement_matrix[j] @ np.linalg.pinv(displacement_matrix[others])
    return predictor
