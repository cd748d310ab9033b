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
from continuum_robot.drivers.survey import Finding, servo_findings
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: Cia402, **options: Any) -> Cia402Actuators:
    """The driver, not open yet; options as of :class:`Cia402Actuators`."""
    return Cia402Actuators(robot, settings, **options)


def emulator(robot: Robot, settings: Cia402, motors: Mapping[int, MotorPort]) -> EmulatedCia402:
    """Emulated drives."""
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    own = {entry.id: actuators.of(entry.number) for entry in settings.motors}
    return EmulatedCia402(
        motors,
        {entry.id: entry for entry in settings.motors},
        nm_per_a={node: one.torque_constant_nm_per_a for node, one in own.items()},
        largest_a={node: one.maximum_current_a for node, one in own.items()},
        velocity_unit_rev_per_s=settings.velocity_unit_rev_per_s,
    )


def survey(_robot: Robot, settings: Cia402) -> list[Finding]:
    """Ask every drive of the file for its profile and state; nothing is written."""

    def ask(bus: CanOpenBus, node: int) -> str:
        if (profile := bus.transfer(node, codec.read_request(node, codec.DEVICE_TYPE))) is None:
            return ""
        return f"profile {profile & 0xFFFF}, {codec.state_of(bus.read(node, codec.STATUSWORD))}"

    bus = CanOpenBus(settings.port, settings.bitrate_bps, settings.host_id, settings.receive_timeout_ms)
    return servo_findings(bus, settings, ask, "drive")
