# SPDX-License-Identifier: Apache-2.0
"""Robots of the repository with servos that hold displacements."""

from __future__ import annotations

from dataclasses import replace

from continuum_robot.robot.actuation import Actuators, DisplacementLimits, PositionServo
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons

SERVO = Actuators(
    command="displacement",
    servo=PositionServo(bandwidth_hz=8.0, maximum_speed_rad_per_s=6.0),
    spool_radius_m=0.01,
    torque_constant_nm_per_a=1.08,
    maximum_current_a=1.3,
    rotor_inertia_kg_m2=1e-3,
    encoder_counts_per_turn=4096,
)
LIMITS = DisplacementLimits(
    maximum_n=30.0,
    maximum_displacement_m=0.06,
    speed_m_per_s=0.05,
    acceleration_m_per_s2=1.0,
    pay_out_m=0.005,
    pay_out_speed_m_per_s=0.02,
)


def with_servos(name: str = "two_segment", *, pretension_n: float = 4.0, reference: object = None, **control) -> Robot:
    """A robot of the repository under displacements."""
    settings = ControlSettings(pretension_n=pretension_n, **control)
    return load_robot(name).changed(
        actuators=SERVO, limits=LIMITS, control=settings, hardware=None, reference=reference, reaction=None
    )


def fitted(friction_fraction: float = 0.1, **control) -> Robot:
    """ftdcr_v4 as a fit of a recording leaves it: soft tendons on spirals with chords, zeros, gains, friction."""
    robot = with_servos("ftdcr_v4", **control)
    count = robot.tendon_count
    tendons = DisplacedTendons(
        stiffness_n_per_m=tuple(4e3 + 300.0 * j for j in range(count)),
        zero_m=tuple(1e-4 * (j - 4) for j in range(count)),
        gain=tuple(0.96 + 0.01 * j for j in range(count)),
        friction_fraction=(friction_fraction,) * count,
        spiral_rad_per_m=1.5,
        straight_over_m=0.0104,
    )
    return robot.changed(displaced_tendons=tendons)


def stiffer(robot: Robot, factor: float) -> Robot:
    """The same robot with that many times the bending stiffness."""
    segments = tuple(
        replace(one, backbone=replace(one.backbone, youngs_modulus_pa=factor * one.backbone.youngs_modulus_pa))
        for one in robot.segments
    )
    return robot.changed(segments=segments)


def with_tendons(robot: Robot, stiffness_n_per_m: float) -> Robot:
    """The same robot with other tendons."""
    return robot.changed(tendon_stiffness_n_per_m=stiffness_n_per_m)
