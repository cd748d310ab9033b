# SPDX-License-Identifier: Apache-2.0
"""Rolling joints whose coordinate is given over time: which difference of the tensions the joints' damping asks for.

D a' = G(a)^T T, as in simulation/rolling_plant.py without the motors: G is the change of the tendons' displacements
with the joints' angles a. Given are half the difference of the displacements and the sum of the tensions. Both
displacements would say little of the tensions, which squeeze the joints against the edge of what can be reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.turning import BALANCED, JointTurning
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_ITERATIONS, _TOLERANCE_M, _TOLERANCE_N = 30, 1e-8, 1e-5
_LEAST_STIFFNESS_NM = 1e-5


class DrivenJoints:
    """The joints of a robot.

    Parameters
    ----------
    robot : with rolling joints
    """

    def __init__(self, robot: Robot) -> None:
        statics = statics_of(robot)
        self._turning = JointTurning(statics)
        self._curve = UnloadedCurve(statics)
        self._home_m = self._difference(self._turning.at(self._turning.home_rad).gaps_m)

    def differences(self, coordinate_m: Vector, total_n: Vector, damping_nms: float, step_s: float) -> Vector:
        """Left less right tension at even times, from rest, shape (T,), N.

        Parameters
        ----------
        coordinate_m : half the difference of the displacements, shape (T,), m
        total_n : sum of both tensions, shape (T,), N
        damping_nms : of each joint, N.m.s
        step_s : between the times, s

        Raises
        ------
        ConvergenceError : a coordinate that the joints do not reach with such tensions
        """
        angles, difference = self._turning.angles(self._curve.contacts(coordinate_m[0])), 0.0
        found, low, high = np.zeros(len(coordinate_m)), *self._turning.limits_rad.T
        damped = damping_nms / step_s
        for k in range(1, len(coordinate_m)):
            before = angles
            total = total_n[k - 1] + BALANCED * (total_n[k] - total_n[k - 1])
            for _ in range(_ITERATIONS):
                joints = self._turning.at(before + BALANCED * (angles - before))
                left_n, right_n = (total + difference) / 2, (total - difference) / 2
                left, right = joints.levers_m
                moments = damped * (angles - before) + left_n * left + right_n * right
                slopes = BALANCED * (left_n * joints.lever_slopes_m[0] + right_n * joints.lever_slopes_m[1])
                stiffness = damped + np.maximum(slopes, _LEAST_STIFFNESS_NM)
                after = self._turning.at(angles)
                missing = coordinate_m[k] - self._coordinate(after.gaps_m)
                along, lever = (right - left) / 2, (after.levers_m[1] - after.levers_m[0]) / 2
                # Moments and coordinate after the step: the difference first, then each joint for itself.
                more = (missing + lever @ (moments / stiffness)) / (lever @ (along / stiffness))
                step = (more * along - moments) / stiffness
                angles, difference = np.minimum(np.maximum(angles + step, low), high), difference + more
                if abs(missing) < _TOLERANCE_M and abs(more) < _TOLERANCE_N:
                    break
            else:
                raise ConvergenceError("rolling joints under a given motion", abs(missing), _TOLERANCE_M, _ITERATIONS)
            found[k] = difference
        # Balanced between two times each.
        times = np.arange(len(found)) * step_s
        return np.interp(times, times[1:] - (1 - BALANCED) * step_s, found[1:])

    def _coordinate(self, gaps_m: Vector) -> float:
        return self._home_m - self._difference(gaps_m)

    @staticmethod
    def _difference(gaps_m: Vector) -> float:
        left, right = gaps_m.sum(axis=1)
        return float(left - right) / 2
