# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from time import sleep as real_sleep
from typing import Any

from continuum_robot.drivers.odri_can import survey as channel_survey
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.drivers.survey import FOUND, MISSING, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: OdriCan, *, interface: str = "", form: Any = None) -> TendonActuators:
    """The driver, not open yet."""
    settings = dataclasses.replace(settings, interface=interface) if interface else settings
    return OdriTendonActuators(robot, settings, form=form)


def simulated(
    robot: Robot,
    settings: OdriCan,
    wires: SimulatedWires,
    time: tuple[Callable[[], float], Callable[[float], None]] | None,
    form: Any,
) -> TendonActuators:
    """The driver on the wires of a simulated robot."""
    clock, sleep = (monotonic, real_sleep) if time is None else time
    return OdriTendonActuators(
        robot, settings, socket_factory=wires.open_channel, clock=clock, sleep=sleep, simulated=True, form=form
    )


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
