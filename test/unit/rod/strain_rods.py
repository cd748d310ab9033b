# SPDX-License-Identifier: Apache-2.0
"""Rods for the tests of the general rod, and derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.lumped_masses import LumpedMass
from continuum_robot.robot.segments.routing import (
    HelicalRouting,
    HolesRouting,
    PolynomialRouting,
    RoutedPath,
    Routing,
    StraightRouting,
)
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import Load
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Equilibrium

LENGTH_M = 0.25
BENDING_NM2, TORSION_NM2, SHEAR_N, EXTENSION_N = 4e-3, 3e-3, 4e4, 1e5
STEP = 2e-3


def basis(order: int, **others: int | None) -> Basis:
    """All strains of an order, but those named."""
    orders = dict.fromkeys(("bending_order", "torsion_order", "shear_order", "extension_order"), order)
    return Basis(kind="chebyshev", **{**orders, **others})


def path(
    routing: Routing | None = None, angle_rad: float = 0.0, end_m: float = LENGTH_M, name: str = "t"
) -> RoutedPath:
    """A tendon from the base at 8 mm from the backbone."""
    return RoutedPath(
        name=name,
        start_m=0.0,
        end_m=end_m,
        pitch_radius_m=0.008,
        angle_rad=angle_rad,
        routing=routing or StraightRouting(),
    )


def cantilever(chosen: Basis, tendons: tuple[RoutedPath, ...] = (), **options: Any) -> Rod:
    """A weightless rod of one segment."""
    stiffness = (BENDING_NM2, BENDING_NM2, TORSION_NM2, SHEAR_N, SHEAR_N, EXTENSION_N)
    segment = RodSegment(length_m=LENGTH_M, basis=chosen, stiffness=stiffness)
    return Rod(RodDescription(segments=(segment,), tendon_paths=tuple(tendons)), **options)


def crooked_rod(**options: Any) -> Rod:
    """Two unlike segments, tendons of every kind, bodies with offset masses, gravity in no special direction."""
    soft = (0.010, 0.012, 0.008, 500.0, 520.0, 2000.0)
    tendons = (
        path(angle_rad=0.3, end_m=0.4),
        path(HelicalRouting(turns=1.5), 1.0, 0.5),
        path(PolynomialRouting(angle_coefficients=(6.0, 20.0), radius_coefficients=(-0.01,)), 2.0, 0.35),
        path(HolesRouting(arc_lengths_m=(0.05, 0.12, 0.31), angles_rad=(0.0, 0.9, 0.4)), 4.0, 0.45),
    )
    description = RodDescription(
        segments=(
            RodSegment(
                length_m=0.3,
                basis=Basis(kind="chebyshev", bending_order=3, torsion_order=2, shear_order=1, extension_order=1),
                stiffness=soft,
                linear_density_kg_per_m=0.1,
                rest_strain=(0.4, -0.3, 0.2, 0.0, 0.0, 1.0),
            ),
            RodSegment(
                length_m=0.2,
                basis=Basis(kind="chebyshev", bending_order=1, torsion_order=0),
                stiffness=soft,
                linear_density_kg_per_m=0.2,
            ),
        ),
        tendon_paths=tendons,
        string_paths=tendons[:1],
        masses=(
            LumpedMass(s_m=0.15, mass_kg=0.05, center_of_mass_m=(0.01, 0.02, 0.03)),
            LumpedMass(s_m=0.5, mass_kg=0.02),
        ),
        gravity_m_per_s2=(1.0, 2.0, -9.0),
    )
    return Rod(description, **options)


def rest(rod: Rod, tension: Any = 0.0, loads: Sequence[Load] = (), start: Any = None, **options: Any) -> Equilibrium:
    """The equilibrium of a rod with other loads."""
    return (rod.loaded(loads) if len(loads) else rod).equilibrium(tension, start, **options)


def some_coefficients(rod: Rod, seed: int, turn: float = 1.0) -> np.ndarray:
    """Coefficients that bend by some ``turn`` rad, and strain by 0.1 in shear and extension."""
    return turn * np.random.default_rng(seed).normal(size=rod.n) * np.where(rod.scale != 1, 3.0, 0.1)


def derivative(function: Callable[[Any], Any], c: np.ndarray) -> np.ndarray:
    """Derivative of an array by all entries of c, the last axis; central differences of sixth order."""
    columns = []
    for unit in np.eye(len(c)):
        near = [np.asarray(function(c + k * STEP * unit)) - function(c - k * STEP * unit) for k in (1, 2, 3)]
        columns.append((45 * near[0] - 9 * near[1] + near[2]) / (60 * STEP))
    return np.stack(columns, axis=-1)

