# SPDX-License-Identifier: Apache-2.0
"""A person steers, from opening the device to giving the robot back."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import REFERENCE_PERIOD_S
from continuum_robot.app.teleop.device import TeleopDevice
from continuum_robot.app.teleop.gamepad import open_gamepad
from continuum_robot.app.teleop.joy_topic import JoyTopic
from continuum_robot.app.teleop.keyboard import Keyboard
from continuum_robot.app.teleop.modes import CLARKE
from continuum_robot.app.teleop.screen import screen
from continuum_robot.app.teleop.teleoperator import Teleoperator
from continuum_robot.nodes.base.spinning import StopRequest

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
