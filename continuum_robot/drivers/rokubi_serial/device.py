# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from continuum_robot.drivers.protocols import Vector
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.rokubi_serial.reader import RokubiForceSensor
from continuum_robot.drivers.rokubi_serial.settings import RokubiSerial
from continuum_robot.drivers.survey import FOUND, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

_POLL_S = 0.01


def make(_robot: Robot, settings: RokubiSerial, port: str = "", **options: Any) -> RokubiForceSensor:
    """The driver, not open yet; options as of :class:`.RokubiForceSensor`."""
    return RokubiForceSensor(settings, port=port or None, **{"clock": time.monotonic, **options})


def emulator(_robot: Robot, _settings: RokubiSerial, wrench: Callable[[], Vector], **options: Any) -> SimulatedRokubi:
    """An emulated sensor under a load, shape (6,), N and N.m; options as of the sensor."""
    return SimulatedRokubi(wrench, **options)


def survey(_robot: Robot, settings: RokubiSerial) -> list[Finding]:
    """Open the sensor and read it."""
    name = "Rokubi force sensor"
    sensor = RokubiForceSensor(settings)
    try:
        sensor.open()
        time.sleep(_POLL_S)
        reading = sensor.read(time.monotonic())
    except DeviceError as error:
        return [absent(name, settings.port, error)]
    finally:
        sensor.close()
    words = [f"{settings.rate_hz:g} Hz", *reading.device_faults]
    if math.isfinite(reading.temperature_c):
        words.insert(1, f"{reading.temperature_c:.0f} °C")
    return [Finding(name, settings.port, FOUND, ", ".join(words))]
