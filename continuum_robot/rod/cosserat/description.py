# SPDX-License-Identifier: Apache-2.0
"""A Cosserat rod with tendons, for which the boundary-value problem is posed: a robot's data, none of its mechanics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.cosserat.paths import DifferencedPath, HolePath, PolarPath, TendonPath
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench

Vector = NDArray[np.float64]
Triple = tuple[float, float, float]

_ARC_LENGTH_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A length of rod with one cross-section, material and rest strain.

    Attributes
    ----------
    bending_torsion_nm2 : diagonal of K_bt, (E I_xx, E I_yy, G J), N.m^2; rucker prints E I_zz for G J
    rest_strain : v* of rucker (4)
    rest_curvature_per_m : u* of rucker (4), 1/m
    """

    length_m: float
    shear_extension_n: Triple
    bending_torsion_nm2: Triple
    rest_strain: Triple = (0.0, 0.0, 1.0)
    rest_curvature_per_m: Triple = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("length_m", "shear_extension_n", "bending_torsion_nm2"):
            value = getattr(self, name)
            if not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
                raise ParameterError(name, value, "positive and finite")
        for name in ("rest_strain", "rest_curvature_per_m"):
            if not np.all(np.isfinite(getattr(self, name))):
                raise ParameterError(name, getattr(self, name), "finite")

    @property
    def parameters(self) -> Vector:
        """K_se, K_bt, v*, u* one after another, shape (12,)."""
        return np.concatenate(
            [self.shear_extension_n, self.bending_torsion_nm2, self.rest_strain, self.rest_curvature_per_m]
        )


def round_section(length_m: float, *, youngs_modulus_pa: float, poisson_ratio: float, radius_m: float) -> Section:
    """A solid round section without a shear correction, rucker (4)."""
    area, second_moment = math.pi * radius_m**2, math.pi / 4 * radius_m**4
    shear_modulus = youngs_modulus_pa / (2 * (1 + poisson_ratio))
    bending = youngs_modulus_pa * second_moment
    return Section(
        length_m=length_m,
        shear_extension_n=(shear_modulus * area, shear_modulus * area, youngs_modulus_pa * area),
        bending_torsion_nm2=(bending, bending, 2 * shear_modulus * second_moment),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CosseratTendon:
    """A tendon from where it enters the rod to where it is fixed, arc lengths from the base in m."""

    path: TendonPath
    end_m: float
    begin_m: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.begin_m < self.end_m:
            raise ParameterError("begin_m, end_m", (self.begin_m, self.end_m), "0 <= begin_m < end_m")

    def runs_between(self, start_m: float, end_m: float) -> bool:
        """Whether it runs along a stretch without an end inside."""
        middle_m = (start_m + end_m) / 2
        return self.begin_m < middle_m < self.end_m


@dataclass(frozen=True, slots=True, kw_only=True)
class CosseratRod:
    """A rod clamped at its base."""

    sections: tuple[Section, ...]
    tendons: tuple[CosseratTendon, ...] = ()
    base_pose: tuple[tuple[float, ...], ...] = field(default=tuple(tuple(row) for row in np.eye(4).tolist()))
    weight: tuple[Load, ...] = ()

    def __post_init__(self) -> None:
        if not self.sections:
            raise ParameterError("sections", self.sections, "one section or more")
        for index, tendon in enumerate(self.tendons):
            if tendon.end_m > self.length_m * (1 + _ARC_LENGTH_TOLERANCE):
                raise ParameterError(
                    f"tendons[{index}].end_m", tendon.end_m, f"at most the rod's length, {self.length_m:g} m"
                )
        pose = np.array(self.base_pose)
        if pose.shape != (4, 4) or not np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-9):
            raise ParameterError("base_pose", self.base_pose, "a 4 x 4 pose")

    @property
    def length_m(self) -> float:
        """Length of all sections, m."""
        return float(sum(section.length_m for section in self.sections))

    def weightless(self) -> CosseratRod:
        """The rod without its weight."""
        return replace(self, weight=())

    def with_weight(self, loads: Sequence[Load]) -> tuple[Load, ...]:
        """All loads on the rod: its weight, then the given ones."""
        return (*self.weight, *loads)

    @property
    def section_ends_m(self) -> Vector:
        """Arc length of the end of each section, shape (sections,), m."""
        return np.cumsum([section.length_m for section in self.sections])

    def checked_tension(self, tension_n: ArrayLike) -> Vector:
        """Tensions (tendons,) as an array, N."""
        tension = np.asarray(tension_n, dtype=float)
        if tension.shape != (len(self.tendons),):
            raise ParameterError("tension_n", tension.tolist(), f"{len(self.tendons)} tensions")
        if not np.all(np.isfinite(tension)) or np.any(tension < 0):
            raise ParameterError("tension_n", tension.tolist(), "finite tensions of 0 or more: a tendon cannot push")
        return tension


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
