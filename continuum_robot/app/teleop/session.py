# SPDX-License-Identifier: Apache-2.0
"""A person steers, from opening the device to giving the robot back."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sensor_msgs.msg import Joy

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import REFERENCE_PERIOD_S, StackLink
from continuum_robot.app.running.status_line import STATE_STYLES
from continuum_robot.app.teleop.devices import (
    BUTTONS,
    PAD_HELP,
    Command,
    DeviceReading,
    Help,
    Keyboard,
    TeleopDevice,
    at_rest,
    open_gamepad,
)
from continuum_robot.app.teleop.space_mouse import open_space_mouse
from continuum_robot.app.teleop.teleoperator import CLARKE, Teleoperator
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.reference.lines import HOLDING
from continuum_robot.nodes.topics import conversions

JOY_AGE_S = 0.3


class JoyTopic:
    """sensor_msgs/Joy as joy_node publishes it for an Xbox controller; what is old counts as let go."""

    help: Help = PAD_HELP
    _AXES = (1, 0, 4)
    _HELD = 4
    _COMMANDS: Mapping[int, Command] = {button.index: button.command for button in BUTTONS}

    def __init__(self, link: StackLink, topic: str = "joy") -> None:
        self._topic, self._messages = topic, link.messages
        self._messages.listen(topic, Joy)
        self._buttons: tuple[int, ...] | None = None

    def read(self) -> DeviceReading:
        """The newest message."""
        message = self._messages[self._topic]
        if message is None:
            return at_rest(f"nothing came on {self._topic}")
        age_s = abs(time.time() - conversions.stamp_ns(message.header.stamp) * 1e-9)
        buttons = tuple(message.buttons)
        # The first message shows which buttons are down already: only what is pressed from now on counts.
        before = buttons if self._buttons is None else self._buttons
        self._buttons = buttons
        pressed = [index for index, value in enumerate(buttons) if value and not _at(before, index, 0)]
        commands = tuple(self._COMMANDS[index] for index in pressed if index in self._COMMANDS)
        if age_s > JOY_AGE_S:
            return at_rest(f"{self._topic} is {age_s:.1f} s old", commands)
        axes = np.array([_at(message.axes, index, 0.0) for index in self._AXES], dtype=float)
        return DeviceReading(axes, bool(_at(buttons, self._HELD, 0)), commands)

    def close(self) -> None:
        """Nothing: the link leaves the topic."""


def _at(values: Sequence[float], index: int, default: float) -> float:
    return values[index] if index < len(values) else default


SCREEN_PERIOD_S = 0.1


@dataclass(frozen=True, kw_only=True)
class TeleopOptions:
    """Options of the command, see its help."""

    gamepad: str = ""
    spacemouse: bool = False
    joy: bool = False
    mode: str = CLARKE
    namespace: str = ""
    timeout_s: float = 10.0


def run_teleop(options: TeleopOptions, console: Console | None = None) -> int:
    """Steer the robot until the person quits."""
    console = console or Console()
    # The device first: it is the likeliest to be missing, and the quickest to fail.
    device: TeleopDevice | None = None
    with contextlib.ExitStack() as closing, StopRequest() as stop:
        if options.gamepad:
            device = open_gamepad(options.gamepad)
        elif options.spacemouse:
            device = open_space_mouse()
        elif not options.joy:
            device = Keyboard()
        if device is not None:
            closing.callback(device.close)
        robot = Robot.connect(options.namespace, timeout_s=options.timeout_s)
        closing.callback(robot.close)
        if device is None:
            device = JoyTopic(robot.link)
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
                live.update(screen(operator), refresh=True)
                shown_s = now_s


def screen(operator: Teleoperator) -> Group:
    """Help, state of the robot, what is asked for."""
    state, reading = operator.robot.state, operator.reading
    title = Text(state.stack or "no stack", style=STATE_STYLES.get(state.stack, ""))
    if state.faults:
        title.append(" " + ", ".join(state.faults), style="bold red")
    if state.holding:
        title.append(f" {HOLDING}")
    steers = Text("steering", style="green") if operator.steering else Text(f"{state.writer or 'nobody'} writes")
    rows: dict[str, Text | str] = {
        "robot": title,
        "turn": steers,
        "mode": f"{operator.mode} {operator.moved}, {100 * operator.speed:.0f} % speed",
        "switch": Text("held", style="green") if reading.held else Text("released", style="dim"),
        "axes": "  ".join(f"{value:+.2f}" for value in reading.axes),
        "desired": _millimetres(state.reference_m),
        "measured": _millimetres(state.clarke_m),
        "tip": _millimetres(state.tip_position_m),
        "tensions": _newtons(state.tension_n),
        "episode": Text(operator.episode or "–", style="green" if state.episode else ""),
        "": Text(operator.message, style="yellow"),
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), value)
    keys = Table.grid(padding=(0, 2))
    for key, meaning in operator.device.help:
        words = meaning.value if isinstance(meaning, Command) else meaning
        keys.add_row(Text(key, style="bold red" if meaning is Command.ESTOP else "bold"), words)
    both = Table.grid(padding=(0, 4))
    both.add_row(keys, table)
    return Group(Text("continuum-robot teleop", style="bold"), both)


def _millimetres(values: NDArray[np.float64]) -> str:
    return "  ".join(f"{1e3 * value:+.2f}" for value in values) + " mm"


def _newtons(values: NDArray[np.float64]) -> str:
    tension = values[np.isfinite(values)]
    return f"{tension.min():.2f} to {tension.max():.2f} N" if tension.size else "–"
