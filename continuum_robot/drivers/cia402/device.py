# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py and simulation/ take from this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continuum_robot.drivers.cia402 import codec
from continuum_robot.drivers.cia402.actuators import Cia402Actuators
from continuum_robot.drivers.cia402.bus import CanOpenBus
from continuum_robot.drivers.cia402.emulator import EmulatedCia402
from continuum_robot.drivers.cia402.settings import Cia402
from continuum_robot.drivers.servo_emulation import MotorPort
from continuum_robot.drivers.survey import FOUND, MISSING, Finding, absent
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: Cia402, **options: Any) -> Cia402Actuators:
    """The driver, not open yet; options as of :class:`Cia402Actuators`."""
    return Cia402Actuators(robot, settings, **options)


def emulator(robot: Robot, settings: Cia402, motors: Mapping[int, MotorPort]) -> EmulatedCia402:
    """Emulated drives."""
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    return EmulatedCia402(
        motors,
        {entry.id: entry for entry in settings.motors},
        nm_per_a=actuators.torque_constant_nm_per_a,
        largest_a=actuators.maximum_current_a,
        velocity_unit_rev_per_s=settings.velocity_unit_rev_per_s,
    )


def survey(_robot: Robot, settings: Cia402) -> list[Finding]:
    """Ask every drive of the file for its profile and state; nothing is written."""
    bus = CanOpenBus(settings.port, settings.bitrate_bps, settings.host_id, settings.receive_timeout_ms)
    try:
        bus.open()
        found = []
        for entry in settings.motors:
            device = f"drive {entry.id}"
            if (profile := bus.transfer(entry.id, codec.read_request(entry.id, codec.DEVICE_TYPE))) is None:
                remedy = bus.silent([entry.id]).remedy
                found.append(Finding(device, settings.port, MISSING, f"does not answer. {remedy}"))
                continue
            state = codec.state_of(bus.read(entry.id, codec.STATUSWORD))
            found.append(Finding(device, settings.port, FOUND, f"profile {profile & 0xFFFF}, {state}"))
        return found
    except DeviceError as error:
        return [absent("drives", settings.port, error)]
    finally:
        bus.close()
