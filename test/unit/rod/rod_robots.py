# SPDX-License-Identifier: Apache-2.0
"""Robots for the tests of the rod, made from the shipped ones."""

import dataclasses

import numpy as np

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Backbone, Disks
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.segments.tendons import String, Tendons


def undamped(robot):
    segments = tuple(dataclasses.replace(segment, bending_damping_nms=0.0) for segment in robot.segments)
    return dataclasses.replace(robot, segments=segments)


def with_basis(robot, order, segments=None):
    """The robot with Chebyshev bending of an order (an int, or one for each segment)."""
    orders = [order] * len(robot.segments) if isinstance(order, int) else list(order)
    bases = [Basis(kind="chebyshev_bending", order=one) if one else Basis(kind="constant_bending") for one in orders]
    kept = robot.segments[:segments]
    changed = tuple(dataclasses.replace(segment, basis=basis) for segment, basis in zip(kept, bases, strict=False))
    length_m = sum(segment.length_m for segment in changed)
    strings = tuple(string for string in robot.strings if string.anchor_m <= length_m)
    return dataclasses.replace(robot, segments=changed, strings=strings, control=None, reference=None)


def uneven(gravity=(1.5, -2.0, 9.0)):
    """Three segments that differ in everything, heavy tendons, strings that end inside segments."""
    lengths, counts, offsets = (0.11, 0.17, 0.08), (3, 5, 4), (0.2, -0.5, 1.0)
    segments = tuple(
        Segment(
            name=f"part_{index}",
            length_m=lengths[index],
            backbone=Backbone(
                youngs_modulus_pa=5e10,
                density_kg_per_m3=6400,
                outer_diameter_m=0.0012 - 0.0002 * index,
                inner_diameter_m=0.0002 * index,
            ),
            disks=Disks(mass_kg=0.002 - 0.0004 * index, radius_m=0.012, count=3 + index),
            tendons=Tendons(
                count=counts[index],
                pitch_radius_m=0.01 - 0.002 * index,
                angle_offset_rad=offsets[index],
                diameter_m=0.0005,
                density_kg_per_m3=7800,
                youngs_modulus_pa=2e11,
            ),
            bending_damping_nms=1e-4 * (index + 1),
        )
        for index in range(3)
    )
    strings = (
        String(name="inside_first", anchor_m=0.07, pitch_radius_m=0.008, angle_rad=0.4),
        String(name="inside_second", anchor_m=0.2, pitch_radius_m=0.005, angle_rad=-1.1),
        String(name="tip", anchor_m=sum(lengths), pitch_radius_m=0.006, angle_rad=2.9),
    )
    return Robot(schema_version=2, name="uneven", segments=segments, gravity_m_per_s2=gravity, strings=strings)


def light_rod_with_tip_disk(gravity, inertia_radius_m=0.02):
    """One segment whose backbone weighs a billionth of its only disk, at the tip."""
    segment = Segment(
        name="rod",
        length_m=0.3,
        backbone=Backbone(youngs_modulus_pa=1e12, density_kg_per_m3=1.0, outer_diameter_m=1e-4),
        disks=Disks(mass_kg=2.0, radius_m=inertia_radius_m, thickness_m=0.004, count=1),
        tendons=Tendons(count=3, pitch_radius_m=0.01),
    )
    return Robot(schema_version=2, name="pendulum", segments=(segment,), gravity_m_per_s2=gravity)


def heavy_rod_without_disks(gravity, order):
    """One segment with massless disks: an Euler-Bernoulli cantilever."""
    basis = Basis(kind="chebyshev_bending", order=order) if order else Basis()
    segment = Segment(
        name="cantilever",
        length_m=0.4,
        backbone=Backbone(youngs_modulus_pa=6e10, density_kg_per_m3=6400, outer_diameter_m=0.002),
        disks=Disks(mass_kg=0.0, radius_m=0.02, count=1),
        tendons=Tendons(count=3, pitch_radius_m=0.01),
        basis=basis,
    )
    return Robot(schema_version=2, name="cantilever", segments=(segment,), gravity_m_per_s2=gravity)


def shapes(robot, seed, count, bending_rad=1.5):
    """Random coefficients and rates, bent by about ``bending_rad`` a segment."""
    generator = np.random.default_rng(seed)
    scale = np.concatenate(
        [
            np.full(segment.basis.coefficient_count, bending_rad / segment.length_m / (1 + segment.basis.order))
            for segment in robot.segments
        ]
    )
    c = scale * generator.uniform(-1, 1, (count, len(scale)))
    c_rate = 5 * scale * generator.uniform(-1, 1, (count, len(scale)))
    return zip(c, c_rate, strict=True)


__all__ = [
    "heavy_rod_without_disks",
    "light_rod_with_tip_disk",
    "load_robot",
    "shapes",
    "undamped",
    "uneven",
    "with_basis",
]
