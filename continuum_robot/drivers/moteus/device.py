# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py and simulation/ take from this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continuum_robot.drivers.moteus import frames
from continuum_robot.drivers.moteus.actuators import MoteusActuators
from continuum_robot.drivers.moteus.emulator import EmulatedMoteus
from continuum_robot.drivers.moteus.settings import Moteus
from continuum_robot.drivers.servo_bus import BusServos, ServoBus
from continuum_robot.drivers.servo_emulation import EmulatedServos, MotorPort
from continuum_robot.drivers.survey import Finding, servo_findings
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: Moteus, **options: Any) -> BusServos:
    """The driver, not open yet; options as of :class:`BusServos`."""
    return MoteusActuators(robot, settings, **options)


def emulator(robot: Robot, settings: Moteus, motors: Mapping[int, MotorPort]) -> EmulatedServos:
    """Emulated controllers."""
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    own = {entry.id: (entry, actuators.of(entry.number)) for entry in settings.motors}
    constants = {
        servo: entry.torque_constant_nm_per_a or one.torque_constant_nm_per_a for servo, (entry, one) in own.items()
    }
    largest_a = {servo: one.maximum_current_a for servo, (_, one) in own.items()}
    return EmulatedMoteus(motors, nm_per_a=constants, largest_a=largest_a)


def survey(robot: Robot, settings: Moteus) -> list[Finding]:
    """Ask every controller of the file for its state; nothing is written."""

    def ask(bus: ServoBus, servo: int) -> str:
        found = bus.ask(servo, frames.REPLY, frames.QUERY, frames.STATE_SIZE, [servo])
        return f"mode {frames.STATE.unpack_from(found[servo].data)[0]}" if servo in found else ""

    return servo_findings(MoteusActuators(robot, settings).bus, settings, ask)
