# SPDX-License-Identifier: Apache-2.0
"""A rod with segments, tendons and strings: what follows from its strains and from where its tendons run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.geometry.tendon_modes import AntagonistManifold
from continuum_robot.robot.control_settings import COMPILED_LAWS, PID_LAW
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.traits import LENGTHS, STATICS, Traits

if TYPE_CHECKING:
    from continuum_robot.robot.description import Robot

FEWEST_AROUND = 3
"""Tendons: fewer cannot bend a segment in every direction."""
PAIR = 2
"""Tendons opposite each other, which bend a segment in their plane."""


@dataclass(frozen=True, slots=True)
class RodConstruction:
    """What a robot with segments is made of, as its description asks for it, of a rod or of a mechanism."""

    robot: Robot

    @property
    def segments(self) -> tuple[Segment, ...]:
        """From the base to the tip."""
        return self.robot.segments

    @property
    def tendon_paths(self) -> tuple[RoutedPath, ...]:
        """Path of every tendon: the segments' in tendon order, then the routed ones."""
        paths, middles_m = [], []
        for start_m, segment in zip(self.robot.segment_starts_m, self.segments, strict=True):
            for j, angle in enumerate(segment.tendons.angles_rad):
                paths.append(
                    RoutedPath(
                        name=f"{segment.name}/tendon_{j + 1}",
                        start_m=0.0 if segment.tendons.from_base else float(start_m),
                        end_m=float(start_m) + segment.length_m,
                        pitch_radius_m=segment.tendons.pitch_radius_m,
                        angle_rad=float(angle),
                        routing=segment.tendons.routing,
                    )
                )
                middles_m.append(float(start_m) + segment.length_m / 2)
        paths += [tendon.path for tendon in self.robot.routed_tendons]
        if self.robot.displaced_tendons is None:
            return tuple(paths)
        return self.robot.displaced_tendons.paths(paths, [*middles_m, *(math.nan for _ in self.robot.routed_tendons)])

    @property
    def planar(self) -> bool:
        """Whether each segment has two opposite tendons and no others: one coordinate each."""
        return not self.robot.routed_tendons and all(segment.tendons.count == PAIR for segment in self.segments)

    @property
    def without_clarke(self) -> str:
        """Why its tendons have no Clarke coordinates, "" where they have: parallel, and evenly around each segment."""
        for segment in self.segments:
            if not segment.tendons.routing.parallel:
                return f"{segment.tendons.routing.kind} tendons of {segment.name}"
            if segment.tendons.count < FEWEST_AROUND and not self.planar:
                return f"{segment.tendons.count} tendons around {segment.name}"
        return f"the tendon {self.robot.routed_tendons[0].name}" if self.robot.routed_tendons else ""

    @property
    def nonlinear_lengths(self) -> str:
        """What makes displacements nonlinear in the coefficients; "" of bending alone, all tendons parallel to it."""
        for segment in self.segments:
            if not segment.basis.bending_alone:
                return f"basis of {segment.name}"
            if segment.backbone.rest_curvature_per_m[2]:
                return f"rest torsion of {segment.name}"
        displaced = self.robot.displaced_tendons
        if displaced is not None and displaced.bends_paths:
            return "displaced_tendons: spiral or straight runs"
        paths = [*self.tendon_paths, *(string.path for string in self.robot.strings)]
        routed = [path.name for path in paths if not path.parallel]
        routed += [tendon.name for tendon in self.robot.routed_tendons]
        return f"routing of {routed[0]}" if routed else ""

    @property
    def without_compiled_cycle(self) -> str:
        """Why its driver's cycle is Python code; "" where it is not."""
        if self.robot.takes_displacements:
            return "actuators that take displacements run at the rate of their bus"
        if self.robot.transmission is not None:
            return "the limits of motors that share tendons are Python code"
        law = PID_LAW if self.robot.control is None else self.robot.control.law
        if self.robot.control is not None and self.robot.control.policy is not None:
            return "a policy runs as Python code"
        return "" if law in COMPILED_LAWS else f"the controller {law} is Python code"

    @property
    def traits(self) -> Traits:
        """What the stack can do with it, and how."""
        without_clarke, nonlinear_lengths, planar = self.without_clarke, self.nonlinear_lengths, self.planar
        names: tuple[str, ...] = ("q_Re", "q_Im") if len(self.segments) == 1 and not without_clarke else ()
        if planar:
            names = tuple(f"q of {segment.name}" for segment in self.segments)
        if self.modes:
            names = self.part_names
        in_plane = "two tendons a segment bend it in their plane alone" if planar else ""
        mixed = "on this robot no tendons bend one segment alone" if without_clarke else ""
        if self.modes:
            mixed = "each of the modes of control.modes bends several segments"
        return Traits(
            coordinate_names=names,
            without_compiled_cycle=self.without_compiled_cycle,
            without_tip_control=in_plane,
            without_clarke=without_clarke,
            without_bending_command=in_plane or mixed,
            nonlinear_lengths=nonlinear_lengths,
            # Readings show too little of shear, extension and torsion. Lengths of tendons in one plane do not show how
            # the rod bends across it.
            # What servos hold stretches by loads that the statics alone know.
            shape_from=STATICS if nonlinear_lengths or planar or self.robot.takes_displacements else LENGTHS,
        )

    @property
    def length_m(self) -> float:
        """Length of the whole backbone, m."""
        return sum(segment.length_m for segment in self.segments)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Segments, or pairs of tendon modes; each mode where the file says how many."""
        if self.modes:
            return tuple(f"mode_{index + 1}" for index in range(self.modes))
        if self.without_clarke:
            return tuple(f"modes_{index + 1}" for index in range(len(self.segments)))
        return tuple(segment.name for segment in self.segments)

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """``<segment>/tendon_<j>`` with j from 1, in tendon order, then the routed ones'."""
        return tuple(path.name for path in self.tendon_paths)

    @property
    def tendon_count(self) -> int:
        """Those of the segments, and the routed ones."""
        return sum(segment.tendons.count for segment in self.segments) + len(self.robot.routed_tendons)

    @property
    def tendon_slices(self) -> tuple[slice, ...]:
        """For each segment, where its tendons stand in an array over all."""
        ends = np.cumsum([segment.tendons.count for segment in self.segments])
        return tuple(
            slice(int(end) - segment.tendons.count, int(end)) for end, segment in zip(ends, self.segments, strict=True)
        )

    @property
    def modes(self) -> int:
        """How many of the modes the file says are controlled; 0: all of the tendons' coordinates."""
        return 0 if self.robot.control is None else self.robot.control.modes

    @property
    def coordinate_count(self) -> int:
        """That of the modes; else two a segment, or one where each has two tendons, which bend it in one plane."""
        return self.modes or self.all_coordinates

    @property
    def all_coordinates(self) -> int:
        """How many coordinates there are where the file does not say how many modes."""
        return len(self.segments) if self.planar else 2 * len(self.segments)

    @property
    def coefficient_count(self) -> int:
        """Number of strain coefficients."""
        return sum(segment.basis.coefficient_count for segment in self.segments)

    @property
    def clarke_manifold(self) -> ClarkeManifold:
        """Of all segments, muhmann (13)."""
        tendons = [segment.tendons for segment in self.segments]
        if self.planar:
            return AntagonistManifold(
                [one.pitch_radius_m for one in tendons],
                [one.angles_rad[0] for one in tendons],
                [one.from_base for one in tendons],
            )
        return ClarkeManifold(
            [one.count for one in tendons],
            [one.pitch_radius_m for one in tendons],
            [one.angles_rad[0] for one in tendons],
            [one.from_base for one in tendons],
            [None if one.even else one.angles_rad.tolist() for one in tendons],
        )
