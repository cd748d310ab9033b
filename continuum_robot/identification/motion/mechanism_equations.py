# SPDX-License-Identifier: Apache-2.0
"""The motors' forces (motion/equations.py) against what mechanisms ask for: rolling joints, and equilibrium modulation.

Links have no mass, drives do not stretch. The motors' viscous friction is that of the file: joints and guides resist as
it does.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.equations import ForceEquations
from continuum_robot.identification.motion.parameters import LAG_S, MotionFitSettings, stiffness_at_rest
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.turning import JointTurning
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_PLACE_HZ = 50.0
_LEAST_N = 1e-3
_ITERATIONS, _TOLERANCE_N = 30, 1e-6
_LEAST_STIFFNESS_NM = 1e-5


class MechanismEquations(ForceEquations):
    """Forces of the motors on the M coordinates of a mechanism."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, onto: Vector) -> None:
        super().__init__(robot, samples, settings)
        self._onto, self._kept = onto, self.motors.kept(self.motors.period_s)
        self.time_s, self._pulled = samples.time_s[self._kept], self.motors.force_n @ onto
        self.pulled = self._pulled[self._kept]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    @abstractmethod
    def asked(self, x: Vector, tension_n: Vector) -> Vector:
        """Force on the coordinates that the mechanism asks for under its motion, shape (T, M), N."""

    def left(self, x: Vector) -> Vector:
        """As of :class:`~.equations.ForceEquations`, (T, M)."""
        resisting = self.motors.resisting(x, late=False)
        asked = resisting @ self._onto + self.asked(x, self.motors.force_n - resisting)
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        late = LAG_S * x[self.parameters.at["lag"]] * self.motors.slope(asked)
        return np.asarray((self._pulled - asked + late)[self._kept])


class ModulationEquations(MechanismEquations):
    """D^T T = D^T d D x' + E K x, q = D x, of a segment with equilibrium modulation."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings, np.asarray(clarke_manifold(robot).displacement_matrix))
        self._bent = self.motors.place_m @ np.linalg.pinv(self._onto).T @ stiffness_at_rest(robot, 0.0)

    def asked(self, x: Vector, _tension_n: Vector) -> Vector:
        at, values = self.parameters.at, self.parameters.values(x)
        return np.asarray(values[at["damping"]] * self.motors.rate_m_per_s @ self._onto + x[at["modulus"]] * self._bent)


class RollingEquations(MechanismEquations):
    """Difference of the tensions that rolling joints ask for.

    Given are the coordinate, half the difference of the displacements, and the sum of the tensions: both displacements
    would say little of the tensions, which squeeze the joints against the edge of what can be reached.
    """

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings, np.array([[1.0], [-1.0]]))
        self._joints = DrivenJoints(robot)
        self._coordinate_m = (self.motors.low_pass(self.motors.moved_m, _PLACE_HZ) @ self._onto)[:, 0] / 2

    def asked(self, x: Vector, tension_n: Vector) -> Vector:
        damping_nms = float(self.parameters.values(x)[self.parameters.at["damping"]][0])
        total_n = np.maximum(tension_n.sum(axis=1), _LEAST_N)
        asked = self._joints.difference(self._coordinate_m, total_n, damping_nms, self.motors.period_s)
        return self.motors.low_pass(asked[:, None])


class DrivenJoints:
    """The joints of a robot under a given motion: all times at once, by Newton's method.

    The joints' angles a and the difference d of the tensions solve, derived here as in simulation/bodies/mechanisms.py,

        D a' + s (l + r) / 2 - d (r - l) / 2 = 0,    q(a) = q,

    with the sum s and the levers l and r of left and right tendons, ha (10). a' is that of second order by the two
    times before (BDF2): joints of little damping D do not ring, as they would where the middle of a step balances.
    """

    def __init__(self, robot: Robot) -> None:
        statics = statics_of(robot)
        self._turning, self._curve = JointTurning(statics), UnloadedCurve(statics)
        self._home_m = self._half(self._turning.at(self._turning.home_rad).gaps_m)
        self._latest: tuple[Vector, Vector] | None = None

    def difference(self, coordinate_m: Vector, total_n: Vector, damping_nms: float, period_s: float) -> Vector:
        """Left less right tension, from rest, shape (T,), N."""
        turning, known = self._turning, self._curve.coordinate_m
        low, high = turning.limits_rad.T
        slow = np.array([turning.angles(contact) for contact in self._curve.contact_m])
        angles = np.array([np.interp(coordinate_m, known, one) for one in slow.T])  # joints, times
        rest, joints, damped = np.repeat(angles[:, :1], 2, axis=1), len(angles), damping_nms / period_s
        if self._latest is not None and self._latest[0].shape == angles.shape:
            angles, difference = self._latest  # as a fit asks again and again
        else:  # the unloaded pose of each coordinate
            difference = total_n * np.tanh(np.interp(coordinate_m, known, self._curve.log_ratio) / 2)
        self._latest = None
        # For the angles, then the difference of each time: entries of column j in row i are at [joints + i - j, j].
        bands = np.zeros((3 * joints + 3, len(difference), joints + 1))
        for k, weight in enumerate((1.5, -2.0, 0.5)):
            bands[joints + k * (joints + 1), :, :-1] = weight * damped
        held = bands[joints, :, :-1].copy()
        for _ in range(_ITERATIONS):
            at, past = turning.at(angles.T), np.hstack([rest, angles])
            (left, right), (left_slope, right_slope) = at.levers_m, at.lever_slopes_m
            along, mean = (right - left) / 2, (right + left) / 2
            turned = 1.5 * angles - 2.0 * past[:, 1:-1] + 0.5 * past[:, :-2]
            moments = damped * turned + total_n * mean - difference * along
            missing = self._home_m - self._half(at.gaps_m) - coordinate_m
            stiffness = (total_n * (left_slope + right_slope) - difference * (right_slope - left_slope)) / 2
            bands[joints, :, :-1] = held + np.maximum(stiffness, _LEAST_STIFFNESS_NM).T
            for i in range(joints):
                bands[2 * joints - i, :, i], bands[i, :, joints] = along[i], -along[i]
            wrong = np.vstack([moments, missing]).T.ravel()
            shape = 2 * joints + 2, joints
            step = solve_banded(shape, bands.reshape(len(bands), -1), wrong).reshape(-1, joints + 1).T
            angles = np.clip((angles - step[:-1]).T, low, high).T
            difference = difference - step[-1]
            if np.abs(step[-1]).max() < _TOLERANCE_N:
                self._latest = angles, difference
                return difference
        raise ConvergenceError(
            "rolling joints under a given motion", float(np.abs(step[-1]).max()), _TOLERANCE_N, _ITERATIONS
        )

    @staticmethod
    def _half(gaps_m: Vector) -> Vector:
        """Half the difference of the tendons' lengths, m."""
        left, right = gaps_m.sum(axis=1)
        return np.asarray((left - right) / 2)
