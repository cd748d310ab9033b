# SPDX-License-Identifier: Apache-2.0
"""From what a person does to what the robot does: the switch, the turn to write references, commands, motion."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.teleop.devices import Command, DeviceReading, TeleopDevice, at_rest
from continuum_robot.control.motion import LONGEST_STEP_S, LimitedMotion, MotionLimits
from continuum_robot.control.teleoperation import (
    Teleoperation,
    TeleoperationStep,
    axes_of_coordinates,
    clarke_range,
    tip_range,
)
from continuum_robot.errors import ContinuumRobotError, ParameterError
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
        """How much of its speed each coordinate of what is steered shall have, shape (n,); of three or six axes."""

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
        """``deflections``, shape (3,) or (6,), move the chosen segment and the next; shape (2m,), numbers."""
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
        """The first three of ``deflections`` as they are, numbers."""
        return deflections[:3]

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


SPEEDS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
FIRST_SPEED = 3


class Teleoperator:
    """Turns the events of a device into references of a robot, one step at a time."""

    def __init__(self, robot: Robot, device: TeleopDevice, mode: str = CLARKE) -> None:
        self.robot, self.device = robot, device
        self._clarke = ClarkeMode(robot)
        self._modes: dict[str, SteeringMode] = {CLARKE: self._clarke}
        if not robot.description.traits.without_tip_control:
            self._modes[TIP] = TipMode(robot)
        if mode not in self._modes:
            raise ParameterError("--mode", mode, f"clarke: {robot.description.traits.without_tip_control}")
        self.mode, self.reading, self.message, self.ended = mode, at_rest(), "", False
        self.episode = ""
        """What the recorder answered to the newest mark."""
        self._speed = FIRST_SPEED
        self._link = robot.link
        self._steering: Teleoperation | None = None
        self._straightening: LimitedMotion | None = None
        self._released = False
        self._resetting: threading.Thread | None = None
        self._marking: threading.Thread | None = None

    @property
    def speed(self) -> float:
        """Fraction of the full speed."""
        return SPEEDS[self._speed]

    @property
    def moved(self) -> str:
        """What the axes move, where that is a matter of choice."""
        return self._steered.moved

    @property
    def steering(self) -> bool:
        """Whether this program has the turn to move the robot."""
        return self._steering is not None

    def step(self, dt: float) -> None:
        """Read the device, do what is asked for, publish one reference."""
        reading = self.reading = self.device.read()
        for command in reading.commands:
            self._do(command)
        if reading.problem:
            self.message = reading.problem
        # An operator who takes over a robot must have released the switch before.
        self._released = self._released or not reading.held
        if not self._may_move():
            self._steering = self._straightening = None
            return
        if self._steering is None:
            if reading.held and self._released:
                self._take()
            elif reading.held:
                self.message = "let go of the switch first"
            return
        self._move(reading, min(max(dt, 1e-4), LONGEST_STEP_S))

    def close(self) -> None:
        """Give the robot back: it holds where it is."""
        steering, self._steering, self._straightening = self._steering, None, None
        if steering is not None:
            with contextlib.suppress(ContinuumRobotError):
                self._steered.give_back()

    # Commands

    def _do(self, command: Command) -> None:
        actions: dict[Command, Callable[[], None]] = {
            Command.ESTOP: self._estop,
            Command.RESET: self._reset,
            Command.HOLD: self._hold,
            Command.TAKE: self._take,
            Command.STRAIGHT: self._straighten,
            Command.SEGMENT: self._clarke.next_segment,
            Command.MODE: self._change_mode,
            Command.EPISODE: lambda: self._mark("end" if self.robot.state.episode else "begin"),
            Command.DISCARD: lambda: self._mark("discard"),
            Command.FASTER: lambda: self._change_speed(1),
            Command.SLOWER: lambda: self._change_speed(-1),
            Command.QUIT: self._quit,
        }
        try:
            actions[command]()
        except ContinuumRobotError as error:
            self.message = str(error)

    def _estop(self) -> None:
        self._steering = self._straightening = None
        self.message = self.robot.estop()

    def _reset(self) -> None:
        if self._resetting is not None and self._resetting.is_alive():
            return
        self._steering, self._released = None, False

        def work() -> None:
            try:
                self.robot.reset()
                self.message = "reset: let go of the switch, then press it to move"
            except ContinuumRobotError as error:
                self.message = str(error)

        self.message = "resetting ..."
        self._resetting = threading.Thread(target=work, name="reset", daemon=True)
        self._resetting.start()

    def _mark(self, mark: str) -> None:
        """Have the recorder mark an episode, while the robot moves on."""

        def work() -> None:
            try:
                self.episode = self._link.mark_episode(mark)
            except ContinuumRobotError as error:
                self.episode = str(error)

        if self._marking is None or not self._marking.is_alive():
            self._marking = threading.Thread(target=work, name="mark", daemon=True)
            self._marking.start()

    def _hold(self) -> None:
        self.close()
        self._released = False
        self.message = "the reference source holds; press the switch to move again"

    def _take(self) -> None:
        if self._steering is not None or not self._may_move():
            return
        try:
            self._steering = self._steered.take()
            self.message = "" if self._steering is not None else "the tip is not known: no shape is estimated"
        except ContinuumRobotError as error:
            self._steering, self._released = None, False
            self.message = str(error)

    def _straighten(self) -> None:
        if self.mode == TIP:
            self.message = "straighten in the Clarke mode"
            return
        if self._straightening is not None:
            return
        if self._steering is None:
            self._take()
        if self._steering is not None:
            self._straightening = LimitedMotion(self._limits(), self._steering.reference.position)
            self.message = "straightening while the switch is held"

    def _change_mode(self) -> None:
        if TIP not in self._modes:
            self.message = self.robot.description.traits.without_tip_control
            return
        self.close()
        self._released = False
        self.mode = TIP if self.mode == CLARKE else CLARKE
        self.message = "let go of the switch, then press it to move"

    def _change_speed(self, change: int) -> None:
        self._speed = min(max(self._speed + change, 0), len(SPEEDS) - 1)

    def _quit(self) -> None:
        self.ended = True

    # Motion

    @property
    def _steered(self) -> SteeringMode:
        return self._modes[self.mode]

    def _limits(self) -> MotionLimits:
        full = self.robot.limits
        return MotionLimits(full.speed_m_per_s * self.speed, full.acceleration_m_per_s2)

    def _may_move(self) -> bool:
        """Whether the stack is up; where it is not, or another program took the turn, it says so."""
        if self._resetting is not None and self._resetting.is_alive():
            return False
        status = self._link.messages["stack_status"]
        if status is None or status.state != "up" or status.estop:
            faults = ", ".join(status.faults) if status is not None else ""
            self._released = False
            if self._steering is not None or not self.message:
                self.message = f"the stack is not up{': ' if faults else ''}{faults}; reset it"
            return False
        if self._steering is not None and self._link.writer != self._steered.writer:
            self.message = f"{self._link.writer} took the reference over; press the switch again to move"
            self._released = False
            return False
        return True

    def _move(self, reading: DeviceReading, dt: float) -> None:
        steering = self._steering
        if steering is None:
            return
        if self._straightening is not None:
            self._move_straight(steering, self._straightening, reading.held, dt)
            return
        step = steering.update(self._steered.axes(reading.axes), reading.held, dt, self.speed)
        if step.ignored:
            self.message = f"axis {', '.join(str(axis + 1) for axis in step.ignored)} of the device gives no number"
        elif step.at_range:
            self.message = "at the end of the range"
        elif step.moving:
            self.message = ""
        obstacle = self._steered.publish(step)
        if obstacle is not None:
            steering.reset(obstacle.position)
            self.message = obstacle.message

    def _move_straight(self, steering: Teleoperation, motion: LimitedMotion, held: bool, dt: float) -> None:
        zero = np.zeros_like(steering.reference.position)
        reference = motion.towards(zero, dt) if held else motion.along(zero, dt)
        steering.reset(reference.position)
        self._link.publish_reference(reference)
        if (held and not reference.position.any()) or (not held and motion.at_rest):
            self._straightening = None
            self.message = "straight" if held else "let go: it stands where it is"
