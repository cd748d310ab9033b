# SPDX-License-Identifier: Apache-2.0
"""What a rod is, whatever describes it: segments with their sections and strains, paths of tendons, bodies, gravity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import check_values
from continuum_robot.robot.segments.lumped_masses import LumpedMass, lumped_masses
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import REFERENCE_STRAIN, Weights, strain_matrix
from continuum_robot.rod.inertia import Parts, distributed_mass, section_damping, section_stiffness, tendon_mass

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
    length_m : m
    basis : which strains it has
    stiffness : (6,) E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); rucker prints E I_zz where G J is meant in K_bt
    damping : of the same strains, (6,), N.m^2.s and N.s
    linear_density_kg_per_m : mass per length, kg/m
    rotary_inertia_kg_m : moments of inertia per length about x, y and z, kg.m
    rest_strain : xi* = (u*, v*), (6,), 1/m and dimensionless
    taper : the segment with its section at a fraction of its length; None: it is the same all along
    breaks : fractions of its length, inside (0, 1), where the section's slope jumps
    name : for messages
    """

    length_m: float
    basis: Basis
    stiffness: tuple[float, ...]
    damping: tuple[float, ...] = (0.0,) * 6
    linear_density_kg_per_m: float = 0.0
    rotary_inertia_kg_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rest_strain: tuple[float, ...] = REFERENCE_STRAIN
    taper: Callable[[float], RodSegment] | None = None
    breaks: tuple[float, ...] = ()
    name: str = "segment"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length_m) and self.length_m > 0):
            raise ParameterError(f"length_m of {self.name}", self.length_m, "a positive length in m")
        values = np.asarray(self.stiffness, dtype=float)
        if values.shape != (6,) or not np.isfinite(values).all() or (values <= 0).any():
            raise ParameterError(f"stiffness of {self.name}", self.stiffness, "six positive numbers")

    def at(self, ratio: float) -> RodSegment:
        """The segment with its section at a fraction of its length."""
        return self if self.taper is None else self.taper(ratio)

    def along(self, name: str) -> Weights:
        """Its stiffness or damping, as it changes along it."""
        return getattr(self, name) if self.taper is None else (lambda ratio: getattr(self.at(ratio), name))


@dataclass(frozen=True, kw_only=True)
class RodDescription:
    """A rod.

    Attributes
    ----------
    segments : from the base to the tip
    tendon_paths, string_paths : what runs along it
    masses : bodies fixed to it, at arc lengths from the base
    payload_kg, payload_offset_m : of these what the tip carries, kg, and where its centre of mass is in the tip's frame
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
    payload_kg: float = 0.0
    payload_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
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
        return self._matrix("stiffness")

    @property
    def damping(self) -> Vector:
        """Of the coefficients, (n, n)."""
        return self._matrix("damping")

    def _matrix(self, name: str) -> Vector:
        return strain_matrix((one.basis, one.length_m, one.along(name), one.breaks) for one in self.segments)

    @classmethod
    def of_robot(cls, robot: Robot, parts: Parts = ALL, *, compliant: bool = False) -> RodDescription:
        """The rod of a robot file: backbone, disks, payload, tendons, strings, gravity.

        Tendons bend with the backbone, see :func:`continuum_robot.rod.inertia.section_stiffness`.

        Parameters
        ----------
        robot : with segments
        parts : what has inertia and weight
        compliant : its backbone gives way along itself as ``displaced_tendons`` says, by an extension that is constant
            along each segment whose basis has none

        Raises
        ------
        ParameterError : a mechanism
        """
        if not robot.segments:
            raise ParameterError("robot", robot.name, "a rod with segments")
        check_values(robot)
        softness = robot.displaced_tendons.compliance_per_n if compliant and robot.displaced_tendons else 0.0
        masses = [
            _placed(body, float(start_m) + body.s_m, parts)
            for index, start_m in enumerate(robot.segment_starts_m)
            for body in (lumped_masses(robot, index) if parts.disk_inertia else ())
        ]
        x, y, z = robot.payload_offset_m
        return cls(
            segments=tuple(_segment(robot, index, parts, softness) for index in range(len(robot.segments))),
            tendon_paths=tuple(robot.tendon_paths),
            string_paths=tuple(string.path for string in robot.strings),
            masses=tuple(masses),
            payload_kg=robot.payload_kg if parts.disk_inertia else 0.0,
            payload_offset_m=(x, y, z),
            tendon_mass_kg=tendon_mass(robot, parts),
            gravity_m_per_s2=robot.gravity_m_per_s2,
            name=robot.name,
        )


def _segment(robot: Robot, index: int, parts: Parts, softness: float, ratio: float | None = None) -> RodSegment:
    """A segment of a robot, with its section at a fraction of its length where that is not None."""
    segment = robot.segments[index]
    along = list(distributed_mass(robot, index, parts, ratio).values())
    rotary = sum(moment for _, moment in along) if parts.rotational_energy else 0.0
    stiffness, basis = section_stiffness(robot, index, ratio), segment.basis
    if softness and 5 not in basis.rows:
        stiffness[5], basis = 1 / softness, basis.extended
    tapers = segment.backbone.taper and ratio is None
    return RodSegment(
        length_m=segment.length_m,
        basis=basis,
        stiffness=_floats(stiffness),
        damping=_floats(section_damping(robot, index, ratio)),
        linear_density_kg_per_m=float(sum(density for density, _ in along)),
        rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
        rest_strain=_floats(np.asarray(segment.backbone.rest_strain)),
        taper=partial(_segment, robot, index, parts, softness) if tapers else None,
        breaks=segment.backbone.breaks,
        name=segment.name,
    )


def _placed(body: LumpedMass, s_m: float, parts: Parts) -> LumpedMass:
    tensor = body.inertia_kg_m2 if parts.rotational_energy else np.zeros((3, 3))
    return replace(body, s_m=s_m, inertia_kg_m2=tensor)


def _floats(values: Vector) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
