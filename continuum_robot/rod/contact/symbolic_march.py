# SPDX-License-Identifier: Apache-2.0
"""The formulas of rod/contact/terms.py along a rod that only bends, as expressions for generated code.

Integrals are by Gauss-Legendre collocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.shared import Code
from continuum_robot.rod.contact.collocation import Interval, collocation
from continuum_robot.rod.contact.terms import Mass, Node, Symbols
from continuum_robot.rod.exponential import hat
from continuum_robot.rod.inertia import Station
from continuum_robot.rod.moving_chain import SegmentSteps, code_of
from continuum_robot.rod.moving_frame import placed
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]


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
        self.kind = Symbols()
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
