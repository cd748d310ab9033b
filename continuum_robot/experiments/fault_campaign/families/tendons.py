# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a motor and the rod."""

from __future__ import annotations

import dataclasses

import numpy as np

from continuum_robot.control.references import RestToRest
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.fault_campaign.kind import EITHER, FOUND, HOME, SAFE, FaultKind, injected
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.robot.description import Robot

GROUP = "Tendons and motors"
STICKS_N = 2.5
"""Dry friction of each motor, more than its cogging."""
CREEP_M, STICK_S = 2e-4, 0.4


def _with_friction(robot: Robot) -> Robot:
    if robot.actuators is None:
        raise ParameterError("robot.actuators", None, "actuators")
    friction_nm = STICKS_N / robot.actuators.motor_rad_per_m
    return robot.changed(actuators=dataclasses.replace(robot.actuators, coulomb_friction_nm=friction_nm))


def _creep(robot: VirtualRobot, _tendon: int) -> None:
    """The simulated friction lets motors creep: they are held instead, until it would let go of them."""
    here = robot.truth.clarke_m[-1]
    robot.hardware.inject("stuck_motor", -1, 0.0, STICK_S)
    robot.follow(RestToRest(here, here + np.full(here.shape, CREEP_M), STICK_S))


KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="tendon_slack",
        group=GROUP,
        cause="a tendon is suddenly longer by 10 mm: it slipped off its spool or its clamp",
        action=injected("slack_tendon", 0.010),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`, when the motor has spooled 2 mm more than the shape allows",
        cure="look at the tendon; end the stack, home, start again",
    ),
    FaultKind(
        name="tendon_snapped",
        group=GROUP,
        cause="a tendon breaks",
        action=injected("snapped_tendon"),
        detectors=("tendon_safety:",),
        reaction=SAFE,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`: the motor winds up what nothing holds",
        cure="replace the tendon; end the stack, home, start again",
    ),
    FaultKind(
        name="motor_stuck",
        group=GROUP,
        cause="a motor does not turn any more",
        action=injected("stuck_motor"),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        seen="`frozen_reading` or `inconsistent_displacement`, as soon as the robot should move",
        cure="free the gear, then reset",
    ),
    FaultKind(
        name="motors_stick",
        group=GROUP,
        cause=f"every motor has {STICKS_N:g} N of dry friction, as its file states, and sticks as the reference creeps",
        robot=_with_friction,
        action=_creep,
        seen="the robot moves in small steps; `frozen_reading` does not latch, its thresholds follow from the friction",
        cure="grease the gears, or raise the gains",
    ),
)
