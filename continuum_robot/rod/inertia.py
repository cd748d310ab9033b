# SPDX-License-Identifier: Apache-2.0
"""Where the mass of a robot sits: stations along each segment, with the mass and inertia of each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Factors
from continuum_robot.robot.segments.lumped_masses import lumped_masses
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.bases import Weights, gauss_legendre, strain_matrix

Vector = NDArray[np.float64]

BACKBONE, TENDONS, DISKS = "backbone", "tendons", "disks"
PARTS = (BACKBONE, TENDONS, DISKS)

_LUMPED_DEGREE = 11


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


@dataclass(slots=True)
class Station:
    """A place on a segment where mass is lumped, or a node of the quadrature of distributed mass.

    Attributes
    ----------
    s_m : arc length from the segment's start, m
    mass_kg : mass of each part there
    tensors_kg_m2 : inertia of each part that turns, about the centre of mass in the axes of the backbone's frame at the
        station, (3, 3)
    center_of_mass_m : where the mass is in that frame, (3,), m; None: on the backbone
    """

    s_m: float
    mass_kg: dict[str, float] = field(default_factory=dict)
    tensors_kg_m2: dict[str, Vector] = field(default_factory=dict)
    center_of_mass_m: Vector | None = None

    @property
    def total_mass_kg(self) -> float:
        """Mass of all parts."""
        return sum(self.mass_kg.values())

    @property
    def tensor_kg_m2(self) -> Vector | None:
        """Inertia of all parts, (3, 3); None where none turns."""
        return np.sum(list(self.tensors_kg_m2.values()), axis=0) if self.tensors_kg_m2 else None


def distributed_nodes(
    segment: Segment, density_kg_per_m: float, disk_kg: float, quadrature_nodes: int | None = None
) -> tuple[Vector, Vector]:
    """Nodes (m, from the segment's start) and weights (m) of the quadrature of a segment's distributed mass.

    Where the strain is constant and the base and equal disks make weights exact for polynomials of degree 11 that leave
    mass at every disk, these are the nodes: no frame is computed for distributed mass alone then. Weights may be less
    than nothing. Else Gauss-Legendre nodes, six and the basis' order. With either the backbone's energies of a
    constant-curvature segment that bends by 3.6 rad are right to 1e-6.

    Parameters
    ----------
    segment : of the rod
    density_kg_per_m : of all that is distributed, kg/m
    disk_kg : mass of each of its equal disks that counts, kg; 0 where none does
    quadrature_nodes : Gauss-Legendre nodes to take
    """
    basis, length_m, disks = segment.basis, segment.length_m, segment.disks
    if quadrature_nodes is None and not basis.highest_order and disk_kg:
        places_m = np.unique([0.0, *disks.positions_m(length_m)])
        powers = np.polynomial.legendre.legvander(2 * places_m / length_m - 1, _LUMPED_DEGREE).T
        exact = np.eye(_LUMPED_DEGREE + 1)[0]
        weights = length_m * np.linalg.lstsq(powers, exact, rcond=None)[0]
        left_kg = weights[1:] * density_kg_per_m + disk_kg
        if np.abs(powers @ weights - length_m * exact).max() < 1e-12 and left_kg.min() > 0:
            return places_m, weights
    return gauss_legendre(quadrature_nodes or 6 + basis.highest_order, length_m)


def distributed_mass(
    robot: Robot, index: int, parts: Parts, ratio: float | None = None
) -> dict[str, tuple[float, float]]:
    """Mass per length (kg/m) and rho I about a diameter (kg.m) of what lies all along segment ``index``, by part.

    Parameters
    ----------
    parts : what has inertia
    ratio : fraction of the segment's length; None: as if it did not taper
    """
    found = {}
    if parts.backbone_inertia:
        backbone = robot.segments[index].backbone
        factors = Factors() if ratio is None else backbone.factors(ratio)
        found[BACKBONE] = (  # muhmann (10)
            factors.mass * backbone.linear_density_kg_per_m, factors.rotary * backbone.rotary_inertia_kg_m
        )  # fmt: skip
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


def stations(robot: Robot, index: int, parts: Parts, quadrature_nodes: int | None = None) -> list[Station]:
    """Stations of segment ``index`` that have mass, from its start on.

    Parameters
    ----------
    robot : the robot
    index : of the segment, from 0
    parts : what has inertia
    quadrature_nodes : as of :func:`distributed_nodes`
    """
    segment = robot.segments[index]
    found: dict[float, Station] = {}
    for k, start_m in ((index, 0.0), (index + 1, segment.length_m))[: len(robot.segments) - index]:
        distributed = distributed_mass(robot, k, parts)
        density_kg_per_m = sum(mass for mass, _ in distributed.values())
        disks = robot.segments[k].disks
        disk_kg = (disks.mass_kg or 0.0) if parts.disk_inertia and disks.disk_count else 0.0
        nodes = distributed_nodes(robot.segments[k], density_kg_per_m, disk_kg, quadrature_nodes)
        for node, weight in zip(*nodes, strict=True):
            # What is at the base does not move; what is at the start of a segment moves with the end of that before.
            if (k == index) == (node > 0):
                station = found.setdefault(start_m + float(node), Station(start_m + float(node)))
                for part, (mass, moment) in distributed.items():
                    station.mass_kg[part] = station.mass_kg.get(part, 0.0) + float(weight) * mass
                    if parts.rotational_energy:
                        tensor = float(weight) * moment * np.diag([1.0, 1.0, 2.0])
                        station.tensors_kg_m2[part] = station.tensors_kg_m2.get(part, 0.0) + tensor
    found = {s_m: station for s_m, station in found.items() if station.mass_kg}
    separate: list[Station] = []
    for body in lumped_masses(robot, index) if parts.disk_inertia else ():
        center_m = np.array(body.center_of_mass_m)
        station = Station(body.s_m, center_of_mass_m=center_m)  # johnston (17)
        if center_m.any():
            separate.append(station)
        else:
            station = found.setdefault(body.s_m, Station(body.s_m))
        station.mass_kg[DISKS] = station.mass_kg.get(DISKS, 0.0) + body.mass_kg  # muhmann (14)
        if parts.rotational_energy and body.inertia_kg_m2.any():
            station.tensors_kg_m2[DISKS] = station.tensors_kg_m2.get(DISKS, 0.0) + body.inertia_kg_m2  # johnston (18)
    return sorted([*found.values(), *separate], key=lambda station: station.s_m)


def passing_segments(robot: Robot, index: int) -> list[Segment]:
    """The segments whose tendons run through segment ``index``: itself, and later ones with tendons from the base."""
    return [later for k, later in enumerate(robot.segments[index:], index) if k == index or later.tendons.from_base]


def sliding_mass(robot: Robot, lever: Vector) -> Vector:
    """Mass matrix of the tendons' sliding, muhmann (12) with (13), constant, (n, n).

    Parameters
    ----------
    lever : displacement of every tendon per coefficient at the straight rod, (N, n)
    """
    masses_kg = np.zeros(robot.tendon_count)
    for k, (segment, start_m) in enumerate(zip(robot.segments, robot.segment_starts_m, strict=True)):
        tendons, end_m = segment.tendons, start_m + segment.length_m
        masses_kg[robot.tendon_slices[k]] = tendons.mass_per_length_kg_per_m * (
            end_m if tendons.from_base else segment.length_m
        )
    return np.asarray(lever.T @ (masses_kg[:, None] * lever))


def section_stiffness(robot: Robot, index: int, ratio: float | None = None) -> Vector:
    """Stiffness of a segment's cross-section: E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); shape (6,).

    Of the backbone, and against bending of every tendon that runs through the segment. muhmann (19) counts the
    segment's own tendons only; those of later segments bend with it as well, as in his (11).

    Parameters
    ----------
    robot : a rod
    index : of the segment, from 0
    ratio : fraction of the segment's length; None: as if it did not taper
    """
    backbone = robot.segments[index].backbone
    of_tendons_nm2 = sum(
        later.tendons.count * later.tendons.bending_stiffness_nm2 for later in passing_segments(robot, index)
    )
    factors = Factors() if ratio is None else backbone.factors(ratio)
    stiffness = factors.stiffness * backbone.section_stiffnesses
    stiffness[:2] += of_tendons_nm2
    return stiffness


def stiffness_matrix(robot: Robot) -> Vector:
    """Constant stiffness of the coefficients, shape (n, n): V = c^T K c / 2; muhmann (19), johnston (29)."""
    return strain_matrix(
        (segment.basis, segment.length_m, _along(robot, index, section_stiffness), segment.backbone.breaks)
        for index, segment in enumerate(robot.segments)
    )


def _along(robot: Robot, index: int, section: Callable[..., Vector]) -> Weights:
    """What a section has, a function of the place where the segment tapers."""
    return partial(section, robot, index) if robot.segments[index].backbone.taper else section(robot, index)


def damping_matrix(robot: Robot) -> Vector:
    """Constant damping of the coefficients, shape (n, n).

    Dissipation 1/2 integral of d_theta l |kappa'|^2 ds over each segment. For a constant basis this is
    d_theta l^2 on the diagonal, in Clarke coordinates d_theta / r_d^2 (muhmann prints d_theta below (25)). The other
    strains are damped in the same time against their own stiffness, which no robot file states.
    """
    return strain_matrix(
        (segment.basis, segment.length_m, _along(robot, index, section_damping), segment.backbone.breaks)
        for index, segment in enumerate(robot.segments)
    )


def section_damping(robot: Robot, index: int, ratio: float | None = None) -> Vector:
    """Damping of a segment's strains, N.m^2.s and N.s, shape (6,); see :func:`damping_matrix`.

    A taper changes it as the backbone's stiffness.

    Parameters
    ----------
    robot : a rod
    index : of the segment, from 0
    ratio : fraction of the segment's length; None: as if it did not taper
    """
    segment, stiffness = robot.segments[index], section_stiffness(robot, index)
    bending_nm2s = segment.bending_damping_nms * segment.length_m  # muhmann (20)
    time_s = 2 * bending_nm2s / (stiffness[0] + stiffness[1])
    factors = Factors() if ratio is None else segment.backbone.factors(ratio)
    return factors.stiffness * [bending_nm2s, bending_nm2s, *(time_s * stiffness[2:])]
