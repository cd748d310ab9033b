# SPDX-License-Identifier: Apache-2.0
"""Motors and elastic tendons of the chain over a step: the model of simulation/motors.py, at the end of the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]


def spool_step(
    robot: Robot, motor: MotorModel, state: Sequence[Vector], given: Sequence[Vector], anchors: Vector, h: float
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """What spools and their tendons contribute to a step, as rows of compliant_rows.py.

    The motor's friction is linear about the speed at the end of the step.
    """
    spooled, speed, current, desired, displacement, load, tension = state
    offset, fraction, free, largest_a = given
    servo, mean_current = motor.servo, current
    if servo is None:
        # The lag of the current is integrated exactly; what accelerates the rotor is its mean over the step.
        lag = h / motor.current_time_constant_s
        mean_current = desired + (current - desired) * (1 - np.exp(-lag)) / lag
        current = desired + (current - desired) * np.exp(-lag)
    cogging = motor.cogging_n * np.sin(motor.cogging_rad_per_m * spooled + motor.cogging_phase_rad)
    largest_n = motor.newton_per_ampere * largest_a

    def driving(about: Vector) -> tuple[Vector, Vector | float]:
        """Force of the motor at the end of the step, and how fast it falls with the speed there."""
        if servo is None:
            return motor.newton_per_ampere * mean_current, 0.0
        return servo.force(desired, spooled + h * about, about, largest_n, h)

    def linear(about: Vector, pull: Vector | float) -> tuple[Vector, Vector]:
        """Speed at the end of the step with the friction's tangent at a speed, and how much the tangent slows it."""
        dry, dry_slope = motor.dry_friction(about, spooled + h * about, anchors, h)
        force, falls = driving(about)
        value = (force - load - cogging - pull - motor.viscous_ns_per_m * about - dry) / motor.mass_kg
        tangent = -(falls + motor.viscous_ns_per_m + dry_slope) / motor.mass_kg
        return (speed + h * (value - tangent * about)) / (1 - h * tangent), 1 - h * tangent

    # Three Newton steps to the end speed under the tension of before: dry friction turns within one step.
    end = speed
    for _ in range(3):
        end, _ = linear(end, tension)
    if servo is not None:
        current = driving(end)[0] / motor.newton_per_ampere
    loose, slower = linear(end, 0.0)
    loose = free * loose
    yielding = free * h / (motor.mass_kg * slower)
    # Tension at the end of the step, where the stretch is greater by h times its rate.
    stiffness, damping = robot.tendon_stiffnesses_n_per_m, robot.simulation.tendon_damping_ns_per_m
    slope = fraction * (stiffness * h + damping)
    level = fraction * stiffness * (spooled - displacement - offset) + slope * loose
    return current, level, slope, yielding, loose
