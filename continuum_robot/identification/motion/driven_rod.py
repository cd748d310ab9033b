# SPDX-License-Identifier: Apache-2.0
"""Tensions of a rod whose elastic tendons follow measured displacements, with their derivative by what is fitted.

For strains and tendon paths of any kind, the equation of motion is muhmann (22) to (25) in the strain coefficients c
with the tensions on the paths of rucker (14):

    M(c) c'' + C c' + g(c) + K c + D c' + J(c)^T T = 0,   J = dl/dc,
    T = T_0 + k (l(c) - l(c_0) + q - q_0) + d (J c' + q').

It begins near rest, where T_0 holds the rod at c_0, with a swing that what was before has left. The implicit midpoint
rule goes from one sample of q to the next: stable however stiff a strain is, and it damps nothing, as the rod's own
damping is fitted. Its matrix, and with it the derivative, leaves out how inertia changes with the shape, and weight
with what is beyond c_0: a few iterations more, and a derivative that is off by up to a sixth where a parameter moves
c_0 far. What is found does not depend on that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.rod_parts import RodParts, whole_mass, with_factors
from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.strain.problem import StaticProblem
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.strain.statics import equilibrium

Vector = NDArray[np.float64]

_ITERATIONS = 40
# Last correction within a step, bending angle (rad) or relative stretch: a hundredth of a newton of a stiff tendon.
_TOLERANCE = 3e-6
_FARTHEST = 10.0
_AT_REST = 1e-10


class DrivenRod:
    """The rod of a robot under tendons that follow given displacements.

    Parameters
    ----------
    robot : a rod with tendons on any path
    swings_hz : the fastest swing in which it may begin, Hz
    compile : as in :func:`~continuum_robot.rod.code.generation.compile_functions`

    Attributes
    ----------
    count : number R of parameters of the rod, see :class:`~.rod_parts.RodParts`
    size : number n of coefficients
    swings : coefficients, then their rates, for a swing in each of the W slow modes of the rod held by its tendons, by
        the robot file: with the square root of an energy of 1 J, shape (2, n, W), 1/m and 1/(m.s)
    """

    def __init__(self, robot: Robot, swings_hz: float, *, compile: str = "auto") -> None:
        self._robot, self._parts = robot, (parts := RodParts(robot))
        self.count, self.size = len(parts.names), parts.size
        rod = StrainRod.from_robot(robot)
        self._tendons, self._scale = rod.tendons, rod.strain_scale
        compiled = compile_functions(
            [parts.inertial_function, parts.mass_function], f"the rod of {robot.name} in parts", compile=compile
        )
        self._inertial = compiled[parts.inertial_function.name()]
        self._masses = compiled[parts.mass_function.name()]
        _, pulls, _, _ = self._tendons.weighted(np.zeros(self.size), np.zeros(robot.tendon_count))
        held = parts.elastic.sum(axis=0) + parts.elastic_rest
        held = held + robot.simulation.tendon_stiffness_n_per_m * pulls.T @ pulls
        straight = whole_mass(self._masses(np.zeros(self.size)), np.ones(len(robot.segments)))
        squares, modes = eigh(held, straight)
        slow = squares < (2 * np.pi * swings_hz) ** 2
        self.swings = np.array([modes[:, slow] / np.sqrt(squares[slow]), modes[:, slow]])

    def tensions(
        self,
        factors: Vector,
        spring: tuple[float, float],
        start_n: Vector,
        swing: Vector,
        place_m: Vector,
        rate_m_per_s: Vector,
        step_s: float,
    ) -> tuple[Vector, Vector]:
        """Tensions of N tendons in the middle of K steps, (K, N), N, and their derivative, (K, N, R + 2 + N + 2 W).

        That is by the factors, the tendons' stiffness and damping, the tensions at the start, and the swing there.

        Parameters
        ----------
        factors : on the rod's parameters in the robot file, shape (R,)
        spring : stiffness (N/m) and damping (N.s/m) of the tendons
        start_n : tensions before the motion, shape (N,), N
        swing : at the start, away from rest and in motion: factors on ``swings``, shape (2, W)
        place_m, rate_m_per_s : displacement, pulled in positive, and its rate, in the middle of each step, shape (K, N)
        step_s : length of a step, s

        Raises
        ------
        ConvergenceError : the rod does not come to rest before the motion, or a step does not converge
        """
        masses, elastic, damped = np.split(factors, 3)
        parts, h, (stiffness, damping) = self._parts, step_s, spring
        bending = np.tensordot(elastic, parts.elastic, 1) + parts.elastic_rest
        resisting = np.tensordot(damped, parts.damped, 1)
        problem = StaticProblem(StrainRod.from_robot(with_factors(self._robot, factors)))
        c, columns, (lengths_m, pulls, _, bent) = self._at_rest(problem, masses, bending, start_n)
        weight = _weight(problem, c)
        tendons = place_m.shape[1]
        still, slack, w = np.zeros(self.size), np.zeros(tendons), swing.shape[1]
        by_rest = self._forces_by(columns, c, still, pulls, slack, slack)
        rest_by = np.pad(-np.linalg.solve(bending + weight + bent, by_rest), ((0, 0), (0, 2 * w)))
        lengths_by, c_by, rate_by = pulls @ rest_by, rest_by.copy(), np.zeros_like(rest_by)
        past = rest_by.shape[1] - 2 * w
        c_by[:, past : past + w], rate_by[:, past + w :] = self.swings
        c, rate = c + self.swings[0] @ swing[0], self.swings[1] @ swing[1]
        middle_rate = before = rate
        tension = start_n
        direct = np.zeros((tendons, rest_by.shape[1]))
        direct[:, self.count + 2 : past] = np.eye(tendons)
        found, slopes = np.empty_like(place_m), np.empty((*place_m.shape, direct.shape[1]))
        for step, (place, pulling) in enumerate(zip(place_m - place_m[0], rate_m_per_s, strict=True)):
            mass = whole_mass(self._masses(c), masses)
            # The rates of the two steps before, drawn on.
            middle_rate, before = 2 * middle_rate - before, middle_rate
            for _ in range(_ITERATIONS):
                middle, second = c + h / 2 * middle_rate, 2 * (middle_rate - rate) / h
                columns = self._inertial(middle, middle_rate, second)
                now_m, pulls, _, bent = self._tendons.weighted(middle, tension)
                stretch, stretching = now_m - lengths_m + place, pulls @ middle_rate + pulling
                tension = start_n + stiffness * stretch + damping * stretching
                left = columns[:, :-1] @ masses + columns[:, -1] + bending @ middle + resisting @ middle_rate
                held = bending + weight + bent + stiffness * (square := pulls.T @ pulls)
                matrix = 2 / h * mass + h / 2 * held + resisting + damping * square
                change = np.linalg.solve(matrix, left + pulls.T @ tension)
                middle_rate = middle_rate - change
                size = h * float(np.abs(change * self._scale).max())
                if size < _TOLERANCE or not size < _FARTHEST:
                    break
            if not size < _TOLERANCE:
                raise ConvergenceError("a step of the rod's motion", size, _TOLERANCE, _ITERATIONS)
            by = np.pad(self._forces_by(columns, middle, middle_rate, pulls, stretch, stretching), ((0, 0), (0, 2 * w)))
            by += held @ c_by - 2 / h * mass @ rate_by - stiffness * pulls.T @ lengths_by
            middle_by = -np.linalg.solve(matrix, by)
            direct[:, self.count], direct[:, self.count + 1] = stretch, stretching
            found[step] = tension
            slopes[step] = (
                direct + stiffness * (pulls @ (c_by + h / 2 * middle_by) - lengths_by) + damping * pulls @ middle_by
            )
            c, rate = c + h * middle_rate, 2 * middle_rate - rate
            c_by, rate_by = c_by + h * middle_by, 2 * middle_by - rate_by
        return found, slopes

    def _forces_by(
        self, columns: Vector, c: Vector, rate: Vector, pulls: Vector, stretch: Vector, stretching: Vector
    ) -> Vector:
        """Derivative of the forces on the coefficients by what :meth:`tensions` is derived by, but for the swing."""
        return np.column_stack(
            [
                columns[:, :-1],
                *(one @ c for one in self._parts.elastic),
                *(one @ rate for one in self._parts.damped),
                pulls.T @ np.column_stack([stretch, stretching, np.eye(len(pulls))]),
            ]
        )

    def _at_rest(
        self, problem: StaticProblem, masses: Vector, bending: Vector, tension: Vector
    ) -> tuple[Vector, Vector, tuple[Vector, Vector, Vector, Vector]]:
        """Where the rod rests under tensions: coefficients, forces of inertia and weight, and the tendons there.

        The statics lump the weight at other places, which alone would let a rod swing that hardly resists.
        """
        c, still = equilibrium(problem, np.maximum(tension, 0.0)).c, np.zeros(self.size)
        for _ in range(_ITERATIONS):
            columns, tendons = self._inertial(c, still, still), self._tendons.weighted(c, tension)
            _, _, pull, bent = tendons
            left = columns[:, :-1] @ masses + columns[:, -1] + bending @ c + pull
            change = np.linalg.solve(bending + _weight(problem, c) + bent, left)
            size = float(np.abs(change * self._scale).max())
            if size < _AT_REST:
                return c, columns, tendons
            c = c - change
        raise ConvergenceError("the rod at rest before the motion", size, _AT_REST, _ITERATIONS)


def _weight(problem: StaticProblem, c: Vector) -> Vector:
    """How the force of the weight changes with the shape, (n, n)."""
    return problem.terms(c, np.zeros(problem.rod.tendon_count))[2] - problem.rod.stiffness
