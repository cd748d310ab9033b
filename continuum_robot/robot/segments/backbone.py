# SPDX-License-Identifier: Apache-2.0
"""The rod of a segment and the disks on it: stiffness, hysteresis, masses, inertia."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.schema import quantity, refuse

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperPoint:
    """The cross-section at one place, over what the backbone states; linear between two places."""

    at: float = quantity("place, as a fraction of the segment's length", ge=0, le=1)
    diameter: float = quantity("both diameters, over those of the backbone", default=1.0, gt=0, le=100)
    stiffness: float = quantity(
        "all stiffnesses, over what the backbone's become with that diameter: bending and torsion with its fourth"
        " power, shear and extension with its square",
        default=1.0,
        gt=0,
        le=1e4,
    )
    mass: float = quantity(
        "mass per length, over what the backbone's becomes with the square of that diameter", default=1.0, ge=0,
        le=1e4
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Factors:
    """By which a cross-section differs from what the backbone states."""

    bending: float = 1.0
    area: float = 1.0
    mass: float = 1.0
    rotary: float = 1.0

    @property
    def stiffness(self) -> Vector:
        """Of E I_x, E I_y, G J, G A, G A, E A, (6,)."""
        return np.array([self.bending] * 3 + [self.area] * 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """A rod or tube of one material, round unless its bending stiffnesses differ."""

    youngs_modulus_pa: float = quantity("Young's modulus", ge=1e4, le=1e12)
    poisson_ratio: float = quantity("Poisson's ratio", default=0.33, gt=-1, le=0.5)
    density_kg_per_m3: float = quantity("density", ge=1, le=25000)
    outer_diameter_m: float = quantity("outer diameter", gt=0, le=0.2)
    inner_diameter_m: float = quantity("inner diameter, 0 for a solid rod", default=0.0, ge=0, le=0.2)
    bending_stiffness_x_nm2: float | None = quantity(
        "stiffness against curvature about x, instead of E I", default=None, gt=0, le=1e6
    )
    bending_stiffness_y_nm2: float | None = quantity(
        "stiffness against curvature about y, instead of E I", default=None, gt=0, le=1e6
    )
    torsional_stiffness_nm2: float | None = quantity(
        "stiffness against torsion, instead of G J: without it, as bending_stiffness_x_nm2 and bending_stiffness_y_nm2"
        " of the same material make it",
        default=None,
        gt=0,
        le=1e6,
    )
    shear_stiffness_n: float | None = quantity(
        "stiffness against shear across x and y, instead of G A", default=None, gt=0, le=1e9
    )
    axial_stiffness_n: float | None = quantity(
        "stiffness against extension, instead of E A", default=None, gt=0, le=1e9
    )
    mass_per_length_kg_per_m: float | None = quantity(
        "mass per length of the rod and what is fixed to it, instead of density times cross-section",
        default=None,
        ge=0,
        le=1e3,
    )

    taper: tuple[TaperPoint, ...] = quantity(
        "cross-section along the segment, at places from its start to its end; none: the same everywhere", default=()
    )
    rest_curvature_per_m: tuple[float, ...] = quantity(
        "curvature about x and y, and torsion, without any load: of a precurved rod", default=(0.0, 0.0, 0.0),
        length=3, ge=-1e4, le=1e4
    )  # fmt: skip

    def __post_init__(self) -> None:
        places = [point.at for point in self.taper]
        if places != sorted(set(places)):
            raise refuse("taper", places, "increasing places at")
        if self.inner_diameter_m >= self.outer_diameter_m:
            raise refuse(
                "inner_diameter_m", self.inner_diameter_m, f"less than outer_diameter_m = {self.outer_diameter_m:g} m"
            )

    @property
    def rest_strain(self) -> tuple[float, ...]:
        """Strain without load: u_x, u_y, u_z (1/m), v_x, v_y, v_z."""
        return (*self.rest_curvature_per_m, 0.0, 0.0, 1.0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Fractions of the segment's length, inside (0, 1), where the slope of its taper jumps."""
        return tuple(point.at for point in self.taper if 0 < point.at < 1)

    def factors(self, ratio: float) -> Factors:
        """By which the cross-section differs at a fraction of the segment's length."""
        if not self.taper:
            return Factors()
        places = [point.at for point in self.taper]
        diameter, stiffness, mass = (
            float(np.interp(ratio, places, [getattr(point, name) for point in self.taper]))
            for name in ("diameter", "stiffness", "mass")
        )
        area = diameter**2
        return Factors(area**2 * stiffness, area * stiffness, area * mass, area**2 * mass)

    def mass_kg(self, length_m: float) -> float:
        """Mass of a segment of this backbone, kg."""
        nodes, weights = np.polynomial.legendre.leggauss(2)  # exact: a cubic between two places
        cuts = np.array([0.0, *self.breaks, 1.0])
        half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
        factors = [[self.factors(m + h * node).mass for node in nodes] for m, h in zip(middle, half, strict=True)]
        return float(self.linear_density_kg_per_m * length_m * (np.array(factors) @ weights) @ half)

    @property
    def area_m2(self) -> float:
        """Cross-section, m^2."""
        return math.pi / 4 * (self.outer_diameter_m**2 - self.inner_diameter_m**2)

    @property
    def second_moment_m4(self) -> float:
        """Second moment of area about a diameter, m^4."""
        return math.pi / 64 * (self.outer_diameter_m**4 - self.inner_diameter_m**4)

    @property
    def bending_stiffness_nm2(self) -> float:
        """Mean stiffness against curvature: E I unless the file states others, N.m^2."""
        return sum(self.bending_stiffnesses_nm2) / 2

    @property
    def bending_stiffnesses_nm2(self) -> tuple[float, float]:
        """Stiffness against curvature about x and about y, N.m^2."""
        x, y = self.bending_stiffness_x_nm2, self.bending_stiffness_y_nm2
        round_nm2 = self.youngs_modulus_pa * self.second_moment_m4
        return (round_nm2 if x is None else x, round_nm2 if y is None else y)

    @property
    def section_stiffnesses(self) -> tuple[float, ...]:
        """E I_x, E I_y, G J (N.m^2), G A, G A, E A (N).

        The stated bending stiffnesses are those of the material: G J = 4 G I_x I_y / (I_x + I_y), and for the
        area A its modulus is sqrt(E I_x E I_y) / I. Both are exact for solid ellipses; round rods keep the file's. A
        stated stiffness counts instead.
        """
        x, y = self.bending_stiffnesses_nm2
        ratio = 1.0
        if (self.bending_stiffness_x_nm2, self.bending_stiffness_y_nm2) != (None, None):
            ratio = math.sqrt(x * y) / (self.youngs_modulus_pa * self.second_moment_m4)
        shear_n, axial_n = self.shear_stiffness_n, self.axial_stiffness_n
        if shear_n is None:
            shear_n = ratio * self.shear_modulus_pa * self.area_m2
        if axial_n is None:
            axial_n = ratio * self.youngs_modulus_pa * self.area_m2
        torsion_nm2 = self.torsional_stiffness_nm2
        if torsion_nm2 is None:  # not rucker's E I_zz
            torsion_nm2 = 2 * x * y / (x + y) / (1 + self.poisson_ratio)
        return (x, y, torsion_nm2, shear_n, shear_n, axial_n)

    @property
    def linear_density_kg_per_m(self) -> float:
        """Mass per length, kg/m."""
        if self.mass_per_length_kg_per_m is not None:
            return self.mass_per_length_kg_per_m
        return self.density_kg_per_m3 * self.area_m2

    @property
    def rotary_inertia_kg_m(self) -> float:
        """Moment of inertia per length about a diameter, kg.m; about the backbone twice that. johnston (14)."""
        if self.mass_per_length_kg_per_m is not None:
            return self.mass_per_length_kg_per_m * self.second_moment_m4 / self.area_m2
        return self.density_kg_per_m3 * self.second_moment_m4

    @property
    def shear_modulus_pa(self) -> float:
        """E / (2 (1 + nu)) of the file's modulus, Pa."""
        return self.youngs_modulus_pa / (2 * (1 + self.poisson_ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One disk with what is mounted on it: johnston section 5.1.2 and table 3."""

    arc_length_m: float = quantity("arc length from the segment's start", ge=0, le=10)
    mass_kg: float = quantity("mass", gt=0, le=100)
    center_of_mass_m: tuple[float, ...] = quantity(
        "centre of mass in the backbone's frame at the disk", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    inertia_kg_m2: tuple[float, ...] = quantity(
        "inertia tensor about the centre of mass in the axes of the backbone's frame, row by row",
        length=9,
        ge=-10,
        le=10,
    )

    def __post_init__(self) -> None:
        tensor = self.inertia_tensor_kg_m2
        if not np.allclose(tensor, tensor.T, rtol=0, atol=1e-12):
            raise refuse("inertia_kg_m2", self.inertia_kg_m2, "a symmetric tensor")
        moments = np.linalg.eigvalsh(tensor)
        # No body has a principal moment above the sum of the other two.
        if moments[0] <= 0 or moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            raise refuse(
                "inertia_kg_m2",
                self.inertia_kg_m2,
                "a tensor with positive principal moments, none greater than the sum of the others (here"
                f" {', '.join(f'{moment:.4g}' for moment in moments)} kg.m^2)",
            )

    @property
    def inertia_tensor_kg_m2(self) -> Vector:
        """Inertia tensor about the centre of mass, shape (3, 3), kg.m^2."""
        return np.array(self.inertia_kg_m2).reshape(3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """Spacer disks of a segment: equal cylinders with their centre on the backbone, or described one by one; or none.

    Without disks, ``radius_m`` is the body's: tendons run inside of it, and contacts and drawings take it.
    """

    mass_kg: float | None = quantity("mass of a disk; not with individual", default=None, ge=0, le=100)
    radius_m: float = quantity("outer radius", gt=0, le=1)
    thickness_m: float = quantity("thickness", default=0.003, gt=0, le=1)
    count: int | None = quantity(
        "number of disks, equally spaced, the last at the segment's end; 0: none", default=None, ge=0, le=200
    )
    arc_lengths_m: tuple[float, ...] = quantity(
        "arc length of each disk from the segment's start, instead of count", default=(), ge=0, le=10
    )
    individual: tuple[Disk, ...] = quantity("every disk with its own mass and inertia, instead of count", default=())

    def __post_init__(self) -> None:
        ways = (bool(self.count), bool(self.arc_lengths_m), bool(self.individual)).count(True)
        if ways > 1 or (ways == 0 and self.count is None):
            raise refuse("count", self.count, "either count or arc_lengths_m or individual; count: 0 without disks")
        for key, arc_lengths_m in (
            ("arc_lengths_m", self.arc_lengths_m),
            ("individual", tuple(disk.arc_length_m for disk in self.individual)),
        ):
            if list(arc_lengths_m) != sorted(set(arc_lengths_m)):
                raise refuse(key, arc_lengths_m, "increasing arc lengths")
        if (self.mass_kg is None) != bool(self.individual) and self.disk_count:
            raise refuse("mass_kg", self.mass_kg, "the mass of a disk in kg, or individual disks with a mass each")

    def positions_m(self, segment_length_m: float) -> Vector:
        """Arc lengths of the disks from the segment's start, shape (disks,), m."""
        if self.individual:
            return np.array([disk.arc_length_m for disk in self.individual])
        if self.arc_lengths_m:
            return np.array(self.arc_lengths_m)
        return segment_length_m * np.arange(1, self.disk_count + 1) / max(1, self.disk_count)

    @property
    def disk_count(self) -> int:
        """Number of disks."""
        return self.count or len(self.arc_lengths_m) or len(self.individual)

    @property
    def masses_kg(self) -> Vector:
        """Mass of each disk, shape (disks,), kg."""
        if self.individual:
            return np.array([disk.mass_kg for disk in self.individual])
        return np.full(self.disk_count, self.mass_kg or 0.0)

    @property
    def inertia_transverse_kg_m2(self) -> float:
        """Moment of inertia of one of the equal disks about a diameter, kg.m^2; 0 with individual disks."""
        return (self.mass_kg or 0.0) * (3 * self.radius_m**2 + self.thickness_m**2) / 12

    @property
    def inertia_axial_kg_m2(self) -> float:
        """Moment of inertia of one of the equal disks about the backbone, kg.m^2; 0 with individual disks."""
        return (self.mass_kg or 0.0) * self.radius_m**2 / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hysteresis:
    """A bending moment that lags behind the curvature: the loop that a bent backbone leaves, and its tendons in it."""

    moment_nm: float = quantity("moment that it resists with in the end, either way", gt=0, le=1e3)
    curvature_per_m: float = quantity(
        "curvature over which it grows to 63 % of that from rest, and over twice as much after a turn", gt=0, le=1e3
    )
