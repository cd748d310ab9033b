# SPDX-License-Identifier: Apache-2.0
"""The formulas behind rod/contact/functions.py, once for expressions and for arrays.

With twists (linear, angular) about the base origin in base axes: a unit strain of the cross-section at s moves what
lies beyond along e(s), (p x R e_i, R e_i) for curvature and torsion, (R e_i, 0) for shear and extension, so the
Jacobian is J_a(s) = integral of phi_a e over [0, s], and its derivatives are again integrals along the backbone:

    V = J c'              Y_b = dV/dc_b - ad(J_b) V = - integral of phi_b ad(e) V
    h_i = G_i V(s_i)      H(s) = sum of h_i over the masses beyond s                 z = ad(e)^T H
    dT/dc'_a = sum J_a . h_i                              dT/dc_b = - integral of phi_b z . V
    d2T/dc'_a dc'_b = sum J_a . G_i J_b
    d2T/dc'_a dc_b = sum J_a . G_i Y_b - integral of phi_b z . J_a
    d2T/dc_b dc_d = sum Y_b . G_i Y_d - integral of (phi_b z . Y_d + phi_d z . Y_b)

Y_b is the derivative of the body twist, carried to the base axes. Gravity goes the same way with the wrench W(s) of all
weights beyond s. That is the Hessian of the Lagrangian at a third of the cost of the gradient by automatic
differentiation; the tests hold one against the other. Integrals are by Gauss-Legendre collocation between the masses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.code.shared import Code, shared_code, sparse
from continuum_robot.rod.exponential import hat
from continuum_robot.rod.inertia import Parts, Station, stations
from continuum_robot.rod.moving_chain import SegmentSteps, code_of, placed
from continuum_robot.rod.strain.kinematics import hat as numeric_hat
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of the backbone between two places with masses; r strains, k coefficients.

    Attributes
    ----------
    segment : index of its segment
    place : columns of the coefficients that move it
    start_m, length_m : from its segment's start
    nodes_m, end_m : nodes of the integrals, shape (k,), and its end, from the robot's base
    bases : B at the nodes, rows of the strains that the segment has, (r, k) each
    rows : which these are, (r,)
    bodies : what is at its end
    """

    segment: int
    place: slice
    start_m: float
    length_m: float
    nodes_m: Vector
    end_m: float
    bases: tuple[Vector, ...]
    rows: NDArray[np.intp]
    bodies: tuple[Station, ...]


def intervals_of(robot: Robot, parts: Parts, quadrature_nodes: int | None, collocation_nodes: int) -> list[Interval]:
    """From the base to the tip, between masses, breaks of the basis and segments.

    Parameters
    ----------
    robot : a rod
    parts : what has inertia
    quadrature_nodes : for distributed mass, on a segment; None: chosen by the basis
    collocation_nodes : of the integrals, in each interval
    """
    ratios, found = collocation(collocation_nodes)[0], []
    for index, place in enumerate(coefficient_slices(robot)):
        segment, base_m = robot.segments[index], float(robot.segment_starts_m[index])
        rows = np.array(sorted(set(segment.basis.rows)))
        groups: dict[float, list[Station]] = {
            fraction * segment.length_m: [] for fraction in (*segment.basis.breaks, 1.0)
        }
        for station in stations(robot, index, parts, quadrature_nodes):
            groups.setdefault(min(station.s_m, segment.length_m), []).append(station)
        start_m = 0.0
        for end_m in sorted(groups):
            length_m = end_m - start_m
            nodes_m = start_m + ratios * length_m
            found.append(
                Interval(
                    index,
                    place,
                    start_m,
                    length_m,
                    base_m + nodes_m,
                    base_m + end_m,
                    tuple(basis_matrix(segment.basis, float(at) / segment.length_m)[rows] for at in nodes_m),
                    rows,
                    tuple(groups[end_m]),
                )
            )
            start_m = end_m
    return found


def collocation(count: int) -> tuple[Vector, Vector, Vector]:
    """Nodes on [0, 1], weights, and integrals from 0 to each node (row) of the polynomial through the nodes.

    Parameters
    ----------
    count : of the nodes
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = (nodes + 1) / 2, weights / 2
    powers = np.arange(count)
    inverse = np.linalg.inv(np.vander(nodes, count, increasing=True))
    return nodes, weights, (nodes[:, None] ** (powers + 1) / (powers + 1)) @ inverse


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the integrals, or a stack of them.

    Attributes
    ----------
    place : of the coefficients that strain the rod there
    weighted : weight of the integral times B, (r, k)
    axes : of unit strains in base axes, (6, r)
    jacobian : J there, (6, n)
    """

    place: slice
    weighted: Any
    axes: Any
    jacobian: Any


@dataclass(frozen=True, slots=True)
class Mass:
    """A body in base axes, or a stack of them.

    Attributes
    ----------
    mass_kg : its mass
    turn : cross-product matrix of its centre, (3, 3)
    inertia : about that, (3, 3)
    jacobian : J there, (6, n)
    """

    mass_kg: Any
    turn: Any
    inertia: Any
    jacobian: Any


class March(Protocol):
    """The rod at a shape: n coefficients.

    Attributes
    ----------
    kind : operations on its matrices
    nodes, masses : one by one, or stacks
    body_jacobians : at the ends of the intervals, (6 intervals, n)
    """

    kind: Any
    nodes: list[Node]
    masses: list[Mass]
    body_jacobians: Any

    def beyond(self, wrenches: list[Any]) -> list[Any]:
        """For each of ``nodes`` the sum over the masses beyond.

        Parameters
        ----------
        wrenches : of the ``masses``, (6, 1) each
        """

    def integrals(self, integrands: list[Any]) -> tuple[list[Any], list[Any]]:
        """Integrals of - integrand B from the base to the nodes and to the masses, (6, n) each.

        Parameters
        ----------
        integrands : at the ``nodes``, (6, r) each
        """


class _Symbols:
    """What the formulas need of CasADi's expressions."""

    hat = staticmethod(hat)
    below = staticmethod(ca.vertcat)
    beside = staticmethod(ca.horzcat)
    lower = staticmethod(ca.tril)

    def apply(self, formula: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
        """Results of a formula, whose code exists once for all nodes or masses that are alike."""
        return shared_code(f"contact{formula.__name__}", partial(formula, self), *given)

    @staticmethod
    def constant(matrix: Vector) -> Any:
        """A matrix of numbers, many of them zero."""
        return sparse(matrix)

    @staticmethod
    def transposed(matrix: Any) -> Any:
        """A matrix with rows and columns exchanged."""
        return matrix.T

    @staticmethod
    def halves(matrix: Any) -> tuple[Any, Any]:
        """The three upper rows, and the rest."""
        return matrix[:3, :], matrix[3:, :]

    @staticmethod
    def total(value: Any) -> Any:
        """What one node or mass gives."""
        return value

    @staticmethod
    def symmetric(lower: Any) -> Any:
        """A matrix from its lower triangle, symmetric to the last bit."""
        return ca.tril2symm(ca.tril(lower))


class _Numbers:
    """The same of stacks of arrays."""

    constant = lower = symmetric = staticmethod(np.asarray)

    def apply(self, formula: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
        """Results of a formula for all nodes or masses of a stack."""
        return formula(self, *given)

    @staticmethod
    def hat(column: Vector) -> Vector:
        """Cross-product matrices of columns, (..., 3, 1)."""
        return numeric_hat(column[..., 0])

    @staticmethod
    def below(*parts: Vector) -> Vector:
        """One below the other."""
        return np.concatenate(parts, axis=-2)

    @staticmethod
    def beside(*parts: Vector) -> Vector:
        """One beside the other."""
        return np.concatenate(parts, axis=-1)

    @staticmethod
    def transposed(matrix: Vector) -> Vector:
        """Matrices with rows and columns exchanged."""
        return matrix.swapaxes(-1, -2)

    @staticmethod
    def halves(matrix: Vector) -> tuple[Vector, Vector]:
        """The three upper rows, and the rest."""
        return matrix[..., :3, :], matrix[..., 3:, :]

    @staticmethod
    def total(value: Vector) -> Vector:
        """What all nodes or masses of a stack give together."""
        return np.asarray(value.sum(axis=0))


def all_terms(
    march: March, gravity_m_per_s2: Any, elastic: Any, rate: Any, *, constant_mass: Any, stiffness: Any, damping: Any
) -> tuple[Any, ...]:
    """Momentum, known force, mass, derivatives of the first two by c, and the body Jacobians after the base.

    Parameters
    ----------
    march : at the shape
    gravity_m_per_s2 : (3, 1)
    elastic : force of the stiffness at the shape, (n, 1), N.m^2
    rate : of the coefficients, (n, 1), 1/(m.s)
    constant_mass, stiffness, damping : matrices of the coefficients, (n, n)
    """
    kind = march.kind
    bodies = [(mass.mass_kg, mass.turn, mass.inertia, mass.jacobian) for mass in march.masses]
    loads = [kind.apply(_loads, *body, rate, gravity_m_per_s2) for body in bodies]
    beyond, weights = (march.beyond(list(wrenches)) for wrenches in zip(*loads, strict=True))
    # Y at the nodes and masses: the same quadrature as J's, of - ad(A B) V.
    changes = [kind.apply(_bracket, node.axes, node.jacobian, rate)[0] for node in march.nodes]
    at_nodes, at_masses = march.integrals(changes)
    of_segments: dict[int | None, list[tuple[Any, ...]]] = {}
    for node, *of_node in zip(march.nodes, at_nodes, beyond, weights, strict=True):
        found = kind.apply(_of_node, node.axes, node.weighted, node.jacobian, *of_node, rate)
        of_segments.setdefault(node.place.start, []).append(tuple(kind.total(part) for part in found))
    sums = [[_sum(parts) for parts in zip(*found, strict=True)] for found in of_segments.values()]
    gradient, by_rate, half = (kind.below(*parts) for parts in zip(*sums, strict=True))
    of_masses = [kind.apply(_of_mass, *body, Y, gravity_m_per_s2) for body, Y in zip(bodies, at_masses, strict=True)]
    mass_matrix, transport, curvature, more = (
        _sum([kind.total(part) for part in parts]) for parts in zip(*of_masses, strict=True)
    )
    half = half + more
    mass_matrix = kind.symmetric(mass_matrix + constant_mass)
    return (
        mass_matrix @ rate,  # johnston (43)
        gradient - elastic - damping @ rate,
        mass_matrix,
        transport + by_rate.T,
        kind.symmetric(curvature + half + half.T - stiffness),
        march.body_jacobians,
    )


def _sum(parts: Sequence[Any]) -> Any:
    return sum(parts[1:], start=parts[0])


def _loads(
    kind: Any, mass_kg: Any, turn: Any, inertia: Any, jacobian: Any, rate: Any, gravity_m_per_s2: Any
) -> tuple[Any, Any]:
    """Momentum and weight of a mass as wrenches (force, moment) about the base's origin, (6, 1) each."""
    twist = jacobian @ rate
    impulse = mass_kg * _at_center(kind, turn, twist)
    weight = mass_kg * gravity_m_per_s2
    turning = turn @ impulse + inertia @ kind.halves(twist)[1]
    return kind.below(impulse, turning), kind.below(weight, turn @ weight)


def _of_node(
    kind: Any, axes: Any, weighted: Any, jacobian: Any, Y: Any, H: Any, W: Any, rate: Any
) -> tuple[Any, Any, Any]:
    """What a node gives to dL/dc (k, 1), its derivative by the rate (k, n), and half of that by c (k, n)."""
    z, y = _ad_transposed(kind, axes, H), _ad_transposed(kind, axes, W)  # (r, 6)
    z_J, B = z @ jacobian, kind.transposed(weighted)
    return (
        B @ (kind.transposed(axes) @ W - z_J @ rate),
        -(B @ z_J),
        -(B @ (z @ Y + (y @ jacobian) / 2)),
    )


def _of_mass(
    kind: Any, mass_kg: Any, turn: Any, inertia: Any, jacobian: Any, Y: Any, gravity_m_per_s2: Any
) -> tuple[Any, Any, Any, Any]:
    """What a mass gives to M, dp/dc, the symmetric part of d2L/dc2 and half of the rest, (n, n) each."""
    (_, J_turning), (_, Y_turning) = kind.halves(jacobian), kind.halves(Y)
    moved, drifted = _at_center(kind, turn, jacobian), _at_center(kind, turn, Y)
    across, turned = kind.transposed(moved), kind.transposed(J_turning)
    pulled, along = mass_kg * drifted, inertia @ Y_turning
    return (
        kind.lower(across @ (mass_kg * moved) + turned @ (inertia @ J_turning)),
        across @ pulled + turned @ along,
        kind.lower(kind.transposed(drifted) @ pulled + kind.transposed(Y_turning) @ along),
        (turned @ kind.hat(-mass_kg / 2 * gravity_m_per_s2)) @ moved,
    )


def _at_center(kind: Any, turn: Any, twists: Any) -> Any:
    """Velocities of a centre of mass for twists about the origin, (6, k) to (3, k)."""
    moving, turning = kind.halves(twists)
    return moving - turn @ turning


def _bracket(kind: Any, axes: Any, jacobian: Any, rate: Any) -> tuple[Any]:
    """Brackets ad(e) V of all axes of a node with the twist there, (6, r)."""
    return (_ad(kind, axes, jacobian @ rate),)


def _ad(kind: Any, axes: Any, twist: Any) -> Any:
    """Brackets ad(e) V of all axes with a twist, (6, r)."""
    (v, w), (moving, turning) = kind.halves(axes), (kind.hat(part) for part in kind.halves(twist))
    return kind.below(-(moving @ w) - turning @ v, -(turning @ w))


def _ad_transposed(kind: Any, axes: Any, wrench: Any) -> Any:
    """Rows (ad(e)^T H)^T of all axes, (r, 6)."""
    (v, w), (force, moment) = kind.halves(axes), (kind.hat(part) for part in kind.halves(wrench))
    return kind.beside(kind.transposed(force @ w), kind.transposed(force @ v + moment @ w))


class SymbolicMarch:
    """Expressions of a rod that only bends, node by node and mass by mass; a :class:`March`.

    Parameters
    ----------
    robot : of the intervals
    intervals : from the base to the tip
    c : coefficients, (n, 1)
    collocation_nodes : with which the intervals were made
    """

    def __init__(self, robot: Robot, intervals: list[Interval], c: Any, collocation_nodes: int) -> None:
        self.kind = _Symbols()
        self._intervals, self._zero = intervals, type(c)(6, c.shape[0])
        fractions, inner = collocation(collocation_nodes)[1:]
        self._fractions = np.vstack([inner, fractions])
        self._codes = [code_of(segment.basis, type(c)) for segment in robot.segments]
        self.nodes, self.masses = [], []
        self._ends: list[int] = []  # intervals of the masses
        body_jacobians: list[Any] = []
        rotation, position = ca.DM.eye(3), ca.DM.zeros(3)
        jacobian = self._zero
        changes = self._frames(robot, c)
        for at, interval in enumerate(intervals):
            axes: list[Any] = []
            code = self._codes[interval.segment]
            rows = [int(row) for row in interval.rows]
            name, turning = "".join(str(row) for row in rows), partial(_axes, rows)
            for _ in range(len(self._fractions)):
                rotation, position = placed(code, rotation, position, next(changes))
                axes += code(f"contact_axes_{name}", turning, rotation, position)
            *here, end = self._integrals(jacobian, interval, axes[:-1], interval.length_m)
            for k, (axis, value) in enumerate(zip(axes[:-1], here, strict=True)):
                weighted = self._basis(interval.length_m * float(fractions[k]) * interval.bases[k])
                self.nodes.append(Node(interval.place, weighted, axis, value))
            jacobian = end
            for station in interval.bodies:
                self.masses.append(self._body(code, station, rotation, position, jacobian))
                self._ends.append(at)
            body_jacobians += code("contact_body_jacobian", _body_jacobian, rotation, position, jacobian)
        self.body_jacobians = ca.vertcat(*body_jacobians)

    def _frames(self, robot: Robot, c: Any) -> Iterator[tuple[Any, Any]]:
        """The steps to the nodes and to the end of each interval."""
        for index, place in enumerate(coefficient_slices(robot)):
            base_m, ends_m = float(robot.segment_starts_m[index]), []
            for interval in self._intervals:
                if interval.segment == index:
                    ends_m += [float(node_m) - base_m for node_m in interval.nodes_m]
                    ends_m.append(interval.start_m + interval.length_m)
            yield from SegmentSteps(robot.segments[index], c[place]).frames(ends_m)

    def beyond(self, wrenches: list[Any]) -> list[Any]:
        """As of :class:`March`.

        Parameters
        ----------
        wrenches : of the masses, (6, 1) each
        """
        values: list[Any] = [None for _ in self._intervals]
        for at, wrench in zip(self._ends, wrenches, strict=True):
            values[at] = wrench if values[at] is None else values[at] + wrench
        sums, total = [], type(self._zero)(6, 1)
        for value in reversed(values):
            total = total if value is None else total + value
            sums += [total] * (len(self._fractions) - 1)
        return sums[::-1]

    def integrals(self, integrands: list[Any]) -> tuple[list[Any], list[Any]]:
        """As of :class:`March`.

        Parameters
        ----------
        integrands : at the nodes, (6, r) each
        """
        total, count = self._zero, len(self._fractions) - 1
        at_ends, at_nodes = [], []
        for at, interval in enumerate(self._intervals):
            own = integrands[at * count : (at + 1) * count]
            *here, total = self._integrals(total, interval, own, -interval.length_m)
            at_nodes += here
            at_ends.append(total)
        return at_nodes, [at_ends[at] for at in self._ends]

    def _basis(self, matrix: Vector) -> Any:
        return self.kind.constant(matrix)

    def _integrals(self, before: Any, interval: Interval, integrands: list[Any], length_m: float) -> tuple[Any, ...]:
        """Integrals of integrand B to the nodes of an interval and to its end, on from ``before`` at its start."""
        bases = [self._basis(B) for B in interval.bases]
        given = (before, ca.DM(length_m * self._fractions), *integrands, *bases)
        place = interval.place
        return self._codes[interval.segment](f"contact_integrals_{place.start}", partial(_integrals, place), *given)

    def _body(self, code: Code, station: Station, rotation: Any, position: Any, jacobian: Any) -> Mass:
        center = np.zeros(3) if station.center_of_mass_m is None else station.center_of_mass_m
        tensor = np.zeros((3, 3)) if station.tensor_kg_m2 is None else station.tensor_kg_m2
        given = (rotation, position, self.kind.constant(center), self.kind.constant(tensor))
        turn, inertia = code("contact_body", _body, *given)
        return Mass(station.total_mass_kg, turn, inertia, jacobian)


def _axes(rows: list[int], rotation: Any, position: Any) -> tuple[Any]:
    """Twists (linear, angular) of what lies beyond, for unit strains in ``rows`` of a rod that only bends, (6, r)."""
    return (ca.vertcat(hat(position) @ rotation[:, rows], rotation[:, rows]),)


def _integrals(place: slice, before: Any, weights: Any, *given: Any) -> list[Any]:
    """Sums of ``weights`` times integrand B, one for each row, added to columns ``place`` of copies of ``before``."""
    half = len(given) // 2
    columns = [value @ B for value, B in zip(given[:half], given[half:], strict=True)]
    found = []
    for k in range(weights.shape[0]):
        value = ca.SX(before)
        for j, column in enumerate(columns):
            value[:, place] += weights[k, j] * column
        found.append(value)
    return found


def _body(rotation: Any, position: Any, center: Any, tensor: Any) -> tuple[Any, Any]:
    """Cross-product matrix of a body's centre and its inertia, in base axes."""
    return hat(position + rotation @ center if center.nnz() else position), rotation @ tensor @ rotation.T


def _body_jacobian(rotation: Any, position: Any, jacobian: Any) -> tuple[Any]:
    """J in the axes of the body, of the body's origin."""
    linear = jacobian[:3, :] - hat(position) @ jacobian[3:, :]
    return (ca.vertcat(rotation.T @ linear, rotation.T @ jacobian[3:, :]),)


class NumericMarch:
    """Arrays of a rod of any strains, all nodes and all masses at once; make it once, :meth:`at` sets the shape.

    Parameters
    ----------
    rod : of the robot
    intervals : from the base to the tip
    shapes : coefficients per coordinate in which the terms are desired, (n, k)
    collocation_nodes : with which the intervals were made
    """

    kind = _Numbers()

    def __init__(self, rod: StrainRod, intervals: list[Interval], shapes: Vector, collocation_nodes: int) -> None:
        fractions, inner = collocation(collocation_nodes)[1:]
        count, size = len(fractions), shapes.shape[1]
        total = len(intervals) * count
        self._bases = np.zeros((total, 6, size))
        self._to_nodes, self._to_ends = np.zeros((total, total)), np.zeros((len(intervals), total))
        weights = np.zeros(total)
        for at, interval in enumerate(intervals):
            own = slice(at * count, (at + 1) * count)
            for k, B in enumerate(interval.bases):
                self._bases[at * count + k, interval.rows] = B @ shapes[interval.place]
            weights[own] = interval.length_m * fractions
            self._to_nodes[own, own] = interval.length_m * inner
            self._to_nodes[own.stop :, own] = self._to_ends[at:, own] = weights[own]
        self._weighted = weights[:, None, None] * self._bases
        self._ends = np.array([at for at, interval in enumerate(intervals) for _ in interval.bodies], dtype=int)
        bodies = [body for interval in intervals for body in interval.bodies]
        self._mass_kg = np.array([body.total_mass_kg for body in bodies])[:, None, None]
        self._center = np.array(
            [np.zeros(3) if body.center_of_mass_m is None else body.center_of_mass_m for body in bodies]
        )[:, :, None]
        self._inertia = np.array(
            [np.zeros((3, 3)) if body.tensor_kg_m2 is None else body.tensor_kg_m2 for body in bodies]
        )
        self._beyond = (self._ends >= np.repeat(np.arange(len(intervals)), count)[:, None]).astype(float)
        nodes_m = [float(place) for interval in intervals for place in interval.nodes_m]
        ends_m = [interval.end_m for interval in intervals]
        self._chain = rod.chain([*nodes_m, *ends_m])
        self._at_nodes, self._at_ends = self._chain.indices(nodes_m), self._chain.indices(ends_m)

    def at(self, c: Vector) -> NumericMarch:
        """Go along the rod at a shape, (n,); itself."""
        frames = self._chain.frames(c)
        rotations, positions = frames.rotation, frames.position[:, :, None]
        rotation = rotations[self._at_nodes]
        axes = np.zeros((len(rotation), 6, 6))
        axes[:, :3, :3] = numeric_hat(positions[self._at_nodes, :, 0]) @ rotation
        axes[:, 3:, :3] = axes[:, :3, 3:] = rotation
        columns = axes @ self._bases
        self.nodes = [Node(slice(None), self._weighted, axes, self._integral(self._to_nodes, columns))]
        jacobian = self._integral(self._to_ends, columns)
        rotation, position = rotations[self._at_ends], positions[self._at_ends]
        across = rotation.swapaxes(1, 2)
        linear = jacobian[:, :3] - numeric_hat(position[:, :, 0]) @ jacobian[:, 3:]
        self.body_jacobians = np.concatenate([across @ linear, across @ jacobian[:, 3:]], axis=1).reshape(
            -1, jacobian.shape[2]
        )
        turned = rotation[self._ends]
        center = position[self._ends] + turned @ self._center
        inertia = turned @ self._inertia @ turned.swapaxes(1, 2)
        self.masses = [Mass(self._mass_kg, self.kind.hat(center), inertia, jacobian[self._ends])]
        return self

    def beyond(self, wrenches: list[Any]) -> list[Any]:
        """As of :class:`March`.

        Parameters
        ----------
        wrenches : of all masses, (masses, 6, 1), the only one
        """
        return [(self._beyond @ wrench[:, :, 0])[:, :, None] for wrench in wrenches]

    def integrals(self, integrands: list[Any]) -> tuple[list[Any], list[Any]]:
        """As of :class:`March`.

        Parameters
        ----------
        integrands : at all nodes, (nodes, 6, r), the only one
        """
        (columns,) = (-(value @ self._bases) for value in integrands)
        return [self._integral(self._to_nodes, columns)], [self._integral(self._to_ends, columns)[self._ends]]

    @staticmethod
    def _integral(weights: Vector, columns: Vector) -> Vector:
        return np.asarray((weights @ columns.reshape(len(columns), -1)).reshape(-1, *columns.shape[1:]))
