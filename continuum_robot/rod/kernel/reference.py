# SPDX-License-Identifier: Apache-2.0
"""The kernel in NumPy, as its README derives it: to read, as an oracle, and where no library could be built."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry import se3
from continuum_robot.geometry.so3 import hat

if TYPE_CHECKING:
    from continuum_robot.rod.kernel.arrays import RodArrays

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Terms:
    """Results at (c, v), as arrays.hpp names them."""

    momentum: Vector
    force: Vector
    bias: Vector
    mass: Vector
    momentum_by_c: Vector
    force_by_c: Vector
    pose: Vector
    jacobian: Vector

    @property
    def rotation(self) -> Vector:
        """Of each body, (bodies, 3, 3)."""
        return self.pose[:, :9].reshape(-1, 3, 3)

    @property
    def position(self) -> Vector:
        """Of each body, (bodies, 3)."""
        return self.pose[:, 9:]


def ad(twist: Vector) -> Vector:
    """ad(x) y of twists, angular part first, (6, 6)."""
    w, v = hat(twist[:3]), hat(twist[3:])
    return np.block([[w, np.zeros((3, 3))], [v, w]])


def adjoint(rotation: Vector, position: Vector) -> Vector:
    """From the axes and origin of a frame to those of the base, (6, 6)."""
    return np.block([[rotation, np.zeros((3, 3))], [hat(position) @ rotation, rotation]])


def cross(a: Vector, b: Vector) -> Vector:
    """Of (..., 3); NumPy's own takes fifteen times as long for a few."""
    return np.asarray(a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]])


def bracket(x: Vector, y: Vector) -> Vector:
    """Adjoint ad(x) y of twists (k, 6), angular part first."""
    w, u = x[:, :3], y[:, :3]
    return np.hstack([cross(w, u), cross(w, y[:, 3:]) + cross(x[:, 3:], u)])


def steps(strains: Vector, steps_m: Vector) -> Vector:
    """Transforms (k, 4, 4) of steps (k,) from strains at their three Gauss points, (k, 3, 6).

    Magnus expansion of sixth order: Blanes, Casas and Ros, BIT 40 (2000) 434.
    """
    h = steps_m[:, None]
    first, middle, last = strains[:, 0], strains[:, 1], strains[:, 2]
    a, b, c = h * middle, math.sqrt(15) / 3 * h * (last - first), 10 / 3 * h * (last - 2 * middle + first)
    inner = bracket(b, a)
    outer = b + bracket(a, 2 * c + inner) / 60
    twists = a + c / 12 - bracket(inner - 20 * a - c, outer) / 240
    return se3.exp(np.roll(twists, 3, axis=1))  # se3 has the linear part first


def inertia(numbers: Vector, rotation: Vector, position: Vector) -> Vector:
    """Inertia of a body about the base's origin, (6, 6): momentum (moment, force) of a twist."""
    mass, s = numbers[0], rotation @ numbers[1:4]
    xx, yy, zz, xy, xz, yz = numbers[4:10]
    first = mass * position + s
    second = rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ rotation.T
    second = second + (position @ first + s @ position) * np.eye(3) - np.outer(position, first) - np.outer(s, position)
    return np.block([[second, hat(first)], [-hat(first), mass * np.eye(3)]])


def wrench(numbers: Vector, gravity: Vector, body: Vector, rotation: Vector, position: Vector) -> tuple[Vector, Vector]:
    """Weight and load (moment, force) about the base's origin, and their derivative by a twist of the place, (6, 6)."""
    mass, first = body[5, 5], body[[2, 0, 1], [4, 5, 3]]
    point, dead, dead_moment, own, own_moment = numbers[10:25].reshape(5, 3)
    y, own, own_moment = position + rotation @ point, rotation @ own, rotation @ own_moment
    force = dead + own
    load = np.concatenate(
        [np.cross(first, gravity) + np.cross(y, force) + dead_moment + own_moment, mass * gravity + force]
    )
    by_twist = np.zeros((6, 6))
    by_twist[:3, :3] = hat(gravity) @ hat(first) + hat(force) @ hat(y) - hat(own_moment) - hat(y) @ hat(own)
    by_twist[:3, 3:] = -hat(mass * gravity) - hat(force)
    by_twist[3:, :3] = -hat(own)
    return load, by_twist


def terms(arrays: RodArrays, c: Vector, v: Vector, a: Vector | None = None) -> Terms:
    """Everything that L = T - V and the loads have to say; stiffness, damping and tendons are apart."""
    n, bodies, shape = arrays.n, len(arrays.body), (arrays.n, arrays.n)
    momentum, force, bias = np.zeros(n), np.zeros(n), np.zeros(n)
    mass, momentum_by_c, force_by_c = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    poses, jacobians = np.zeros((bodies, 12)), np.zeros((bodies, 6, n))
    rotation, position = np.eye(3), np.zeros(3)
    J0, Y0, A0 = np.zeros((6, n)), np.zeros((6, n)), np.zeros(6)  # at the piece's start
    nodes: list[tuple[Vector, Vector, Vector]] = []  # e, J and Y
    ends: list[float] = []  # of the nodes of the pieces before: integral to their piece's end
    reach = np.zeros((bodies, int(arrays.piece[:, 3].sum())))
    momenta, loads = np.zeros((bodies, 6)), np.zeros((bodies, 6))
    place = 0
    phi, at_node, weight = iter(arrays.phi), iter(arrays.at_node), iter(arrays.weight)
    for first, count, places, many, _ in arrays.piece:
        own, rows = slice(first, first + count), arrays.rows[first : first + count]
        frames, units, here = [], np.zeros((many, 6, n)), slice(place, place + places)
        strains = arrays.rest[here].copy()
        for strain in strains.reshape(-1, 6):
            for row, value in zip(rows, c[own], strict=True):
                strain[row] += next(phi) * value
        for k, step in enumerate(steps(strains, arrays.step_m[here]), place):
            position, rotation = position + rotation @ step[:3, 3], rotation @ step[:3, :3]
            frames.append((rotation, position))
            if arrays.node[k] >= 0:
                values = [next(at_node) for _ in rows]
                units[arrays.node[k]][:, own] = adjoint(rotation, position)[:, rows] * values
        W = np.array([next(weight) for _ in range(places * many)]).reshape(places, many)
        at_nodes = W[arrays.node[here] >= 0]
        J_nodes = J0 + np.tensordot(at_nodes, units, 1)
        turning = np.array([ad(J @ v) @ e for J, e in zip(J_nodes, units, strict=True)])
        growth = turning @ v + (0.0 if a is None else units @ a)
        nodes += list(zip(units, J_nodes, Y0 + np.tensordot(at_nodes, turning, 1), strict=True))
        for body, (w, (R, x)) in enumerate(zip(W, frames, strict=True), place):
            J, Y, A = J0 + np.tensordot(w, units, 1), Y0 + np.tensordot(w, turning, 1), A0 + w @ growth
            own_inertia, V = inertia(arrays.body[body], R, x), J @ v
            H = own_inertia @ V
            G, N = wrench(arrays.body[body], arrays.gravity, own_inertia, R, x)
            momentum += J.T @ H
            force += Y.T @ H + J.T @ G
            bias += J.T @ (own_inertia @ A - ad(V).T @ H - G)
            mass += J.T @ own_inertia @ J
            momentum_by_c += J.T @ own_inertia @ Y
            force_by_c += Y.T @ own_inertia @ Y + J.T @ N @ J
            poses[body] = [*R.flat, *x]
            twist = np.linalg.solve(adjoint(R, x), J)
            jacobians[body] = np.vstack([twist[3:], twist[:3]])
            reach[body, : len(ends) + many] = [*ends, *w]
            momenta[body], loads[body] = H, G
        J0, Y0, A0, ends, place = J, Y, A, [*ends, *w], place + places
    momentum += arrays.inertia @ v
    bias += 0.0 if a is None else arrays.inertia @ a
    mass += arrays.inertia
    for (e, J, Y), H, G in zip(nodes, reach.T @ momenta, reach.T @ loads, strict=True):  # H, G: beyond the node
        z, z_load = -ad_columns(e).transpose(0, 2, 1) @ H, -ad_columns(e).transpose(0, 2, 1) @ G
        momentum_by_c += J.T @ z.T
        force_by_c += Y.T @ z.T + z @ Y + z_load @ J
    return Terms(momentum, force, bias, mass, momentum_by_c, force_by_c, poses, jacobians)


def ad_columns(twists: Vector) -> Vector:
    """The ad of each column of (6, n), (n, 6, 6)."""
    return np.array([ad(twist) for twist in twists.T])


def _path_nodes(arrays: RodArrays, c: Vector) -> Iterator[tuple[slice, Vector, Vector, list[tuple[int, Vector]]]]:
    """Of each node of the paths: its coefficients, their functions there, the strain, and which paths are where."""
    phi, index, path = iter(arrays.path_phi), iter(arrays.path_index), iter(arrays.path)
    for (piece, paths), strain in zip(arrays.path_node, arrays.path_rest.copy(), strict=True):
        own = slice(arrays.piece[piece, 0], arrays.piece[piece, 0] + arrays.piece[piece, 1])
        values = np.array([next(phi) for _ in arrays.rows[own]])
        np.add.at(strain, arrays.rows[own], values * c[own])
        yield own, values, strain, [(next(index), next(path)) for _ in range(paths)]


def _tangent(strain: Vector, place: Vector) -> tuple[float, Vector, Vector]:
    """Length of a path per metre of the backbone, its derivative by the strain (6,), and the tangent's (3, 6)."""
    _, x, y, x_rate, y_rate, _ = place
    by = np.hstack([-hat(np.array([x, y, 0.0])), np.eye(3)])
    t = by @ strain + [x_rate, y_rate, 0.0]
    size = float(np.linalg.norm(t))
    return size, by.T @ t / size, by


def lengths(arrays: RodArrays, c: Vector, count: int) -> tuple[Vector, Vector]:
    """Lengths of ``count`` paths, and their gradient, (count,) and (count, n): rucker (11)."""
    length, gradient = np.zeros(count), np.zeros((count, arrays.n))
    for own, values, strain, paths in _path_nodes(arrays, c):
        for j, place in paths:
            weight, chord = place[0], place[5]
            size, by_strain, _ = _tangent(strain, place)
            length[j] += weight * (size - chord * strain[:2] @ strain[:2])
            by_strain[:2] -= 2 * chord * strain[:2]
            gradient[j, own] += weight * values * by_strain[arrays.rows[own]]
    return length, gradient


def curvature(arrays: RodArrays, c: Vector, tension: Vector) -> Vector:
    """Sum of tension times second derivative of length over the paths, (n, n)."""
    total = np.zeros((arrays.n, arrays.n))
    for own, values, strain, paths in _path_nodes(arrays, c):
        by_strains = np.zeros((6, 6))
        for j, place in paths:
            size, slope, by = _tangent(strain, place)
            by_strains += place[0] * tension[j] * (by.T @ by - np.outer(slope, slope)) / size
            by_strains[[0, 1], [0, 1]] -= 2 * place[0] * tension[j] * place[5]
        rows = arrays.rows[own]
        total[own, own] += np.outer(values, values) * by_strains[np.ix_(rows, rows)]
    return total


@dataclass(frozen=True, slots=True)
class AtRest:
    """As in statics.hpp."""

    hessian: Vector
    force: Vector
    length: Vector
    tension: Vector
    gradient: Vector
    energy: float


def at_rest(arrays: RodArrays, c: Vector, tendons: Vector, slack_m: Vector, stops: Vector | None) -> AtRest:
    """Force out of balance, Hessian, tendons and energy of a rod at rest in c, as in forces.hpp and statics.hpp."""
    found = terms(arrays, c, np.zeros(arrays.n))
    length, gradient = lengths(arrays, c, len(slack_m))
    shorter = slack_m - length
    stretch = tendons[2] - shorter
    slope = tendons[1] * (stretch > 0)
    tension = tendons[0] + slope * stretch
    energy = float(c @ arrays.stiffness @ c / 2 + (slope * stretch**2 / 2 - tendons[0] * shorter).sum())
    if stops is not None:
        k, anchor_m, limit = stops
        elastic = k * (shorter - anchor_m)
        friction = np.clip(elastic, -limit, limit)
        tension, slope = tension - friction, slope + k * (np.abs(elastic) < limit)
        energy += float((friction * (elastic - friction / 2) / np.where(k > 0, k, 1.0)).sum())
    for body, R, x in zip(arrays.body, found.rotation, found.position, strict=True):
        point = x + R @ body[10:13]
        energy -= float(arrays.gravity @ (body[0] * x + R @ body[1:4]) + body[13:16] @ point)
    hessian = arrays.stiffness - found.force_by_c + curvature(arrays, c, tension)
    hessian = hessian + gradient.T @ (slope[:, None] * gradient)
    force = found.force - arrays.stiffness @ c - tension @ gradient
    return AtRest(hessian, force, length, tension, gradient, energy)
