# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with the readings of tendons: old, not finite, jumped, frozen, or of no shape.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import cython
import numpy as np

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.fault_codes import (
    DEVICE_FAULT_BIT,
    DISPLACEMENT_JUMP_BIT,
    DISPLACEMENT_OUT_OF_RANGE_BIT,
    FROZEN_READING_BIT,
    INCONSISTENT_DISPLACEMENT_BIT,
    READING_NOT_FINITE_BIT,
    READING_TIMEOUT_BIT,
    TENSION_OUT_OF_RANGE_BIT,
)
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.actuation import Limits, TensionLimits
from continuum_robot.robot.reading_thresholds import ReadingThresholds
from continuum_robot.stepped.buffers import INFINITE, copy_into, indices, integers, matrix, stepped, vector


@cython.cclass
class ReadingWatch:
    """Judges each reading by itself and beside the previous one. Pure. Base of the watches of both kinds of
    actuators.
    """

    _count: cython.int
    _timeout_s: cython.double
    _maximum_displacement_m: cython.double[::1]
    _highest_n: cython.double[::1]
    _lowest_n: cython.double
    _jump_m: cython.double
    _speed_m_per_s: cython.double
    _frozen_time_s: cython.double
    # The newest good reading: its displacements, tensions, ages, stamp and faults.
    _previous: ReadingBuffer
    _inconsistent: cython.bint
    _started: cython.bint

    def __init__(self, limits: Limits, tendon_count: int, settings: SafetySettings) -> None:
        self._count, self._inconsistent = tendon_count, False
        self._timeout_s = limits.reading_timeout_s
        self._maximum_displacement_m = vector(limits.each("maximum_displacement_m", tendon_count))
        self._highest_n, self._lowest_n = vector([INFINITE] * tendon_count), -INFINITE
        self._jump_m, self._speed_m_per_s = settings.jump_m, settings.maximum_speed_m_per_s
        self._frozen_time_s = settings.frozen_time_s
        self._previous = ReadingBuffer(tendon_count)
        self.restart()

    @stepped
    def restart(self) -> cython.void:
        """Forget the past, so that a gap in the readings is no jump and no standstill."""
        self._started = False

    @stepped
    def step(
        self,
        reading: ReadingBuffer,
        now_s: cython.double,
        command: cython.double[::1],
        moving: cython.bint,
        known: cython.bint,
    ) -> cython.int:
        """Bits of what is wrong at ``now_s``, on the clock of the reading's stamp.

        Where none came (``reading`` not valid), its predecessor grows old. ``command`` holds the newest numbers to the
        actuators; ``moving``: the tendons are tight and may move; ``known``: displacements count from home.
        """
        j: cython.int
        total: cython.double
        rest: cython.double
        found: cython.int
        if not reading.valid:
            if not self._started:
                return READING_TIMEOUT_BIT
            return self._judge(self._previous, self._old(self._previous, now_s), command, moving, known)
        found = self._old(reading, now_s)
        # A sum is finite only if all its terms are; it is the cheapest test.
        displacement_m: cython.double[::1] = reading.displacement_m
        velocity_m_per_s: cython.double[::1] = reading.velocity_m_per_s
        tension_n: cython.double[::1] = reading.tension_n
        current_a: cython.double[::1] = reading.current_a
        total = reading.stamp_s
        rest = 0.0
        for j in indices(self._count):
            total += displacement_m[j]
            rest += velocity_m_per_s[j] + tension_n[j] + current_a[j]
        if total - total != 0.0:  # infinity and NaN
            return found | READING_NOT_FINITE_BIT
        if rest - rest != 0.0 and self._unknown(reading):
            return found | READING_NOT_FINITE_BIT
        found = self._judge(reading, found, command, moving, known)
        self._keep(reading)
        return found

    @stepped
    def _unknown(self, reading: ReadingBuffer) -> cython.bint:
        """Whether something is unknown of some tendons only that is to be known of all or of none."""
        return partly_unknown(reading.velocity_m_per_s, self._count)

    @stepped
    def _old(self, reading: ReadingBuffer, now_s: cython.double) -> cython.int:
        """Age and faults of a reading."""
        found: cython.int = DEVICE_FAULT_BIT if reading.device_faults > 0 else 0
        return found | READING_TIMEOUT_BIT if reading.older_than(self._timeout_s, now_s) else found

    @stepped
    def _judge(
        self,
        reading: ReadingBuffer,
        found: cython.int,
        command: cython.double[::1],
        moving: cython.bint,
        known: cython.bint,
    ) -> cython.int:
        j: cython.int
        tension_n: cython.double[::1] = reading.tension_n
        displacement_m: cython.double[::1] = reading.displacement_m
        value: cython.double
        out_of_range: cython.bint = False
        farthest_m: cython.double[::1] = self._maximum_displacement_m
        highest_n: cython.double[::1] = self._highest_n
        lowest_n: cython.double = self._lowest_n
        self._predict(displacement_m, command)
        for j in indices(self._count):
            if not (-farthest_m[j] <= displacement_m[j] <= farthest_m[j]):
                out_of_range = True
            value = tension_n[j]
            if value > highest_n[j] or value < lowest_n:
                found |= TENSION_OUT_OF_RANGE_BIT
        if known and out_of_range:
            found |= DISPLACEMENT_OUT_OF_RANGE_BIT
        elif known and self._inconsistent:
            found |= INCONSISTENT_DISPLACEMENT_BIT
        if self._started and self._jumped(reading):
            found |= DISPLACEMENT_JUMP_BIT
        if self._frozen(reading, command, moving and known):
            found |= FROZEN_READING_BIT
        return found

    @stepped
    def _predict(self, displacement_m: cython.double[::1], command: cython.double[::1]) -> cython.void:
        """Whether displacements are ``_inconsistent``."""

    @stepped
    def _jumped(self, reading: ReadingBuffer) -> cython.bint:
        j: cython.int
        displacement_m: cython.double[::1] = reading.displacement_m
        before: cython.double[::1] = self._previous.displacement_m
        age_s: cython.double[::1] = self._previous.age_s
        # Values that the device repeated, with their age, may make up for it in one reading.
        elapsed_s: cython.double = reading.stamp_s - self._previous.stamp_s
        change_m: cython.double
        jump_m: cython.double = self._jump_m
        if elapsed_s <= 0.0:
            return False
        for j in indices(self._count):
            change_m = displacement_m[j] - before[j]
            if change_m < 0.0:
                change_m = -change_m
            if change_m > jump_m and change_m > jump_m + self._speed_m_per_s * (elapsed_s + age_s[j]):
                return True
        return False

    @stepped
    def _frozen(self, reading: ReadingBuffer, command: cython.double[::1], moving: cython.bint) -> cython.bint:  # noqa: ARG002
        """Whether a tendon repeats its value although it must have moved."""
        return False

    @stepped
    def _keep(self, reading: ReadingBuffer) -> cython.void:
        copy_into(self._previous.displacement_m, reading.displacement_m, self._count)
        copy_into(self._previous.tension_n, reading.tension_n, self._count)
        copy_into(self._previous.age_s, reading.age_s, self._count)
        self._previous.stamp_s = reading.stamp_s
        self._previous.device_faults = reading.device_faults
        self._started = True


@cython.cclass
class ManifoldWatch(ReadingWatch):
    """Of motors that take tensions: where the tendons are is for the robot to say, so they fit each other."""

    _segment_count: cython.int
    _coordinate_count: cython.int
    _segment_end: cython.int[::1]
    _frozen_begin_s: cython.double
    _frozen_motion_m: cython.double[::1]
    _frozen_force_n: cython.double[::1]
    _tendon_m_per_n: cython.double
    _square_m2: cython.double[::1]
    _off_manifold: cython.double[::1]
    _first: cython.int[::1]
    _last: cython.int[::1]
    _leave_one_out: cython.double[::1]
    _displacement_matrix: cython.double[::1]
    _predicted: cython.double[::1]
    _stretched: cython.double[::1]
    # When each displacement changed last, what the others and their stretch predicted then, since when it must have
    # moved, negative where it need not, and which stand all the same. The same of all together, by commanded forces.
    _changed_s: cython.double[::1]
    _at_change: cython.double[::1]
    _stretched_at_change: cython.double[::1]
    _due_since_s: cython.double[::1]
    _command_at_change: cython.double[::1]
    _pulled_since_s: cython.double
    _stands: cython.int[::1]

    def __init__(
        self,
        limits: TensionLimits,
        manifold: ClarkeManifold,
        settings: SafetySettings,
        thresholds: ReadingThresholds,
    ) -> None:
        count, slices = manifold.tendon_count, manifold.tendon_slices
        ReadingWatch.__init__(self, limits, count, settings)
        self._segment_count = len(slices)
        self._segment_end = integers([rows.stop for rows in slices])
        self._square_m2 = vector([thresholds.inconsistency_m**2 * (rows.stop - rows.start) for rows in slices])
        fitted = manifold.displacement_matrix @ manifold.clarke_matrix
        off_manifold = np.eye(count) - fitted
        off_manifold[np.abs(off_manifold) < 1e-12] = 0.0
        self._off_manifold = matrix(off_manifold.tolist())
        # Between its first and last entry a row is not zero: tendons of other segments say nothing.
        entries = [np.flatnonzero(row) for row in off_manifold]
        self._first = integers([int(row[0]) if len(row) else 0 for row in entries])
        self._last = integers([int(row[-1]) + 1 if len(row) else 0 for row in entries])
        # The least-squares prediction of a tendon from all others is q_j - r_j / (1 - h_jj), where r is what misses
        # the manifold and h the matrix that projects on it. Where h_jj = 1 the others say nothing about it.
        self._leave_one_out = vector([1.0 / one if one > 0.0 else 0.0 for one in np.diag(off_manifold).tolist()])
        self._coordinate_count = manifold.displacement_matrix.shape[1]
        self._displacement_matrix = matrix(manifold.displacement_matrix.tolist())
        self._highest_n = vector(limits.each("maximum_n", count) + settings.tension_margin_n)
        self._lowest_n = -settings.tension_margin_n
        self._frozen_begin_s = thresholds.frozen_begin_s
        self._frozen_motion_m = vector(thresholds.frozen_motion_m)
        self._frozen_force_n = vector(thresholds.frozen_force_n)
        self._tendon_m_per_n = thresholds.tendon_m_per_n
        self._predicted, self._changed_s, self._due_since_s = vector(count), vector(count), vector(count)
        self._at_change, self._command_at_change = vector(count), vector(count)
        self._stretched, self._stretched_at_change = vector(count), vector(count)
        self._stands = integers(count)
        self._pulled_since_s = -1.0

    @stepped
    def _unknown(self, reading: ReadingBuffer) -> cython.bint:
        """Whether something is unknown of some tendons only."""
        return (
            partly_unknown(reading.velocity_m_per_s, self._count)
            or partly_unknown(reading.tension_n, self._count)
            or partly_unknown(reading.current_a, self._count)
        )

    @stepped
    def _predict(self, displacement_m: cython.double[::1], command: cython.double[::1]) -> cython.void:
        """What the others predict of each tendon, and whether a segment misses the manifold.

        It does where the root mean square over its tendons of what misses it exceeds the limit. By the stretch of
        the other tendons under the ``command``, N, the prediction is off by ``_stretched``.
        """
        i: cython.int
        j: cython.int = 0
        k: cython.int
        row: cython.int
        end: cython.int
        count: cython.int = self._count
        off_manifold: cython.double[::1] = self._off_manifold
        predicted: cython.double[::1] = self._predicted
        missed: cython.double
        pulled: cython.double
        square: cython.double
        self._inconsistent = False
        for i in indices(self._segment_count):
            end = self._segment_end[i]
            square = 0.0
            while j < end:
                row = j * count
                missed = pulled = 0.0
                for k in range(self._first[j], self._last[j]):
                    missed += off_manifold[row + k] * displacement_m[k]
                    pulled += off_manifold[row + k] * command[k]
                pulled -= off_manifold[row + j] * command[j]
                self._stretched[j] = pulled * self._tendon_m_per_n * self._leave_one_out[j]
                predicted[j] = displacement_m[j] - missed * self._leave_one_out[j]
                square += missed * missed
                j += 1
            if square > self._square_m2[i]:
                self._inconsistent = True

    @stepped
    def _frozen(
        self,
        reading: ReadingBuffer,
        command: cython.double[::1],
        moving: cython.bint,
    ) -> cython.bint:
        """Whether a tendon repeats its value while the others, or the commanded forces, say that it must move.

        It has ``frozen_begin_s`` to begin to, however long it rested before. What others predict of a tendon that rests
        changes by the stretch that the commands make, or not at all, or by half as much again: the stiffness is not
        well known, and friction keeps tensions from coming. A value that the device repeats with its
        age is no new one: how old it may become is the timeout's matter. Without tension a tendon may rest where its
        motor's cogging holds it: then nothing is found. A tendon that was found frozen stays so until its value
        changes.
        """
        j: cython.int
        displacement_m: cython.double[::1] = reading.displacement_m
        age_s: cython.double[::1] = reading.age_s
        measured_s: cython.double
        oldest_s: cython.double = reading.stamp_s
        before: cython.double[::1] = self._previous.displacement_m
        predicted: cython.double[::1] = self._predicted
        at_change: cython.double[::1] = self._at_change
        changed_s: cython.double[::1] = self._changed_s
        due_since_s: cython.double[::1] = self._due_since_s
        stood: cython.int = 0
        change_m: cython.double
        stretch_m: cython.double
        highest_m: cython.double
        stands: cython.int[::1] = self._stands
        changed: cython.bint
        any_stands: cython.bint = False
        any_moved: cython.bint = not moving or not self._started
        for j in indices(self._count):
            measured_s = reading.stamp_s - age_s[j]
            if measured_s < oldest_s:
                oldest_s = measured_s
            changed = not self._started or displacement_m[j] != before[j]
            if changed:
                stands[j] = 0
                any_moved = True
            if changed or not moving:
                changed_s[j] = measured_s
                at_change[j] = predicted[j]
                self._stretched_at_change[j] = self._stretched[j]
                due_since_s[j] = -1.0
            # What stretches shifts the prediction against its sign: a change the other way is motion.
            change_m = predicted[j] - at_change[j]
            stretch_m = self._stretched_at_change[j] - self._stretched[j]
            highest_m = self._frozen_motion_m[j]
            if stretch_m < 0.0:
                change_m = -change_m
                stretch_m = -stretch_m
            if due_since_s[j] < 0.0 and (change_m > highest_m + 1.5 * stretch_m or change_m < -highest_m):
                due_since_s[j] = measured_s
            if measured_s - changed_s[j] >= self._frozen_time_s:
                stood += 1
                if due_since_s[j] >= 0.0 and measured_s - due_since_s[j] >= self._frozen_begin_s:
                    stands[j] = 1
            if stands[j]:
                any_stands = True
        if any_moved:
            copy_into(self._command_at_change, command, self._count)
            self._pulled_since_s = -1.0
        elif self._pulled_since_s < 0.0 and self._pulled(command):
            self._pulled_since_s = oldest_s
        if (
            stood == self._count
            and self._pulled_since_s >= 0.0
            and oldest_s - self._pulled_since_s >= self._frozen_begin_s
        ):
            any_stands = True
            for j in indices(self._count):
                stands[j] = 1
        return any_stands

    @stepped
    def _pulled(self, command: cython.double[::1]) -> cython.bint:
        """Whether the generalised force changed enough since the last motion that some tendon must have moved."""
        i: cython.int
        j: cython.int
        force_n: cython.double
        for i in indices(self._coordinate_count):
            force_n = 0.0
            for j in indices(self._count):
                force_n += self._displacement_matrix[j * self._coordinate_count + i] * (
                    command[j] - self._command_at_change[j]
                )
            if force_n > self._frozen_force_n[i] or force_n < -self._frozen_force_n[i]:
                return True
        return False


@stepped
def partly_unknown(values: cython.double[::1], count: cython.int) -> cython.bint:
    """Whether some of ``count`` values are not finite, unless all are NaN: what the device does not measure."""
    j: cython.int
    total: cython.double = 0.0
    finite: cython.int = 0
    unknown: cython.int = 0
    for j in indices(count):
        total += values[j]
    if total - total == 0.0:
        return False
    for j in indices(count):
        total = values[j]
        if total - total == 0.0:
            finite += 1
        elif total != total:
            unknown += 1
    return finite < count and unknown < count
