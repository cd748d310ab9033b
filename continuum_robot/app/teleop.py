# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot teleop``: a person steers a running robot with keys, a gamepad or a Joy topic."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import REFERENCE_PERIOD_S, SOURCE, StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.status_line import STATE_STYLES
from continuum_robot.app.teleop_devices import (
    ESTOP,
    FASTER,
    HOLD,
    MODE,
    NOTHING,
    QUIT,
    RESET,
    SEGMENT,
    SLOWER,
    STRAIGHT,
    TAKE,
    DeviceReading,
    JoyTopic,
    Keyboard,
    TeleopDevice,
    open_gamepad,
)
from continuum_robot.control.motion import LimitedMotion, MotionLimits
from continuum_robot.control.teleoperation import Teleoperation, axes_of_coordinates, clarke_range, tip_range
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.nodes import conversions
from continuum_robot.nodes.spinning import StopRequest
from continuum_robot.robot.description import Robot as RobotDescription

Vector = NDArray[np.float64]

CLARKE, TIP = "clarke", "tip"
SCREEN_PERIOD_S = 0.1
TARGET_PERIOD_S = 0.04
LONGEST_STEP_S = 0.05
SPEEDS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
FIRST_SPEED = 3
# A target runs ahead of the reachable tip by at most this share of the length: turning round is felt at once.
AHEAD_SHARE = 0.02


def tip_limits(robot: RobotDescription, limits: MotionLimits) -> MotionLimits:
    """Speed of the tip's target: the largest at which coordinates at their speed move the tip of the straight robot.

    Parameters
    ----------
    robot : a rod
    limits : of the coordinates
    """
    # A segment that bends by q / r moves the tip by half its length, and by all of what is beyond it.
    lever = max(
        (robot.length_m - start_m - segment.length_m / 2) / segment.tendons.pitch_radius_m
        for start_m, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
    )
    return MotionLimits(limits.speed_m_per_s * lever, limits.acceleration_m_per_s2 * lever)


class Teleoperator:
    """Turns what a device says into references of a robot, one step at a time.

    Parameters
    ----------
    robot : connected
    device : of the person
    mode : ``clarke`` or ``tip``

    Attributes
    ----------
    mode : as it is now
    segment : that the axes move, from 0
    speed : share of the full speed
    message : what was done last, or what is in the way
    ended : whether the person has asked to quit

    Raises
    ------
    ParameterError : ``tip`` with a mechanism
    """

    def __init__(self, robot: Robot, device: TeleopDevice, mode: str = CLARKE) -> None:
        self.robot, self.device = robot, device
        self._rod = robot.description.mechanism is None
        if mode == TIP and not self._rod:
            raise ParameterError("--mode", mode, "clarke: the robot is a mechanism")
        self.mode, self.segment, self.message, self.ended = mode, 0, "", False
        self._speed = FIRST_SPEED
        self._link: StackLink = robot.link
        self._steering: Teleoperation | None = None
        self._straightening: LimitedMotion | None = None
        self._released = False
        self._reading = NOTHING
        self._told_s = -math.inf
        self._resetting: threading.Thread | None = None

    @property
    def speed(self) -> float:
        """Share of the full speed."""
        return SPEEDS[self._speed]

    @property
    def steering(self) -> bool:
        """Whether this program has the turn to move the robot."""
        return self._steering is not None

    def step(self, dt: float) -> None:
        """Read the device, do what is asked for, publish one reference.

        Parameters
        ----------
        dt : since the last step, s
        """
        reading = self._reading = self.device.read()
        for command in reading.commands:
            self._do(command)
        if reading.problem:
            self.message = reading.problem
        # Whoever takes over a robot must have let go of the switch before.
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
        steering, self._steering = self._steering, None
        if steering is not None:
            with contextlib.suppress(ContinuumRobotError):
                self._give_back()

    def screen(self) -> Group:
        """What a person sees: help, state of the robot, what is asked for."""
        state, device = self.robot.state, self.device
        title = Text(state.stack or "no stack", style=STATE_STYLES.get(state.stack, ""))
        if state.faults:
            title.append(" " + ", ".join(state.faults), style="bold red")
        what = f"segment {self.segment + 1}" if self.mode == CLARKE and self._rod else ""
        steers = Text("steering", style="green") if self.steering else Text(f"{state.writer or 'nobody'} writes")
        rows: dict[str, Text | str] = {
            "robot": title,
            "turn": steers,
            "mode": f"{self.mode} {what}, {100 * self.speed:.0f} % speed",
            "switch": Text("held", style="green") if self._reading.held else Text("released", style="dim"),
            "axes": "  ".join(f"{value:+.2f}" for value in self._reading.axes),
            "wanted": _millimetres(state.reference_m),
            "measured": _millimetres(state.clarke_m),
            "tip": _millimetres(state.tip_position_m),
            "tensions": _newtons(state),
            "": Text(self.message, style="yellow"),
        }
        table = Table.grid(padding=(0, 2))
        for name, value in rows.items():
            table.add_row(Text(name, style="dim"), value)
        keys = Table.grid(padding=(0, 2))
        for key, meaning in device.help:
            keys.add_row(Text(key, style="bold red" if meaning == "E-STOP" else "bold"), meaning)
        both = Table.grid(padding=(0, 4))
        both.add_row(keys, table)
        return Group(Text("continuum-robot teleop", style="bold"), both)

    # Commands

    def _do(self, command: str) -> None:
        actions: dict[str, Callable[[], None]] = {
            ESTOP: self._estop,
            RESET: self._reset,
            HOLD: self._hold,
            TAKE: self._take,
            STRAIGHT: self._straighten,
            SEGMENT: self._next_segment,
            MODE: self._change_mode,
            FASTER: lambda: self._change_speed(1),
            SLOWER: lambda: self._change_speed(-1),
            QUIT: self._quit,
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
        robot, limits = self.robot, self.robot.limits
        try:
            if self.mode == TIP:
                start = robot.state.tip_position_m
                if not np.all(np.isfinite(start)):
                    self.message = "the tip is not known: no shape is estimated"
                    return
                self._link.give_back()
                within = tip_range(robot.description)
                self._steering = Teleoperation(tip_limits(robot.description, limits), start, within)
                self._publish_target(start)
            else:
                start = robot.take_turn()
                self._steering = Teleoperation(limits, start, clarke_range(robot.description))
            self.message = ""
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

    def _next_segment(self) -> None:
        self.segment = (self.segment + 1) % max(len(self.robot.description.segments), 1)

    def _change_mode(self) -> None:
        if not self._rod:
            self.message = "a mechanism is steered by its coordinates"
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

    def _limits(self) -> MotionLimits:
        full = self.robot.limits
        return MotionLimits(full.speed_m_per_s * self.speed, full.acceleration_m_per_s2)

    def _may_move(self) -> bool:
        """Whether the stack is up; where it is not, or another program took the turn, that is said."""
        if self._resetting is not None and self._resetting.is_alive():
            return False
        status = self._link.messages["stack_status"]
        if status is None or status.state != "up" or status.estop:
            faults = ", ".join(status.faults) if status is not None else ""
            self._released = False
            if self._steering is not None or not self.message:
                self.message = f"the stack is not up{': ' if faults else ''}{faults}; reset it"
            return False
        turn = self._link.name if self.mode == CLARKE else SOURCE
        if self._steering is not None and self._link.writer != turn:
            self.message = f"{self._link.writer} took the reference over; press the switch anew to move"
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
        if self.mode == TIP:
            axes = reading.axes
        else:
            axes = axes_of_coordinates(reading.axes, steering.reference.position.size, self.segment)
        step = steering.update(axes, reading.held, dt, self.speed)
        if step.ignored:
            self.message = f"axis {', '.join(str(axis + 1) for axis in step.ignored)} of the device gives no number"
        elif step.at_range:
            self.message = "at the end of the range"
        elif step.moving:
            self.message = ""
        if self.mode == CLARKE:
            self._link.publish_reference(step.reference)
        elif step.moving:
            self._follow_target(steering, step.reference.position)

    def _move_straight(self, steering: Teleoperation, motion: LimitedMotion, held: bool, dt: float) -> None:
        zero = np.zeros_like(steering.reference.position)
        reference = motion.towards(zero, dt) if held else motion.along(zero, dt)
        steering.reset(reference.position)
        self._link.publish_reference(reference)
        if (held and not reference.position.any()) or (not held and motion.at_rest):
            self._straightening = None
            self.message = "straight" if held else "let go: it stands where it is"

    def _follow_target(self, steering: Teleoperation, target: Vector) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < TARGET_PERIOD_S:
            return
        self._publish_target(target)
        message = self._link.messages["tip_state"]
        if message is None:
            return
        goal = conversions.position(message.goal)
        ahead = target - goal
        distance_m, longest_m = float(np.linalg.norm(ahead)), AHEAD_SHARE * self.robot.description.length_m
        moved_m = steering.reference.velocity * 2 * TARGET_PERIOD_S
        if message.distance > longest_m and distance_m > longest_m + float(np.linalg.norm(moved_m)):
            steering.reset(goal + ahead * (longest_m / distance_m))
            self.message = message.message

    def _publish_target(self, target: Vector) -> None:
        self._told_s = time.monotonic()
        self._link.publish_tip_target(target)

    def _give_back(self) -> None:
        if self.mode == CLARKE:
            self._link.end_turn()
        else:
            self.robot.hold()


@dataclass(frozen=True, kw_only=True)
class TeleopOptions:
    """Options of the command, see its help.

    Attributes
    ----------
    gamepad : device file or "auto", "" for none
    joy : the topic joy; without both the keyboard
    mode : clarke or tip
    namespace : of the stack
    timeout_s : for the stack to be found, s
    """

    gamepad: str = ""
    joy: bool = False
    mode: str = CLARKE
    namespace: str = ""
    timeout_s: float = 10.0


def run_teleop(options: TeleopOptions, console: Console | None = None) -> int:
    """Steer the robot until the person quits.

    Parameters
    ----------
    options : of the command
    console : where to show the screen

    Returns
    -------
    exit code: 0 after quit, 130 after Ctrl-C, 143 after SIGTERM

    Raises
    ------
    ContinuumRobotError : no device, or no robot
    """
    console = console or Console()
    # The device first: it is the likeliest to be missing, and the quickest to say so.
    device: TeleopDevice | None = None
    with contextlib.ExitStack() as closing, StopRequest() as stop:
        if options.gamepad:
            device = open_gamepad(options.gamepad)
        elif not options.joy:
            device = Keyboard()
        if device is not None:
            closing.callback(device.close)
        robot = Robot.connect(options.namespace, timeout_s=options.timeout_s)
        closing.callback(robot.close)
        if device is None:
            device = JoyTopic(robot.link.context, robot.link.namespace)
            closing.callback(device.close)
        operator = Teleoperator(robot, device, options.mode)
        closing.callback(operator.close)
        _steer(operator, stop, console)
    if stop.signal_name:
        return 143 if stop.signal_name == "SIGTERM" else 130
    return 0


def _steer(operator: Teleoperator, stop: StopRequest, console: Console) -> None:
    last_s, shown_s = time.monotonic(), -math.inf
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not operator.ended and not stop.wait(REFERENCE_PERIOD_S):
            now_s = time.monotonic()
            operator.step(now_s - last_s)
            last_s = now_s
            if now_s - shown_s >= SCREEN_PERIOD_S:
                live.update(operator.screen(), refresh=True)
                shown_s = now_s


def _millimetres(values: Vector) -> str:
    return "  ".join(f"{1e3 * value:+.2f}" for value in values) + " mm"


def _newtons(state: RobotState) -> str:
    tension = state.tension_n[np.isfinite(state.tension_n)]
    return f"{tension.min():.2f} to {tension.max():.2f} N" if tension.size else "–"
