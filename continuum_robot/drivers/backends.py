# SPDX-License-Identifier: Apache-2.0
"""The drivers of the devices that a robot file names: those of this package and of others.

Another package offers tendon actuators under their ``kind`` in the entry points ``continuum_robot.tendon_actuators``: a
class that is made with a robot and the section of its file, is a
:class:`~continuum_robot.drivers.protocols.TendonActuators`, and has as ``settings`` the dataclass of that section, a
:class:`~continuum_robot.robot.hardware.MotorsSection`. So it does string encoders (``continuum_robot.string_encoders``,
with ``strings`` in the section, each with the name ``string``) and force sensors (``continuum_robot.force_sensors``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from time import monotonic
from time import sleep as real_sleep
from typing import Any, cast

from continuum_robot.drivers.dynamixel.actuators import DynamixelTendonActuators
from continuum_robot.drivers.ndi_serial.tracker import NdiTracker
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.protocols import ForceSensor, StringEncoders, TendonActuators, Tracker
from continuum_robot.drivers.rokubi_serial.reader import RokubiForceSensor
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import FORCE_SENSORS, STRING_ENCODERS, TENDON_ACTUATORS, TRACKERS, added, offered
from continuum_robot.robot.hardware import (
    DYNAMIXEL,
    ODRI_CAN,
    ROKUBI_SERIAL,
    STRING_ENCODER_SERIAL,
    Dynamixel,
    Hardware,
    OdriCan,
    RokubiSerial,
    StringEncoderSerial,
)
from continuum_robot.robot.tracker import NDI_SERIAL, NdiSerial

Time = tuple[Callable[[], float], Callable[[float], None]]
"""Clock and waiting, s."""


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
    settings: Any = hardware_of(robot).tendon_actuators
    if settings.kind in _MAKERS:
        return _MAKERS[settings.kind](robot, settings, interface, form)
    made = _of_others(TENDON_ACTUATORS, TendonActuators, robot, settings, "tendon_actuators")
    return cast("TendonActuators", made)


def _of_others(door: str, protocol: type, robot: Robot, settings: Any, section: str) -> Any:
    """A driver that another package adds, which has to be a ``protocol``."""
    key = f"hardware.{section}.kind"
    driver = added(door, settings.kind, key)
    if driver is None:
        raise ParameterError(key, settings.kind, f"a kind of this package, or of {', '.join(offered(door)) or door}")
    made = driver(robot, settings)
    if not isinstance(made, protocol):
        raise ParameterError(key, settings.kind, f"a class that is a {protocol.__name__}: {driver!r} lacks methods")
    return made


def _odri_can(robot: Robot, settings: OdriCan, interface: str, form: Any) -> TendonActuators:
    settings = dataclasses.replace(settings, interface=interface) if interface else settings
    return OdriTendonActuators(robot, settings, form=form)


def _dynamixel(robot: Robot, settings: Dynamixel, _interface: str, _form: Any) -> TendonActuators:
    return DynamixelTendonActuators(robot, settings)


_KIND = "hardware.tendon_actuators.kind"
_MAKERS: dict[str, Callable[..., TendonActuators]] = {ODRI_CAN: _odri_can, DYNAMIXEL: _dynamixel}


def simulated_tendon_actuators(robot: Robot, wires: SimulatedWires, time: Time | None, form: Any) -> TendonActuators:
    """The same driver on the wires of a simulated robot, not open yet.

    Parameters
    ----------
    robot : with a hardware section
    wires : of the process that simulates it
    time : clock and waiting of lock-step, s; None: real
    form : as of :func:`tendon_actuators`

    Raises
    ------
    ParameterError : its motors cannot be simulated to the byte
    """
    kind = hardware_of(robot).tendon_actuators.kind
    if not on_wires(robot):
        raise ParameterError(_KIND, kind, f"with simulation_level wire one of {', '.join(_SIMULATED)}")
    return _SIMULATED[kind](robot, wires, time, form)


def _simulated_odri_can(robot: Robot, wires: SimulatedWires, time: Time | None, form: Any) -> TendonActuators:
    clock, sleep = (monotonic, real_sleep) if time is None else time
    return OdriTendonActuators(
        robot, socket_factory=wires.open_channel, clock=clock, sleep=sleep, simulated=True, form=form
    )


def _simulated_dynamixel(robot: Robot, wires: SimulatedWires, time: Time | None, _form: Any) -> TendonActuators:
    return DynamixelTendonActuators(
        robot,
        clock=monotonic if time is None else time[0],
        answer_margin_s=_ANSWER_MARGIN_S if time is None else None,
        simulated=True,
        find_port=wires.find_servos,
        stepped=time is not None,
    )


_ANSWER_MARGIN_S = 0.05  # of simulated servos in real time: another process answers, which a busy machine may stop
_SIMULATED: dict[str, Callable[..., TendonActuators]] = {
    ODRI_CAN: _simulated_odri_can,
    DYNAMIXEL: _simulated_dynamixel,
}


def on_wires(robot: Robot) -> bool:
    """Whether the robot's motors can be simulated to the byte: of a kind of this package, or none that its file names.

    Parameters
    ----------
    robot : to be simulated
    """
    return robot.hardware is None or robot.hardware.tendon_actuators.kind in _SIMULATED


def string_encoders(robot: Robot, port: str = "") -> StringEncoders:
    """The driver of the robot's string encoders, not open yet; arguments and errors as :func:`tendon_actuators`.

    Parameters
    ----------
    port : serial port instead of the robot file's; empty: that

    Raises
    ------
    ParameterError : the robot has no such device in its file
    """

    def own(settings: StringEncoderSerial) -> StringEncoders:
        names = [string.name for string in robot.strings]
        return StringEncoderReader(settings, names, port=port or None, clock=monotonic)

    made = _sensor(robot, "string_encoders", STRING_ENCODER_SERIAL, own, STRING_ENCODERS, StringEncoders)
    return cast("StringEncoders", made)


def tracker(robot: Robot, port: str = "") -> Tracker:
    """The driver of the tracker of the robot's tip, not open yet; arguments and errors as :func:`tendon_actuators`.

    Parameters
    ----------
    port : serial port instead of the robot file's; empty: that

    Raises
    ------
    ParameterError : the robot has no such device in its file
    """

    def own(settings: NdiSerial) -> Tracker:
        return NdiTracker(settings, port)

    return cast("Tracker", _sensor(robot, "tracker", NDI_SERIAL, own, TRACKERS, Tracker))


def force_sensor(robot: Robot, port: str = "") -> ForceSensor:
    """The driver of the robot's force sensor, not open yet; arguments and errors as :func:`tendon_actuators`.

    Parameters
    ----------
    port : serial port instead of the robot file's; empty: that

    Raises
    ------
    ParameterError : the robot has no such device in its file
    """

    def own(settings: RokubiSerial) -> ForceSensor:
        return RokubiForceSensor(settings, port=port or None, clock=monotonic)

    return cast("ForceSensor", _sensor(robot, "force_sensor", ROKUBI_SERIAL, own, FORCE_SENSORS, ForceSensor))


_NAMES = {"string_encoders": "string encoders", "tracker": "a tracker", "force_sensor": "a force sensor"}


def _sensor(robot: Robot, section: str, kind: str, own: Callable[[Any], Any], door: str, protocol: type) -> Any:
    """The driver of a section of the robot's hardware: of the ``kind`` of this package, or behind its door."""
    settings: Any = getattr(hardware_of(robot), section)
    if settings is None:
        raise ParameterError(f"hardware.{section}", None, f"{_NAMES[section]} in the file of robot {robot.name!r}")
    return own(settings) if settings.kind == kind else _of_others(door, protocol, robot, settings, section)
