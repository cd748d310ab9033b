# SPDX-License-Identifier: Apache-2.0
"""Motion of a Cosserat rod with tendons, rucker (22) to (27), on a chain of rigid cross-sections.

A check of the strain-basis dynamics by other means: every cross-section of a grid has its own pose, strains between
neighbours come from their difference, and the implicit midpoint rule steps in time. All is of second order, so twice as
fine a grid and step show the error. Shear, extension and rotary inertia are all there, undamped unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, solve_banded

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.code.library import Progress
from continuum_robot.rod.cosserat.boundary_value import breaks_m
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.cosserat.equations import SECTION
from continuum_robot.rod.loads import Load, PointWrench

Vector = NDArray[np.float64]
Tension = Callable[[float], ArrayLike]

_BAND = 11
_TOLERANCE = 1e-10
_LARGEST_CORRECTION = 10.0
_ITERATIONS = 12
_SHORTEST_STEP = 2.0**-8
_PLACE = 4
_ELEMENT = 2 + SECTION


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionInertia:
    """Inertia of a section.

    Attributes
    ----------
    mass_kg_per_m : rho A, kg/m
    rotary_kg_m : rho J about x, y and z, kg.m
    """

    mass_kg_per_m: float
    rotary_kg_m: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not (self.mass_kg_per_m > 0 and np.all(np.asarray(self.rotary_kg_m) > 0)):
            raise ParameterError("inertia", (self.mass_kg_per_m, self.rotary_kg_m), "positive")


@dataclass(frozen=True)
class Motion:
    """A motion at the times asked for.

    Attributes
    ----------
    time_s : (k,)
    s_m : (N,) arc lengths of the cross-sections, m
    position_m : (k, N, 3)
    quaternion : (k, N, 4), w first
    kinetic_j : (k,) kinetic energy
    energy_j : (k,) kinetic and elastic energy less what tendons, under their tension at that time, and dead forces have
        given; constant where these are and nothing is damped
    """

    time_s: Vector
    s_m: Vector
    position_m: Vector
    quaternion: Vector
    kinetic_j: Vector
    energy_j: Vector


def simulate(
    rod: CosseratRod,
    inertia: Sequence[SectionInertia],
    time_s: ArrayLike,
    tension: Tension,
    loads: Sequence[Load] = (),
    *,
    elements: int = 48,
    step_s: float = 1e-4,
    damping_s: float = 0.0,
    start: tuple[Vector, Vector] | None = None,
    compile: str = "auto",
    progress: Progress | None = None,
) -> Motion:
    """Motion from rest.

    Parameters
    ----------
    rod : the rod
    inertia : of each of its sections
    time_s : (k,) increasing times from 0, at whole steps, s
    tension : time in s -> (tendons,) tensions, N
    loads : besides the rod's weight; constant in their frame; forces off the backbone are not among what it knows
    elements : pieces of the rod, at least
    step_s : time step, s
    damping_s : Kelvin-Voigt damping, this time times the stiffness of each strain
    start : position (N, 3) and quaternion (N, 4) of the cross-sections, see :func:`cross_sections`; None for straight
    compile, progress : as in :func:`continuum_robot.rod.code.generation.compile_functions`

    Returns
    -------
    the motion at ``time_s``

    Raises
    ------
    ParameterError : times between steps, a negative tension, loads it does not know, a start of another grid
    ConvergenceError : a step did not converge
    """
    times = np.asarray(time_s, dtype=float)
    if elements < 1 or not step_s > 0 or not damping_s >= 0:
        raise ParameterError(
            "elements, step_s, damping_s", (elements, step_s, damping_s), "1 or more, above 0, 0 or more"
        )
    counts = np.rint(times / step_s).astype(int)
    whole = np.allclose(counts * step_s, times, rtol=1e-9, atol=1e-6 * step_s)
    if times.ndim != 1 or not times.size or counts[0] < 0 or np.any(np.diff(counts) <= 0) or not whole:
        raise ParameterError("time_s", times.tolist()[:4], f"increasing multiples of step_s = {step_s:g} s")
    chain = _Chain(
        rod,
        inertia,
        rod.with_weight(loads),
        elements,
        damping_s=damping_s,
        shortest_step_s=_SHORTEST_STEP * step_s,
        compile=compile,
        progress=progress,
    )
    state = chain.rest(start)
    kept: list[tuple[Vector, Vector, float, float]] = []
    for count in range(int(counts[-1]) + 1):
        if count == counts[len(kept)]:
            kinetic_j = chain.kinetic_energy(state)
            rest_j = chain.potential(state, rod.checked_tension(tension(count * step_s)))
            kept.append((state.position, state.quaternion, kinetic_j, kinetic_j + rest_j))
        if count < counts[-1]:
            state = chain.advance(state, rod.checked_tension(tension((count + 0.5) * step_s)), step_s)
    return Motion(times, chain.s_m, *(np.array(part) for part in zip(*kept, strict=True)))


def cross_sections(rod: CosseratRod, elements: int, loads: Sequence[Load] = ()) -> Vector:
    """Arc lengths (N,) of the cross-sections that :func:`simulate` has, m.

    Parameters
    ----------
    elements : number of elements on the whole rod
    """
    longest = rod.length_m / elements * (1 + 1e-9)
    places = [np.array([0.0])]
    for low, high in pairwise(breaks_m(rod, loads)):
        places.append(np.linspace(low, high, int(np.ceil((high - low) / longest)) + 1)[1:])
    return np.concatenate(places)


@dataclass(frozen=True, slots=True)
class _State:
    """Poses (N, 3), (N, 4) and velocities: linear in base axes, angular in body axes, (N, 3) each."""

    position: Vector
    quaternion: Vector
    velocity: Vector
    spin: Vector


class _Chain:
    """The rod cut into elements, with what acts on it."""

    def __init__(
        self,
        rod: CosseratRod,
        inertia: Sequence[SectionInertia],
        loads: Sequence[Load],
        elements: int,
        *,
        damping_s: float,
        shortest_step_s: float,
        compile: str,
        progress: Progress | None,
    ) -> None:
        if len(inertia) != len(rod.sections):
            raise ParameterError("inertia", len(inertia), f"{len(rod.sections)}, one a section")
        self.rod, self.shortest_step_s = rod, shortest_step_s
        self.s_m = cross_sections(rod, elements, loads)
        length = np.diff(self.s_m)
        middle = (self.s_m[:-1] + self.s_m[1:]) / 2
        section = np.searchsorted(rod.section_ends_m, middle)
        self.parameters = np.column_stack(
            [length, np.full_like(length, damping_s), [rod.sections[k].parameters for k in section]]
        )
        self.routing = np.zeros((len(length), _PLACE * len(rod.tendons)))
        self.running = np.zeros((len(length), len(rod.tendons)))
        for j, tendon in enumerate(rod.tendons):
            for k, s in enumerate(middle):
                if tendon.begin_m < s < tendon.end_m:
                    self.running[k, j] = 1.0
                    self.routing[k, _PLACE * j : _PLACE * (j + 1)] = tendon.path.at(np.array([s]), float(s))[0, :_PLACE]
        self.inertia = np.zeros((len(self.s_m), 4))
        for k, index in enumerate(section):
            own = inertia[index]
            self.inertia[k : k + 2] += length[k] / 2 * np.array([own.mass_kg_per_m, *own.rotary_kg_m])
        self.loads = self._lumped(loads, middle, length)
        self._element_place, self._node_place = _band_place(12, len(length)), _band_place(6, len(self.s_m))
        functions = _functions(len(rod.tendons), len(length), compile, progress)
        self._element, self._node, self._energy = functions
        self._scale = np.tile([1 / rod.length_m] * 3 + [1.0] * 3, len(self.s_m) - 1)

    def _lumped(self, loads: Sequence[Load], middle: Vector, length: Vector) -> Vector:
        """Loads on the cross-sections, (N, 12): force and moment in base axes, then in body axes."""
        lumped = np.zeros((len(self.s_m), 12))
        for load in loads:
            column = 0 if load.frame == "base" else 6
            if isinstance(load, PointWrench):
                if np.any(load.offset_m):
                    raise ParameterError("offset_m", load.offset_m, "0: loads act on the backbone here")
                k = int(np.argmin(np.abs(self.s_m - load.s_m)))
                lumped[k, column : column + 6] += [*load.force_n, *load.moment_nm]
                continue
            end_m = self.rod.length_m if load.end_m is None else load.end_m
            for k, s in enumerate(middle):
                if load.start_m < s < end_m:
                    lumped[k : k + 2, column : column + 6] += length[k] / 2 * np.concatenate(load.at(float(s)))
        return lumped

    def rest(self, start: tuple[Vector, Vector] | None) -> _State:
        zeros = np.zeros((len(self.s_m), 3))
        if start is not None:
            position, quaternion = (np.array(part, dtype=float) for part in start)
            if position.shape != (len(self.s_m), 3) or quaternion.shape != (len(self.s_m), 4):
                raise ParameterError("start", (position.shape, quaternion.shape), f"poses of {len(self.s_m)} sections")
            signs = np.sign(np.sum(quaternion[1:] * quaternion[:-1], axis=1))
            quaternion[1:] *= np.cumprod(np.where(signs < 0, -1.0, 1.0))[:, None]  # neighbours on the same side
            return _State(position, quaternion, zeros, zeros)
        pose = np.array(self.rod.base_pose)
        position = pose[:3, 3] + self.s_m[:, None] * pose[:3, 2]
        quaternion = np.tile(so3.quaternion_from_matrix(pose[:3, :3]), (len(self.s_m), 1))
        return _State(position, quaternion, zeros, zeros)

    def kinetic_energy(self, state: _State) -> float:
        moving = self.inertia[:, 0] * np.sum(state.velocity**2, axis=1)
        return float(np.sum(moving) + np.sum(self.inertia[:, 1:] * state.spin**2)) / 2

    def potential(self, state: _State, tension: Vector) -> float:
        """Elastic energy, tension times length of tendons, and minus the work of dead forces."""
        poses = np.hstack([state.position, state.quaternion])
        pull = (self.running * tension).ravel()
        stored = self._energy(
            poses[:-1].ravel(), poses[1:].ravel(), self.parameters.ravel(), pull, self.routing.ravel()
        )
        return float(np.sum(stored) - np.sum(self.loads[:, :3] * state.position))

    def advance(self, state: _State, tension: Vector, step_s: float) -> _State:
        """One step, or halves of it where Newton's method does not converge, as after a jump of the tension."""
        try:
            return self.step(state, tension, step_s)
        except ConvergenceError:
            if step_s < self.shortest_step_s:
                raise
        half = self.advance(state, tension, step_s / 2)
        return self.advance(half, tension, step_s / 2)

    def step(self, state: _State, tension: Vector, step_s: float) -> _State:
        """One step of the implicit midpoint rule."""
        poses = np.hstack([state.position, state.quaternion])
        rates = np.hstack([state.velocity, state.spin])
        moved = step_s * rates
        moved[0] = 0.0
        count = len(self.s_m) - 1
        fixed = (poses[:-1].ravel(), poses[1:].ravel(), self.parameters.ravel(), (self.running * tension).ravel())
        per_node = (poses.ravel(), rates.ravel(), self.inertia.ravel(), self.loads.ravel())
        size = np.inf
        for iteration in range(_ITERATIONS):
            force, stiffness = self._element(
                moved[:-1].ravel(), moved[1:].ravel(), *fixed, self.routing.ravel(), step_s
            )
            inertial, mass = self._node(moved.ravel(), *per_node, step_s)
            residual = np.array(inertial.T)
            residual[:-1] += force[:6].T
            residual[1:] += force[6:].T
            band = np.zeros((2 * _BAND + 1, 6 * (count + 1)))
            blocks, nodes = stiffness.reshape(12, count, 12), mass.reshape(6, count + 1, 6)
            for first in (0, 1):  # neighbours share a cross-section
                place = tuple(part[:, first::2] for part in self._element_place)
                band[place] += blocks[:, first::2]
            band[self._node_place] += nodes
            try:
                correction = solve_banded((_BAND, _BAND), band[:, 6:], residual[1:].ravel())
            except (LinAlgError, ValueError) as error:
                raise ConvergenceError(f"time step ({error})", size, _TOLERANCE, iteration) from error
            moved[1:] -= correction.reshape(-1, 6)
            size = float(np.abs(self._scale * correction).max())
            if size < _TOLERANCE or size > _LARGEST_CORRECTION:
                break
        if not size <= _TOLERANCE:
            raise ConvergenceError("time step; a shorter one may", size, _TOLERANCE, _ITERATIONS)
        turned = np.hstack([np.ones((count + 1, 1)), moved[:, 3:] / 2])
        quaternion = _product(state.quaternion, turned / np.linalg.norm(turned, axis=1, keepdims=True))
        rates = 2 * moved / step_s - rates
        return _State(state.position + moved[:, :3], quaternion, rates[:, :3], rates[:, 3:])


def _band_place(size: int, count: int) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Where the entries (row, block, column) of blocks that begin at each cross-section stand in the band matrix."""
    row, block, column = np.ogrid[:size, :count, :size]
    shape = (size, count, size)
    return np.broadcast_to(_BAND + row - column, shape), np.broadcast_to(6 * block + column, shape)


def _product(a: Vector, b: Vector) -> Vector:
    """Products of quaternions (N, 4), w first."""
    w = a[:, :1] * b[:, :1] - np.sum(a[:, 1:] * b[:, 1:], axis=1, keepdims=True)
    return np.hstack([w, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])])


@lru_cache(maxsize=8)
def _functions(
    tendons: int, elements: int, compile: str, progress: Progress | None
) -> tuple[FastFunction, FastFunction, FastFunction]:
    """Forces of all elements, inertial forces of all cross-sections, stored energy of all elements."""
    functions = [
        _over_all(_element_function(tendons), elements),
        _over_all(_node_function(), elements + 1),
        _over_all(_energy_function(tendons), elements),
    ]
    fast = compile_functions(functions, f"the moving rod of {elements} elements", compile=compile, progress=progress)
    element, node, energy = (fast[function.name()] for function in functions)
    return element, node, energy


def _over_all(function: ca.Function, count: int) -> ca.Function:
    """The function on ``count`` columns of each argument; one named ``step_s`` is the same for all."""
    symbols, arguments = [], []
    for k in range(function.n_in()):
        shared = function.name_in(k) == "step_s"
        symbols.append(ca.MX.sym(function.name_in(k), function.size1_in(k), 1 if shared else count))
        arguments.append(ca.repmat(symbols[-1], 1, count) if shared else symbols[-1])
    return ca.Function(f"{function.name()}_{count}", symbols, function.map(count).call(arguments))


def _multiplied(a: Any, b: Any) -> Any:
    """Product of quaternions, w first."""
    return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))


def _conjugate(q: Any) -> Any:
    return ca.vertcat(q[0], -q[1:])


def _rotated(q: Any, vector: Any) -> Any:
    """A vector turned by a quaternion of any norm."""
    across = ca.cross(q[1:], vector)
    return vector + 2 * (q[0] * across + ca.cross(q[1:], across)) / ca.sumsqr(q)


def _turning(q: Any) -> Any:
    """Change of a quaternion per turn in body axes, (4, 3)."""
    w, x, y, z = ca.vertsplit(q)
    rows = ([-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w])
    return ca.vertcat(*(ca.horzcat(*row) for row in rows)) / 2


def _moved(pose: Any, z: Any, fraction: float) -> tuple[Any, Any]:
    """Pose after a fraction of the step z: displacement in base axes, turn in body axes."""
    q = _multiplied(pose[3:7], ca.vertcat(1, fraction * z[3:6] / 2))
    return pose[:3] + fraction * z[:3], q / ca.norm_2(q)


def _strain(p_0: Any, q_0: Any, p_1: Any, q_1: Any, length_m: Any) -> Any:
    """(u, v) between two cross-sections, in the axes half-way between them; rucker (23)."""
    between = _multiplied(_conjugate(q_0), q_1)
    return ca.vertcat(2 * between[1:] / between[0], _rotated(_conjugate(q_0 + q_1), p_1 - p_0)) / length_m


def _material(element: Any) -> tuple[Any, Any, Any, Any]:
    """Length, damping time, stiffness and rest strain, angular parts first."""
    section = element[2:]
    return element[0], element[1], ca.vertcat(section[3:6], section[:3]), ca.vertcat(section[9:12], section[6:9])


def _tangent(strain: Any, routing: Any, j: int) -> tuple[Any, Any]:
    """Place of a tendon in the cross-section and its tangent per length at rest, rucker (14)."""
    start, zero = _PLACE * j, ca.SX(1, 1)
    r = ca.vertcat(routing[start : start + 2], zero)
    r_1 = ca.vertcat(routing[start + 2 : start + 4], zero)
    return r, ca.cross(strain[:3], r) + r_1 + strain[3:]


def _element_function(tendons: int) -> ca.Function:
    """(z_0, z_1, pose_0, pose_1, element, tension, routing, step_s) -> internal force (12), its Jacobian (12, 12)."""
    z_0, z_1 = ca.SX.sym("z_0", 6), ca.SX.sym("z_1", 6)
    pose_0, pose_1 = ca.SX.sym("pose_0", 7), ca.SX.sym("pose_1", 7)
    element, tension = ca.SX.sym("element", _ELEMENT), ca.SX.sym("tension", tendons)
    routing, step_s = ca.SX.sym("routing", _PLACE * tendons), ca.SX.sym("step_s")
    length_m, damping_s, stiffness, rest = _material(element)
    names = (("p_0", 3), ("q_0", 4), ("p_1", 3), ("q_1", 4))
    place = tuple(ca.SX.sym(name, size) for name, size in names)
    strain = _strain(place[0], place[1], place[2], place[3], length_m)
    lever = ca.horzcat(
        *(ca.horzcat(ca.jacobian(strain, p), ca.jacobian(strain, q) @ _turning(q)) for p, q in (place[:2], place[2:]))
    )
    at_place = ca.Function("strain", [*place, length_m], [strain, lever])

    def after(fraction: float) -> tuple[Any, Any]:
        result: tuple[Any, Any] = at_place(*_moved(pose_0, z_0, fraction), *_moved(pose_1, z_1, fraction), length_m)
        return result

    before, end = after(0.0)[0], after(1.0)[0]
    # The strain half-way in pose would be that of a chord: wrong by the stiffest strain times the turn squared.
    middle, lever = (before + end) / 2, after(0.5)[1]
    stress = stiffness * (middle - rest + damping_s * (end - before) / step_s)
    for j in range(tendons):
        r, p_j = _tangent(middle, routing, j)
        pull = tension[j] * p_j / ca.norm_2(p_j)
        stress += ca.vertcat(ca.cross(r, pull), pull)
    force = length_m * lever.T @ stress
    return ca.Function(
        f"cosserat_element_{tendons}",
        [z_0, z_1, pose_0, pose_1, element, tension, routing, step_s],
        [ca.densify(force), ca.densify(ca.jacobian(force, ca.vertcat(z_0, z_1)))],
        ["z_0", "z_1", "pose_0", "pose_1", "element", "tension", "routing", "step_s"],
        ["force", "jacobian"],
        {"cse": True},
    )


def _node_function() -> ca.Function:
    """Inertia, rucker (25), (26): (z, pose, rates, inertia, load, step_s) -> force less loads (6), its Jacobian."""
    z, pose, rates = ca.SX.sym("z", 6), ca.SX.sym("pose", 7), ca.SX.sym("rates", 6)
    inertia, load, step_s = ca.SX.sym("inertia", 4), ca.SX.sym("load", 12), ca.SX.sym("step_s")
    _, q = _moved(pose, z, 0.5)
    mean, change = z / step_s, 2 * (z / step_s - rates) / step_s
    force = inertia[0] * change[:3] - load[:3] - _rotated(q, load[6:9])
    spin = inertia[1:] * mean[3:]
    moment = inertia[1:] * change[3:] + ca.cross(mean[3:], spin) - _rotated(_conjugate(q), load[3:6]) - load[9:12]
    balance = ca.vertcat(force, moment)
    return ca.Function(
        "cosserat_node",
        [z, pose, rates, inertia, load, step_s],
        [balance, ca.densify(ca.jacobian(balance, z))],
        ["z", "pose", "rates", "inertia", "load", "step_s"],
        ["force", "jacobian"],
        {"cse": True},
    )


def _energy_function(tendons: int) -> ca.Function:
    """(pose_0, pose_1, element, tension, routing) -> elastic energy and tension times length of tendons."""
    pose_0, pose_1 = ca.SX.sym("pose_0", 7), ca.SX.sym("pose_1", 7)
    element, tension = ca.SX.sym("element", _ELEMENT), ca.SX.sym("tension", tendons)
    routing = ca.SX.sym("routing", _PLACE * tendons)
    length_m, _, stiffness, rest = _material(element)
    strain = _strain(pose_0[:3], pose_0[3:], pose_1[:3], pose_1[3:], length_m)
    density = ca.dot(stiffness * (strain - rest), strain - rest) / 2
    for j in range(tendons):
        density += tension[j] * ca.norm_2(_tangent(strain, routing, j)[1])
    return ca.Function(
        f"cosserat_energy_{tendons}",
        [pose_0, pose_1, element, tension, routing],
        [ca.densify(length_m * density)],
        ["pose_0", "pose_1", "element", "tension", "routing"],
        ["energy"],
    )
