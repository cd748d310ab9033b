# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py and simulation/ take from this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continuum_robot.drivers.feetech.actuators import TABLE, FeetechActuators
from continuum_robot.drivers.feetech.emulator import EmulatedFeetech
from continuum_robot.drivers.feetech.settings import Feetech
from continuum_robot.drivers.servo_bus import BusServos, ServoBus, ShortFraming
from continuum_robot.drivers.servo_emulation import EmulatedServos, MotorPort
from continuum_robot.drivers.short_servos import READ
from continuum_robot.drivers.survey import Finding, servo_findings
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: Feetech, **options: Any) -> BusServos:
    """The driver, not open yet; options as of :class:`BusServos`."""
    return FeetechActuators(robot, settings, **options)


def emulator(_robot: Robot, settings: Feetech, motors: Mapping[int, MotorPort]) -> EmulatedServos:
    """Emulated servos."""
    return EmulatedFeetech(motors, baud_bps=settings.baud_bps).centre()


def survey(_robot: Robot, settings: Feetech) -> list[Finding]:
    """Ask every servo of the file for its model; nothing is written."""

    def ask(bus: ServoBus, servo: int) -> str:
        found = bus.ask(servo, READ, bytes([TABLE.model, 2]), 2, [servo])
        return f"model {int.from_bytes(found[servo].data, 'little')}" if servo in found else ""

    bus = ServoBus(settings.port, settings.baud_bps, ShortFraming(), "Feetech servos")
    return servo_findings(bus, settings, ask)
