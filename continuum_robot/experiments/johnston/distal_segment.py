# SPDX-License-Identifier: Apache-2.0
"""A distal segment as seen by the proximal one that carries it: johnston section 13.1.

The full model of a robot with two segments needs none of this. The paper models the proximal segment alone, with the
distal one as a rigid body on its end disk and the torques of the motors between them as loads on that disk.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Disk
from continuum_robot.rod.friction.capstans import drives

Vector = NDArray[np.float64]


def lumped_distal(robot: Robot) -> Robot:
    """The proximal segment of a robot with two, with the straight distal one lumped into its end disk."""
    if len(robot.segments) != 2 or not all(segment.disks.individual for segment in robot.segments):
        raise ParameterError("robot", robot.name, "a robot with two segments and individual disks")
    proximal, distal = robot.segments
    end = proximal.disks.individual[-1]
    if abs(end.arc_length_m - proximal.length_m) > 1e-9:
        raise ParameterError(
            "robot.segments[0].disks", end.arc_length_m, f"a disk at the segment's end, {proximal.length_m:g} m"
        )
    bodies = [(end.mass_kg, np.array(end.center_of_mass_m), end.inertia_tensor_kg_m2)]
    for disk in distal.disks.individual:
        center_m = np.array(disk.center_of_mass_m) + np.array([0.0, 0.0, disk.arc_length_m])
        bodies.append((disk.mass_kg, center_m, disk.inertia_tensor_kg_m2))
    backbone, length_m = distal.backbone, distal.length_m
    mass_kg = backbone.linear_density_kg_per_m * length_m
    across = backbone.rotary_inertia_kg_m * length_m + mass_kg * length_m**2 / 12
    tensor = np.diag([across, across, 2 * backbone.rotary_inertia_kg_m * length_m])
    bodies.append((mass_kg, np.array([0.0, 0.0, length_m / 2]), tensor))
    total_kg = sum(mass for mass, _, _ in bodies)
    center = sum((mass * place for mass, place, _ in bodies), np.zeros(3)) / total_kg
    inertia = np.zeros((3, 3))
    for mass, place, own in bodies:
        arm = place - center
        inertia += own + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    lumped = Disk(
        arc_length_m=end.arc_length_m,
        mass_kg=float(total_kg),
        center_of_mass_m=tuple(float(value) for value in center),
        inertia_kg_m2=tuple(float(value) for value in inertia.reshape(-1)),
    )
    disks = dataclasses.replace(proximal.disks, individual=(*proximal.disks.individual[:-1], lumped))
    control = robot.control
    return dataclasses.replace(
        robot,
        name=f"{robot.name}_lumped",
        segments=(dataclasses.replace(proximal, disks=disks, elbow=None),),
        control=None if control is None else dataclasses.replace(control, gains=control.gains[:1]),
        reference=None,
        recording=None,
        strings=tuple(string for string in robot.strings if string.anchor_m <= proximal.length_m + 1e-12),
        assumed=(),
    )


def distal_reaction(robot: Robot, elbow_torque_nm: float, distal_torque_nm: ArrayLike) -> Vector:
    """Wrench on the end disk of the proximal segment from the elbow's and the distal segment's motors: johnston (75).

    Its generalised force kappa_dist of (74), (75) is the transpose of the body Jacobian at the segment's end times it.
    """
    torque = np.asarray(distal_torque_nm, dtype=float)
    if len(robot.segments) != 2 or [drive.segment for drive in drives(robot)][-2:] != [1, 1]:
        raise ParameterError("robot", robot.name, "a robot with two segments, the second with capstans")
    if torque.shape != (2,) or not np.isfinite(torque).all():
        raise ParameterError("distal_torque_nm", distal_torque_nm, "two finite torques in N.m")
    elbow = robot.segments[0].elbow
    limit_nm = 0.0 if elbow is None else elbow.maximum_torque_nm
    if not abs(elbow_torque_nm) <= limit_nm:
        raise ParameterError("elbow_torque_nm", elbow_torque_nm, f"within {limit_nm:g} N.m either way")
    return np.array([0.0, 0.0, 0.0, elbow_torque_nm + torque[0], torque[1], 0.0])
