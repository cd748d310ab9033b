# SPDX-License-Identifier: Apache-2.0
"""A rod's description as the arrays of arrays.hpp: where things stand along the rod, and the numbers there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.lumped_masses import LumpedMass
from continuum_robot.robot.segments.routing import RoutedPath, turn_cuts
from continuum_robot.rod.bases import basis_matrix, gauss_legendre
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.loads import Load, PointWrench

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

GAUSS = (0.5 - math.sqrt(15) / 10, 0.5, 0.5 + math.sqrt(15) / 10)
"""Of a step of sixth order, as fractions of it."""
SAME_PLACE = 1e-9
"""Fraction of a piece below which two places are one."""
_TURN_RAD = 8 * math.pi  # of a path between two cuts of its quadrature
MASS, LOAD, BODY = slice(0, 10), slice(10, 25), 25
"""Of a body's numbers: inertia, and the load on it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A length of the rod on which the strain is smooth."""

    segment: int
    low: float
    high: float
    start_m: float
    length_m: float
    first: int
    count: int
    own: slice
    basis: Basis
    nodes: Vector
    constant: bool

    def values(self, at: float) -> Vector:
        """Of each coefficient, its function at a fraction of the piece, (count,)."""
        return _values(self.basis, self.low + (self.high - self.low) * at)[self.own]


@dataclass(frozen=True, slots=True)
class RodArrays:
    """The shape of a rod (nothing in it changes) and the numbers (which may)."""

    n: int
    pieces: tuple[Piece, ...]
    bodies_m: Vector
    rows: Indices
    piece: Indices
    node: Indices
    step_m: Vector
    phi: Vector
    at_node: Vector
    weight: Vector
    path_node: Indices
    path_m: Vector
    path_phi: Vector
    path_index: Indices
    gravity: Vector
    body: Vector
    inertia: Vector
    stiffness: Vector
    damping: Vector
    rest: Vector
    path_rest: Vector
    path: Vector


def weights_in_eights(arrays: RodArrays) -> tuple[Vector, Vector]:
    """``weight`` and ``weight_of`` of arrays.hpp, flat."""
    weight, rows, columns = iter(arrays.weight), [], []
    for places, nodes in arrays.piece[:, 2:4].tolist():
        padded = np.zeros((-(-places // 8) * 8, nodes // 8 * 8 + 8))
        padded[:places, :nodes] = [[next(weight) for _ in range(nodes)] for _ in range(places)]
        padded[:places, nodes] = 1.0
        rows.append(padded[:places])
        columns.append(padded.reshape(-1, 8, padded.shape[1])[:, :, :nodes].transpose(0, 2, 1))
    return _flat(rows), _flat(columns)


def default_nodes(basis: Basis, fraction: float) -> int:
    """Gauss nodes of a piece that is a fraction of its segment: energies are right to about 1e-7 with these."""
    return basis.nodes or math.ceil((6 + max(basis.highest_order, basis.degree // 2)) * max(fraction, 0.5))


@lru_cache(maxsize=64)
def _polynomials(count: int) -> tuple[Vector, list[np.polynomial.Legendre]]:
    """Of Legendre, their values at so many Gauss nodes of [0, 1], and their integrals from 0."""
    polynomials = [np.polynomial.Legendre.basis(k, domain=[0, 1]) for k in range(count)]
    values = np.array([polynomial(gauss_legendre(count)[0]) for polynomial in polynomials])
    return values, [polynomial.integ(lbnd=0) for polynomial in polynomials]


@lru_cache(maxsize=4096)
def integrals(count: int, at: float) -> Vector:
    """Integral from 0 to ``at`` of the polynomial through values at the Gauss nodes of [0, 1], by these: (count,)."""
    values, antiderivatives = _polynomials(count)
    found = np.asarray(np.linalg.solve(values, [polynomial(at) for polynomial in antiderivatives]))
    found.flags.writeable = False  # it is kept
    return found


def rod_arrays(
    rod: RodDescription,
    *,
    nodes: int | None = None,
    path_nodes: int | None = None,
    paths: Sequence[RoutedPath] | None = None,
    stations_m: Sequence[float] = (),
    loads: Sequence[Load] = (),
) -> RodArrays:
    """The arrays of a rod."""
    if nodes is not None and nodes < 6:
        raise ParameterError("nodes", nodes, "at least 6 Gauss nodes a piece")
    pieces = _pieces(rod, nodes)
    points = list(point_loads(loads, pieces))
    for name, places_m in (("stations_m", stations_m), ("loads", [s_m for s_m, _ in points])):
        for s_m in places_m:
            if not -SAME_PLACE <= s_m / rod.length_m <= 1 + SAME_PLACE:
                raise ParameterError(name, s_m, f"an arc length from 0 to {rod.length_m:g} m")
    places = _Places(rod, pieces, [*map(_station, stations_m), *map(body_of, rod.masses), *points])
    lengths = _Lengths(pieces, rod.tendon_paths if paths is None else paths, path_nodes)
    rows = [row for segment in rod.segments for row in segment.basis.rows]
    rest = [np.array(rod.segments[piece.segment].rest_strain) for piece in pieces]
    inertia = np.zeros((len(rows), len(rows)))
    if rod.tendon_mass_kg is not None:
        lever = straight_lever(rod)
        inertia = np.ascontiguousarray(lever.T @ rod.tendon_mass_kg @ lever)
    return RodArrays(
        n=len(rows),
        pieces=pieces,
        bodies_m=np.array(places.bodies_m),
        rows=np.array(rows, np.int32),
        piece=np.array(
            [
                (piece.first, piece.count, count, len(piece.nodes), piece.constant)
                for piece, count in zip(pieces, places.counts, strict=True)
            ],
            np.int32,
        ),
        node=np.array(places.node, np.int32),
        step_m=np.array(places.step_m),
        phi=_flat(places.phi),
        at_node=_flat(places.at_node),
        weight=_flat(places.weight),
        path_node=np.array(lengths.node, np.int32).reshape(-1, 2),
        path_m=np.array(lengths.node_m),
        path_phi=_flat(lengths.phi),
        path_index=np.array(lengths.index, np.int32),
        gravity=np.array(rod.gravity_m_per_s2, float),
        body=np.array(places.body),
        inertia=inertia,
        stiffness=rod.stiffness,
        damping=rod.damping,
        rest=np.concatenate([np.tile(own, (count, 3, 1)) for own, count in zip(rest, places.counts, strict=True)]),
        path_rest=np.array([rest[piece] for piece, _ in lengths.node]).reshape(-1, 6),
        path=np.array(lengths.path).reshape(-1, 6),
    )


def straight_lever(rod: RodDescription) -> Vector:
    """Displacement of every tendon per coefficient at c = 0, (N, n)."""
    arrays = rod_arrays(replace(rod, tendon_mass_kg=None))
    return -reference.lengths(arrays, np.zeros(arrays.n), len(rod.tendon_paths))[1]


def _flat(parts: Sequence[Vector]) -> Vector:
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)


def _values(basis: Basis, ratio: float) -> Vector:
    """Of each coefficient of a segment, its function there."""
    return np.asarray(basis_matrix(basis, ratio)[np.array(basis.rows), np.arange(basis.coefficient_count)])


def _pieces(rod: RodDescription, nodes: int | None) -> tuple[Piece, ...]:
    found, column = [], 0
    for index, (segment, start_m) in enumerate(zip(rod.segments, rod.starts_m, strict=True)):
        basis = segment.basis
        for low, high in pairwise(sorted({0.0, *basis.breaks, *segment.breaks, 1.0})):
            places, _ = gauss_legendre(nodes or default_nodes(basis, high - low))
            values = np.array([_values(basis, low + (high - low) * place) for place in places])
            used = np.flatnonzero(np.abs(values).sum(axis=0))
            own = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 0)
            start, length = float(start_m) + low * segment.length_m, (high - low) * segment.length_m
            constant = bool(np.ptp(values, axis=0).max() == 0.0)
            first, count = column + own.start, own.stop - own.start
            found.append(Piece(index, low, high, start, length, first, count, own, basis, places, constant))
        column += basis.coefficient_count
    return tuple(found)


def _station(s_m: float) -> tuple[float, Vector]:
    return float(s_m), np.zeros(BODY)


def body_of(mass: LumpedMass) -> tuple[float, Vector]:
    """Where it is, and its numbers: mass, first moment, second moment about the place's origin."""
    numbers, s = np.zeros(BODY), np.array(mass.center_of_mass_m)
    second = mass.mass_kg * (s @ s * np.eye(3) - np.outer(s, s)) + mass.inertia_kg_m2
    numbers[0] = mass.mass_kg
    numbers[1:4] = mass.mass_kg * s
    numbers[4:10] = second[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return float(mass.s_m), numbers


def point_loads(loads: Sequence[Load], pieces: Sequence[Piece]) -> Iterator[tuple[float, Vector]]:
    """The loads as point loads: a distributed one at Gauss nodes, where it covers a piece at the piece's own."""
    end_m = pieces[-1].start_m + pieces[-1].length_m
    for load in loads:
        if isinstance(load, PointWrench):
            yield float(load.s_m), _law(load.force_n, load.moment_nm, load.frame, load.offset_m)
            continue
        last_m = end_m if load.end_m is None else load.end_m
        if not 0 <= load.start_m < last_m <= end_m * (1 + 1e-12):
            raise ParameterError("distributed load", (load.start_m, last_m), f"start < end in [0, {end_m:g}] m")
        for piece in pieces:
            low, high = max(load.start_m, piece.start_m), min(last_m, piece.start_m + piece.length_m)
            if high - low <= 1e-12 * end_m:
                continue
            at, weights = gauss_legendre(len(piece.nodes), high - low)
            for s_m, weight in zip(low + at, weights, strict=True):
                force, moment = load.at(s_m)
                yield s_m, _law(weight * force, weight * moment, load.frame)


def _law(force: ArrayLike, moment: ArrayLike, frame: str, offset_m: ArrayLike = (0.0, 0.0, 0.0)) -> Vector:
    numbers = np.zeros(BODY)
    numbers[10:13] = offset_m
    first = 19 if frame == "body" else 13
    numbers[first : first + 3], numbers[first + 3 : first + 6] = force, moment
    return numbers


class _Places:
    """The places of all pieces: nodes, bodies, stations, loads and ends."""

    def __init__(
        self, rod: RodDescription, pieces: Sequence[Piece], fixed: Sequence[tuple[float, Vector]]
    ) -> None:
        self.counts: list[int] = []
        self.node: list[int] = []
        self.step_m: list[float] = []
        self.phi: list[Vector] = []
        self.at_node: list[Vector] = []
        self.weight: list[Vector] = []
        self.body: list[Vector] = []
        self.bodies_m: list[float] = []
        for number, piece in enumerate(pieces):
            begins = -math.inf if number == 0 else SAME_PLACE
            here = [
                (max(0.0, min(1.0, (s_m - piece.start_m) / piece.length_m)), numbers)
                for s_m, numbers in fixed
                if begins < (s_m - piece.start_m) / piece.length_m <= 1 + SAME_PLACE
            ]
            self._add(rod, piece, here)

    def _add(self, rod: RodDescription, piece: Piece, fixed: Sequence[tuple[float, Vector]]) -> None:
        weights, segment = gauss_legendre(len(piece.nodes), piece.length_m)[1], rod.segments[piece.segment]
        bodies: dict[float, list[Vector]] = {at: [] for at in (*piece.nodes.tolist(), 1.0)}
        for at, numbers in fixed:
            bodies.setdefault(next((known for known in bodies if abs(known - at) < SAME_PLACE), at), []).append(numbers)
        nodes, before, count = piece.nodes.tolist(), 0.0, 0
        for at in sorted(bodies):
            node = nodes.index(at) if at in nodes else -1
            own = np.zeros(BODY)
            if node >= 0:
                density, rotary = segment.mass_at(piece.low + at * (piece.high - piece.low))
                own[0], own[4:7] = weights[node] * density, weights[node] * rotary
                self.at_node.append(piece.values(at))
            for k, numbers in enumerate(_together([own, *bodies[at]])):
                self.node.append(node if k == 0 else -1)
                self.body.append(numbers)
                self.bodies_m.append(piece.start_m + at * piece.length_m)
                self.step_m.append((at - before) * piece.length_m)
                self.phi += [piece.values(before + part * (at - before)) for part in GAUSS]
                self.weight.append(integrals(len(nodes), at) * piece.length_m)
                before, count = at, count + 1
        self.counts.append(count)


def _together(bodies: Sequence[Vector]) -> list[Vector]:
    """Bodies at one place: their inertia is one, and their loads with one point of application."""
    found: dict[tuple[float, ...], Vector] = {}
    for numbers in bodies:
        if numbers[LOAD].any():
            law = found.setdefault(tuple(numbers[10:13]), np.zeros(BODY))
            law[10:13] = numbers[10:13]
            law[13:] += numbers[13:]
    rows = list(found.values()) or [np.zeros(BODY)]
    rows[0][MASS] = sum(numbers[MASS] for numbers in bodies)
    return rows


class _Lengths:
    """Nodes of the paths' lengths: between ends and kinks, as many as their turns ask for."""

    def __init__(self, pieces: Sequence[Piece], paths: Sequence[RoutedPath], path_nodes: int | None) -> None:
        self.node: list[tuple[int, int]] = []
        self.node_m: list[float] = []
        self.phi: list[Vector] = []
        self.index: list[int] = []
        self.path: list[Vector] = []
        for number, piece in enumerate(pieces):
            low, high = piece.start_m, piece.start_m + piece.length_m
            close = SAME_PLACE * piece.length_m
            places = (place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m))
            ends = [low, *sorted({place for place in places if low + close < place < high - close}), high]
            for first, last in pairwise(ends):
                run = [j for j, path in enumerate(paths) if path.start_m < last - close and path.end_m > first + close]
                if not run or last - first < close:
                    continue
                for begin, end in pairwise(turn_cuts(first, last, [paths[j] for j in run], _TURN_RAD)):
                    self._add(piece, number, [(j, paths[j]) for j in run], begin, end, path_nodes)

    def _add(
        self,
        piece: Piece,
        number: int,
        run: Sequence[tuple[int, RoutedPath]],
        begin: float,
        end: float,
        path_nodes: int | None,
    ) -> None:
        count = path_nodes or _nodes_of([path for _, path in run], begin, end, piece.basis)
        at, weights = gauss_legendre(count)
        s_m = begin + at * (end - begin)
        where = [np.array([*path.at(s_m), np.full(count, path.chord_m2)]) for _, path in run]
        for k in range(count):
            self.phi.append(piece.values((s_m[k] - piece.start_m) / piece.length_m))
            self.node.append((number, len(run)))
            self.node_m.append(float(s_m[k]))
            self.index += [j for j, _ in run]
            self.path += [np.array([weights[k] * (end - begin), *at_k[:, k]]) for at_k in where]


def _nodes_of(paths: Sequence[RoutedPath], begin_m: float, end_m: float, basis: Basis) -> int:
    s_m = np.linspace(begin_m, end_m, 400)[1:-1]
    turned = max(float(path.turned_rad(s_m)[-1]) for path in paths)
    # A helix needs 2.5 nodes a radian for 13 digits.
    return math.ceil(6 + basis.highest_order + (6 if turned > 1e-6 else 0) + 2.5 * turned)
