# SPDX-License-Identifier: Apache-2.0
"""Motion of a Cosserat rod with tendons, rucker (22) to (27), on a chain of rigid cross-sections.

A check of the strain-basis dynamics by other means: every cross-section of a grid has its own pose, strains between
neighbours come from their difference, and the implicit midpoint rule steps in time. All is of second order, so twice as
fine a grid and step show the error. Shear, extension and rotary inertia are all there, undamped unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, solve_banded

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.rod.code.library import Progress
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.cosserat.grid import breaks_m
from continuum_robot.rod.cosserat.motion_functions import motion_functions
from continuum_robot.rod.loads import Load, PointWrench

Vector = NDArray[np.float64]


Tension = Callable[[float], ArrayLike]


_BAND = 11


_TOLERANCE = 1e-10


_LARGEST_CORRECTION = 10.0


_ITERATIONS = 12


_SHORTEST_STEP = 2.0**-8


_PLACE = 4


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
        generated = motion_functions(len(rod.tendons), len(length), compile, progress)
        self._element, self._node, self._energy = generated
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
