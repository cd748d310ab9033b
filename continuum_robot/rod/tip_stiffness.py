# SPDX-License-Identifier: Apache-2.0
"""Compliance of the tip of a controlled robot: rod, tendons as springs, and what the controller does to the spools.

Derived here. With the rod's Hessian H (tensions and gravity included), the gradient G of the tendons' displacements,
the map P from displacements to the controller's coordinates and stiffnesses k of the tendons, a small load f on the
tip moves

    H dc = J^T f + G^T dT,   dT = B dF,   P (G dc + diag(1/k) dT) = -dF / p.

The controller's force F acts on its coordinates of the spools with the gain p, infinitely much with an integral. B
makes tensions of it and keeps the least tension of every segment at the pretension, as muhmann (26) and (28) do. The
pretension enters by k, where tendons stiffen with their tension, and by H, where their paths bend with the rod.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]


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
