# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py and simulation/ take from this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continuum_robot.drivers.dynamixel import models, protocol_2
from continuum_robot.drivers.dynamixel.actuators import DynamixelActuators
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.drivers.dynamixel.emulator_1 import EmulatedProtocol1
from continuum_robot.drivers.dynamixel.protocol_1 import TABLE, Protocol1Actuators
from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.servo_bus import BusServos, ServoBus, ShortFraming
from continuum_robot.drivers.servo_emulation import EmulatedServos, MotorPort
from continuum_robot.drivers.short_servos import READ
from continuum_robot.drivers.survey import Finding, servo_findings
from continuum_robot.robot.description import Robot

TITLE = "Dynamixel servos"


def make(robot: Robot, settings: Dynamixel, **options: Any) -> BusServos:
    """The driver, not open yet; options as of :class:`BusServos`."""
    old = settings.protocol == models.PROTOCOL_1
    return Protocol1Actuators(robot, settings, **options) if old else DynamixelActuators(robot, settings, **options)


def emulator(robot: Robot, settings: Dynamixel, motors: Mapping[int, MotorPort]) -> EmulatedServos:
    """Emulated servos of the model that the file names, or of the one that is taken where it names none."""
    model = models.assumed_model(settings.model, settings.protocol, robot.takes_displacements)
    if settings.protocol == models.PROTOCOL_1:
        return EmulatedProtocol1(motors, model, baud_bps=settings.baud_bps).centre()
    strongest_a = robot.actuators.largest("maximum_current_a", robot.motor_count) if robot.actuators else 1.0
    largest_a = settings.maximum_current_a or strongest_a
    made = EmulatedDynamixels(motors, model, current_limit_a=largest_a, baud_bps=settings.baud_bps)
    return made.centre() if settings.mode == models.POSITION else made


def survey(_robot: Robot, settings: Dynamixel) -> list[Finding]:
    """Ping every servo of the file, and name its model; nothing is written."""

    def ask_1(bus: ServoBus, servo: int) -> str:
        found = bus.ask(servo, READ, bytes([TABLE.model, 3]), 3, [servo])
        return _words(found[servo].data) if servo in found else ""

    def ask_2(bus: ServoBus, servo: int) -> str:
        found = bus.ask(servo, protocol_2.PING, b"", 3, [servo])
        return _words(found[servo].data) if servo in found else ""

    old = settings.protocol == models.PROTOCOL_1
    bus = ServoBus(settings.port, settings.baud_bps, ShortFraming() if old else protocol_2.Protocol2(), TITLE)
    return servo_findings(bus, settings, ask_1 if old else ask_2)


def _words(data: bytes) -> str:
    """Model and firmware: three bytes."""
    number = int.from_bytes(data[:2], "little")
    model = models.MODELS.get(number)
    return f"{model.name if model else f'unknown model {number}'}, firmware {data[2]}"
