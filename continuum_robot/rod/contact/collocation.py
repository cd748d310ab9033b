# SPDX-License-Identifier: Apache-2.0
"""Nodes of Gauss-Legendre collocation along a rod, between its masses, and their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.inertia import Parts, Station, stations
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
