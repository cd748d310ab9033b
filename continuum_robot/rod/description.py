# SPDX-License-Identifier: Apache-2.0
"""What a rod is, whatever describes it: segments with their sections and strains, paths of tendons, bodies, gravity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import check_values
from continuum_robot.robot.segments.backbone import Backbone
from continuum_robot.robot.segments.lumped_masses import LumpedMass, lumped_masses
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.bases import REFERENCE_STRAIN, strain_matrix
from continuum_robot.rod.inertia import (
    TENDONS,
    Parts,
    distributed_mass,
    section_damping,
    section_stiffness,
    tendon_mass,
)

Vector = NDArray[np.float64]

ALL = Parts(rotational_energy=True, tendon_inertia=True)
WITH_CAPSTANS = Parts(rotational_energy=True, tendon_inertia=True, capstan_inertia=True)
"""What moves where torques are those of the capstans."""
DRIVEN = Parts(rotational_energy=True, tendon_inertia=True, capstan_inertia=True, rotor_inertia=True)
"""What moves where tensions are those of the motors."""


@dataclass(frozen=True, kw_only=True)
class RodSegment:
    """A length of rod with one cross-section and one basis.

    Attributes
    ----------
    stiffness : (6,) E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); rucker prints E I_zz where G J is meant in K_bt
    """

    length_m: float
    basis: Basis
    stiffness: tuple[float, ...]
    damping: tuple[float, ...] = (0.0,) * 6
    linear_density_kg_per_m: float = 0.0
    rotary_inertia_kg_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rest_strain: tuple[float, ...] = REFERENCE_STRAIN
    taper: Backbone | None = None
    tendon_stiffness_nm2: float = 0.0
    tendon_density_kg_per_m: float = 0.0
    tendon_rotary_kg_m: float = 0.0
    name: str = "segment"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length_m) and self.length_m > 0):
            raise ParameterError(f"length_m of {self.name}", self.length_m, "a positive length in m")
        values = np.asarray(self.stiffness, dtype=float)
        if values.shape != (6,) or not np.isfinite(values).all() or (values <= 0).any():
            raise ParameterError(f"stiffness of {self.name}", self.stiffness, "six positive numbers")

    @property
    def breaks(self) -> tuple[float, ...]:
        """Fractions of its length, inside (0, 1), where functions of its basis or the slope of its taper jump."""
        return tuple(sorted({*self.basis.breaks, *(() if self.taper is None else self.taper.breaks)}))

    def stiffness_at(self, ratio: float) -> Vector:
        """Of the strains at a fraction of its length, (6,)."""
        stiffness = np.array(self.stiffness)
        if self.taper is None:
            return stiffness
        fixed = self.tendon_stiffness_nm2 * np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        return fixed + self.taper.factors(ratio).stiffness * (stiffness - fixed)

    def damping_at(self, ratio: float) -> Vector:
        """Of the strains at a fraction of its length, (6,): it changes as the backbone's stiffness."""
        damping = np.array(self.damping)
        return damping if self.taper is None else self.taper.factors(ratio).stiffness * damping

    def mass_at(self, ratio: float) -> tuple[float, Vector]:
        """Mass per length (kg/m) and moments of inertia per length (3,) (kg.m) at a fraction of its length."""
        density, rotary = self.linear_density_kg_per_m, np.array(self.rotary_inertia_kg_m)
        if self.taper is None:
            return density, rotary
        factors, fixed = self.taper.factors(ratio), self.tendon_rotary_kg_m * np.array([1.0, 1.0, 2.0])
        own = factors.mass * (density - self.tendon_density_kg_per_m)
        return own + self.tendon_density_kg_per_m, fixed + factors.rotary * (rotary - fixed)


@dataclass(frozen=True, kw_only=True)
class RodDescription:
    """A rod.

    Attributes
    ----------
    segments : from the base to the tip
    tendon_paths, string_paths : what runs along it
    masses : bodies fixed to it, at arc lengths from the base
    tendon_mass_kg : what moves with the tendons: kinetic energy q'^T m q' / 2 of their displacements, (N, N), with
        those that the straight rod's rates have; None: nothing
    gravity_m_per_s2 : in the base frame
    name : for messages

    Raises
    ------
    ParameterError : no segment, or a path or a body that is not on the rod
    """

    segments: tuple[RodSegment, ...]
    tendon_paths: tuple[RoutedPath, ...] = ()
    string_paths: tuple[RoutedPath, ...] = ()
    masses: tuple[LumpedMass, ...] = ()
    tendon_mass_kg: Vector | None = None
    gravity_m_per_s2: tuple[float, ...] = (0.0, 0.0, 0.0)
    name: str = "rod"

    def __post_init__(self) -> None:
        if not self.segments:
            raise ParameterError("segments", self.segments, "one segment or more")
        for path in (*self.tendon_paths, *self.string_paths):
            if not 0 <= path.start_m < path.end_m <= self.length_m * (1 + 1e-12):
                raise ParameterError(path.name, (path.start_m, path.end_m), f"ends in [0, {self.length_m:g}] m")
        for mass in self.masses:
            if not 0 <= mass.s_m <= self.length_m * (1 + 1e-9):
                raise ParameterError("masses", mass.s_m, f"arc lengths in [0, {self.length_m:g}] m")

    @property
    def length_m(self) -> float:
        """From the base to the tip, m."""
        return float(sum(segment.length_m for segment in self.segments))

    @property
    def starts_m(self) -> Vector:
        """Arc length of each segment's start, m."""
        return np.concatenate([[0.0], np.cumsum([segment.length_m for segment in self.segments])[:-1]])

    @property
    def stiffness(self) -> Vector:
        """Of the coefficients, (n, n): elastic energy c^T K c / 2; muhmann (19), johnston (29)."""
        return strain_matrix(
            (one.basis, one.length_m, one.stiffness_at if one.taper else one.stiffness, one.breaks)
            for one in self.segments
        )

    @property
    def damping(self) -> Vector:
        """Of the coefficients, (n, n)."""
        return strain_matrix(
            (one.basis, one.length_m, one.damping_at if one.taper else one.damping, one.breaks) for one in self.segments
        )

    @classmethod
    def of_robot(cls, robot: Robot, parts: Parts = ALL) -> RodDescription:
        """The rod of a robot file: backbone, disks, payload, tendons, strings, gravity.

        Tendons bend with the backbone, see :func:`continuum_robot.rod.inertia.section_stiffness`.

        Parameters
        ----------
        robot : with segments
        parts : what has inertia and weight

        Raises
        ------
        ParameterError : a mechanism, or a value of the description that no robot file may have
        """
        check_values(robot)
        if robot.traits.kind != ROD:
            raise ParameterError("robot", robot.name, "a rod with segments")
        segments: list[RodSegment] = []
        masses: list[LumpedMass] = []
        for index, (segment, start_m) in enumerate(zip(robot.segments, robot.segment_starts_m, strict=True)):
            parted = distributed_mass(robot, index, parts)
            along, (density, moment) = list(parted.values()), parted.get(TENDONS, (0.0, 0.0))
            rotary = sum(moment for _, moment in along) if parts.rotational_energy else 0.0
            stiffness = section_stiffness(robot, index)
            segments.append(
                RodSegment(
                    length_m=segment.length_m,
                    basis=segment.basis,
                    stiffness=_floats(stiffness),
                    damping=_floats(section_damping(robot, index)),
                    linear_density_kg_per_m=float(sum(density for density, _ in along)),
                    rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
                    rest_strain=segment.backbone.rest_strain,
                    taper=segment.backbone if segment.backbone.taper else None,
                    tendon_stiffness_nm2=float(stiffness[0] - segment.backbone.bending_stiffnesses_nm2[0]),
                    tendon_density_kg_per_m=density,
                    tendon_rotary_kg_m=moment if parts.rotational_energy else 0.0,
                    name=segment.name,
                )
            )
            if parts.disk_inertia:
                masses += [_placed(body, float(start_m) + body.s_m, parts) for body in lumped_masses(robot, index)]
        return cls(
            segments=tuple(segments),
            tendon_paths=tuple(robot.tendon_paths),
            string_paths=tuple(string.path for string in robot.strings),
            masses=tuple(masses),
            tendon_mass_kg=tendon_mass(robot, parts),
            gravity_m_per_s2=robot.gravity_m_per_s2,
            name=robot.name,
        )


def _placed(body: LumpedMass, s_m: float, parts: Parts) -> LumpedMass:
    tensor = body.inertia_kg_m2 if parts.rotational_energy else np.zeros((3, 3))
    return replace(body, s_m=s_m, inertia_kg_m2=tensor)


def _floats(values: Vector) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
