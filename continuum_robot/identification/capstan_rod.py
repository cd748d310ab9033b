# SPDX-License-Identifier: Apache-2.0
"""The rod of a capstan-driven robot under recorded torques, with stiffnesses, friction and masses as parameters.

johnston (41): M c'' + C c' + g + K c + D c' = J_qc^T (tau - tau_F). The implicit midpoint rule takes the robot from
sample to sample: it stays stable where friction holds a capstan, which an explicit method would follow in steps of a
millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.fit import Parameters
from continuum_robot.identification.robot_keys import with_values
from continuum_robot.identification.rod_parts import RodParts
from continuum_robot.identification.simulated_motion import Forces, SimulatedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.friction.capstan_friction import TANH_PER_RADIAN, CapstanFriction
from continuum_robot.rod.friction.capstans import driven_segments, drives
from continuum_robot.rod.kernel.reference import Terms

Array = NDArray[np.float64]

STEP_S = 0.01
_TOLERANCE = 1e-8
_FRICTION_STEP = 1e-6


class CapstanRod:
    """The rod, with friction of its capstans."""

    def __init__(self, robot: Robot, parameters: Parameters) -> None:
        own = [robot.segments[index] for index in driven_segments(robot)]
        stiffnesses = [EI for one in own for EI in one.backbone.bending_stiffnesses_nm2]
        stated = with_values(robot, dict(zip(parameters.keys[parameters.at["stiffness"]], stiffnesses, strict=True)))
        self._friction, self._drives = CapstanFriction(robot), drives(robot)
        rubs = np.zeros(len(parameters), dtype=bool)
        rubs[parameters.at["friction"]] = True
        self._linear, self._rubbing = np.flatnonzero(~rubs), np.flatnonzero(rubs)
        self._order = np.argsort(np.concatenate([self._linear, self._rubbing]))
        self._parts = RodParts(
            stated, [parameters.keys[k] for k in self._linear], parameters.scale[self._linear], parts=WITH_CAPSTANS,
            stations_m=self._friction.stations_m.tolist(),
        )  # fmt: skip
        self.size, self._x = self._parts.rod.n, parameters.expected.copy()
        self._motion = SimulatedMotion(self._parts, _TOLERANCE)

    def take(self, x: Array) -> None:
        """Give the rod other values."""
        self._x[: len(x)] = x
        self._parts.take(self._x[self._linear])
        self._friction.coefficients[:] = self._x[self._rubbing]

    def missing_forces(self, c: Array, rate: Array, acceleration: Array, torque: Array) -> Callable[[], Array]:
        """A function that says what does not balance in T states with the values taken last, (T, n), N.m^2."""
        parts, still = self._parts.forces(c, rate, acceleration), np.zeros(self.size)

        def missing() -> Array:
            asked = np.tensordot(np.append(self._x[self._linear], 1.0), parts, 1)
            states = zip(c, rate, torque, strict=True)
            driven = [
                self._driven(self._motion.terms(one, still), *state, slopes=False).force for one, *state in states
            ]
            return np.asarray(asked - driven)

        return missing

    def simulate(
        self, start: Array, torque: Array, steps: Sequence[tuple[int, float]], span: range, *, slopes: bool = True
    ) -> tuple[Array, Array]:
        """Coefficients from sample to sample, (K + 1, n), and their derivative by the parameters, then the start."""
        n, count = self.size, self._x.size
        first = np.zeros((2 * n, count + 2 * n))
        first[:, count:] = np.eye(2 * n)
        rate = start[n:]
        state = self._motion.begin(start[:n], rate, first[:n], first[n:])
        states, by = [state.c], [state.c_by]
        for k in span:
            number, step_s = steps[k]

            def drive(_c: Array, v: Array, at: Terms, torque: Array = torque[k]) -> Forces:
                return self._driven(at, v, torque, slopes=True)

            try:
                for _ in range(number):
                    state, _, rate, _ = self._motion.step(state, rate, step_s, drive, slopes)
            except ConvergenceError:
                if slopes:
                    raise
                break
            states.append(state.c)
            by.append(state.c_by)
        order = np.append(self._order, np.arange(count, count + 2 * n))
        return np.array(states), np.array(by)[:, :, order]

    def tips(self, c: Array) -> Array:
        """Tip at coefficients (T, n), (T, 3), m; NaN where they are."""
        rod = self._parts.rod
        return np.array(
            [
                rod.poses(one, [rod.arrays.bodies_m[-1]])[0, :3, 3] if np.isfinite(one).all() else np.full(3, np.nan)
                for one in c
            ]
        )

    def _driven(self, at: Terms, rate: Array, torque: Array, *, slopes: bool) -> Forces:
        """What torques do against friction, J_qc^T (tau - tau_F), with derivatives."""
        friction, J, rod = self._friction, self._friction.jacobian, self._parts.rod
        wires, none = friction.wires_of_torque(torque), np.zeros((0, 0))
        kept = friction.kept(at, rod, slopes=slopes)
        lost, by_c, by_rate = friction.force(kept, rate, wires)
        fractions = kept[0].copy()
        if not slopes:
            return Forces(J.T @ torque - lost, none, none, none)
        by = np.zeros((self.size, self._x.size + 2 * self.size))
        friction.coefficients += _FRICTION_STEP
        more, _ = friction.kept(at, rod, slopes=False)
        friction.coefficients -= _FRICTION_STEP
        sense = np.tanh(TANH_PER_RADIAN * (J @ rate))
        radii_m = np.array([drive.capstans.radius_m for drive in self._drives])
        less = np.einsum("ki,ik->k", (fractions - more) / _FRICTION_STEP, wires.reshape(2, -1))
        by[:, len(self._linear) : self._x.size] = -J.T * (sense * radii_m * less)
        return Forces(J.T @ torque - lost, -by_c, -by_rate, by)


def steps_of(time_s: Array, longest_s: float) -> list[tuple[int, float]]:
    """For each interval between samples, the number of equal steps and their length, none above ``longest_s``."""
    counts = [max(1, math.ceil(interval / longest_s - 1e-9)) for interval in np.diff(time_s)]
    return [(count, float(interval) / count) for count, interval in zip(counts, np.diff(time_s), strict=True)]
