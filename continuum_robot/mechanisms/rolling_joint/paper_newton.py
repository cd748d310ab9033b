# SPDX-License-Identifier: Apache-2.0
"""Newton's method as printed, ha (14)-(27), formula by formula: the reference for :mod:`recursion`, which is faster.

All contact forces are unknowns here, and the linear system is solved by the paper's product of transfer matrices, or
as one dense system of all 6 (n - 1) equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.geometry import se2
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage

Array = NDArray[np.float64]

PUBLISHED_STEPS = 10
"""Full Newton steps of the published solver."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of (20) for the links 2 ... n, each of shape (n - 1, 3, 3), and h of (10), shape (n - 1, 3).

    Attributes
    ----------
    a, b, c, d, e : A to E of (20), shape (n - 1, 3, 3)
    h : of (10), shape (n - 1, 3), N.m and N
    """

    a: Array
    b: Array
    c: Array
    d: Array
    e: Array
    h: Array


def blocks(
    linkage: Linkage,
    contact_m: Array,
    force_n: Array,
    tension_n: ArrayLike,
    loads: Array,
    *,
    base_angle_rad: float = 0.0,
) -> Blocks:
    """Linearised equations at a state that need not be in equilibrium: ha (10), (17)-(20), (52), (53), (60).

    Parameters
    ----------
    linkage : the mechanism
    contact_m : shape (n - 1,), m
    force_n : contact forces, shape (n - 1, 2), N
    tension_n : shape (2,), N
    loads : matrix of :func:`continuum_robot.mechanisms.rolling_joint.loads.load_matrix`
    base_angle_rad : heading of link 1, rad
    """
    count = linkage.joint_count
    frames = linkage.frames(np.asarray(contact_m, dtype=float)).T
    entries = linkage.entries_m.T.reshape(count, 2, 2, 2)
    tension = np.asarray(tension_n, dtype=float)
    a, b, c, d, e = (np.zeros((count, 3, 3)) for _ in range(5))
    h = np.zeros((count, 3))
    heading = base_angle_rad
    for k in range(count):
        child, parent = se2.transform(frames[k, 2], frames[k, :2]), se2.transform(frames[k, 6], frames[k, 4:6])
        relative = child @ se2.inverse(parent)  # (9)
        back = se2.inverse(relative)
        heading += frames[k, 2] - frames[k, 6]
        wrench = np.array([0.0, *force_n[k]])
        twist_child, twist_parent = np.array([frames[k, 3], 1.0, 0.0]), np.array([frames[k, 7], 1.0, 0.0])
        a[k] = -se2.adjoint(back)  # (52)
        b[k, :, 0] = -se2.adjoint(parent) @ (twist_child - twist_parent)
        e[k, :, 0] = se2.wrench_adjoint(parent) @ se2.small_wrench_adjoint(twist_parent) @ wrench
        e[k, :, 1:] = se2.wrench_adjoint(parent)[:, 1:]  # (53)
        h[k] += se2.wrench_adjoint(parent) @ wrench
        outside, slope = _load(loads[:, k], heading)
        h[k] += outside
        c[k, :, 0] = slope
        lower_d, lower_h = np.zeros(3), -se2.wrench_adjoint(child) @ wrench
        for tendon in range(2):
            hole, seat = entries[k, 0, tendon], entries[k, 1, tendon]
            v = relative[:2, :2] @ seat + relative[:2, 2] - hole  # (13)
            w = back[:2, :2] @ hole + back[:2, 2] - seat
            bend = frames[k, 3] - frames[k, 7]
            v_slope = bend * _quarter(relative[:2, :2] @ (seat - frames[k, 4:6]))
            w_slope = -bend * _quarter(back[:2, :2] @ (hole - frames[k, :2]))
            h[k] += tension[tendon] * _at(seat, w / np.linalg.norm(w))  # (10), (12)
            e[k, :, 0] += tension[tendon] * _at(seat, _unit_slope(w, w_slope))
            lower_h += tension[tendon] * _at(hole, v / np.linalg.norm(v))
            lower_d += tension[tendon] * _at(hole, _unit_slope(v, v_slope))
        if k > 0:
            h[k - 1] += lower_h
            d[k - 1, :, 0] = lower_d - se2.wrench_adjoint(child) @ se2.small_wrench_adjoint(twist_child) @ wrench
            d[k - 1, :, 1:] = -se2.wrench_adjoint(child)[:, 1:]
    d[-1] = np.eye(3)
    return Blocks(a, b, c, d, e, h)


def transfer_step(at: Blocks) -> Array:
    """Newton step of (s, f) by ha (21)-(27): a 3 x 3 inverse a link and one 6 x 6; shape (n - 1, 3).

    Parameters
    ----------
    at : the linearised equations
    """
    count = len(at.h)
    transfer, through = np.eye(6), np.zeros(6)
    links = []
    for k in range(count):
        inverse = np.linalg.inv(at.d[k])
        q = np.block([[np.eye(3), np.zeros((3, 3))], [-inverse @ at.c[k], inverse]])  # (22)
        p = -q @ np.block([[at.a[k], at.b[k]], [np.zeros((3, 3)), at.e[k]]])
        forced = q @ np.concatenate([np.zeros(3), -at.h[k]])
        links.append((p, forced))
        transfer, through = p @ transfer, p @ through + forced  # (25), (26)
    system = np.hstack([np.vstack([np.eye(3), np.zeros((3, 3))]), -transfer[:, 3:]])
    first = np.linalg.solve(system, through)[3:]  # (27)
    state = np.concatenate([np.zeros(3), first])
    steps = [first]
    for p, forced in links[:-1]:
        state = p @ state + forced  # (21)
        steps.append(state[3:])
    return np.array(steps)


def dense_step(at: Blocks) -> Array:
    """Newton step of (s, f) from all 6 (n - 1) equations at once, shape (n - 1, 3).

    Parameters
    ----------
    at : the linearised equations
    """
    count = len(at.h)
    # Unknowns: the twists of links 2 ... n, then (s, f) of joints 1 ... n - 1.
    matrix, right = np.zeros((6 * count, 6 * count)), np.zeros(6 * count)
    half = 3 * count
    for k in range(count):
        here = slice(3 * k, 3 * k + 3)
        moved, balanced = slice(3 * k, 3 * k + 3), slice(half + 3 * k, half + 3 * k + 3)
        matrix[moved, here] = np.eye(3)
        matrix[moved, half + 3 * k : half + 3 * k + 3] = at.b[k]
        matrix[balanced, here] = at.c[k]
        matrix[balanced, half + 3 * k : half + 3 * k + 3] = at.e[k]
        if k > 0:
            matrix[moved, 3 * k - 3 : 3 * k] = at.a[k]
        if k + 1 < count:
            matrix[balanced, half + 3 * k + 3 : half + 3 * k + 6] = at.d[k]
        right[balanced] = -at.h[k]
    return np.asarray(np.linalg.solve(matrix, right)[half:].reshape(count, 3))


def published_solver(
    linkage: Linkage, tension_n: ArrayLike, loads: Array, steps: int = PUBLISHED_STEPS
) -> tuple[Array, Array, float]:
    """Full Newton steps from the straight pose, as the paper's section IV-C.

    Parameters
    ----------
    linkage : the mechanism
    tension_n : shape (2,), N
    loads : matrix of :func:`continuum_robot.mechanisms.rolling_joint.loads.load_matrix`
    steps : number of steps

    Returns
    -------
    contacts, shape (n - 1,), m; contact forces, shape (n - 1, 2), N; and the largest entry of (10) left, forces in N
    and moments divided by the size of a link. Without convergence they may be anything, NaN included
    """
    count = linkage.joint_count
    contact, force = np.zeros(count), np.tile([0.0, float(np.sum(tension_n))], (count, 1))
    low, high = linkage.limits_m.T
    for _ in range(steps):
        try:
            change = transfer_step(blocks(linkage, contact, force, tension_n, loads))
        except np.linalg.LinAlgError:
            return contact, force, float("inf")
        contact, force = contact + change[:, 0], force + change[:, 1:]
        if not np.all(np.isfinite(contact)):
            return contact, force, float("inf")
    if np.any(contact < low) or np.any(contact > high):
        return contact, force, float("inf")
    left = blocks(linkage, contact, force, tension_n, loads).h
    return contact, force, float(np.abs(left / [linkage.size_m, 1.0, 1.0]).max())


def _load(load: Array, heading: float) -> tuple[Array, Array]:
    """External load in the body frame, and its slope with the rotation: (56), (60)."""
    cosine, sine = np.cos(heading), np.sin(heading)
    force = se2.rotation(heading).T @ load[:2]
    outside = np.array([load[2] + cosine * load[3] - sine * load[4], *force]) + load[5:]
    return outside, np.array([-sine * load[3] - cosine * load[4], force[1], -force[0]])


def _at(point: Array, force: Array) -> Array:
    pose = se2.transform(0.0, point)  # (11)
    return np.asarray(se2.wrench_adjoint(pose) @ np.array([0.0, *force]))


def _quarter(vector: Array) -> Array:
    return np.array([-vector[1], vector[0]])


def _unit_slope(vector: Array, slope: Array) -> Array:
    """Derivative of a unit vector: (19)."""
    length = np.linalg.norm(vector)
    unit = vector / length
    return np.asarray((slope - unit * (unit @ slope)) / length)
