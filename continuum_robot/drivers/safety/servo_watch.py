# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with the readings of servos that hold displacements. Interpreted only."""

from __future__ import annotations

import numpy as np

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.reading_watch import ReadingWatch
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import DisplacementLimits
from continuum_robot.robot.reading_thresholds import ServoThresholds
from continuum_robot.stepped.buffers import vector

_FEWEST_READINGS = 4
"""That repeat, however far apart, before a servo is frozen."""


class ServoWatch(ReadingWatch):
    """As :class:`ReadingWatch`, but for what a servo's readings cannot say.

    - They are where the servos were sent, whatever the tendons do: they need not fit the Clarke manifold, which elastic
      tendons under pretension miss, and say nothing of a tendon that broke. Loads do.
    - A load may be unknown, and below zero while a geared motor pays out. How high it may be, and for how long, is
      judged beside the commands.
    - A reading is frozen where displacement and load repeat bit by bit while the command moves on. A servo that is
      stalled still measures a load that changes; for one without a load, :attr:`ServoThresholds.lag_m` is all. A gap
      between two readings proves little: while this computer stalls, a servo is not told that its command moved.
    """

    def __init__(
        self, limits: DisplacementLimits, tendon_count: int, settings: SafetySettings, thresholds: ServoThresholds
    ) -> None:
        super().__init__(limits, tendon_count, settings)
        # Commands keep the range; a servo gives way beyond it by its load.
        self._maximum_displacement_m = vector(self._maximum_displacement_m + thresholds.lag_m)
        self._thresholds = thresholds
        self._stood_s, self._left_behind_s = np.zeros(tendon_count), np.zeros(tendon_count)
        self._command_at_change = np.zeros(tendon_count)

    def _frozen(self, reading: ReadingBuffer, command: list[float], moving: bool) -> bool:
        before = self._previous
        # A value that the device repeats with its age is no new one.
        aged_s = np.array(reading.age_s) - np.array(before.age_s)
        elapsed_s = reading.stamp_s - before.stamp_s - aged_s if self._started else 0.0
        proven_s = np.minimum(elapsed_s, self._thresholds.frozen_begin_s / _FEWEST_READINGS)
        place, load = np.array(reading.displacement_m), np.array(reading.tension_n)
        repeats = (place == np.array(before.displacement_m)) & (load == np.array(before.tension_n))
        if not moving:
            repeats[:] = False
        self._stood_s = np.where(repeats, self._stood_s + proven_s, 0.0)
        kept = repeats & np.isfinite(self._command_at_change)  # it may repeat since before the first command
        self._command_at_change = np.where(kept, self._command_at_change, command)
        left = repeats & (np.abs(np.array(command) - self._command_at_change) > self._thresholds.frozen_motion_m)
        self._left_behind_s = np.where(left, self._left_behind_s + proven_s, 0.0)
        return bool(
            ((self._stood_s >= self._frozen_time_s) & (self._left_behind_s >= self._thresholds.frozen_begin_s)).any()
        )
