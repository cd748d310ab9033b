# SPDX-License-Identifier: Apache-2.0
"""Second variation of the energy at a solution: its negative directions, and the compliance of the tip.

Between neighbouring nodes the step's sensitivities, written in pose and total wrench (rod and tendons together), give
the stiffness matrix of that stretch. Their sum is the Hessian of the energy over the poses of the nodes, all else
relaxed. As short stretches with both ends held do not buckle, its negative eigenvalues count those of the rod.
Derived here; the compliance is checked against differences of solutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry import so3
from continuum_robot.rod.cosserat.boundary_value import BoundaryValueProblem
from continuum_robot.rod.cosserat.equations import STATE, Step

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stability:
    """Stability by the second variation."""

    unstable_directions: int
    tip_compliance: Vector


def stability(problem: BoundaryValueProblem, states: Vector, fractions: tuple[float, float] = (1.0, 1.0)) -> Stability:
    """Second variation at a solution of the coupled model.

    Parameters
    ----------
    states : its solution, shape (k, 13), as of :meth:`BoundaryValueProblem.equations`
    """
    node = np.cumsum([0, *(isinstance(link, Step) for link in problem.links)])  # both sides of a jump share a pose
    size = 6 * (int(node[-1]) + 1)
    stiffness = np.zeros((size, size))
    at, steps = problem.step_links, problem.all_steps
    jacobians = problem.steps(states[at], fractions)[1]
    to_states = _canonical(problem, steps, 0, states[at], fractions)
    from_states = _canonical(problem, steps, -1, states[at + 1], fractions)
    for k, jacobian, (_, to_state), (from_state, _) in zip(at, jacobians, to_states, from_states, strict=True):
        transition = from_state @ jacobian @ to_state
        a, b, c, d = transition[:6, :6], transition[:6, 6:], transition[6:, :6], transition[6:, 6:]
        inverse = np.linalg.inv(b)
        block = np.block([[inverse @ a, -inverse], [c - d @ inverse @ a, d @ inverse]])
        place = slice(6 * int(node[k]), 6 * int(node[k]) + 12)
        stiffness[place, place] += block
    for k, number in enumerate(node):
        if k == len(node) - 1 or not isinstance(problem.links[k], Step):
            turning = slice(6 * int(number) + 3, 6 * int(number) + 6)
            stiffness[turning, turning] -= fractions[1] * _turning_loads(problem, float(problem.nodes_m[k]), states[k])
    stiffness = stiffness[6:, 6:]  # the base is clamped
    scale = np.tile(np.repeat([problem.rod.length_m, 1.0], 3), len(stiffness) // 6)
    scaled = scale[:, None] * stiffness * scale
    symmetric = (scaled + scaled.T) / 2
    largest = float(np.abs(symmetric).max())
    negative = int(np.sum(np.linalg.eigvalsh(symmetric) < -1e-14 * largest))
    unit = np.zeros((len(stiffness), 6))
    unit[-6:] = np.eye(6)
    try:
        compliance: Vector = np.linalg.solve(stiffness, unit)[-6:].astype(float)
    except np.linalg.LinAlgError:
        compliance = np.full((6, 6), np.inf)
    return Stability(negative, compliance)


def _canonical(
    problem: BoundaryValueProblem, steps: Sequence[Step], end: int, states: Vector, fractions: tuple[float, float]
) -> list[tuple[Vector, Vector]]:
    """Of each: change of pose and total wrench per change of state (12, 13), and the reverse (13, 12); base axes."""
    found = problem.wrenches([problem.bearing(one, end) for one in steps], states, fractions)
    return [_changes(*one) for one in zip(*found, states, strict=True)]


def _changes(wrench: Vector, jacobian: Vector, state: Vector) -> tuple[Vector, Vector]:
    rotation = so3.matrix_from_quaternion(state[3:7] / np.linalg.norm(state[3:7]))
    both = np.kron(np.eye(2), rotation)
    total = both @ wrench
    turning = -np.vstack([so3.hat(total[:3]), so3.hat(total[3:])])  # a turn of the cut turns what it bears
    w, x, y, z = state[3:7]
    # q' = (0, turn) q / 2, turn in base axes
    spin = np.array([[-x, -y, -z], [w, z, -y], [-z, w, x], [y, -x, w]]) / 2
    inner = jacobian[:, 7:]
    forward, backward = np.zeros((12, STATE)), np.zeros((STATE, 12))
    forward[:3, :3] = np.eye(3)
    forward[3:6, 3:7] = 4 * spin.T
    forward[6:, 3:7] = turning @ forward[3:6, 3:7]
    forward[6:, 7:] = both @ inner
    backward[:3, :3] = np.eye(3)
    backward[3:7, 3:6] = spin
    solved = np.linalg.solve(inner, both.T)
    backward[7:, 6:] = solved
    backward[7:, 3:6] = -solved @ turning
    return forward, backward


def _turning_loads(problem: BoundaryValueProblem, place_m: float, state: Vector) -> Vector:
    """Change of the moment of forces that act off the backbone per turn of it, (3, 3), base axes."""
    rotation = so3.matrix_from_quaternion(state[3:7] / np.linalg.norm(state[3:7]))
    change = np.zeros((3, 3))
    for point in problem.points_at(place_m):
        change += so3.hat(point.force_n) @ so3.hat(rotation @ np.array(point.offset_m))
    return change
