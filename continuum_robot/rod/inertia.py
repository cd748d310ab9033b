# SPDX-License-Identifier: Apache-2.0
"""Mass, stiffness and damping of a robot's cross-sections, and of what moves with its tendons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.friction.capstans import drives, tension_from_torque

Vector = NDArray[np.float64]

BACKBONE, TENDONS = "backbone", "tendons"


@dataclass(frozen=True, slots=True)
class Parts:
    """Which terms of the kinetic energy and of gravity a model has.

    Attributes
    ----------
    rotational_energy : rotation of the cross-sections and disks, the second terms of muhmann (10), (11), (14)
    tendon_inertia : mass of the tendons, muhmann (11), (12), (17)
    backbone_inertia : mass of the backbone, muhmann (10), (16)
    disk_inertia : mass of the disks, muhmann (14), (18)
    capstan_inertia : of the capstans, johnston (22)-(24); not beside a model of the motors, whose rotors it is
    """

    rotational_energy: bool = False
    tendon_inertia: bool = False
    backbone_inertia: bool = True
    disk_inertia: bool = True
    capstan_inertia: bool = False
    rotor_inertia: bool = False


def distributed_mass(robot: Robot, index: int, parts: Parts) -> dict[str, tuple[float, float]]:
    """Mass per length (kg/m) and rho I about a diameter (kg.m) of what lies all along segment ``index``, by part.

    Of a backbone that tapers: what it states, by which its taper's factors are meant.
    """
    found = {}
    if parts.backbone_inertia:
        backbone = robot.segments[index].backbone
        found[BACKBONE] = (backbone.linear_density_kg_per_m, backbone.rotary_inertia_kg_m)  # muhmann (10)
    if parts.tendon_inertia:
        # Tendons of this and of all later segments run through here; as in (11) at the backbone's place.
        passing = [later.tendons for later in passing_segments(robot, index)]
        mass = sum(tendons.count * tendons.mass_per_length_kg_per_m for tendons in passing)
        moment = sum(
            tendons.count * tendons.mass_per_length_kg_per_m * tendons.diameter_m**2 / 16 for tendons in passing
        )
        if mass > 0:
            found[TENDONS] = (mass, moment)  # muhmann (11)
    return found


def passing_segments(robot: Robot, index: int) -> list[Segment]:
    """The segments whose tendons run through segment ``index``: itself, and later ones with tendons from the base."""
    return [later for k, later in enumerate(robot.segments[index:], index) if k == index or later.tendons.from_base]


def tendon_mass(robot: Robot, parts: Parts) -> Vector | None:
    """Of what moves with the displacements of the tendons, (N, N), kg; None where nothing does.

    The tendons themselves, muhmann (12) with (13); capstans, johnston (22)-(24); rotors of the motors.
    """
    masses_kg = np.zeros(robot.tendon_count)
    for segment, start_m, place in zip(robot.segments, robot.segment_starts_m, robot.tendon_slices, strict=True):
        if parts.tendon_inertia:
            begin_m = 0.0 if segment.tendons.from_base else start_m
            masses_kg[place] = segment.tendons.mass_per_length_kg_per_m * (start_m + segment.length_m - begin_m)
    capstans = drives(robot)
    if parts.rotor_inertia and robot.tendon_actuators is not None and not capstans:
        masses_kg += robot.tendon_actuators.each("reflected_mass_kg", robot.tendon_count)
    found = np.diag(masses_kg)
    if parts.capstan_inertia and capstans:
        turning = tension_from_torque(robot)  # of each capstan with its tendons, as its torque pulls at them
        found = found + (turning * [drive.capstans.inertia_kg_m2 for drive in capstans]) @ turning.T
    return found if found.any() else None


def section_stiffness(robot: Robot, index: int) -> Vector:
    """Stiffness of a segment's cross-section: E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); shape (6,).

    Of the backbone, and against bending of every tendon that runs through the segment. muhmann (19) counts the
    segment's own tendons only; those of later segments bend with it as well, as in his (11). Of a backbone that tapers:
    what it states, by which its taper's factors are meant.
    """
    backbone = robot.segments[index].backbone
    of_tendons_nm2 = sum(
        later.tendons.count * later.tendons.bending_stiffness_nm2 for later in passing_segments(robot, index)
    )
    stiffness = np.array(backbone.section_stiffnesses)
    stiffness[:2] += of_tendons_nm2
    return stiffness


def section_damping(robot: Robot, index: int) -> Vector:
    """Damping of a segment's strains, N.m^2.s and N.s, shape (6,).

    Dissipation 1/2 integral of d_theta l |kappa'|^2 ds over the segment. For a constant basis this is d_theta l^2, in
    Clarke coordinates d_theta / r_d^2 (muhmann prints d_theta below (25)). The other strains are damped in the same
    time against their own stiffness, which no robot file states.
    """
    segment, stiffness = robot.segments[index], section_stiffness(robot, index)
    bending_nm2s = segment.bending_damping_nms * segment.length_m  # muhmann (20)
    time_s = 2 * bending_nm2s / (stiffness[0] + stiffness[1])
    return np.array([bending_nm2s, bending_nm2s, *(time_s * stiffness[2:])])
