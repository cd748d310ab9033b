# SPDX-License-Identifier: Apache-2.0
"""Bodies fixed to the backbone: disks, and what the tip carries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LumpedMass:
    """A body fixed to the rod, such as a disk."""

    s_m: float
    mass_kg: float
    center_of_mass_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    inertia_kg_m2: Vector = field(default_factory=lambda: np.zeros((3, 3)))


def lumped_masses(robot: Robot, index: int) -> list[LumpedMass]:
    """The bodies of segment ``index``, with arc lengths from its start."""
    segment = robot.segments[index]
    disks = segment.disks
    found = []
    for disk in disks.individual:
        x, y, z = disk.center_of_mass_m
        found.append(
            LumpedMass(
                s_m=disk.arc_length_m,
                mass_kg=disk.mass_kg,
                center_of_mass_m=(x, y, z),
                inertia_kg_m2=disk.inertia_tensor_kg_m2,
            )
        )
    if not found:
        across, along = disks.inertia_transverse_kg_m2, disks.inertia_axial_kg_m2
        tensor = np.diag([across, across, along])
        found = [
            LumpedMass(s_m=float(s_m), mass_kg=float(mass_kg), inertia_kg_m2=tensor)
            for s_m, mass_kg in zip(disks.positions_m(segment.length_m), disks.masses_kg, strict=True)
        ]
    if robot.payload_kg and index == len(robot.segments) - 1:
        x, y, z = robot.payload_offset_m
        found.append(LumpedMass(s_m=segment.length_m, mass_kg=robot.payload_kg, center_of_mass_m=(x, y, z)))
    return found
