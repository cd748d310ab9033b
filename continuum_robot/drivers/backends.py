# SPDX-License-Identifier: Apache-2.0
"""The drivers of the devices that a robot file names."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from continuum_robot.drivers.dynamixel.actuators import DynamixelTendonActuators
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.protocols import ForceSensor, StringEncoders, TendonActuators
from continuum_robot.drivers.rokubi_serial.reader import RokubiForceSensor
from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Dynamixel, Hardware, OdriCan


def hardware_of(robot: Robot) -> Hardware:
    """The hardware section of a robot, checked against it.

    Raises
    ------
    ParameterError : it has none
    RobotFileError : it does not fit the robot
    """
    if robot.hardware is None:
        name = robot.file_name or robot.name
        raise ParameterError("robot", name, "a robot file with a hardware section; docs/hardware_bringup.md shows one")
    robot.check_hardware()
    return robot.hardware


def tendon_actuators(robot: Robot, interface: str = "", *, form: Any = None) -> TendonActuators:
    """The driver of the robot's motors, not open yet.

    Parameters
    ----------
    robot : with a hardware section
    interface : python-can interface instead of the robot file's, "" for that
    form : compiled modules of the cycle, for motors that can be driven so; None: interpreted

    Raises
    ------
    ParameterError, RobotFileError : as :func:`hardware_of`, or no driver for this kind
    """
    settings = hardware_of(robot).tendon_actuators
    if isinstance(settings, OdriCan):
        settings = dataclasses.replace(settings, interface=interface) if interface else settings
        return OdriTendonActuators(robot, settings, form=form)
    if isinstance(settings, Dynamixel):
        return DynamixelTendonActuators(robot, settings)
    raise ParameterError("hardware.tendon_actuators.kind", settings.kind, "a kind that this release can drive")


def string_encoders(robot: Robot, port: str = "") -> StringEncoders:
    """The driver of the robot's string encoders, not open yet; arguments and errors as :func:`tendon_actuators`.

    Parameters
    ----------
    port : serial port instead of the robot file's; empty: that

    Raises
    ------
    ParameterError : the robot has no such device in its file
    """
    settings = hardware_of(robot).string_encoders
    if settings is None:
        raise ParameterError("hardware.string_encoders", None, f"string encoders in the file of robot {robot.name!r}")
    names = [string.name for string in robot.strings]
    return StringEncoderReader(settings, names, port=port or None, clock=time.monotonic)


def force_sensor(robot: Robot, port: str = "") -> ForceSensor:
    """The driver of the robot's force sensor, not open yet; arguments and errors as :func:`tendon_actuators`.

    Parameters
    ----------
    port : serial port instead of the robot file's; empty: that

    Raises
    ------
    ParameterError : the robot has no such device in its file
    """
    settings = hardware_of(robot).force_sensor
    if settings is None:
        raise ParameterError("hardware.force_sensor", None, f"a force sensor in the file of robot {robot.name!r}")
    return RokubiForceSensor(settings, port=port or None, clock=time.monotonic)
