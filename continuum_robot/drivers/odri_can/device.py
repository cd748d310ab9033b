# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from continuum_robot.drivers.odri_can import survey as channel_survey
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.emulator import FAULTS, CanWire, MotorPort, SimulatedOdriBoard
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.survey import FOUND, MISSING, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

CYCLE_MODULES = ("frames", "telemetry", "frame_port", "board", "motor_boards")
BOARD_FAULTS = FAULTS


def make(robot: Robot, settings: OdriCan, *, interface: str = "", **options: Any) -> TendonActuators:
    """The driver, not open yet; ``options`` as of its class."""
    settings = dataclasses.replace(settings, interface=interface) if interface else settings
    return OdriTendonActuators(robot, settings, **options)


def boards(
    settings: OdriCan,
    port: Callable[[str, int], MotorPort | None],
    wire: Callable[[], CanWire],
    **options: Any,
) -> dict[str, SimulatedOdriBoard]:
    """Emulated boards by channel, each on a ``wire`` of its own; ``port`` gives the motor of a channel and a number."""
    used = [name for name in settings.channels if any(entry.channel == name for entry in settings.motors)]
    return {name: SimulatedOdriBoard(wire(), (port(name, 1), port(name, 2)), **options) for name in used}


def survey(_robot: Robot, settings: OdriCan) -> list[Finding]:
    """Listen on every channel, without switching anything on."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda channel: _channel(settings, channel), settings.channels))


def _channel(settings: OdriCan, channel: str) -> Finding:
    name = "motor board"
    remedy = "Check its power, the wiring and the two terminating resistors."
    try:
        heard = channel_survey.survey(settings.interface, channel, settings.bitrate_bps)
    except DeviceError as error:
        return absent(name, channel, error)
    if heard.status is None:
        return Finding(name, channel, MISSING, f"{heard.problem}. {remedy}")
    return Finding(name, channel, FOUND, heard.summary())
