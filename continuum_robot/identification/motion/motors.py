# SPDX-License-Identifier: Apache-2.0
"""The motors' part of the forces: what their inertia, friction, cogging and lag add to the tensions of the tendons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from continuum_robot.identification.motion.parameters import Parameters
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.unknowns import LAG_S, TRIM_S
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip

Vector = NDArray[np.float64]

MOTORS = 3
"""Inertia, viscous and dry friction: the first parameters."""
DRY = 2
"""Which of them is dry friction."""
LEAST_PAST = 0.05
"""Such a fraction of the file's travel is the least that is tried."""

PAST_STEP = 0.02
"""Of a factor on what a force by the past depends on, which has knots, for its slope."""

_DRY_M_PER_S = 5e-4  # below this speed dry friction is rounded off
_SPEED_HZ = 120.0


class Motors:
    """Samples of N motors at even times, filtered.

    Parameters
    ----------
    robot : with a motor on every tendon
    samples : at even times
    parameters : of the robot
    cut_hz : of the low pass

    Attributes
    ----------
    cut_hz : as given
    period_s : between samples, s
    moved_m : displacement since the first sample, not filtered, shape (T, N), m
    place_m, rate_m_per_s, force_n : the same filtered, its rate, force; shape (T, N), N on the tendon
    moving : force by acceleration, speed and dry friction of a unit, shape (3, T, N)
    waves : sine of every motor, then cosine, shape (2, T, N)
    late : force by a lag of LAG_S, shape (T, N)
    """

    def __init__(self, robot: Robot, samples: DriveSamples, parameters: Parameters, cut_hz: float) -> None:
        actuators, _ = driven_parts(robot)
        self.period_s = float(samples.time_s[1] - samples.time_s[0])
        self.cut_hz, self._travel = cut_hz, parameters.travel
        self._travel_m = actuators.friction_travel_m
        self.moved_m = samples.displacement_m - samples.displacement_m[0]
        self._speed = self.low_pass(self.slope(self.moved_m), _SPEED_HZ, 2)
        self.place_m = self.low_pass(self.moved_m, cut_hz)
        self.rate_m_per_s = self.slope(self.place_m)
        self.force_n = self.low_pass(samples.force_n, cut_hz)
        turned = actuators.cogging_periods_per_turn * actuators.motor_rad_per_m * samples.displacement_m
        self.waves = np.array([self.low_pass(wave(turned), cut_hz) for wave in (np.sin, np.cos)])
        self.late = -LAG_S * self.slope(self.force_n)
        self.moving = np.array([self.slope(self.rate_m_per_s), self.rate_m_per_s, self.rubbed(1.0)])

    def of_each(self) -> list[Vector]:
        """Forces by the sine of each motor, then by its cosine, then by a constant of it: 3 N of shape (T, N)."""
        size, own = self.waves[0].shape, np.eye(self.waves.shape[2])
        waves = [wave[:, [j]] * one for wave in self.waves for j, one in enumerate(own)]
        return [*waves, *(np.broadcast_to(one, size) for one in own)]

    def kept(self, samples_hz: float) -> slice:
        """The samples that count: none at the ends, where filters begin, and not all of the others.

        Parameters
        ----------
        samples_hz : how many, Hz
        """
        trim = round(TRIM_S / self.period_s)
        return slice(trim, len(self.place_m) - trim, max(1, round(1 / (self.period_s * samples_hz))))

    def low_pass(self, values: Vector, cut_hz: float, order: int = 4) -> Vector:
        """Values without what is faster, and without delay, shape (T, ...).

        Parameters
        ----------
        values : at the samples, shape (T, ...)
        cut_hz : of the filter, Hz
        order : of the filter, each way
        """
        return np.asarray(sosfiltfilt(butter(order, 2 * cut_hz * self.period_s, output="sos"), values, axis=0))

    def slope(self, values: Vector) -> Vector:
        """Derivative by time, shape (T, ...).

        Parameters
        ----------
        values : at the samples, shape (T, ...)
        """
        return np.asarray(np.gradient(values, self.period_s, axis=0))

    def dry(self, factor: float) -> Vector:
        """Dry friction over its limit, not filtered, shape (T, N).

        Parameters
        ----------
        factor : on the travel over which it builds up, where the file has one
        """
        if self._travel is None:
            return np.tanh(self._speed / _DRY_M_PER_S)
        count = self.moved_m.shape[1]
        reach_m = max(factor, LEAST_PAST) * self._travel_m
        return MaxwellSlip(np.ones(count), np.full(count, reach_m), self.moved_m[0]).along(self.moved_m)

    def rubbed(self, factor: float) -> Vector:
        """Dry friction over its limit, filtered, shape (T, N).

        Parameters
        ----------
        factor : as of :meth:`dry`
        """
        return self.low_pass(self.dry(factor), self.cut_hz)
