# SPDX-License-Identifier: Apache-2.0
"""Lengths of paths and their levers against a quadrature of its own that is fine for any number of turns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.routing import HelicalRouting, PolynomialRouting, RoutedPath, TendonRouting
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.rod import Rod

LENGTH_M = 0.2
RADIUS_M = 0.008
BASIS = Basis(kind="chebyshev", bending_order=2, torsion_order=1, extension_order=0)
C = np.array([4.0, -3.0, 2.0, 1.0, -1.0, 2.0, 3.0, -2.0, 0.02])


@dataclass(frozen=True, slots=True)
class Screw(TendonRouting):
    """A helix that only says where it is, as a routing of another package may."""

    turns: float

    def at(self, s_m, length_m, pitch_radius_m, angle_rad):
        rate = 2 * np.pi * self.turns / length_m
        x, y = pitch_radius_m * np.cos(angle_rad + rate * s_m), pitch_radius_m * np.sin(angle_rad + rate * s_m)
        return x, y, -rate * y, rate * x


def path(routing, start_m=0.0, end_m=LENGTH_M):
    return RoutedPath(
        name="path", start_m=start_m, end_m=end_m, pitch_radius_m=RADIUS_M, angle_rad=0.4, routing=routing
    )


def rod(one):
    segment = RodSegment(length_m=LENGTH_M, basis=BASIS, stiffness=(1.0,) * 6)
    return Rod(RodDescription(segments=(segment,), tendon_paths=(one,)))


def fine(one):
    """Length of a path and its derivative by the midpoint rule, extrapolated: l = integral of |v + u x r + r'|."""

    def midpoints(count):
        s = one.start_m + (np.arange(count) + 0.5) / count * one.length_m
        rows = np.array([basis_matrix(BASIS, ratio) for ratio in s / LENGTH_M])
        strain = rows @ C + [0, 0, 0, 0, 0, 1]
        x, y, x_rate, y_rate = one.at(s)
        zero = np.zeros(count)
        arm = np.stack([x, y, zero], axis=1)
        tangent = strain[:, 3:] + np.cross(strain[:, :3], arm) + np.stack([x_rate, y_rate, zero], axis=1)
        size = np.linalg.norm(tangent, axis=1)
        unit = tangent / size[:, None]
        by_strain = np.concatenate([np.cross(arm, unit), unit], axis=1)
        width = one.length_m / count
        return width * size.sum(), width * np.einsum("ki,kin->n", by_strain, rows)

    (coarse, coarse_lever), (length, lever) = midpoints(20_000), midpoints(60_000)
    return length + (length - coarse) / 8, lever + (lever - coarse_lever) / 8


PATHS = {
    "1 turn": path(HelicalRouting(turns=1.0)),
    "12 turns": path(HelicalRouting(turns=12.0)),
    "20 turns on a part": path(HelicalRouting(turns=-20.0), 0.03, 0.17),
    "100 turns": path(HelicalRouting(turns=100.0)),
    "turning ever faster": path(PolynomialRouting(angle_coefficients=(0.0, 4000.0), radius_coefficients=(-0.01,))),
    "to and fro": path(PolynomialRouting(angle_coefficients=(1500.0, -9000.0))),
    "of another package": path(Screw(30.0)),
}


@pytest.mark.parametrize("name", PATHS)
def test_lengths_and_levers_are_exact_for_any_number_of_turns(name):
    found = rod(PATHS[name]).lengths(C)
    length, lever = fine(PATHS[name])
    np.testing.assert_allclose(found.length_m[0], length, rtol=1e-9)
    np.testing.assert_allclose(found.gradient[0], lever, rtol=1e-7, atol=1e-9 * np.abs(lever).max())


def test_paths_that_hardly_turn_take_no_more_nodes_than_before():
    count = [len(rod(path(HelicalRouting(turns=turns))).arrays.path_m) for turns in (0.5, 1)]
    assert max(count) <= 30
