# SPDX-License-Identifier: Apache-2.0
"""The motors' forces (motion/motors.py) against the difference of the tensions that rolling joints ask for.

Links have no mass, drives do not stretch. Slow against the joints' own damping, they take the unloaded pose of each
coordinate q, half the difference of the displacements: T_1 - T_2 = (T_1 + T_2) tanh(ln r(q) / 2) with r(q) the ratio of
the tensions there, ha (10), and what their damping D takes is D sum (da_i/dq)^2 q' by virtual work. The motors' viscous
friction is that of the file: joints resist as it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.equations import ForceEquations
from continuum_robot.identification.motion.parameters import LAG_S, MotionFitSettings
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.turning import JointTurning
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_PLACE_HZ = 50.0
_LEAST_N = 1e-3


class JointsAsk:
    """What the joints of a robot ask for under a given motion.

    Parameters
    ----------
    robot : with rolling joints
    """

    def __init__(self, robot: Robot) -> None:
        statics = statics_of(robot)
        self._curve, turning = UnloadedCurve(statics), JointTurning(statics)
        angles = np.array([turning.angles(contact) for contact in self._curve.contact_m])
        self._turned = (np.gradient(angles, self._curve.coordinate_m, axis=0) ** 2).sum(axis=1)

    def difference(self, coordinate_m: Vector, total_n: Vector, damping_nms: float, period_s: float) -> Vector:
        """Left less right tension, shape (T,), N.

        Parameters
        ----------
        coordinate_m : half the difference of the displacements at even times, shape (T,), m
        total_n : sum of both tensions, shape (T,), N
        damping_nms : of each joint, N.m.s
        period_s : between the times, s

        Raises
        ------
        ConvergenceError : a coordinate that the joints do not reach
        """
        known = self._curve.coordinate_m
        beyond = max(float(coordinate_m.max() - known[-1]), float(known[0] - coordinate_m.min()))
        if beyond > 0:
            raise ConvergenceError("rolling joints under a given motion", beyond, 0.0, 0)
        ratio, turned = (np.interp(coordinate_m, known, one) for one in (self._curve.log_ratio, self._turned))
        return np.asarray(total_n * np.tanh(ratio / 2) + damping_nms * turned * np.gradient(coordinate_m, period_s))


class RollingEquations(ForceEquations):
    """Difference of the forces of two motors.

    Parameters
    ----------
    robot : with rolling joints and a motor on each tendon
    samples : at even times, the first ones at the pose of equal tensions
    settings : how they are used
    """

    def __init__(self, robot: Robot, samples: DriveSamples, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings)
        self._joints, motors = JointsAsk(robot), self.motors
        self._kept = motors.kept(motors.period_s)
        moved_m = motors.low_pass(motors.moved_m, _PLACE_HZ)
        self._coordinate_m = (moved_m[:, 0] - moved_m[:, 1]) / 2
        self.time_s = samples.time_s[self._kept]
        self._pulled_n = motors.force_n[:, 0] - motors.force_n[:, 1]
        self.pulled = self._pulled_n[self._kept, None]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    def left(self, x: Vector) -> Vector:
        """What is left of the difference, (T, 1), N; raises ConvergenceError for joints that do not reach a coordinate.

        Parameters
        ----------
        x : parameters, shape (P,)
        """
        motors, at, values = self.motors, self.parameters.at, self.parameters.values(x)
        left, right = (motors.force_n - motors.resisting(x, late=False)).T
        damping_nms = float(values[at["joint_damping_nms"]][0])
        total_n = np.maximum(left + right, _LEAST_N)
        asked = self._joints.difference(self._coordinate_m, total_n, damping_nms, motors.period_s)
        missing = left - right - motors.low_pass(asked)
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        late = LAG_S * motors.slope(self._pulled_n - missing)
        return np.asarray((missing + x[at["lag"]] * late)[self._kept, None])
