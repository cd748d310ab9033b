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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.shared import shared_code, sparse
from continuum_robot.rod.contact.collocation import Interval, collocation
from continuum_robot.rod.exponential import hat
from continuum_robot.rod.strain.kinematics import hat as numeric_hat
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]


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


class Symbols:
    """What the formulas need of CasADi's expressions."""

    hat = staticmethod(hat)
    below = staticmethod(ca.vertcat)
    beside = staticmethod(ca.horzcat)
    lower = staticmethod(ca.tril)

    def apply(self, formula: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
        """Results of a ``formula`` for the ``given`` values; nodes or masses that are alike share its code."""
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
        """The three upper rows of a ``matrix``, and the rest."""
        return matrix[:3, :], matrix[3:, :]

    @staticmethod
    def total(value: Any) -> Any:
        """The ``value`` that one node or mass gives."""
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
