# SPDX-License-Identifier: Apache-2.0
"""Where the mass of a robot sits: stations along each segment, with the mass and inertia of each part."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.backbone import Disk
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.bases import gauss_legendre, strain_matrix
from continuum_robot.rod.tendons import tendon_matrix

Vector = NDArray[np.float64]

BACKBONE, TENDONS, DISKS = "backbone", "tendons", "disks"
PARTS = (BACKBONE, TENDONS, DISKS)


@dataclass(frozen=True, slots=True)
class Parts:
    """Which terms of the kinetic energy and of gravity a model has.

    Attributes
    ----------
    rotational_energy : rotation of the cross-sections and disks, the second terms of muhmann (10), (11), (14)
    tendon_inertia : mass of the tendons, muhmann (11), (12), (17)
    backbone_inertia : mass of the backbone, muhmann (10), (16)
    disk_inertia : mass of the disks, muhmann (14), (18)
    """

    rotational_energy: bool = False
    tendon_inertia: bool = False
    backbone_inertia: bool = True
    disk_inertia: bool = True


@dataclass(slots=True)
class Station:
    """A place on a segment where mass is lumped, or a node of the quadrature of distributed mass.

    Attributes
    ----------
    s_m : arc length from the segment's start, m
    mass_kg : mass of each part there
    inertia_kg_m2 : moments of inertia of each part about a diameter and about the backbone
    center_of_mass_m : where the mass is in the backbone's frame at the station, (3,), m; None: on the backbone
    tensor_kg_m2 : full inertia tensor about the centre of mass in the axes of that frame, (3, 3); None: none but
        ``inertia_kg_m2``. It counts to the disks
    """

    s_m: float
    mass_kg: dict[str, float] = field(default_factory=dict)
    inertia_kg_m2: dict[str, tuple[float, float]] = field(default_factory=dict)
    center_of_mass_m: Vector | None = None
    tensor_kg_m2: Vector | None = None

    @property
    def turning(self) -> bool:
        """Whether its motion needs the rotation of the backbone."""
        return any(self.total_inertia_kg_m2) or self.center_of_mass_m is not None or self.tensor_kg_m2 is not None

    @property
    def total_mass_kg(self) -> float:
        """Mass of all parts."""
        return sum(self.mass_kg.values())

    @property
    def total_inertia_kg_m2(self) -> tuple[float, float]:
        """Inertia of all parts about a diameter and about the backbone."""
        moments = list(self.inertia_kg_m2.values())
        return sum(moment[0] for moment in moments), sum(moment[1] for moment in moments)


def quadrature_count(order: int) -> int:
    """Gauss-Legendre nodes for the distributed mass of a segment with a basis of that order.

    With six nodes the backbone's energies of a constant-curvature segment that bends by 3.6 rad are right to 1e-6.
    """
    return 6 + order


def stations(robot: Robot, index: int, parts: Parts, quadrature_nodes: int | None = None) -> list[Station]:
    """Stations of segment ``index``, sorted, the last at the segment's end (massless if nothing is there).

    Parameters
    ----------
    robot : the robot
    index : of the segment, from 0
    parts : what has inertia
    quadrature_nodes : nodes for the distributed mass; None for :func:`quadrature_count`
    """
    segment = robot.segments[index]
    found: list[Station] = []
    distributed: dict[str, tuple[float, float]] = {}  # mass per length; rho I about a diameter
    if parts.backbone_inertia:
        backbone = segment.backbone
        distributed[BACKBONE] = (backbone.linear_density_kg_per_m, backbone.rotary_inertia_kg_m)  # muhmann (10)
    if parts.tendon_inertia:
        # Tendons of this and of all later segments run through here; as in (11) at the backbone's place.
        passing = [later.tendons for later in passing_segments(robot, index)]
        mass = sum(tendons.count * tendons.mass_per_length_kg_per_m for tendons in passing)
        moment = sum(
            tendons.count * tendons.mass_per_length_kg_per_m * tendons.diameter_m**2 / 16 for tendons in passing
        )
        if mass > 0:
            distributed[TENDONS] = (mass, moment)  # muhmann (11)
    if distributed:
        count = quadrature_nodes or quadrature_count(segment.basis.order)
        for node, weight in zip(*gauss_legendre(count, segment.length_m), strict=True):
            station = Station(float(node))
            for part, (mass, moment) in distributed.items():
                station.mass_kg[part] = float(weight) * mass
                if parts.rotational_energy:
                    station.inertia_kg_m2[part] = (float(weight) * moment, 2 * float(weight) * moment)
            found.append(station)
    if parts.disk_inertia:
        found += [_individual(disk, parts) for disk in segment.disks.individual]
        for position, kilograms in zip(
            segment.disks.positions_m(segment.length_m), segment.disks.masses_kg, strict=True
        ):
            if segment.disks.individual:
                break
            station = Station(float(position), {DISKS: float(kilograms)})
            if parts.rotational_energy:
                station.inertia_kg_m2[DISKS] = (
                    segment.disks.inertia_transverse_kg_m2,
                    segment.disks.inertia_axial_kg_m2,
                )
            found.append(station)  # muhmann (14)
    found.sort(key=lambda station: station.s_m)
    if not found or found[-1].s_m < segment.length_m * (1 - 1e-12):
        found.append(Station(segment.length_m))
    return found


def _individual(disk: Disk, parts: Parts) -> Station:
    """The station of a disk with its own centre of mass and tensor, johnston (17), (18)."""
    center_m = np.array(disk.center_of_mass_m)
    return Station(
        disk.arc_length_m,
        {DISKS: disk.mass_kg},
        center_of_mass_m=center_m if center_m.any() else None,
        tensor_kg_m2=disk.inertia_tensor_kg_m2 if parts.rotational_energy else None,
    )


def passing_segments(robot: Robot, index: int) -> list[Segment]:
    """The segments whose tendons run through segment ``index``: itself, and later ones with tendons from the base."""
    return [later for k, later in enumerate(robot.segments[index:], index) if k == index or later.tendons.from_base]


def tendon_axial_mass_matrix(robot: Robot) -> Vector:
    """Mass matrix of the tendons' sliding, muhmann (12) with (13); constant, shape (coefficients, coefficients)."""
    lengths_m = np.cumsum([segment.length_m for segment in robot.segments])
    masses_kg = np.concatenate(
        [
            np.full(
                segment.tendons.count,
                segment.tendons.mass_per_length_kg_per_m
                * (length_m if segment.tendons.from_base else segment.length_m),
            )
            for segment, length_m in zip(robot.segments, lengths_m, strict=True)
        ]
    )
    gradient = tendon_matrix(robot)
    return np.asarray(gradient.T @ (masses_kg[:, None] * gradient))


def section_stiffness(robot: Robot, index: int) -> Vector:
    """Stiffness of a segment's cross-section: E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); shape (6,).

    Of the backbone, and against bending of every tendon that runs through the segment. muhmann (19) counts the
    segment's own tendons only; those of later segments bend with it as well, as in his (11).

    Parameters
    ----------
    robot : a rod
    index : of the segment, from 0
    """
    backbone = robot.segments[index].backbone
    of_tendons_nm2 = sum(
        later.tendons.count * later.tendons.bending_stiffness_nm2 for later in passing_segments(robot, index)
    )
    shear_n = backbone.shear_modulus_pa * backbone.area_m2
    return np.array(
        [
            *(own + of_tendons_nm2 for own in backbone.bending_stiffnesses_nm2),
            2 * backbone.shear_modulus_pa * backbone.second_moment_m4,  # G J, not rucker's E I_zz
            shear_n,
            shear_n,
            backbone.youngs_modulus_pa * backbone.area_m2,
        ]
    )


def stiffness_matrix(robot: Robot) -> Vector:
    """Constant stiffness of the coefficients, shape (n, n): V = c^T K c / 2; muhmann (19), johnston (29)."""
    return strain_matrix(
        (segment.basis, segment.length_m, section_stiffness(robot, index))
        for index, segment in enumerate(robot.segments)
    )


def damping_matrix(robot: Robot) -> Vector:
    """Constant damping of the coefficients, shape (n, n).

    Dissipation 1/2 integral of d_theta l |kappa'|^2 ds over each segment. For a constant basis this is
    d_theta l^2 on the diagonal, in Clarke coordinates d_theta / r_d^2 (muhmann prints d_theta below (25)). The other
    strains are damped in the same time against their own stiffness, which no robot file states.
    """
    parts = []
    for index, segment in enumerate(robot.segments):
        bending_nm2s = segment.bending_damping_nms * segment.length_m  # muhmann (20)
        stiffness = section_stiffness(robot, index)
        time_s = 2 * bending_nm2s / (stiffness[0] + stiffness[1])
        parts.append((segment.basis, segment.length_m, [bending_nm2s, bending_nm2s, *(time_s * stiffness[2:])]))
    return strain_matrix(parts)
