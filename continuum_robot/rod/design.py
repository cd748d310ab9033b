# SPDX-License-Identifier: Apache-2.0
"""Design tools: what tensions and forces do to a rod at an equilibrium, and the workspace of a routing (rucker fig. 2).

At an equilibrium the Hessian H of the energy gives all of it: dc = H^-1 (J^T w - (dl/dc)^T dtau).

Compliance of the tip of a controlled robot (:func:`tip_compliance`), of rod, tendons as springs and what the controller
does to the spools, is derived here. With the rod's Hessian H (tensions and gravity included), the gradient G of the
tendons' displacements, the map P from displacements to the controller's coordinates and stiffnesses k of the tendons, a
small load f on the tip moves

    H dc = J^T f + G^T dT,   dT = B dF,   P (G dc + diag(1/k) dT) = -dF / p.

The controller's force F acts on its coordinates of the spools with the gain p, infinitely much with an integral. B
makes tensions of it and keeps the least tension of every segment at the pretension, as muhmann (26) and (28) do. The
pretension enters by k, where tendons stiffen with their tension, and by H, where their paths bend with the rod.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats.qmc import Halton

from continuum_robot.errors import ConvergenceError, ParameterError, ReachError
from continuum_robot.geometry import so3
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, Equilibrium, equilibrium
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Small changes about an equilibrium; twists and wrenches of a place have the linear part first, base axes.

    Attributes
    ----------
    shape_per_tension : (n, N) dc/dtau
    twist_per_tension : (6, N) displacement (m) and rotation (rad) of the place per tension, 1/N
    compliance : (6, 6) displacement (m) and rotation (rad) of the place per force (N) and moment (N.m) on it, tensions
        held
    displacement_per_tension : (N, N) of the tendons, pulled in positive, m/N
    """

    shape_per_tension: Vector
    twist_per_tension: Vector
    compliance: Vector
    displacement_per_tension: Vector

    @property
    def ellipsoid(self) -> tuple[Vector, Vector]:
        """Stiffness ellipsoid: principal stiffnesses against forces, N/m, decreasing, and their axes as columns.

        Of the symmetric part, which is all of it where the loads have a potential; negative or infinite in a direction
        in which the rod is not stable or rigid.
        """
        values, axes = np.linalg.eigh((self.compliance[:3, :3] + self.compliance[:3, :3].T) / 2)
        with np.errstate(divide="ignore"):
            return 1 / values, axes


def sensitivity(state: Equilibrium, s_m: float | None = None) -> Sensitivity:
    """What small changes of tension and load do."""
    pose, body = state.rod.moved(state.c, s_m)
    rotation = pose[:3, :3]
    jacobian = np.concatenate([rotation @ body[:3], rotation @ body[3:]])
    per_tension, per_wrench = state.by_tension, state.slope(jacobian.T)
    displaced = np.asarray(-state.gradient @ per_tension)
    return Sensitivity(per_tension, jacobian @ per_tension, jacobian @ per_wrench, displaced)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the tip goes under many tensions."""

    tension: Vector
    tip: Vector
    tilt_rad: Vector
    coefficients: Vector
    stable: NDArray[np.bool_]
    snaps: NDArray[np.bool_]
    represented: NDArray[np.bool_]
    failed: int

    @staticmethod
    def joined(parts: Sequence[Workspace]) -> Workspace:
        """Several as one."""
        values: dict[str, Any] = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Workspace)
            if field.name != "failed"
        }
        return Workspace(**values, failed=sum(part.failed for part in parts))

    @property
    def unstable(self) -> int:
        """Number of equilibria that are not stable."""
        return int((~self.stable).sum())

    @property
    def snapped(self) -> int:
        """Number of equilibria found beyond one that had lost its stability."""
        return int(self.snaps.sum())

    @property
    def not_represented(self) -> int:
        """Number of equilibria whose loads the basis cannot bear."""
        return int((~self.represented).sum())

    @property
    def turn_rad(self) -> Vector:
        """(k,) how far the tip is turned against the base in all, rad."""
        return np.asarray(np.linalg.norm(so3.log(self.tip[:, :3, :3]), axis=1))


def antagonistic_tensions(count: int, maximum_n: float, steps: int, directions: int = 16) -> Vector:
    """Tensions that pull in every direction with the two tendons next to it, as an actuation that wastes nothing."""
    if count < 1 or steps < 1 or directions < 1 or not maximum_n > 0:
        raise ParameterError(
            "workspace", (count, maximum_n, steps, directions), "tendons, steps, directions of 1 or more, tension > 0 N"
        )
    tensions = [np.zeros(count)]
    for direction in np.arange(directions) / directions * count:
        first, fraction = int(direction), direction % 1.0
        one = np.zeros(count)
        one[first] += 1 - fraction
        one[(first + 1) % count] += fraction
        tensions += [maximum_n * step / steps * one / one.max() for step in range(1, steps + 1)]
    return np.array(tensions)


def workspace_tensions(robot: Robot, maximum_n: float, samples: int, *, routed: bool = False) -> Vector:
    """Tensions of a robot's tendons over its workspace.

    One segment alone: rays of growing tension around it. Else for each segment its own direction and tension, and for
    each tendon that is routed one by one its own tension, by a Halton sequence.
    """
    counts = [segment.tendons.count for segment in robot.segments if segment.tendons.count]
    alone = len(robot.routed_tendons) if routed or not counts else 0
    if len(counts) == 1 and not alone:
        steps = max(1, round(math.sqrt(samples / 4)))
        tensions = antagonistic_tensions(counts[0], maximum_n, steps, max(1, samples // steps))
    else:
        draws = Halton(2 * len(counts) + alone, scramble=False).random(samples)
        parts = []
        for index, count in enumerate(counts):
            turn, fraction = draws[:, 2 * index], draws[:, 2 * index + 1]
            rays = antagonistic_tensions(count, maximum_n, 1, samples)[1:]
            parts.append(np.sqrt(fraction)[:, None] * rays[(turn * samples).astype(int)])
        tensions = np.hstack([*parts, maximum_n * draws[:, 2 * len(counts) :]])
    return np.hstack([tensions, np.zeros((len(tensions), robot.tendon_count - tensions.shape[1]))])


def tension_lines(tensions: Vector) -> list[Vector]:
    """The tensions cut where they do not grow: along each piece a state of rest is the start for the next."""
    rows = np.atleast_2d(tensions)
    cuts = np.flatnonzero(~(rows[1:] >= rows[:-1]).all(axis=1)) + 1
    return list(np.split(rows, cuts))


def workspace(rod: Rod, tensions: Vector) -> Workspace:
    """Tip poses for many tensions; those without an equilibrium are counted and left out."""
    balance = Balance(rod)
    found: list[Equilibrium] = []
    failed = 0
    for line in tension_lines(tensions):
        start: Equilibrium | None = None
        for tension in line:
            try:
                start = equilibrium(rod, tension, start, balance=balance)
            except (ConvergenceError, ReachError):
                failed += 1
                start = None
                continue
            found.append(start)
    tips = np.array([rod.moved(state.c)[0] for state in found]).reshape(-1, 4, 4)
    return Workspace(
        tension=np.array([state.tension for state in found]).reshape(len(found), rod.tendon_count),
        tip=tips,
        tilt_rad=np.arctan2(np.linalg.norm(tips[:, :2, 2], axis=1), tips[:, 2, 2]),
        coefficients=np.array([state.c for state in found]).reshape(-1, rod.n),
        stable=np.array([state.stable for state in found], dtype=bool),
        snaps=np.array([state.snapped for state in found], dtype=bool),
        represented=np.array([state.represented for state in found], dtype=bool),
        failed=failed,
    )


def tendon_stiffness(robot: Robot, tension: ArrayLike) -> Vector:
    """Stiffness of every tendon at its tension, shape (N,), N/m.

    Parameters
    ----------
    tension : shape (N,), N; a slack tendon has none
    """
    pulled = np.asarray(tension, dtype=float)
    stiffness = robot.tendon_stiffnesses_n_per_m
    if robot.displaced_tendons is None:
        stiffness = stiffness * (1 + robot.simulation.tendon_stiffening_per_n * pulled)
    return np.where(pulled > 0, stiffness, 0.0)


def tip_compliance(robot: Robot, c: ArrayLike, tension: ArrayLike, *, integral: bool = True) -> Vector:
    """How far a small force on the tip moves it under control, shape (3, 3), m/N in base axes.

    Parameters
    ----------
    c : coefficients of the rod, shape (n,)
    tension : of all tendons, shape (N,), N

    Raises
    ------
    ParameterError : a robot without control, a tendon that is slack, or a shape at the point of buckling
    """
    if robot.control is None:
        raise ParameterError("robot", robot.name, "a robot file with a control section")
    pulled = np.asarray(tension, dtype=float)
    stiffness = tendon_stiffness(robot, pulled)
    if not (stiffness > 0).all():
        raise ParameterError("tension", pulled.tolist(), "tensions above 0 N: a slack tendon has no stiffness")
    rod = Rod(robot)
    shape = rod.checked(c)
    hessian = Balance(rod).hessian(shape, pulled)
    gradient = rod.displacement_gradient(shape)
    pose, body = rod.moved(shape)
    jacobian = pose[:3, :3] @ body[:3]
    if robot.takes_displacements:
        return _moved(jacobian, hessian + gradient.T @ (stiffness[:, None] * gradient), shape)
    manifold = controlled_manifold(robot)
    onto = manifold.clarke_matrix
    distribute = onto.T.copy()
    for rows in manifold.tendon_slices:
        direction = np.asarray(manifold.shift_direction)[rows]
        low = int(np.argmin(pulled[rows] / direction))
        distribute[rows] -= np.outer(direction, distribute[rows][low] / direction[low])
    give = onto @ (distribute / stiffness[:, None])
    if not integral:
        entries = robot.control.gains
        gains = np.repeat([entry.p for entry in entries], manifold.coordinate_count // max(len(entries), 1))
        if not (gains > 0).all():
            raise ParameterError("control.gains.p", gains.tolist(), "gains above 0 N/m")
        give = give + np.diag(1 / gains)
    held = hessian + gradient.T @ distribute @ np.linalg.solve(give, onto @ gradient)
    return _moved(jacobian, held, shape)


def _moved(jacobian: Vector, held: Vector, shape: Vector) -> Vector:
    """Compliance of the tip by the stiffness of the coefficients."""
    if np.linalg.cond(held) > 1e12:
        raise ParameterError("c", shape.tolist(), "a shape that is not at the point of buckling")
    return np.asarray(jacobian @ np.linalg.solve(held, jacobian.T))
