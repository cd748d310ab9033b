# SPDX-License-Identifier: Apache-2.0
"""A rod of any strains: its dynamics, statics, poses and the lengths of its tendons; numbers may change at any time."""

from __future__ import annotations

import ctypes as ct
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, MissingPackageError, ParameterError
from continuum_robot.geometry import se3
from continuum_robot.geometry.finite import all_finite
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.lumped_masses import LumpedMass
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.defect import CrossSections
from continuum_robot.rod.description import ALL, RodDescription
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.inverse_kinematics import inverse_kinematics
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.kernel.arrays import MASS, RodArrays, body_of, point_loads, rod_arrays, weights_in_eights
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.loads import Load
from continuum_robot.rod.statics import Equilibrium, Stops, equilibrium
from continuum_robot.rod.stations import Frames, Stations, Strains, TipSteps

Vector = NDArray[np.float64]
Progress: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of tendons at c."""

    length_m: Vector
    gradient: Vector


@dataclass(frozen=True, slots=True)
class Energies:
    """Energies of a rod."""

    kinetic_j: float
    elastic_j: float
    potential_j: float

    @property
    def total_j(self) -> float:
        """Their sum, J."""
        return self.kinetic_j + self.elastic_j + self.potential_j


@dataclass(frozen=True, slots=True)
class Equilibria:
    """Of many robots; NaN of those that did not converge."""

    c: Vector
    hessian: Vector
    iterations: NDArray[np.int32]
    converged: NDArray[np.bool_]

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Whether small pushes bring each back, (robots,); False of those that did not converge."""
        symmetric = (self.hessian + self.hessian.transpose(0, 2, 1)) / 2
        least = np.linalg.eigvalsh(np.where(self.converged[:, None, None], symmetric, 0.0))[:, 0]
        return np.asarray(least > 0)


@dataclass(frozen=True, slots=True)
class Gradient:
    """Of a function of a motion's end, and the end."""

    c: Vector
    momentum: Vector
    by_c: Vector
    by_momentum: Vector
    by_tension: Vector
    along: Vector


METHODS = {"midpoint": 0, "sdirk": 1}
MOST_ITERATIONS = 60
_STATIONS_KEPT = 32
_SHAPE = (
    *("rows", "piece", "node", "step_m", "phi", "at_node", "weight"),
    *("path_node", "path_m", "path_phi", "path_index", "bodies_m"),
)
_NUMBERS = ("gravity", "body", "inertia", "stiffness", "damping", "rest", "path_rest", "path")


OwnNumbers: TypeAlias = Mapping[str, ArrayLike] | Sequence[RodArrays]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the kernel gets of many robots: numbers, stiffness and rest_m hold a block a robot where own is 1."""

    numbers: kernel.Numbers
    own: int
    stiffness: Vector
    rest_m: Vector
    held: dict[str, Vector]


def _in_threads(run: Callable[[ct.c_int, ct.c_int], int], robots: int, progress: Progress | None) -> int:
    """Run ``run(going, done)`` beside the interpreter, which stays able to end it by Ctrl-C; its result.

    Of one robot here: nothing can end it before it is done.
    """
    going, done, results = ct.c_int(1), ct.c_int(0), []
    if robots == 1:
        result = run(going, done)
        if progress is not None:
            progress(1.0)
        return result
    worker = threading.Thread(target=lambda: results.append(run(going, done)))
    worker.start()
    alive = True
    try:
        while alive:
            worker.join(0.1)
            alive = worker.is_alive()
            if progress is not None:
                progress(done.value / max(1, robots))
    finally:
        going.value = 0
        worker.join()
    return results[0]


class NotConvergedError(ContinuumRobotError):
    """A motion that Newton's method does not find."""


class Rod:
    """Made of a robot or a description in milliseconds, without a compiler.

    Parameters
    ----------
    robot : a rod, or what a rod is
    nodes : Gauss nodes a piece, at least 6; None: as many as give about 1e-7
    paths : tendons and strings whose lengths are wanted; None: all tendons
    stations_m : arc lengths at which bodies without mass stand, m
    loads : besides the weight
    parts : what has inertia of a robot; all has

    Attributes
    ----------
    description : what it is
    arrays : what the kernel reads; its numbers (gravity, body, inertia, stiffness, damping, rest, path) may be
        written between two calls
    scale : by which each coefficient turns or stretches its whole segment, (n,)
    rest_m : lengths of the tendons at c = 0, (N,), m
    shape, numbers : of the arrays, for calls of the kernel; they live as long as the rod
    library : the kernel; None: its NumPy form serves

    Raises
    ------
    ParameterError : a mechanism, or what no rod can have
    """

    description: RodDescription
    arrays: RodArrays
    scale: Vector
    rest_m: Vector
    shape: kernel.Shape
    numbers: kernel.Numbers
    library: ct.CDLL | None

    def __init__(
        self,
        robot: Robot | RodDescription,
        *,
        nodes: int | None = None,
        paths: Sequence[RoutedPath] | None = None,
        stations_m: Sequence[float] = (),
        loads: Sequence[Load] = (),
        parts: Parts = ALL,
    ) -> None:
        self._parts = parts
        self._payload: LumpedMass
        self._describe(robot)
        self.arrays = rod_arrays(self.description, nodes=nodes, paths=paths, stations_m=stations_m, loads=loads)
        self._made_with: dict[str, Any] = {"nodes": nodes, "paths": paths, "stations_m": stations_m, "loads": loads}
        self.scale = np.concatenate(
            [np.where(np.array(one.basis.rows) < 3, one.length_m, 1.0) for one in self.description.segments]
        )
        self._prepare()
        self.rest_m = self.lengths(np.zeros(self.n)).length_m

    @property
    def n(self) -> int:
        """Number of coefficients."""
        return self.arrays.n

    @property
    def length_m(self) -> float:
        """From the base to the tip, m."""
        return float(self.arrays.bodies_m[-1])

    @property
    def conservative(self) -> bool:
        """Whether all loads have a potential: forces that keep their direction."""
        return not self.arrays.body[:, 16:].any()

    @property
    def tendon_count(self) -> int:
        """Number of paths whose lengths it knows."""
        return int(self.arrays.path_index.max()) + 1 if self.arrays.path_index.size else 0

    @property
    def masses_kg(self) -> Vector:
        """Mass of each body, at ``arrays.bodies_m``, (bodies,), kg. A view: what is written counts in the next call."""
        return self.arrays.body[:, 0]

    @property
    def payload_kg(self) -> float:
        """Mass of what the tip carries, at the robot's payload_offset_m, kg. What is set counts in the next call."""
        return self._payload.mass_kg

    @payload_kg.setter
    def payload_kg(self, mass_kg: float) -> None:
        if not (isinstance(mass_kg, (int, float)) and math.isfinite(mass_kg) and mass_kg >= 0):
            raise ParameterError("payload_kg", mass_kg, "a mass of 0 or more, kg")
        self.carrying_body[MASS] += (mass_kg - self._payload.mass_kg) * self.payload_per_kg
        self._payload = replace(self._payload, mass_kg=float(mass_kg))

    @property
    def gravity_m_per_s2(self) -> Vector:
        """Gravity in the base frame, (3,), m/s^2. What is set counts in the next call."""
        return self.arrays.gravity.copy()

    @gravity_m_per_s2.setter
    def gravity_m_per_s2(self, gravity: ArrayLike) -> None:
        values = np.array(gravity, dtype=float)
        if values.shape != (3,) or not np.isfinite(values).all():
            raise ParameterError("gravity_m_per_s2", gravity, "three finite components, m/s^2")
        self.arrays.gravity[:] = values

    @property
    def carrying_body(self) -> Vector:
        """Numbers of the body at the tip, which the payload is part of, a view."""
        return self.arrays.body[int(np.argmax(self.arrays.bodies_m >= self.arrays.bodies_m[-1]))]

    @property
    def payload_per_kg(self) -> Vector:
        """What a kilogram of payload adds to the inertia of :attr:`carrying_body`, (10,)."""
        return body_of(replace(self._payload, mass_kg=1.0))[1][MASS]

    def _describe(self, robot: Robot | RodDescription) -> None:
        self._payload = LumpedMass(s_m=0.0, mass_kg=0.0)
        if isinstance(robot, RodDescription):
            self.description = robot
            return
        self.description = RodDescription.of_robot(robot, self._parts)
        x, y, z = robot.payload_offset_m
        self._payload = LumpedMass(s_m=0.0, mass_kg=robot.payload_kg, center_of_mass_m=(x, y, z))

    def update(self, robot: Robot | RodDescription) -> None:
        """Take the numbers of a changed description: masses, stiffness, damping, gravity, routing, in milliseconds.

        Parameters
        ----------
        robot : with the lengths, bases, numbers of disks and tendons, and places where these stand, of the first one

        Raises
        ------
        ParameterError : any of these differs: that takes a new rod
        """
        kept = self.description, self._payload
        self._describe(robot)
        arrays = rod_arrays(self.description, **self._made_with)
        if not all(np.array_equal(getattr(arrays, name), getattr(self.arrays, name)) for name in _SHAPE):
            self.description, self._payload = kept
            raise ParameterError("robot", robot.name, "the same lengths, bases and places; else make a new Rod")
        for name in _NUMBERS:
            getattr(self.arrays, name)[...] = getattr(arrays, name)
        for name in ("_finer", "strings", "cross_sections"):
            self.__dict__.pop(name, None)
        self.rest_m[:] = self.lengths(np.zeros(self.n)).length_m

    def __getstate__(self) -> dict[str, object]:
        kept = ("description", "arrays", "scale", "rest_m", "_made_with", "_parts", "_payload")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def with_gravity(self, gravity_m_per_s2: ArrayLike) -> Rod:
        """The same rod in another gravity (3,), m/s^2, in the base frame."""
        other = copy(self)
        gravity = np.array(gravity_m_per_s2, dtype=float)
        x, y, z = (float(value) for value in gravity)
        other.description = replace(self.description, gravity_m_per_s2=(x, y, z))
        other.arrays = replace(self.arrays, gravity=gravity, body=self.arrays.body.copy())
        for name in ("_finer", "strings"):
            other.__dict__.pop(name, None)
        other._prepare()
        return other

    def with_bodies(self, body: Vector) -> Rod:
        """The same rod with other bodies, of the shape of ``arrays.body``, and nothing that moves beside them."""
        other = copy(self)
        other.arrays = replace(self.arrays, body=np.array(body, order="C"), inertia=np.zeros_like(self.arrays.inertia))
        for name in ("_finer", "strings"):
            other.__dict__.pop(name, None)
        other._prepare()
        return other

    def loaded(self, loads: Sequence[Load]) -> Rod:
        """The rod that it was made as, with other loads besides its weight."""
        return Rod(self.description, **{**self._made_with, "loads": loads})

    def load(self, loads: Sequence[Load]) -> None:
        """Put other loads in the places of those that it was made with; others than these vanish.

        Parameters
        ----------
        loads : at the same places, with the same points of application

        Raises
        ------
        ParameterError : a load where none was when the rod was made
        """
        body = self.arrays.body
        body[:, 13:] = 0.0
        for s_m, numbers in point_loads(loads, self.arrays.pieces):
            at = np.flatnonzero(
                (np.abs(self.arrays.bodies_m - s_m) < 1e-9 * self.length_m)
                & (np.abs(body[:, 10:13] - numbers[10:13]).max(axis=1) < 1e-12)
            )
            if not at.size:
                raise ParameterError("loads", s_m, "arc lengths and offsets of loads that the rod was made with, m")
            body[at[-1], 13:] += numbers[13:]

    @cached_property
    def strings(self) -> Rod:
        """The same rod with its strings in place of its tendons; numbers that were changed since are not."""
        return Rod(self.description, **{**self._made_with, "paths": self.description.string_paths})

    def finer(self, nodes: int = 4) -> Rod:
        """The same rod with so many Gauss nodes more on each piece; numbers that were changed since are not."""
        own = self._made_with["nodes"] or max(len(piece.nodes) for piece in self.arrays.pieces)
        return Rod(self.description, **{**self._made_with, "nodes": own + nodes})

    def _prepare(self) -> None:
        arrays = self.arrays
        self._stations: dict[bytes, Stations] = {}
        self.library = kernel.library()
        place, at = np.zeros(len(arrays.node), kernel.PLACE), kernel.at
        place["node"], place["step_m"] = arrays.node, arrays.step_m
        self._places = weight, weight_of, place = *weights_in_eights(arrays), place
        self.shape = kernel.Shape(
            arrays.n, len(arrays.piece), len(arrays.body), self.tendon_count, len(arrays.path_node),
            0, at(arrays.piece), at(place), at(arrays.rows), at(arrays.phi), at(arrays.at_node),
            at(weight), at(weight_of), at(arrays.path_node), at(arrays.path_phi), at(arrays.path_index),
        )  # fmt: skip
        self.numbers = kernel.Numbers(**{name: at(getattr(arrays, name)) for name in _NUMBERS})
        if self.library is not None:
            self.library.rod_prepare(ct.byref(self.shape))

    def terms(self, c: ArrayLike, v: ArrayLike, a: ArrayLike | None = None) -> Terms:
        """Everything that L = T - V and the loads have to say at (c, v).

        Parameters
        ----------
        c, v : coefficients and their rates, (n,)
        a : accelerations, (n,): the bias then holds M a; None: none

        Raises
        ------
        ParameterError : not n finite numbers
        """
        c_now, v_now = self._state("c", c), self._state("v", v)
        a_now = None if a is None else self._state("a", a)
        if self.library is None:
            return reference.terms(self.arrays, c_now, v_now, a_now)
        found, out = self._results()
        self.library.rod_terms(
            ct.byref(self.shape), ct.byref(self.numbers), *self._at(c_now, v_now, a_now), ct.byref(out)
        )
        return found

    def form(self, *, linear: bool = False) -> tuple[kernel.Shape, kernel.Numbers, tuple[object, ...]]:
        """What the kernel reads of this rod, and what must stay alive with it.

        Parameters
        ----------
        linear : take the lengths of the paths, that are linear in the coefficients, by their gradient at the straight
            rod; changes of ``arrays.path`` are then not seen
        """
        shape, numbers = kernel.Shape.from_buffer_copy(self.shape), kernel.Numbers.from_buffer_copy(self.numbers)
        if not linear:
            return shape, numbers, (self,)
        at = self.lengths(np.zeros(self.n))
        path = np.column_stack([at.length_m, at.gradient]).copy()
        shape.straight, numbers.path = 1, kernel.at(path)
        return shape, numbers, (self, path)

    def acceleration(self, c: ArrayLike, v: ArrayLike, force: ArrayLike) -> Vector:
        """Acceleration of the coefficients, (n,): muhmann (25).

        Parameters
        ----------
        c, v : coefficients and their rates, (n,)
        force : generalised force besides stiffness, damping, weight and loads, the tendons' included, (n,), N.m^2
        """
        given, found, arrays = self._state("force", force), self.terms(c, v), self.arrays
        held = arrays.stiffness @ np.asarray(c, dtype=float) + arrays.damping @ np.asarray(v, dtype=float)
        return np.asarray(np.linalg.solve(found.mass, given - found.bias - held))

    def prepared(self, *wanted: str) -> Callable[[ArrayLike, ArrayLike], Terms]:
        """The function :meth:`terms` of c and v for a control cycle: its results last until its next call.

        Parameters
        ----------
        wanted : names of the results that are computed, the others are 0; none: all
        """
        if self.library is None:
            return lambda c, v: reference.terms(self.arrays, self._state("c", c), self._state("v", v))
        state = np.zeros((2, self.n))
        found, out = self._results()
        for name in [field[0] for field in out._fields_] if wanted else ():
            if name not in wanted:
                getattr(found, name)[:] = 0.0
                setattr(out, name, None)
        call = self.library.rod_terms
        given = (ct.byref(self.shape), ct.byref(self.numbers), *self._at(state[0], state[1], None), ct.byref(out))
        kept = (self, out)  # what the addresses belong to

        def evaluate(c: ArrayLike, v: ArrayLike) -> Terms:
            state[0], state[1] = c, v
            call(*given)
            return found

        evaluate.kept = kept  # type: ignore[attr-defined]
        return evaluate

    def _results(self) -> tuple[Terms, kernel.Terms]:
        n, bodies = self.n, len(self.arrays.body)
        pose, jacobian = np.empty((bodies, 12)), np.empty((bodies, 6, n))
        found = {name: np.empty(n) for name in ("momentum", "force", "bias")}
        found |= {name: np.empty((n, n)) for name in ("mass", "momentum_by_c", "force_by_c")}
        out = kernel.Terms(*(kernel.at(array) for array in (*found.values(), pose, jacobian)))
        return Terms(**found, pose=pose, jacobian=jacobian), out

    def energies(self, c: ArrayLike, v: ArrayLike) -> Energies:
        """Energies at (c, v).

        Parameters
        ----------
        c, v : coefficients and their rates, (n,)
        """
        c_now, v_now, arrays = self._state("c", c), self._state("v", v), self.arrays
        at = self.terms(c_now, v_now)
        mass, first = arrays.body[:, 0], arrays.body[:, 1:4]
        moment = mass[:, None] * at.position + np.einsum("kij,kj->ki", at.rotation, first)
        point = at.position + np.einsum("kij,kj->ki", at.rotation, arrays.body[:, 10:13])
        loads_j = -float((point * arrays.body[:, 13:16]).sum())
        return Energies(
            float(v_now @ at.momentum) / 2,
            float(c_now @ arrays.stiffness @ c_now) / 2,
            loads_j - float(moment.sum(axis=0) @ arrays.gravity),
        )

    def frames(self, c: ArrayLike) -> Frames:
        """Where the bodies of the arrays are at coefficients (n,), and their Jacobians."""
        c_now, still = self._state("c", c), np.zeros(self.n)
        if self.library is None:
            at = reference.terms(self.arrays, c_now, still)
            return Frames(at.rotation, at.position, at.jacobian)
        pose, jacobian = np.empty((len(self.arrays.body), 12)), np.empty((len(self.arrays.body), 6, self.n))
        out = kernel.Terms(pose=kernel.at(pose), jacobian=kernel.at(jacobian))
        self.library.rod_terms(
            ct.byref(self.shape), ct.byref(self.numbers), *self._at(c_now, still, None), ct.byref(out)
        )
        return Frames(pose[:, :9].reshape(-1, 3, 3), pose[:, 9:], jacobian)

    def poses(self, c: ArrayLike, arc_lengths_m: ArrayLike) -> Vector:
        """Poses of the backbone, (k, 4, 4).

        Parameters
        ----------
        c : coefficients, (n,)
        arc_lengths_m : from the base, (k,), m

        Raises
        ------
        ParameterError : an arc length off the rod
        """
        c_now, stations = self.checked(c), self.stations(arc_lengths_m)
        return stations.poses(self.frames(c_now), c_now)

    def jacobian(self, c: ArrayLike, s_m: float) -> Vector:
        """Jacobian of the twist (linear, angular) of the frame at an arc length (m), in its own axes, (6, n)."""
        return self.moved(c, s_m)[1]

    def moved(self, c: ArrayLike, s_m: float | None = None) -> tuple[Vector, Vector]:
        """Pose (4, 4) and :meth:`jacobian` (6, n) at an arc length (m), together; None: of the tip.

        Raises
        ------
        ParameterError : an arc length off the rod
        ReachError : coefficients that turn the rod further than its frames hold
        """
        c_now = self.checked(c)
        at = self.frames(c_now)
        if s_m is None or s_m == self.length_m:
            return se3.transform(at.rotation[-1], at.position[-1]), at.jacobian[-1]
        stations = self.stations([s_m])
        poses = stations.poses(at, c_now)
        return poses[0], stations.jacobians(at, poses)[0]

    def stations(self, arc_lengths_m: ArrayLike) -> Stations:
        """Places along the rod, kept for the next time.

        Raises
        ------
        ParameterError : an arc length off the rod
        """
        places_m = np.array(arc_lengths_m, dtype=float, ndmin=1)
        key = places_m.tobytes()
        if key not in self._stations:
            while len(self._stations) >= _STATIONS_KEPT:
                del self._stations[next(iter(self._stations))]
            self._stations[key] = Stations(self.arrays, places_m)
        return self._stations[key]

    def checked(self, c: ArrayLike) -> Vector:
        """Coefficients (n,) that the rod can have.

        Raises
        ------
        ParameterError : not n finite numbers
        ReachError : they turn the rod further than its frames hold
        """
        c_now = self._state("c", c)
        self._strains.check_reach(c_now)
        return c_now

    @cached_property
    def _strains(self) -> Strains:
        return Strains(self.arrays)

    @property
    def tip_steps(self) -> TipSteps:
        """The way to its tip, for the tips of many such rods at once."""
        return TipSteps.of(self._strains)

    @cached_property
    def cross_sections(self) -> CrossSections:
        """For what its basis cannot represent; see rod/defect.py."""
        return CrossSections(self)

    def error_m(self, c: ArrayLike) -> float:
        """How far the tip moves with four nodes more on each piece, m: about what the frames err by."""
        return float(np.linalg.norm(self.moved(c)[0][:3, 3] - self._finer.moved(c)[0][:3, 3]))

    @cached_property
    def _finer(self) -> Rod:
        return self.finer()

    def lengths(self, c: ArrayLike) -> Lengths:
        """Lengths of the tendons, and their gradient.

        Parameters
        ----------
        c : coefficients, (n,)
        """
        c_now = self._state("c", c)
        if self.library is None:
            return Lengths(*reference.lengths(self.arrays, c_now, self.tendon_count))
        length, gradient = np.empty(self.tendon_count), np.empty((self.tendon_count, self.n))
        self.library.rod_lengths(
            ct.byref(self.shape), ct.byref(self.numbers), *self._at(c_now, None, length, gradient, None),
        )  # fmt: skip
        return Lengths(length, gradient)

    def prepared_lengths(self) -> Callable[[ArrayLike], Lengths]:
        """The function :meth:`lengths` of c for a cycle, unchecked: its results last until its next call."""
        if self.library is None:
            return self.lengths
        c_now, length, gradient = np.zeros(self.n), np.empty(self.tendon_count), np.empty((self.tendon_count, self.n))
        found, call = Lengths(length, gradient), self.library.rod_lengths
        given = (ct.byref(self.shape), ct.byref(self.numbers), *self._at(c_now, None, length, gradient, None))

        def evaluate(c: ArrayLike) -> Lengths:
            c_now[:] = c
            call(*given)
            return found

        evaluate.kept = self  # type: ignore[attr-defined]
        return evaluate

    def displacement(self, c: ArrayLike) -> Vector:
        """Displacement of every tendon against c = 0, pulled in positive, (N,), m."""
        return np.asarray(self.rest_m - self.lengths(c).length_m)

    def displacement_gradient(self, c: ArrayLike) -> Vector:
        """Derivative of :meth:`displacement` by c, (N, n)."""
        return -self.lengths(c).gradient

    def pulled(self, c: ArrayLike, tension: ArrayLike) -> tuple[Vector, Vector, Vector]:
        """Lengths of the tendons (N,), their gradient l_c (N, n), and the slope of the pull -l_c^T T by c, (n, n).

        Parameters
        ----------
        c : coefficients, (n,)
        tension : T, (N,), N
        """
        c_now, pull = self._state("c", c), self._tendons("tension", tension)
        if self.library is None:
            lengths = reference.lengths(self.arrays, c_now, self.tendon_count)
            return *lengths, -reference.curvature(self.arrays, c_now, pull)
        length, gradient = np.empty(self.tendon_count), np.empty((self.tendon_count, self.n))
        by_c = np.zeros((self.n, self.n))
        self.library.rod_lengths(
            ct.byref(self.shape), ct.byref(self.numbers), *self._at(c_now, pull, length, gradient, by_c),
        )  # fmt: skip
        return length, gradient, by_c

    def equilibrium(
        self,
        tension: ArrayLike = 0.0,
        start: ArrayLike | Equilibrium | None = None,
        *,
        stiffness: ArrayLike = 0.0,
        spooled: ArrayLike = 0.0,
        stops: Stops | None = None,
        continuation: str = "auto",
        settle: bool = True,
    ) -> Equilibrium:
        """Where the rod rests; see :func:`continuum_robot.rod.statics.equilibrium`, which has the same parameters."""
        return equilibrium(
            self, tension, start,
            stiffness=stiffness, spooled=spooled, stops=stops, continuation=continuation, settle=settle,
        )  # fmt: skip

    def inverse_kinematics(
        self,
        target: ArrayLike,
        *,
        start_n: ArrayLike = 1.0,
        least_n: ArrayLike = 0.0,
        most_n: ArrayLike = np.inf,
        nearest: bool = False,
    ) -> Equilibrium:
        """The equilibrium whose tip is at a target.

        See :func:`continuum_robot.rod.inverse_kinematics.inverse_kinematics`, which has the same parameters.
        """
        return inverse_kinematics(self, target, start_n=start_n, least_n=least_n, most_n=most_n, nearest=nearest)

    def equilibria(
        self,
        tension: ArrayLike,
        start: ArrayLike | None = None,
        *,
        stiffness: ArrayLike = 0.0,
        spooled: ArrayLike = 0.0,
        numbers: OwnNumbers | None = None,
        tolerance: float = 1e-10,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Equilibria:
        """Equilibria of many robots, without the interpreter's lock; the same bits for any number of threads.

        Parameters
        ----------
        tension : given tensions, (robots, N), N
        start : (robots, n), or (n,) for all; None: straight
        stiffness : of tendons as springs that only pull, (N,), N/m
        spooled : what they have taken in, (robots, N) or (N,), m
        numbers, threads, progress : as of :meth:`motions`
        tolerance : last change of a coefficient, as angle or strain over its segment

        Raises
        ------
        ParameterError : shapes that do not fit, or numbers that are not finite
        """
        pulled = np.array(tension, dtype=float, order="C")
        if pulled.ndim != 2 or pulled.shape[1] != self.tendon_count:
            raise ParameterError("tension", pulled.shape, f"the shape (robots, {self.tendon_count})")
        robots = len(pulled)
        c = self._of_each("start", np.zeros(self.n) if start is None else start, (robots, self.n))
        wound = self._of_each("spooled", spooled, pulled.shape)
        self._of_each("tension", pulled, pulled.shape)
        batch = self._batch(numbers, robots, stiffness)
        hessian, iterations = np.empty((robots, self.n, self.n)), np.zeros(robots, np.int32)
        library = self.compiled()

        def run(going: ct.c_int, done: ct.c_int) -> int:
            return int(
                library.rod_equilibria(
                    ct.byref(self.shape), ct.byref(batch.numbers), batch.own, *self._at(self.scale), robots,
                    *self._at(c, pulled, batch.stiffness, wound, batch.rest_m), ct.c_double(tolerance),
                    MOST_ITERATIONS, *self._at(hessian, iterations), threads or os.cpu_count() or 1,
                    ct.byref(going), ct.byref(done),
                )
            )  # fmt: skip

        _in_threads(run, robots, progress)
        converged = iterations > 0
        c[~converged], hessian[~converged] = np.nan, np.nan
        return Equilibria(c, hessian, np.abs(iterations), converged)

    def motions(
        self,
        c: ArrayLike,
        v: ArrayLike,
        tension: ArrayLike,
        step_s: float,
        *,
        stiffness: ArrayLike = 0.0,
        spooled: ArrayLike | None = None,
        numbers: OwnNumbers | None = None,
        method: str = "sdirk",
        tolerance: float = 1e-8,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> tuple[Vector, Vector]:
        """Motions of many robots, without the interpreter's lock; the same bits for any number of threads.

        Parameters
        ----------
        c, v : where each begins, (robots, n)
        tension : constant in each step, (robots, steps, N), N
        step_s : length of a step, s
        stiffness : of tendons as springs that only pull, (N,), N/m
        spooled : what their motors have taken in, constant in each step, (robots, steps, N), m; None: nothing
        numbers : of each robot: gravity, body, stiffness, damping, rest, path_rest and path by name, as in ``arrays``
            with robots first, what is left out as in this rod; or arrays of the same shape as this rod's; None: all
            have this rod's
        method : sdirk (damps what is too fast for the step) or midpoint (keeps energy)
        tolerance : last change of a coefficient in a stage, as angle or strain over its segment
        threads : None: one a processor
        progress : receives the fraction that is done

        Returns
        -------
        c and v at the end, (robots, n)

        Raises
        ------
        ParameterError : shapes that do not fit
        NotConvergedError : of which robots, and why
        """
        c, v, tension = (np.array(x, dtype=float, order="C") for x in (c, v, tension))
        robots, steps = self._check_motions(c, v, tension)
        wound = np.zeros_like(tension) if spooled is None else np.array(spooled, dtype=float, order="C")
        if wound.shape != tension.shape:
            raise ParameterError("spooled", wound.shape, f"the shape of tension, {tension.shape}")
        if method not in METHODS:
            raise ParameterError("method", method, " or ".join(METHODS))
        batch, library = self._batch(numbers, robots, stiffness), self.compiled()

        def run(going: ct.c_int, done: ct.c_int) -> int:
            return int(
                library.rod_motions(
                    ct.byref(self.shape), ct.byref(batch.numbers), batch.own, *self._at(self.scale),
                    METHODS[method], ct.c_double(step_s), steps, robots,
                    *self._at(c, v, tension, batch.stiffness, wound, batch.rest_m), ct.c_double(tolerance),
                    threads or os.cpu_count() or 1, ct.byref(going), ct.byref(done),
                )
            )  # fmt: skip

        failed = _in_threads(run, robots, progress)
        if failed:
            raise NotConvergedError(f"{failed} of {robots} motions did not converge: take shorter steps")
        return c, v

    def gradient_of_end(
        self,
        c: ArrayLike,
        v: ArrayLike,
        tension: ArrayLike,
        step_s: float,
        by_c: ArrayLike,
        by_momentum: ArrayLike,
        *,
        method: str = "sdirk",
        directions: Sequence[tuple[Vector, Vector, Vector]] = (),
    ) -> Gradient:
        """Gradient of by_c . c + by_momentum . p at the end of a motion: by its start, by all tensions, by numbers.

        Parameters
        ----------
        c, v : where it begins, (n,)
        tension : constant in each step, (steps, N), N
        step_s : length of a step, s
        by_c, by_momentum : (n,)
        method : sdirk or midpoint
        directions : changes of body, stiffness and damping along which a slope is wanted, of the shapes of the arrays

        Raises
        ------
        NotConvergedError : a step that Newton's method does not find
        """
        c_now, v_now = self._state("c", c).copy(), self._state("v", v)
        tension = np.array(tension, dtype=float, order="C")
        self._check_motions(c_now[None], v_now[None], tension[None])
        momentum = self.terms(c_now, v_now).momentum.copy()
        on_c, on_p = self._state("by_c", by_c).copy(), self._state("by_momentum", by_momentum).copy()
        on_tension, along = np.zeros_like(tension), np.zeros(len(directions))
        changes = [np.ascontiguousarray([one[i] for one in directions], dtype=float) for i in range(3)]
        wanted = kernel.Directions(len(directions), *(kernel.at(x) for x in changes))
        good = self.compiled().rod_gradient(
            ct.byref(self.shape), ct.byref(self.numbers), *self._at(self.scale), METHODS[method],
            ct.c_double(step_s), len(tension), *self._at(c_now, momentum, v_now, tension, on_c, on_p, on_tension),
            ct.byref(wanted), *self._at(along),
        )  # fmt: skip
        if not good:
            raise NotConvergedError("the motion did not converge: take shorter steps")
        return Gradient(c_now, momentum, on_c, on_p, on_tension, along)

    def _batch(self, numbers: OwnNumbers | None, robots: int, stiffness: ArrayLike) -> _Batch:
        springs = self._tendons("stiffness", stiffness)
        if numbers is None:
            return _Batch(self.numbers, 0, springs, self.rest_m, {})
        if not isinstance(numbers, Mapping):
            if len(numbers) != robots:
                raise ParameterError("numbers", len(numbers), f"arrays of {robots} robots")
            numbers = {name: np.array([getattr(one, name) for one in numbers]) for name in _NUMBERS}
        if not numbers.keys() <= set(_NUMBERS):
            raise ParameterError("numbers", ", ".join(numbers), f"names of {', '.join(_NUMBERS)}")
        held = {}
        for name in _NUMBERS:
            own = getattr(self.arrays, name)
            held[name] = self._of_each(f"numbers.{name}", numbers.get(name, own), (robots, *own.shape))
        rest_m = np.tile(self.rest_m, (robots, 1))
        if springs.any() and {"path", "path_rest"} & numbers.keys():
            straight, library = np.zeros(self.n), self.compiled()
            for lengths_m, path, path_rest in zip(rest_m, held["path"], held["path_rest"], strict=True):
                one = kernel.Numbers(path_rest=kernel.at(path_rest), path=kernel.at(path))
                unused = np.empty((self.tendon_count, self.n))
                library.rod_lengths(
                    ct.byref(self.shape), ct.byref(one), *self._at(straight, None, lengths_m, unused, None)
                )
        given = kernel.Numbers(**{name: kernel.at(array) for name, array in held.items()})
        return _Batch(given, 1, np.tile(springs, (robots, 1)), rest_m, held)

    def _of_each(self, name: str, values: ArrayLike, shape: tuple[int, ...]) -> Vector:
        """An own array of this shape, of values that may be the same for each robot."""
        try:
            array = np.array(np.broadcast_to(np.asarray(values, dtype=float), shape), order="C")
        except ValueError:
            raise ParameterError(name, np.shape(values), f"the shape {shape}") from None
        if not np.isfinite(array).all():
            raise ParameterError(name, values, "finite numbers")
        return array

    def compiled(self) -> ct.CDLL:
        """The kernel's library; MissingPackageError where none could be built."""
        if self.library is None:
            raise MissingPackageError(f"{kernel.NOT_BUILT}; install a compiler, and the package again")
        return self.library

    def _at(self, *arrays: NDArray[Any] | None) -> list[ct.c_void_p]:
        return [ct.c_void_p(kernel.at(array)) for array in arrays]

    def _check_motions(self, c: Vector, v: Vector, tension: Vector) -> tuple[int, int]:
        robots = len(c)
        for name, array in (("c", c), ("v", v)):
            if array.shape != (robots, self.n) or not np.isfinite(array).all():
                raise ParameterError(name, array.shape, f"({robots}, {self.n}) finite numbers")
        if tension.ndim != 3 or (len(tension), tension.shape[2]) != (robots, self.tendon_count):
            raise ParameterError("tension", tension.shape, f"({robots}, steps, {self.tendon_count})")
        if not np.isfinite(tension).all():
            raise ParameterError("tension", tension, "finite numbers")
        return robots, tension.shape[1]

    def _tendons(self, name: str, values: ArrayLike) -> Vector:
        array = np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=float), (self.tendon_count,)))
        if not np.isfinite(array).all():
            raise ParameterError(name, values, f"{self.tendon_count} finite numbers")
        return array

    def _state(self, name: str, values: ArrayLike) -> Vector:
        array = np.ascontiguousarray(values, dtype=float)
        if array.shape != (self.n,) or not all_finite(array):
            raise ParameterError(name, values, f"{self.n} finite numbers")
        return array
