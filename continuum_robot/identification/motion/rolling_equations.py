# SPDX-License-Identifier: Apache-2.0
"""The motors' forces against the difference of the tensions that rolling joints ask for.

F_j(t) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j) + o_j

as in motion/coordinate_equations.py, with T_1 - T_2 of motion/driven_joints.py for the measured coordinate and the sum
T_1 + T_2, of links without mass and drives that do not stretch. The motors' viscous friction is that of the file:
joints resist as it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.motion.driven_joints import DrivenJoints
from continuum_robot.identification.motion.motors import DRY, Motors
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.unknowns import LAG_S, MotionFitSettings, Unknowns, weights
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_DAMPING = 2
"""Which of the parameters is the joints' damping."""
_PLACE_HZ = 50.0
_SLOPE_STEP, _LEAST = 0.02, 0.2
_LEAST_N = 1e-3


class RollingEquations:
    """Difference of the forces of two motors; see :class:`~.unknowns.ForceEquations` for what it shares with others.

    Parameters
    ----------
    robot : with rolling joints and a motor on each tendon
    samples : at even times, the first ones at the pose of equal tensions
    settings : how they are used
    """

    def __init__(self, robot: Robot, samples: DriveSamples, settings: MotionFitSettings) -> None:
        self.unknowns = Unknowns.of(robot, float(np.abs(samples.force_n).mean()), settings.prior)
        parameters, (actuators, _) = self.unknowns.parameters, driven_parts(robot)
        self._motors = motors = Motors(robot, samples, parameters, settings.stretching_hz)
        self._joints, self._scale_nms = DrivenJoints(robot), float(parameters.scales[_DAMPING])
        # Joints under a measured coordinate do not swing: longer steps do.
        self._stride = max(1, round(2 * settings.step_s / motors.period_s))
        self._kept = motors.kept(settings.samples_hz)
        self.time_s = samples.time_s[self._kept]
        moved_m = motors.low_pass(motors.moved_m, _PLACE_HZ)
        self._coordinate_m = (moved_m[:, 0] - moved_m[:, 1]) / 2
        inertia, _, dry = motors.moving
        units, scales = parameters.motor_units, parameters.scales
        # Every column as forces of both motors, (T, 2); none for damping and lag.
        none = np.zeros_like(dry)
        columns = [inertia * units[0] * scales[0], dry * units[DRY] * scales[1], none, *motors.of_each(), none]
        self._columns = np.stack(columns, axis=2)
        self._pulled_n = motors.force_n[:, 0] - motors.force_n[:, 1]
        self._force_n = motors.force_n - actuators.viscous_ns_per_m * motors.rate_m_per_s
        self.pulled = self._pulled_n[self._kept, None]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the difference (T, 1), its slopes (T, 1, U) and weights (1,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)

        Raises
        ------
        ConvergenceError : joints that do not reach the measured coordinate
        """
        left, right = (self._force_n - self._columns @ unknowns).T
        total = np.maximum(left + right, _LEAST_N)
        factor = unknowns[_DAMPING]
        asked = self._asked(total, factor)
        slope = (self._asked(total, factor + _SLOPE_STEP) - asked) / _SLOPE_STEP
        kept, first, second = self._kept, self._columns[:, 0], self._columns[:, 1]
        # Without damping the difference is a fraction of the sum, by the coordinate alone.
        slopes = (second - first + (asked / total)[:, None] * (first + second))[kept]
        slopes[:, _DAMPING] -= slope[kept]
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        missing = left - right - asked
        late = LAG_S * self._motors.slope(self._pulled_n - missing)[kept]
        lag = self.unknowns.lag
        slopes[:, lag] = late
        rows = (missing[kept] + unknowns[lag] * late)[:, None]
        return rows, slopes[:, None], weights(rows, self.forces)

    def fraction(self, unknowns: Vector, step: Vector) -> float:
        """How much of a step keeps a fifth of the damping; arguments as of :class:`~.ForceEquations`.

        Parameters
        ----------
        unknowns, step : shape (U,)
        """
        least = (_LEAST - 1) * unknowns[_DAMPING]
        return 1.0 if step[_DAMPING] >= least else float(least / step[_DAMPING])

    def _asked(self, total_n: Vector, factor: float) -> Vector:
        """Difference of the tensions, filtered as the forces, shape (T,), N."""
        coarse = slice(None, None, self._stride)
        found = self._joints.differences(
            self._coordinate_m[coarse], total_n[coarse], factor * self._scale_nms, self._stride * self._motors.period_s
        )
        ticks = np.arange(len(total_n))
        return self._motors.low_pass(np.interp(ticks, ticks[coarse], found), self._motors.cut_hz)
