# SPDX-License-Identifier: Apache-2.0
"""A rod's description as one for the boundary-value problem: the same data, none of its mechanics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.cosserat.description import CosseratRod, CosseratTendon, Section
from continuum_robot.rod.cosserat.paths import DifferencedPath, HolePath, PolarPath, TendonPath
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench

Vector = NDArray[np.float64]

SLICES = 40
"""Of a segment that tapers, each with the section of its middle: the error falls with their square."""


def cosserat_rod(rod: RodDescription) -> CosseratRod:
    """The rod with all six strains free, whatever its basis."""
    return CosseratRod(
        sections=tuple(_section(segment, *slice_) for segment in rod.segments for slice_ in _slices(segment)),
        tendons=tuple(
            CosseratTendon(path=tendon_path(path), begin_m=path.start_m, end_m=min(path.end_m, rod.length_m))
            for path in rod.tendon_paths
        ),
        weight=tuple(_weight(rod)),
    )


def _weight(rod: RodDescription) -> Iterator[Load]:
    """Gravity on the rod and on the bodies fixed to it; a mass at the clamped end loads nothing."""
    g = np.array(rod.gravity_m_per_s2)
    if not g.any():
        return
    for segment, start_m in zip(rod.segments, rod.starts_m, strict=True):
        for low, high in _slices(segment):
            density = segment.mass_at((low + high) / 2)[0]
            if density > 0:
                yield DistributedLoad(
                    force_n_per_m=_triple(density * g),
                    start_m=float(start_m) + low * segment.length_m,
                    end_m=float(start_m) + high * segment.length_m,
                )
    for mass in rod.masses:
        if mass.mass_kg > 0 and mass.s_m > 0:
            yield PointWrench(s_m=mass.s_m, force_n=_triple(mass.mass_kg * g), offset_m=mass.center_of_mass_m)


def tendon_path(path: RoutedPath) -> TendonPath:
    """The path of a tendon with its second derivatives and the two sides of its kinks."""
    corners, polar = path.corners, path.polar
    if corners is not None:
        s_m, x_m, y_m = corners
        return HolePath(tuple((path.start_m + s_m).tolist()), tuple(x_m.tolist()), tuple(y_m.tolist()))
    if polar is not None:
        radius, angle = polar
        return PolarPath(_from_base(radius, path.start_m), _from_base(angle, path.start_m))  # rucker (28)
    return DifferencedPath(path)


def _slices(segment: RodSegment) -> list[tuple[float, float]]:
    """Fractions of a segment between which its section is one: all of it, or thin slices where it tapers."""
    if segment.taper is None:
        return [(0.0, 1.0)]
    cuts = sorted({*np.linspace(0.0, 1.0, SLICES + 1).tolist(), *segment.breaks})
    return list(pairwise(cuts))


def _section(segment: RodSegment, low: float, high: float) -> Section:
    """The description has the angular strains first."""
    bending_x, bending_y, torsion, shear_x, shear_y, extension = segment.stiffness_at((low + high) / 2).tolist()
    u_x, u_y, u_z, v_x, v_y, v_z = segment.rest_strain
    return Section(
        length_m=(high - low) * segment.length_m,
        shear_extension_n=(shear_x, shear_y, extension),
        bending_torsion_nm2=(bending_x, bending_y, torsion),
        rest_strain=(v_x, v_y, v_z),
        rest_curvature_per_m=(u_x, u_y, u_z),
    )


def _from_base(coefficients: Vector, start_m: float) -> tuple[float, ...]:
    """A polynomial of the arc length from ``start_m`` as one of the arc length from the base."""
    shifted = np.polynomial.Polynomial(coefficients)(np.polynomial.Polynomial([-start_m, 1.0]))
    return tuple(float(value) for value in shifted.coef)


def _triple(vector: Vector) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
