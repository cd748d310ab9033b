# SPDX-License-Identifier: Apache-2.0
"""What the axes of a device move: Clarke coordinates of a segment, or a target that the tip follows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.control.motion import MotionLimits
from continuum_robot.control.teleoperation import (
    Teleoperation,
    TeleoperationStep,
    axes_of_coordinates,
    clarke_range,
    tip_range,
)
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.robot.traits import ROD

Vector = NDArray[np.float64]

CLARKE, TIP = "clarke", "tip"
TARGET_PERIOD_S = 0.04
# A target runs ahead of the reachable tip by at most this fraction of the length: turning round is detected at once.
AHEAD_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps the robot from following."""

    position: Vector
    message: str


class SteeringMode(Protocol):
    """A way to steer a connected robot."""

    @property
    def writer(self) -> str:
        """Who writes the reference while a person steers so."""

    @property
    def moved(self) -> str:
        """What the axes move, where that is a matter of choice."""

    def take(self) -> Teleoperation | None:
        """Take the turn to move the robot, from where it is; None where that is not known."""

    def axes(self, deflections: Vector) -> Vector:
        """How much of its speed each coordinate of what is steered shall have, shape (n,)."""

    def publish(self, step: TeleoperationStep) -> Obstacle | None:
        """Publish a step of the steering."""

    def give_back(self) -> None:
        """Have the robot hold where it is."""


class ClarkeMode:
    """Steers the coordinates of one segment, two modes, or those of a mechanism; this program writes the references."""

    def __init__(self, robot: Robot) -> None:
        self._robot, self._link = robot, robot.link
        self.writer = robot.link.name
        self._segment = 0

    def next_segment(self) -> None:
        """Have the axes move the next segment or modes, after the last ones the first."""
        self._segment = (self._segment + 1) % ((self._robot.description.coordinate_count + 1) // 2)

    @property
    def moved(self) -> str:
        """The segment, from 1, or the names of the coordinates."""
        robot = self._robot.description
        if robot.traits.kind != ROD:
            return ""
        named = axes_of_coordinates(np.ones(3), robot.coordinate_count, self._segment) > 0
        names = [name for name, one in zip(robot.traits.coordinate_names, named, strict=False) if one]
        return " and ".join(names) if robot.coordinate_count != 2 and names else f"segment {self._segment + 1}"

    def take(self) -> Teleoperation:
        """Take the turn, from where the reference stands."""
        start = self._robot.take_turn()
        return Teleoperation(self._robot.limits, start, clarke_range(self._robot.description))

    def axes(self, deflections: Vector) -> Vector:
        """``deflections``, shape (3,), move the chosen segment; shape (2m,), numbers."""
        return axes_of_coordinates(deflections, self._robot.description.coordinate_count, self._segment)

    def publish(self, step: TeleoperationStep) -> None:
        """Publish the reference."""
        self._link.publish_reference(step.reference)

    def give_back(self) -> None:
        """Let the reference source hold."""
        self._link.end_turn()


class TipMode:
    """Steers a target of the tip; the reference source has the tip follow it."""

    writer, moved = SOURCE, ""

    def __init__(self, robot: Robot) -> None:
        self._robot, self._link = robot, robot.link
        self._told_s = -math.inf

    def take(self) -> Teleoperation | None:
        """Have the reference source write, and begin at the tip."""
        robot, start = self._robot, self._robot.state.tip_position_m
        if not np.all(np.isfinite(start)):
            return None
        self._link.give_back()
        limits = tip_limits(robot.description, robot.limits)
        self._publish_target(start)
        return Teleoperation(limits, start, tip_range(robot.description))

    def axes(self, deflections: Vector) -> Vector:
        """``deflections``, shape (3,), as they are, numbers."""
        return deflections

    def publish(self, step: TeleoperationStep) -> Obstacle | None:
        """Publish the target now and then while it moves; it is kept near to what the tip can reach."""
        if not step.moving or time.monotonic() - self._told_s < TARGET_PERIOD_S:
            return None
        target = step.reference.position
        self._publish_target(target)
        message = self._link.messages["tip_state"]
        if message is None:
            return None
        goal = conversions.position(message.goal)
        ahead = target - goal
        distance_m, longest_m = float(np.linalg.norm(ahead)), AHEAD_FRACTION * self._robot.description.length_m
        moved_m = float(np.linalg.norm(step.reference.velocity)) * 2 * TARGET_PERIOD_S
        if message.distance <= longest_m or distance_m <= longest_m + moved_m:
            return None
        return Obstacle(goal + ahead * (longest_m / distance_m), message.message)

    def give_back(self) -> None:
        """Let the tip stand."""
        self._robot.hold()

    def _publish_target(self, target: Vector) -> None:
        self._told_s = time.monotonic()
        self._link.publish_tip_target(target)


def tip_limits(robot: RobotDescription, limits: MotionLimits) -> MotionLimits:
    """Speed of the tip's target: the largest at which coordinates at their speed move the tip of the straight robot."""
    # A segment that bends by q / r moves the tip by half its length, and by all of what is beyond it.
    lever = max(
        (robot.length_m - start_m - segment.length_m / 2) / segment.tendons.pitch_radius_m
        for start_m, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
    )
    return MotionLimits(limits.speed_m_per_s * lever, limits.acceleration_m_per_s2 * lever)
