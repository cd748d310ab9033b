# SPDX-License-Identifier: Apache-2.0
"""The published solver: Newton's method as printed, ha (14)-(27), formula by formula.

All contact forces are unknowns here, and the linear system is solved by the paper's product of transfer matrices.
Poses are 3 x 3 matrices; twists and wrenches have their angular part first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.statics import LinkLoads
from continuum_robot.mechanisms.rolling_joint.surfaces import Surface

Array = NDArray[np.float64]

PUBLISHED_STEPS = 10
"""Full Newton steps of the published solver."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of (20) for the links 2 ... n, each of shape (n - 1, 3, 3), and h of (10), shape (n - 1, 3)."""

    a: Array
    b: Array
    c: Array
    d: Array
    e: Array
    h: Array


def blocks(linkage: Linkage, contact_m: Array, force_n: Array, tension_n: ArrayLike, loads: LinkLoads) -> Blocks:
    """Linearised equations at a state that need not be in equilibrium: ha (10), (17)-(20), (52), (53), (60)."""
    count = linkage.joint_count
    a, b, c, d, e = (np.zeros((count, 3, 3)) for _ in range(5))
    h, heading, tensions = np.zeros((count, 3)), 0.0, np.asarray(tension_n, dtype=float)
    for k in range(count):
        lower, upper = linkage.links[k], linkage.links[k + 1]
        child, twist_child = _frame(lower.child, contact_m[k])
        parent, twist_parent = _frame(upper.parent, contact_m[k])
        relative = child @ np.linalg.inv(parent)  # (9)
        back = np.linalg.inv(relative)
        heading += np.arctan2(relative[1, 0], relative[0, 0])
        wrench = np.array([0.0, *force_n[k]])
        rolling = twist_child - twist_parent
        on_parent, on_child = _wrench_adjoint(parent), _wrench_adjoint(child)
        a[k] = -_adjoint(back)  # (52)
        b[k, :, 0] = -_adjoint(parent) @ rolling
        e[k] = on_parent  # (53)
        e[k, :, 0] = on_parent @ _small_wrench_adjoint(twist_parent) @ wrench
        outside, c[k, :, 0] = _load(loads, k, heading)
        h[k] += on_parent @ wrench + outside
        lower_slope = -on_child @ _small_wrench_adjoint(twist_child) @ wrench
        lower_wrench = -on_child @ wrench
        for hole, seat, tension in zip(lower.child_entries_m, upper.parent_entries_m, tensions, strict=True):
            v = relative[:2, :2] @ seat + relative[:2, 2] - hole  # (13)
            w = back[:2, :2] @ hole + back[:2, 2] - seat
            v_slope = rolling[0] * _quarter(relative[:2, :2] @ (seat - parent[:2, 2]))
            w_slope = -rolling[0] * _quarter(back[:2, :2] @ (hole - child[:2, 2]))
            h[k] += tension * _at(seat, w / np.linalg.norm(w))  # (10), (12)
            e[k, :, 0] += tension * _at(seat, _unit_slope(w, w_slope))
            lower_wrench += tension * _at(hole, v / np.linalg.norm(v))
            lower_slope += tension * _at(hole, _unit_slope(v, v_slope))
        if k > 0:
            h[k - 1] += lower_wrench
            d[k - 1] = -on_child
            d[k - 1, :, 0] = lower_slope
    d[-1] = np.eye(3)
    return Blocks(a, b, c, d, e, h)


def transfer_step(at: Blocks) -> Array:
    """Newton step of (s, f) by ha (21)-(27): a 3 x 3 inverse a link and one 6 x 6; shape (n - 1, 3)."""
    transfer, through = np.eye(6), np.zeros(6)
    links = []
    for k in range(len(at.h)):
        inverse = np.linalg.inv(at.d[k])
        q = np.block([[np.eye(3), np.zeros((3, 3))], [-inverse @ at.c[k], inverse]])  # (22)
        p = -q @ np.block([[at.a[k], at.b[k]], [np.zeros((3, 3)), at.e[k]]])
        forced = q @ np.concatenate([np.zeros(3), -at.h[k]])
        links.append((p, forced))
        transfer, through = p @ transfer, p @ through + forced  # (25), (26)
    system = np.hstack([np.eye(6, 3), -transfer[:, 3:]])
    state = np.concatenate([np.zeros(3), np.linalg.solve(system, through)[3:]])  # (27)
    steps = [state[3:]]
    for p, forced in links[:-1]:
        state = p @ state + forced  # (21)
        steps.append(state[3:])
    return np.array(steps)


def published_solver(
    linkage: Linkage, tension_n: ArrayLike, loads: LinkLoads, steps: int = PUBLISHED_STEPS
) -> tuple[Array, Array, float]:
    """Full Newton steps from the straight pose, as the paper's section IV-C."""
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


def _frame(surface: Surface, arc_length_m: float) -> tuple[Array, Array]:
    """Contact frame, also beyond the ends of the surface, and its twist along the surface."""
    x, y, heading = surface.curve(arc_length_m)
    cosine, sine = np.cos(heading), np.sin(heading)
    pose = np.array([[cosine, -sine, x], [sine, cosine, y], [0.0, 0.0, 1.0]])
    return pose, np.array([surface.curve(arc_length_m, 1)[2], 1.0, 0.0])


def _load(loads: LinkLoads, k: int, heading: float) -> tuple[Array, Array]:
    """External load in the body frame, and its slope with the rotation: ha (56), (60)."""
    back = np.exp(-1j * heading)
    force, lever = back * loads.world_n[k], back * loads.lever_nm[k]
    body = force + loads.body_n[k]
    outside = np.array([loads.moment_nm[k] + lever.imag, body.real, body.imag])
    return outside, np.array([-lever.real, force.imag, -force.real])


def _adjoint(pose: Array) -> Array:
    """Ad_T, which turns twists of the second frame into the first's: ha (5), (44)."""
    (cosine, _, x), (sine, _, y), _ = pose
    return np.array([[1.0, 0.0, 0.0], [y, cosine, -sine], [-x, sine, cosine]])


def _wrench_adjoint(pose: Array) -> Array:
    """Ad*_T, which turns wrenches of the second frame into the first's: ha (7), (47)."""
    return np.asarray(np.linalg.inv(_adjoint(pose)).T)


def _small_wrench_adjoint(twist: Array) -> Array:
    """ad*_xi, with which Ad*_T changes along a twist: d/dt Ad*_T = Ad*_T ad*_xi. ha (8), (50)."""
    turn, x, y = twist
    return np.array([[0.0, -y, x], [0.0, 0.0, -turn], [0.0, turn, 0.0]])


def _at(point: Array, force: Array) -> Array:
    """Wrench of a force at a point: ha (11)."""
    return np.array([point[0] * force[1] - point[1] * force[0], *force])


def _quarter(vector: Array) -> Array:
    return np.array([-vector[1], vector[0]])


def _unit_slope(vector: Array, slope: Array) -> Array:
    """Derivative of a unit vector: ha (19)."""
    length = np.linalg.norm(vector)
    unit = vector / length
    return np.asarray((slope - unit * (unit @ slope)) / length)
