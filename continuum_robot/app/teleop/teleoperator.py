# SPDX-License-Identifier: Apache-2.0
"""From what a person does to what the robot does: the switch, the turn to write references, commands, motion."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import numpy as np

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.teleop.device import Command, DeviceReading, TeleopDevice, at_rest
from continuum_robot.app.teleop.modes import CLARKE, TIP, ClarkeMode, SteeringMode, TipMode
from continuum_robot.control.motion import LONGEST_STEP_S, LimitedMotion, MotionLimits
from continuum_robot.control.teleoperation import Teleoperation
from continuum_robot.errors import ContinuumRobotError, ParameterError

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
        self._speed = FIRST_SPEED
        self._link = robot.link
        self._steering: Teleoperation | None = None
        self._straightening: LimitedMotion | None = None
        self._released = False
        self._resetting: threading.Thread | None = None

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
