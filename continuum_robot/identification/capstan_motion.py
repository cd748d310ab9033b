# SPDX-License-Identifier: Apache-2.0
"""Motion of a capstan-driven robot under recorded torques, with exact derivatives with respect to what is fitted.

The implicit midpoint rule takes the robot from sample to sample: it stays stable where friction holds a capstan, which
an explicit method would follow in steps of a millisecond. With v the mean rate of a step, c_m = c + h v / 2 and the
acceleration 2 (v - c') / h, v solves
R(v) = M c'' + C c' + g + K c + D c' - J_qc^T (tau - tau_F) = 0, johnston (41) at the middle of the step,
by Newton's method; the derivatives of the step follow from those of R by the implicit function theorem, and those of R
from automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.rod_parts import MassParts, damping_part, whole_mass
from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import STRAIN_COUNT, gram
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.friction.capstans import actuator_mass_parts, driven_segments
from continuum_robot.rod.friction.tendons import TendonFriction
from continuum_robot.rod.tendons import coefficient_slices

Array = NDArray[np.float64]
Progress = Callable[[str], None]

# The backbone is light against the disks, and two nodes integrate its inertia to more digits than are known.
_QUADRATURE_NODES = 2
_ITERATIONS = 60
_FULL_STEPS = 4
_LARGEST_TURN = 0.3  # rad/s, three times the width over which the friction changes its sign
_SHRINKING = 0.9
_TOLERANCE = 1e-9
_LARGEST_CURVATURE = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """State after a step, and its derivatives.

    Attributes
    ----------
    state : (c, c_rate), shape (2n,), 1/m and 1/(m.s)
    by_state : derivative with respect to the state before, shape (2n, 2n)
    by_parameter : derivative with respect to the parameters, shape (2n, p)
    """

    state: Array
    by_state: Array
    by_parameter: Array


class CapstanMotion:
    """Equations of motion with stiffnesses and friction coefficients as parameters.

    Parameters are two stiffnesses (N.m^2) of each of the S segments with capstans, then the friction coefficients of
    the k capstans; and where they are more, for each of these segments a factor on its masses, then on the inertia of
    its capstans, then on its damping, which else are 1.

    Parameters
    ----------
    robot : with capstans
    compile, progress : as in rod/code/generation.py

    Attributes
    ----------
    size : number of coefficients, n
    capstan_jacobian : J_qc, shape (k, n)
    in_file : factors by the robot file, shape (3 S,): 1, and 0 for damping that it has not
    """

    def __init__(self, robot: Robot, *, compile: str = "auto", progress: Progress | None = None) -> None:
        segments = driven_segments(robot)
        parts = MassParts(robot, segments, _QUADRATURE_NODES)
        model, friction = parts.model, TendonFriction(robot, compile="never")
        n = self.size = model.size
        self.capstan_jacobian = friction.jacobian
        self._stiffnesses = [part for index in segments for part in stiffness_parts(robot, index)]
        own = [EI for index in segments for EI in robot.segments[index].backbone.bending_stiffnesses_nm2]
        self._rest = model.stiffness - sum(EI * part for EI, part in zip(own, self._stiffnesses, strict=True))
        self._capstans = actuator_mass_parts(robot)[segments]
        self._damping = np.array([damping_part(robot, index) for index in segments])
        # A file without damping has a factor of 0 on a usual one.
        damped = [1.0 if robot.segments[index].bending_damping_nms else 0.0 for index in segments]
        self.in_file = np.concatenate([np.ones(2 * len(segments)), damped])
        self._rest_of_damping = model.damping - np.tensordot(damped, self._damping, 1)
        count = friction.capstan_count
        c, rate, second = (ca.MX.sym(name, n) for name in ("c", "c_rate", "c_acceleration"))
        toward, masses = ca.MX.sym("toward", 2 * n), ca.MX.sym("masses", len(segments))
        value = parts.inertial_function(c, rate, second) @ ca.vertcat(masses, 1)
        tangent = ca.jtimes(value, ca.vertcat(c, rate), toward)
        one_tangent = ca.Function("rod_tangent", [c, rate, second, masses, toward], [tangent])
        columns = [one_tangent(c, rate, second, masses, direction) for direction in np.eye(2 * n)]
        rod_tangents = ca.Function("rod_tangents", [c, rate, second, masses], [ca.horzcat(*columns)])
        torque, coefficients = ca.MX.sym("capstan_torque", count), ca.MX.sym("coefficients", count)
        lost = friction.symbolic(c, rate, torque, coefficients)
        slopes = [ca.densify(ca.jacobian(lost, of)) for of in (c, rate, coefficients)]
        inputs = [c, rate, torque, coefficients]
        others = [
            parts.inertial_function,
            parts.mass_function,
            ca.Function("friction_slopes", inputs, [lost, *slopes]),
        ]
        name = f"the equations of motion of {robot.name} for calibration"
        fast = compile_functions([rod_tangents], f"{name}, part 1", compile=compile, progress=progress)
        fast |= compile_functions(others, f"{name}, part 2", compile=compile, progress=progress)
        self._inertial, self._masses = fast[parts.inertial_function.name()], fast[parts.mass_function.name()]
        self._rod_tangents, self._slopes = fast["rod_tangents"], fast["friction_slopes"]
        self._recent: tuple[Array, Array] | None = None

    def _split(self, parameters: Array) -> tuple[Array, Array, Array]:
        """Stiffness matrix, friction coefficients, and the factors, (3, S)."""
        known, k = len(self._stiffnesses), len(self._stiffnesses) + len(self.capstan_jacobian)
        stiffness = sum(EI * part for EI, part in zip(parameters[:known], self._stiffnesses, strict=True)) + self._rest
        factors = parameters[k:] if len(parameters) > k else self.in_file
        return stiffness, parameters[known:k], factors.reshape(3, -1)

    def _by_factors(self, inertial: Array, rate: Array, second: Array, parameters: Array) -> Array:
        """Derivative of the forces by as many factors as there are among the parameters, (n, 0) or (n, 3 S)."""
        if len(parameters) == len(self._stiffnesses) + len(self.capstan_jacobian):
            return np.zeros((self.size, 0))
        return np.column_stack([inertial[:, :-1], (self._capstans @ second).T, (self._damping @ rate).T])

    def residual(self, c: Array, rate: Array, second: Array, torque: Array, parameters: Array) -> tuple[Array, Array]:
        """Forces that do not balance, shape (n,), N.m^2, and their derivative by the parameters, shape (n, p).

        Parameters
        ----------
        rate : c_rate, shape (n,), 1/(m.s)
        second : c_acceleration, shape (n,), 1/(m.s^2)
        torque : on the capstans, shape (k,), N.m
        """
        stiffness, coefficients, (masses, inertia, damping) = self._split(parameters)
        lost, _, _, by_coefficient = self._slopes(c, rate, torque, coefficients)
        J, inertial = self.capstan_jacobian, self._inertial(c, rate, second)
        elastic = np.column_stack([part @ c for part in self._stiffnesses])
        force = inertial @ np.append(masses, 1.0) + np.tensordot(inertia, self._capstans, 1) @ second + stiffness @ c
        force += (np.tensordot(damping, self._damping, 1) + self._rest_of_damping) @ rate - J.T @ (torque - lost)
        by_factors = self._by_factors(inertial, rate, second, parameters)
        return force, np.column_stack([elastic, J.T @ by_coefficient, by_factors])

    def step(self, state: Array, torque: Array, parameters: Array, h: float, *, derivatives: bool = True) -> Step:
        """One step of the implicit midpoint rule.

        Parameters
        ----------
        state : (c, c_rate), shape (2n,), 1/m and 1/(m.s)
        torque : on the capstans, held over the step, shape (k,), N.m
        parameters : see the class, shape (2 S + k,) or (5 S + k,)
        h : step, s
        derivatives : whether they are desired; else they are empty

        Raises
        ------
        ConvergenceError : the state ran away, or Newton's method did not converge
        """
        n = self.size
        c, rate = state[:n], state[n:]
        v = rate.copy()
        J, (stiffness, coefficients, (masses, inertia, damped)) = self.capstan_jacobian, self._split(parameters)
        damping = np.tensordot(damped, self._damping, 1) + self._rest_of_damping
        capstans, all_masses = np.tensordot(inertia, self._capstans, 1), np.append(masses, 1.0)
        fresh = self._recent is None
        if self._recent is None:
            self._recent = self._tangents(c, v, np.zeros(n), masses)
        by_c, by_rate = self._recent
        mass = whole_mass(self._masses(c), masses) + capstans
        for iteration in range(_ITERATIONS):
            middle, second = c + h / 2 * v, 2 * (v - rate) / h
            lost, lost_by_c, lost_by_rate, _ = self._slopes(middle, v, torque, coefficients)
            force = self._inertial(middle, v, second) @ all_masses + capstans @ second + stiffness @ middle
            force += damping @ v - J.T @ (torque - lost)
            slope_c = by_c + stiffness + J.T @ lost_by_c
            slope_rate = by_rate + damping + J.T @ lost_by_rate
            slope = h / 2 * slope_c + slope_rate + 2 / h * mass
            change = np.linalg.solve(slope, force)
            size = float(np.abs(change).max())
            if not size < _LARGEST_CURVATURE / h or float(np.abs(middle).max()) > _LARGEST_CURVATURE:
                self._recent = None
                raise ConvergenceError("the simulated motion ran away", size, _TOLERANCE, iteration)
            if iteration >= _FULL_STEPS:
                # Where a capstan reverses, the steep friction makes full steps cycle around the solution.
                turn = float(np.abs(J @ change).max())
                change = change * min(1.0, _LARGEST_TURN * _SHRINKING ** (iteration - _FULL_STEPS) / max(turn, 1e-12))
            v = v - change
            if size <= _TOLERANCE * (1 + float(np.abs(v).max())):
                break
            if iteration == 6 and not fresh:
                by_c, by_rate = self._recent = self._tangents(middle, v, second, masses)
                mass, fresh = whole_mass(self._masses(middle), masses) + capstans, True
        else:
            self._recent = None
            raise ConvergenceError("a step of the simulated motion", size, _TOLERANCE, _ITERATIONS)
        after = np.concatenate([c + h * v, 2 * v - rate])
        if not derivatives:
            return Step(after, np.zeros((2 * n, 0)), np.zeros((2 * n, 0)))
        middle, second = c + h / 2 * v, 2 * (v - rate) / h
        by_c, by_rate = self._recent = self._tangents(middle, v, second, masses)
        mass = whole_mass(self._masses(middle), masses) + capstans
        _, lost_by_c, lost_by_rate, by_coefficient = self._slopes(middle, v, torque, coefficients)
        slope_c = by_c + stiffness + J.T @ lost_by_c
        slope = h / 2 * slope_c + by_rate + damping + J.T @ lost_by_rate + 2 / h * mass
        elastic = np.column_stack([part @ middle for part in self._stiffnesses])
        by_factors = self._by_factors(self._inertial(middle, v, second), v, second, parameters)
        right = np.column_stack([slope_c, -2 / h * mass, elastic, J.T @ by_coefficient, by_factors])
        v_by = -np.linalg.solve(slope, right)
        c_by, rate_by = h * v_by, 2 * v_by
        c_by[:, :n] += np.eye(n)
        rate_by[:, n : 2 * n] -= np.eye(n)
        every = np.vstack([c_by, rate_by])
        return Step(after, every[:, : 2 * n], every[:, 2 * n :])

    def _tangents(self, c: Array, rate: Array, second: Array, masses: Array) -> tuple[Array, Array]:
        n = self.size
        columns = self._rod_tangents(c, rate, second, masses)
        return columns[:, :n], columns[:, n:]


def stiffness_parts(robot: Robot, segment: int) -> tuple[Array, Array]:
    """K = EI_x K_x + EI_y K_y of one segment's backbone: the two matrices, shape (n, n), 1/m^2 of c^T K c in m.

    johnston (29): the integral of the products of the basis functions.
    """
    one = robot.segments[segment]
    place = coefficient_slices(robot)[segment]
    parts = []
    for axis in range(2):
        matrix = np.zeros((robot.coefficient_count,) * 2)
        matrix[place, place] = one.length_m * gram(one.basis, np.eye(STRAIN_COUNT)[axis])
        parts.append(matrix)
    return parts[0], parts[1]


def steps_of(time_s: Array, longest_s: float) -> list[tuple[int, float]]:
    """For each interval between samples, the number of equal steps and their length, none above ``longest_s``."""
    found = []
    for interval in np.diff(time_s):
        count = max(1, math.ceil(interval / longest_s - 1e-9))
        found.append((count, float(interval) / count))
    return found
