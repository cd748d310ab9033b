# SPDX-License-Identifier: Apache-2.0
"""What the fits of a motion share: forces of the samples, what a model leaves of them, and how these are weighed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from continuum_robot.identification.fit import Parameter, Parameters, by_differences
from continuum_robot.identification.motion.parameters import LAG_S, MotionFitSettings, looked_for
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip

Vector = NDArray[np.float64]

TRIM_S = 1.0
"""What is left out at both ends, where filters begin, s."""

_DRY_M_PER_S = 5e-4  # below this speed dry friction is rounded off
_SPEED_HZ = 120.0
_STEP, _PAST_STEP = 1e-4, 0.02  # of differences; forces by the past have knots


class Motors:
    """Samples of N motors at even times, filtered.

    F_j(t + l) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j) + o_j,

    derived here for motor j with displacement q_j, and a lag l between current and encoder; h is dry friction over its
    limit: tanh(q_j' / v_0), or by the motion's past where the file says that it builds up over a travel.
    """

    def __init__(
        self, robot: Robot, samples: RecordedMotion, parameters: Parameters, settings: MotionFitSettings
    ) -> None:
        self._actuators, _ = driven_parts(robot)
        self._settings, self._parameters = settings, parameters
        self.period_s = float(samples.time_s[1] - samples.time_s[0])
        self.moved_m = samples.displacement_m - samples.displacement_m[0]
        self._speed = self.low_pass(self.slope(self.moved_m), _SPEED_HZ, 2)
        self.place_m = self.low_pass(self.moved_m)
        self.rate_m_per_s = self.slope(self.place_m)
        self._acceleration = self.slope(self.rate_m_per_s)
        self.force_n = self.low_pass(samples.effort)
        self._late = -LAG_S * self.slope(self.force_n)
        count = robot.tendon_count
        self._turns = self._actuators.each("motor_rad_per_m", count)
        turned = self._actuators.each("cogging_rad_per_m", count) * samples.displacement_m
        self._sine, self._cosine = (self.low_pass(wave(turned)) for wave in (np.sin, np.cos))
        self._rubbed: dict[float, Vector] = {}
        self.steps = np.full(len(parameters), _STEP)
        for name, place in parameters.at.items():
            if name == "travel" or name.startswith("hysteresis"):
                self.steps[place] = _PAST_STEP

    def resisting(self, x: Vector, *, late: bool = True, constant: bool = True) -> Vector:
        """What is added to the tensions, shape (T, N), N."""
        at, values, turns = self._parameters.at, self._parameters.values(x), self._turns
        viscous = values[at["viscous"]] if "viscous" in at else self._actuators.viscous_friction_nms
        dry = self._dry(float(x[at["travel"]][0]) if "travel" in at else 1.0)
        added = turns**2 * (values[at["inertia"]] * self._acceleration + viscous * self.rate_m_per_s)
        added = added + turns * values[at["dry"]] * dry + x[at["sine"]] * self._sine + x[at["cosine"]] * self._cosine
        return np.asarray(added + constant * x[at["constant"]] + late * x[at["lag"]] * self._late)

    def kept(self, period_s: float) -> slice:
        """The samples that count: none at the ends, where filters begin, and not all of the others."""
        trim = round(TRIM_S / period_s)
        count = len(self.place_m[:: round(period_s / self.period_s)])
        return slice(trim, count - trim, max(1, round(1 / (period_s * self._settings.samples_hz))))

    def low_pass(self, values: Vector, cut_hz: float | None = None, order: int = 4) -> Vector:
        """Values without what is faster, and without delay, shape (T, ...)."""
        cut = 2 * (cut_hz or self._settings.stretching_hz) * self.period_s
        return np.asarray(sosfiltfilt(butter(order, cut, output="sos"), values, axis=0))

    def slope(self, values: Vector) -> Vector:
        """Derivative by time, shape (T, ...)."""
        return np.asarray(np.gradient(values, self.period_s, axis=0))

    def _dry(self, factor: float) -> Vector:
        """Dry friction over its limit, filtered, shape (T, N), for a factor on the travel over which it builds up."""
        if factor not in self._rubbed:
            if "travel" in self._parameters.at:
                count = self.moved_m.shape[1]
                reach_m = np.full(count, factor * self._actuators.friction_travel_m)
                rubbed = MaxwellSlip(np.ones(count), reach_m, self.moved_m[0]).along(self.moved_m)
            else:
                rubbed = np.tanh(self._speed / _DRY_M_PER_S)
            self._rubbed[factor] = self.low_pass(rubbed)
        return self._rubbed[factor]


class ForceEquations(ABC):
    """The forces of the samples, filtered, and what a model makes of them."""

    forces: Vector
    pulled: Vector
    time_s: Vector

    def __init__(
        self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, **further: Parameter
    ) -> None:
        self.samples = samples
        self.parameters = looked_for(robot, float(np.abs(samples.effort).mean()), settings.prior, **further)
        self.motors = Motors(robot, samples, self.parameters, settings)

    @abstractmethod
    def left(self, x: Vector) -> Vector:
        """What is left of the forces, (T, N), N."""

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        """The same, and its slopes, (T, N, P)."""
        shape = self.forces.shape
        rows, slopes = by_differences(lambda at: self.left(at).ravel(), self.motors.steps)(x)
        return rows.reshape(shape), slopes.reshape(*shape, -1)
