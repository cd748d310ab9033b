# SPDX-License-Identifier: Apache-2.0
"""Robots, settings and states for the tests of the controller's cycle."""

from __future__ import annotations

import dataclasses

from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.loading import load_robot


def robot_with(name="opencr_five_tendon", gains=None, **control):
    """A robot of the repository with other gains and control settings."""
    robot = load_robot(name)
    entries = tuple(dataclasses.replace(one, **(gains or {})) for one in robot.control.gains)
    return dataclasses.replace(robot, control=dataclasses.replace(robot.control, gains=entries, **control))


def random_settings(robot, rng, antiwindup, strategy):
    """Gains, bounds and feed-forward of any size, zero among them."""
    gains = tuple(
        dataclasses.replace(
            one,
            p=rng.choice([0.0, 3e3 * rng.random()]),
            i=rng.choice([0.0, 5e4 * rng.random()]),
            d=rng.choice([0.0, 200 * rng.random()]),
            u_clamp_max=rng.uniform(1, 30),
            u_clamp_min=-rng.uniform(1, 30),
            i_clamp_max=rng.uniform(0.5, 20),
            i_clamp_min=-rng.uniform(0.5, 20),
            antiwindup_strategy=antiwindup,
            tracking_time_constant=rng.choice([0.0, 0.0005, 0.2]),
            error_deadband=rng.choice([0.0, 1e-3]),
            derivative_filter_time=rng.choice([0.0, 5e-3]),
            reference_velocity_weight=rng.choice([0.0, 0.4, 1.0]),
        )
        for one in robot.control.gains
    )
    return ControlSettings(
        gains=gains,
        tendon_forces=strategy,
        pretension_n=rng.uniform(0, 2),
        feedforward_stiffness=rng.choice([0.0, 0.6]),
        feedforward_gravity=rng.choice([0.0, 1.0]),
        state_timeout_s=robot.control.state_timeout_s,
    )
