# SPDX-License-Identifier: Apache-2.0
"""A person steers, from opening the device to giving the robot back."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import REFERENCE_PERIOD_S
from continuum_robot.app.running.status_line import STATE_STYLES
from continuum_robot.app.teleop.device import Command, TeleopDevice
from continuum_robot.app.teleop.gamepad import open_gamepad
from continuum_robot.app.teleop.joy_topic import JoyTopic
from continuum_robot.app.teleop.keyboard import Keyboard
from continuum_robot.app.teleop.modes import CLARKE
from continuum_robot.app.teleop.teleoperator import Teleoperator
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.reference.lines import HOLDING

SCREEN_PERIOD_S = 0.1


@dataclass(frozen=True, kw_only=True)
class TeleopOptions:
    """Options of the command, see its help."""

    gamepad: str = ""
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
