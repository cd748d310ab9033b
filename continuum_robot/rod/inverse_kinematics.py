# SPDX-License-Identifier: Apache-2.0
"""Tensions that bring the tip of a rod to a place or a pose: Gauss-Newton within limits, by the statics' own slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.rod.statics import Balance, Equilibrium, equilibrium

if TYPE_CHECKING:
    from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_TOLERANCE = 1e-5


def inverse_kinematics(
    rod: Rod,
    target: ArrayLike,
    *,
    start_n: ArrayLike = 1.0,
    least_n: ArrayLike = 0.0,
    most_n: ArrayLike = np.inf,
    nearest: bool = False,
) -> Equilibrium:
    """The equilibrium whose tip is at a target.

    Of the tensions that bring it there, those are found that the start leads to; none is preferred otherwise.

    Parameters
    ----------
    nearest : give the equilibrium nearest to a target that the tip does not reach, instead of an error

    Raises
    ------
    ParameterError : a target of another shape, or a start outside of the limits
    ConvergenceError : a target that the tip does not reach from the start
    """
    goal = np.asarray(target, dtype=float)
    if goal.shape not in ((3,), (4, 4)) or not np.isfinite(goal).all():
        raise ParameterError("target", goal.shape, "a position (3,) or a pose (4, 4), finite")
    count = rod.tendon_count
    first, low, high = (np.broadcast_to(np.asarray(one, dtype=float), (count,)) for one in (start_n, least_n, most_n))
    if not (np.all(low >= 0) and np.all(low < high) and np.all((first >= low) & (first <= high))):
        raise ParameterError("start_n", first.tolist(), "tensions within least_n and most_n, which are not negative, N")
    balance, place = Balance(rod), goal if goal.ndim == 1 else goal[:3, 3]
    states: list[Equilibrium] = [equilibrium(rod, first, balance=balance)]

    def at(tension: Vector) -> Equilibrium:
        if not np.array_equal(states[-1].tension, tension):
            states.append(equilibrium(rod, tension, states[-1].c, balance=balance))
        return states[-1]

    def missed(tension: Vector) -> Vector:
        pose = rod.moved(at(tension).c)[0]
        error = pose[:3, 3] - place
        return error if goal.ndim == 1 else np.concatenate([error, rod.length_m * _turn(goal, pose)])

    def slope(tension: Vector) -> Vector:
        state = at(tension)
        pose, body = rod.moved(state.c)
        by_tension = body @ state.by_tension
        moved = pose[:3, :3] @ by_tension[:3]
        if goal.ndim == 1:
            return np.asarray(moved)
        back = so3.left_jacobian_inverse(-_turn(goal, pose))  # of the tip's own turn
        return np.vstack([moved, rod.length_m * back @ by_tension[3:]])

    found = least_squares(missed, first, slope, (low, high), x_scale="jac", xtol=1e-12, ftol=1e-15, gtol=1e-15)
    state, left = at(found.x), float(np.linalg.norm(found.fun))
    if left > _TOLERANCE * rod.length_m and not nearest:
        raise ConvergenceError("tensions that bring the tip to the target", left, _TOLERANCE * rod.length_m, found.nfev)
    return state


def _turn(goal: Vector, pose: Vector) -> Vector:
    """From the goal to the pose, in the goal's axes, rad."""
    return np.asarray(so3.log(goal[:3, :3].T @ pose[:3, :3]))
