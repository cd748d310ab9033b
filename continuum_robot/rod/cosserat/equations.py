# SPDX-License-Identifier: Apache-2.0
"""rucker (16) in NumPy, for many cross-sections at once: integration steps with their sensitivities, and wrenches.

State y = (p, q, n, m), 13 numbers: position and unit quaternion (w first) in the base frame, internal force and moment
of the rod in body axes, n = K_se (v - v*) and m = K_bt (u - u*), which stand for v and u by (4) without the rounding
that v - v* would suffer. Between cuts, rucker (18) to (20) say what jumps. Derivatives are taken by complex steps,
which are exact: Squire and Trapp, SIAM Rev. 40 (1998) 110. Inside, components come first, then directions of
differentiation, then cross-sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from continuum_robot.errors import ParameterError
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.loads import DistributedLoad, Load

Vector = NDArray[np.float64]
Complex = NDArray[np.complex128]

STATE = 13
ROUTING = 6
LOADS = 12
POINT_LOADS = LOADS + 9
STAGES = 12
STAGE_FRACTIONS = tuple(float(c) for c in DOP853.C[:STAGES])
"""Places of the stages in a step, as fractions of it; Dormand and Prince's method of eighth order."""
_POSITION = 3
_STEP = 1e-30


def _directed(states: Vector, begin: int, *, many: bool = True) -> Complex:
    """States (k, 13) with a step in each component from ``begin`` on, (13, directions, k)."""
    y = np.repeat(states.T[:, None].astype(complex), STATE - begin if many else 1, axis=1)
    for direction in range(STATE - begin if many else 0):
        y[begin + direction, direction] += 1j * _STEP
    return y


def _cross(a: NDArray[np.inexact], b: NDArray[np.inexact]) -> Complex:
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _rotation(q: Complex) -> Complex:
    """Rotation matrices (3, 3, ...) of quaternions, w first, of any norm."""
    w, x, y, z = q
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return np.array(rows) / (q * q).sum(axis=0)


def _in_body(rotation: Complex, vector: Vector) -> Complex:
    return (rotation * vector[:, None]).sum(axis=0)


def _strains(y: Complex, section: Vector) -> tuple[Complex, Complex]:
    return section[6:9] + y[7:10] / section[0:3], section[9:12] + y[10:13] / section[3:6]  # rucker (4)


def _paths(routing: Vector) -> list[Vector]:
    """r, r', r'' of all tendons, (3, tendons, 1, k), of (k, 6 tendons)."""
    parts = routing.reshape(len(routing), -1, ROUTING).transpose(2, 1, 0)[:, :, None]
    return [np.stack([parts[2 * k], parts[2 * k + 1], 0 * parts[0]]) for k in range(3)]


class _Tendons:
    """Their load on the rod, linear in the strains' rates (v', u') that p'' contains: rucker (12) to (14)."""

    def __init__(self, v: Complex, u: Complex, tension: Vector, routing: Vector) -> None:
        r, r_1, r_2 = _paths(routing)
        v, u = v[:, None], u[:, None]
        p_1 = _cross(u, r) + r_1 + v  # rucker (14)
        size = np.sqrt((p_1 * p_1).sum(axis=0))
        self.tangent, self.pull = p_1 / size, tension.T[:, None] / size
        self.p_2 = _cross(u, p_1) + _cross(u, r_1) + r_2  # rucker (14) without v' + u' x r
        self.by_rate = np.zeros((6, *r.shape))  # of p'' by v', u'
        self.by_rate[0:3] = np.eye(3)[:, :, None, None, None]
        self.by_rate[3, 2], self.by_rate[4, 2], self.by_rate[5, 0], self.by_rate[5, 1] = r[1], -r[0], -r[1], r[0]
        self.along = (self.by_rate * self.tangent).sum(axis=1)

    def matrix(self) -> Vector:
        """A, G, B, H of rucker (16), (6, 6, k)."""
        by_rate, along, pull = self.by_rate[..., 0, :], self.along[:, :, 0].real, self.pull[:, 0].real
        return np.einsum("nk,acnk,bcnk->abk", pull, by_rate, by_rate) - np.einsum("nk,ank,bnk->abk", pull, along, along)

    def load(self, found: Vector | None = None) -> Complex:
        """Of force and moment, with the signs of a and b of rucker (16), (6, ...), with rates (6, k); None: without."""
        p_2 = self.p_2
        if found is not None:
            p_2 = p_2 + (self.by_rate * found[:, None, None, None]).sum(axis=0)
        # p' x (p' x p'') / |p'|^3 is what p'' has across the tangent, over |p'|: rucker (12), (13)
        across = self.pull * (p_2 - self.tangent * (self.tangent * p_2).sum(axis=0))
        return (self.by_rate * across).sum(axis=(1, 2))


def rates(y: Complex, section: Vector, tension: Vector, routing: Vector, loads: Vector) -> Complex:
    """Y' by rucker (16), (13, directions, k)."""
    q, n, m = y[3:7], y[7:10], y[10:13]
    section, loads = section.T[:, None], loads.T[:, None]
    rotation, (v, u) = _rotation(q), _strains(y, section)
    force = _cross(u, n) + _in_body(rotation, loads[0:3]) + loads[6:9]
    moment = _cross(u, m) + _cross(v, n) + _in_body(rotation, loads[3:6]) + loads[9:12]
    balance = np.concatenate([force, moment])  # rucker (5) with (7), without the rates
    stiffness = section[:6]
    matrix, known = np.eye(6)[:, :, None] * stiffness[:, 0], balance[:, 0].real
    if tension.any():
        tendons = _Tendons(v, u, tension, routing)
        matrix, known = matrix + tendons.matrix(), known + tendons.load()[:, 0].real
    # Linear in the rates, with a symmetric positive definite matrix as long as no tendon pushes: rucker (16).
    inverse = np.linalg.inv(matrix.transpose(2, 0, 1))
    found = -np.einsum("kab,bk->ak", inverse, known)
    # Derivatives of the implicit relation at these rates.
    left = balance + (tendons.load(found) if tension.any() else 0.0)
    found = found[:, None] - 1j * np.einsum("kab,bdk->adk", inverse, left.imag)
    spin = np.concatenate([-(q[1:] * u).sum(axis=0)[None], q[0] * u + _cross(q[1:], u)]) / 2  # rucker (1)
    return np.concatenate([(rotation * v).sum(axis=1), spin, stiffness * found])


def step(
    states: Vector, length_m: Vector, section: Vector, tension: Vector, routing: Vector, loads: Vector,
    *, sensitive: bool = True,
) -> tuple[Vector, Vector, Vector]:  # fmt: skip
    """States at the ends of steps, their Jacobians, and local errors."""
    y = _directed(states, _POSITION, many=sensitive)
    slopes: list[Complex] = []

    def slope(place: Complex, stage: int) -> Complex:
        return rates(place, section, tension, routing[:, stage], loads[:, stage])

    def combined(weights: Vector) -> Complex:
        return length_m * sum(weight * one for weight, one in zip(weights, slopes, strict=True) if weight)

    for stage in range(STAGES):
        slopes.append(slope(y + combined(DOP853.A[stage, :stage]) if stage else y, stage))
    end = y + combined(DOP853.B)
    # The last stages of the embedded formulas are at the end of the step, where the last stage's routing holds.
    slopes = [*(one[:, :1] for one in slopes), slope(_directed(end[:, 0].real.T, _POSITION, many=False), STAGES - 1)]
    errors = np.stack([combined(DOP853.E5)[:, 0].real, combined(DOP853.E3)[:, 0].real], axis=-1)
    jacobian = np.zeros((len(states), STATE, STATE))
    if sensitive:
        jacobian[:, :_POSITION, :_POSITION] = np.eye(_POSITION)
        jacobian[:, :, _POSITION:] = end.imag.transpose(2, 0, 1) / _STEP
    return end[:, 0].real.T, jacobian, errors.transpose(1, 0, 2)


def wrench(
    states: Vector, section: Vector, tension_force: Vector, tension_moment: Vector, routing: Vector, load: Vector
) -> tuple[Vector, Vector]:
    """Force and moment in body axes that the parts before cuts bear, rod and tendons together, less point loads
    there.
    """
    y, section, load = _directed(states, 0), section.T[:, None], load.T[:, None]
    rotation, (v, u) = _rotation(y[3:7]), _strains(y, section)
    force = y[7:10] - _in_body(rotation, load[0:3]) - load[6:9]
    moment = y[10:13] - _in_body(rotation, load[3:6]) - load[9:12]
    arms = np.einsum("ijdk,iadk->jadk", load[12:21].reshape(3, 3, 1, -1).transpose(1, 0, 2, 3) + 0j, rotation)
    moment = moment - np.stack([arms[1, 2] - arms[2, 1], arms[2, 0] - arms[0, 2], arms[0, 1] - arms[1, 0]])
    r, r_1, _ = _paths(routing)
    p_1 = _cross(u[:, None], r) + r_1 + v[:, None]
    tangent = p_1 / np.sqrt((p_1 * p_1).sum(axis=0))
    force = force + (tension_force.T[:, None] * tangent).sum(axis=1)  # rucker (18)
    moment = moment + (tension_moment.T[:, None] * _cross(r, tangent)).sum(axis=1)  # rucker (19)
    both = np.concatenate([force, moment])
    return both[:, 0].real.T, both.imag.transpose(2, 0, 1) / _STEP


@dataclass(frozen=True, slots=True)
class Step:
    """A step of integration: what it needs besides the state. See :func:`.equations.step`.

    Attributes
    ----------
    start_m : arc length of its beginning, m
    length_m : arc length that it covers, m
    section : stiffnesses and rest strain of the cross-section, shape (12,): K_se (N), K_bt (N.m^2), v*, u* (1/m)
    running : which tendons run along it, shape (N,)
    tension : of the tendons that do, else 0, shape (N,), N
    routing : r, r', r'' of every tendon at each stage, shape (12, 6 N): m, 1, 1/m
    loads : force and moment per length at each stage, in base axes and then in body axes, shape (12, 12), N/m and N
    """

    start_m: float
    length_m: float
    section: Vector
    running: NDArray[np.bool_]
    tension: Vector
    routing: Vector
    loads: Vector


@dataclass(frozen=True, slots=True)
class Cut:
    """One side of a cut: what bears the wrench there.

    Attributes
    ----------
    section : as of :class:`Step`, shape (12,)
    tension_force : tension of each tendon whose force the rod bears there, else 0, shape (N,), N
    tension_moment : the same for its moment, shape (N,), N
    routing : r, r', r'' of every tendon there, shape (6 N,): m, 1, 1/m
    load : point loads there, as :func:`.equations.wrench` takes them, shape (21,), N and N.m
    """

    section: Vector
    tension_force: Vector
    tension_moment: Vector
    routing: Vector
    load: Vector


@dataclass(frozen=True, slots=True)
class Jump:
    """A place where the internal wrench jumps."""

    place_m: float
    before: Cut
    after: Cut


def breaks_m(rod: CosseratRod, loads: Sequence[Load]) -> Vector:
    """Arc lengths between which everything is smooth, from 0 to the length, m.

    Returns
    -------
    increasing, shape (k,), m
    """
    places = [0.0, *rod.section_ends_m]
    for tendon in rod.tendons:
        inside = (place for place in tendon.path.kinks_m if tendon.begin_m < place < tendon.end_m)
        places += [tendon.begin_m, tendon.end_m, *inside]
    for load in loads:
        if isinstance(load, DistributedLoad):
            places += [load.start_m, rod.length_m if load.end_m is None else load.end_m]
            continue
        if not 0 < load.s_m <= rod.length_m * (1 + 1e-9):
            raise ParameterError("s_m of a point load", load.s_m, f"above 0 and at most {rod.length_m:g} m")
        places.append(load.s_m)
    if min(places) < 0 or max(places) > rod.length_m * (1 + 1e-9):
        raise ParameterError("arc lengths of loads", (min(places), max(places)), f"0 to {rod.length_m:g} m")
    kept = [0.0]
    for place in sorted(places):
        if place - kept[-1] > 1e-9 * rod.length_m:
            kept.append(float(place))
    kept[-1] = rod.length_m
    return np.array(kept)
