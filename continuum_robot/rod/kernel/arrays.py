# SPDX-License-Identifier: Apache-2.0
"""A robot's description as the arrays of arrays.hpp: where things stand along the rod, and the numbers there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import check_values
from continuum_robot.robot.segments.lumped_masses import LumpedMass, lumped_masses
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import basis_matrix, gauss_legendre
from continuum_robot.rod.friction.capstans import actuator_mass_matrix, drives
from continuum_robot.rod.inertia import Parts, damping_matrix, distributed_mass, sliding_mass, stiffness_matrix
from continuum_robot.rod.kernel import reference

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

GAUSS = (0.5 - math.sqrt(15) / 10, 0.5, 0.5 + math.sqrt(15) / 10)
"""Of a step of sixth order, as fractions of it."""
SAME_PLACE = 1e-9
"""Fraction of a piece below which two places are one."""
ALL = Parts(rotational_energy=True, tendon_inertia=True)
WITH_CAPSTANS = Parts(rotational_energy=True, tendon_inertia=True, capstan_inertia=True)
"""What moves where tensions or torques are those of the motors."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A length of the rod on which the strain is smooth.

    Attributes
    ----------
    segment : index of its segment
    low, high : where it begins and ends, fractions of the segment
    start_m, length_m : arc length of its start from the base, and its length, m
    first, count : its coefficients, in the rod's
    own : the same, in the segment's
    basis : of the segment
    nodes : fractions of the piece, (L,)
    constant : whether the basis does not change along it
    """

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
    """The shape of a rod (nothing in it changes) and the numbers (which may).

    Attributes
    ----------
    n : coefficients
    pieces : from the base
    bodies_m : arc length of each body, (bodies,), m
    rows : which of the six strains a coefficient is, (n,)
    piece : of each: first coefficient, coefficients, places, nodes, constant; (pieces, 5)
    place : of each: node in its piece or -1, body or -1; (places, 2)
    step_m : of each place, from the one before, (places,), m
    phi, at_node, weight : see arrays.hpp, flat
    path_node : of each: piece, paths there; (path nodes, 2)
    path_phi, path_index : see arrays.hpp, flat
    gravity, body, inertia, stiffness, damping, rest, path_rest, path : numbers, see arrays.hpp
    """

    n: int
    pieces: tuple[Piece, ...]
    bodies_m: Vector
    rows: Indices
    piece: Indices
    place: Indices
    step_m: Vector
    phi: Vector
    at_node: Vector
    weight: Vector
    path_node: Indices
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


def default_nodes(basis: Basis, fraction: float) -> int:
    """Gauss nodes of a piece that is a fraction of its segment: energies are right to about 1e-7 with these."""
    return basis.nodes or math.ceil((6 + max(basis.highest_order, basis.degree // 2)) * max(fraction, 0.5))


def integrals(nodes: Vector, at: float) -> Vector:
    """Integral from 0 to ``at`` of the polynomial through values at the nodes, by these values: (L,); all in [0, 1]."""
    polynomials = [np.polynomial.Legendre.basis(k, domain=[0, 1]) for k in range(len(nodes))]
    values = np.array([polynomial(nodes) for polynomial in polynomials])
    return np.asarray(np.linalg.solve(values, [polynomial.integ(lbnd=0)(at) for polynomial in polynomials]))


def rod_arrays(
    robot: Robot,
    *,
    nodes: int | None = None,
    path_nodes: int | None = None,
    paths: Sequence[RoutedPath] | None = None,
    stations_m: Sequence[float] = (),
    parts: Parts = ALL,
) -> RodArrays:
    """The arrays of a robot.

    Parameters
    ----------
    robot : a rod
    nodes : Gauss nodes of each piece, at least 6; None: as the bases state, or as many as give 1e-7
    path_nodes : Gauss nodes of the paths in each piece between their ends and kinks; None: by how far they turn
    paths : tendons and strings whose lengths are wanted; None: all tendons
    stations_m : arc lengths at which bodies without mass stand, so that their poses are found, m
    parts : what has inertia

    Raises
    ------
    ParameterError : fewer than 6 nodes, a station beyond the rod, a mechanism, or a value of the description that no
        robot file may have
    """
    check_values(robot)
    if nodes is not None and nodes < 6:
        raise ParameterError("nodes", nodes, "at least 6 Gauss nodes a piece")
    pieces = _pieces(robot, nodes)
    places = _Places(robot, pieces, stations_m, parts)
    lengths = _Lengths(pieces, robot.tendon_paths if paths is None else paths, path_nodes)
    rows = [row for segment in robot.segments for row in segment.basis.rows]
    rest = [np.array(robot.segments[piece.segment].backbone.rest_strain) for piece in pieces]
    arrays = RodArrays(
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
        place=np.array(places.place, np.int32),
        step_m=np.array(places.step_m),
        phi=_flat(places.phi),
        at_node=_flat(places.at_node),
        weight=_flat(places.weight),
        path_node=np.array(lengths.node, np.int32).reshape(-1, 2),
        path_phi=_flat(lengths.phi),
        path_index=np.array(lengths.index, np.int32),
        gravity=np.array(robot.gravity_m_per_s2, float),
        body=np.array(places.body),
        inertia=np.zeros((len(rows), len(rows))),
        stiffness=stiffness_matrix(robot),
        damping=damping_matrix(robot),
        rest=np.concatenate([np.tile(own, (count, 3, 1)) for own, count in zip(rest, places.counts, strict=True)]),
        path_rest=np.array([rest[piece] for piece, _ in lengths.node]).reshape(-1, 6),
        path=np.array(lengths.path).reshape(-1, 5),
    )
    slides = parts.tendon_inertia and any(segment.tendons.mass_per_length_kg_per_m for segment in robot.segments)
    turns = parts.capstan_inertia and bool(drives(robot))
    if slides or turns:
        lever = straight_lever(robot)
        if slides:
            arrays.inertia[:] += sliding_mass(robot, lever)
        if turns:
            arrays.inertia[:] += actuator_mass_matrix(robot, lever)
    return arrays


def straight_lever(robot: Robot) -> Vector:
    """Displacement of every tendon per coefficient at the straight rod, (N, n)."""
    arrays = rod_arrays(robot, parts=Parts())
    return -reference.lengths(arrays, np.zeros(arrays.n), robot.tendon_count)[1]


def _flat(parts: Sequence[Vector]) -> Vector:
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)


def _values(basis: Basis, ratio: float) -> Vector:
    """Of each coefficient of a segment, its function there."""
    return np.asarray(basis_matrix(basis, ratio)[np.array(basis.rows), np.arange(basis.coefficient_count)])


def _pieces(robot: Robot, nodes: int | None) -> tuple[Piece, ...]:
    found, column = [], 0
    for index, (segment, start_m) in enumerate(zip(robot.segments, robot.segment_starts_m, strict=True)):
        basis = segment.basis
        for low, high in pairwise(sorted({0.0, *basis.breaks, *segment.backbone.breaks, 1.0})):
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


class _Places:
    """The places of all pieces: nodes, bodies, stations and ends."""

    def __init__(self, robot: Robot, pieces: Sequence[Piece], stations_m: Sequence[float], parts: Parts) -> None:
        self._robot, self._parts = robot, parts
        self.counts: list[int] = []
        self.place: list[tuple[int, int]] = []
        self.step_m: list[float] = []
        self.phi: list[Vector] = []
        self.at_node: list[Vector] = []
        self.weight: list[Vector] = []
        self.body: list[Vector] = []
        self.bodies_m: list[float] = []
        masses = [
            (float(start_m) + mass.s_m, mass)
            for index, start_m in enumerate(robot.segment_starts_m)
            for mass in (lumped_masses(robot, index) if parts.disk_inertia else ())
        ]
        end_m = pieces[-1].start_m + pieces[-1].length_m
        for s_m in stations_m:
            if not -SAME_PLACE <= s_m / end_m <= 1 + SAME_PLACE:
                raise ParameterError("stations_m", s_m, f"an arc length from 0 to {end_m:g} m")
            masses.append((max(float(s_m), 0.0), LumpedMass(s_m=float(s_m), mass_kg=0.0)))
        for number, piece in enumerate(pieces):
            begins = -math.inf if number == 0 else SAME_PLACE
            here = [
                (max(0.0, min(1.0, (s_m - piece.start_m) / piece.length_m)), mass)
                for s_m, mass in masses
                if begins < (s_m - piece.start_m) / piece.length_m <= 1 + SAME_PLACE
            ]
            self._add(piece, here)

    def _add(self, piece: Piece, masses: Sequence[tuple[float, LumpedMass]]) -> None:
        weights = gauss_legendre(len(piece.nodes))[1] * piece.length_m
        places = sorted({*piece.nodes.tolist(), *(at for at, _ in masses), 1.0})
        before = 0.0
        kept: list[float] = []
        for at in places:
            if kept and at - kept[-1] < SAME_PLACE and at not in piece.nodes:
                continue
            kept.append(at)
        nodes = piece.nodes.tolist()
        for at in kept:
            node = nodes.index(at) if at in nodes else -1
            numbers = np.zeros(25)
            if node >= 0:
                ratio = piece.low + at * (piece.high - piece.low)
                for density, moment in distributed_mass(self._robot, piece.segment, self._parts, ratio).values():
                    numbers[0] += weights[node] * density
                    if self._parts.rotational_energy:
                        numbers[4:7] += weights[node] * moment * np.array([1.0, 1.0, 2.0])
                self.at_node.append(piece.values(at))
            own = [mass for place, mass in masses if abs(place - at) < SAME_PLACE]
            for mass in own:
                add_mass(numbers, mass, turns=self._parts.rotational_energy)
            body = -1
            if numbers[0] > 0 or own or at == 1.0:
                body = len(self.body)
                self.body.append(numbers)
                self.bodies_m.append(piece.start_m + at * piece.length_m)
            self.place.append((node, body))
            self.step_m.append((at - before) * piece.length_m)
            self.phi += [piece.values(before + part * (at - before)) for part in GAUSS]
            self.weight.append(integrals(piece.nodes, at) * piece.length_m)
            before = at
        self.counts.append(len(kept))


def add_mass(numbers: Vector, mass: LumpedMass, *, turns: bool) -> None:
    """Into the ten numbers of inertia: mass, first moment, second moment about the place's origin."""
    s = np.array(mass.center_of_mass_m)
    second = mass.mass_kg * (s @ s * np.eye(3) - np.outer(s, s))
    if turns:
        second = second + mass.inertia_kg_m2
    numbers[0] += mass.mass_kg
    numbers[1:4] += mass.mass_kg * s
    numbers[4:10] += second[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


class _Lengths:
    """Nodes of the paths' lengths: between ends and kinks, as many as their turns ask for."""

    def __init__(self, pieces: Sequence[Piece], paths: Sequence[RoutedPath], path_nodes: int | None) -> None:
        self.node: list[tuple[int, int]] = []
        self.phi: list[Vector] = []
        self.index: list[int] = []
        self.path: list[Vector] = []
        for number, piece in enumerate(pieces):
            low, high = piece.start_m, piece.start_m + piece.length_m
            close = SAME_PLACE * piece.length_m
            places = (place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m))
            cuts = [low, *sorted({place for place in places if low + close < place < high - close}), high]
            for begin, end in pairwise(cuts):
                run = [j for j, path in enumerate(paths) if path.start_m < end - close and path.end_m > begin + close]
                if not run or end - begin < close:
                    continue
                count = path_nodes or _nodes_of([paths[j] for j in run], begin, end, piece.basis)
                at, weights = gauss_legendre(count)
                s_m = begin + at * (end - begin)
                where = [np.array(paths[j].at(s_m)) for j in run]
                for k in range(count):
                    self.phi.append(piece.values((s_m[k] - low) / piece.length_m))
                    self.node.append((number, len(run)))
                    self.index += run
                    self.path += [np.array([weights[k] * (end - begin), *at_k[:, k]]) for at_k in where]


def _nodes_of(paths: Sequence[RoutedPath], begin_m: float, end_m: float, basis: Basis) -> int:
    s_m = np.linspace(begin_m, end_m, 400)[1:-1]
    turned = max(float(path.turned_rad(s_m)[-1]) for path in paths)
    # A helix needs 2.5 nodes a radian for 13 digits.
    return math.ceil(6 + basis.highest_order + (6 if turned > 1e-6 else 0) + 2.5 * turned)
