# SPDX-License-Identifier: Apache-2.0
"""Which driver a robot file asks for, displacements from home, and safety before a robot is homed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from safety_steps import TendonSafety

from continuum_robot.drivers import backends
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.protocols import (
    CountsFromPowerOn,
    ForceSensor,
    StringEncoders,
    TendonActuators,
    TendonReading,
)
from continuum_robot.drivers.safety.tendon_faults import DISPLACEMENT_JUMP
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.robot.loading import load_robot

DRIVERS = Path(backends.__file__).parent
ROBOT = load_robot("opencr_five_tendon")
PLAIN = load_robot("two_segment")
DT = 1e-3


def reading(stamp_s, displacement_m):
    count = len(displacement_m)
    zeros, ones = np.zeros(count), np.ones(count)
    current = ones / ROBOT.newton_per_ampere
    return TendonReading(stamp_s, np.array(displacement_m, dtype=float), zeros, ones, current, zeros, zeros)


@pytest.mark.parametrize("kind", sorted(path.parent.name for path in DRIVERS.glob("*/device.py")))
def test_nothing_outside_of_a_devices_folder_knows_its_kind(kind):
    """But what is assumed of a robot whose file names no device, and its simulation."""
    package = DRIVERS.parent
    knows = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.parent != DRIVERS / kind and f"drivers.{kind}" in path.read_text(encoding="utf-8")
    }
    sensors = {"simulation/wire/hardware.py"}
    allowed = {"dynamixel": set(), "rokubi_serial": sensors, "string_encoder_serial": sensors}
    assert knows <= (allowed[kind] | {"drivers/assumed_wiring.py"} if kind in allowed else set())


def test_the_file_chooses_the_drivers():
    actuators = backends.tendon_actuators(ROBOT, "slcan")
    assert isinstance(actuators, OdriTendonActuators)
    assert isinstance(actuators, TendonActuators)
    assert isinstance(actuators, CountsFromPowerOn)
    assert actuators.settings.interface == "slcan"
    assert backends.tendon_actuators(ROBOT).settings.interface == "socketcan"
    assert not actuators.simulated
    assert isinstance(backends.string_encoders(ROBOT), StringEncoders)
    assert isinstance(backends.force_sensor(ROBOT), ForceSensor)


@pytest.mark.parametrize("make", [backends.tendon_actuators, backends.string_encoders, backends.force_sensor])
def test_a_robot_without_hardware_is_refused(make):
    with pytest.raises(ParameterError, match="hardware section"):
        make(PLAIN)


@pytest.mark.parametrize(
    ("make", "missing"), [(backends.string_encoders, "string_encoders"), (backends.force_sensor, "force_sensor")]
)
def test_a_device_that_the_file_does_not_name_is_refused(make, missing):
    robot = ROBOT.changed(hardware=dataclasses.replace(ROBOT.hardware, **{missing: None}))
    with pytest.raises(ParameterError, match=missing):
        make(robot)


def test_hardware_of_another_robot_is_refused():
    other = PLAIN.changed(hardware=ROBOT.hardware)
    with pytest.raises(RobotFileError, match="tendon"):
        backends.tendon_actuators(other)


def test_before_homing_only_jumps_of_positions_count():
    far = [0.3, -0.2, 0.5, 0.0, 0.1]
    homed, unknown = TendonSafety(ROBOT), TendonSafety(ROBOT)
    with pytest.raises(DeviceError, match="maximum_displacement_m"):
        homed.activate(reading(0.0, far), 0.0)
    unknown.positions_known = False
    unknown.activate(reading(0.0, far), 0.0)
    command = np.full(5, 1.0)
    for cycle in range(1, 400):
        now_s = cycle * DT
        output = unknown.update(reading(now_s, far), command, 0.0, now_s, DT, command_sequence=cycle)
        assert output.state == "active"
    now_s += DT
    jumped = np.add(far, [0.01, 0, 0, 0, 0])
    output = unknown.update(reading(now_s, jumped), command, 0.0, now_s, DT, command_sequence=cycle + 1)
    assert DISPLACEMENT_JUMP in output.faults


def test_each_motor_has_its_own_torque_constant():
    assert ROBOT.newton_per_ampere == pytest.approx(np.full(5, ROBOT.actuators.newton_per_ampere))
    motors = list(ROBOT.hardware.tendon_actuators.motors)
    motors[2] = dataclasses.replace(motors[2], torque_constant_nm_per_a=0.03)
    section = dataclasses.replace(ROBOT.hardware.tendon_actuators, motors=tuple(motors))
    robot = ROBOT.changed(hardware=dataclasses.replace(ROBOT.hardware, tendon_actuators=section))
    assert robot.newton_per_ampere[2] == pytest.approx(0.03 * 6 / 0.009)
    assert robot.file_name == ROBOT.file_name
