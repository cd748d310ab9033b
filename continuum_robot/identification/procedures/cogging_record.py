# SPDX-License-Identifier: Apache-2.0
"""The stored cogging of a robot's motors: a table over the angle of each, with its uncertainty."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError
from continuum_robot.identification.cogging_fit import CoggingFit
from continuum_robot.identification.procedures.hung_weight import nominal_lever_m
from continuum_robot.identification.procedures.record import (
    RecordTexts,
    RobotRecord,
    origin,
    record_path,
    serial_number,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import YamlBounds
from continuum_robot.robot.schema import quantity, refuse

Vector = NDArray[np.float64]

CALIBRATE_FIRST = "Calibrate it: continuum-robot calibrate-cogging."


@dataclass(frozen=True, slots=True, kw_only=True)
class MotorCogging:
    """Cogging of one motor."""

    tendon: str = quantity("name of the motor's tendon", filled=True)
    m_per_turn: float = quantity("tendon that a turn of the motor winds", "m", gt=0, le=100)
    torque_nm: tuple[float, ...] = quantity(
        "torque with which the cogging holds the motor back, over a turn from the zero of the devices on",
        "N.m",
        ge=-1e3,
        le=1e3,
    )
    deviation_nm: tuple[float, ...] = quantity("its standard deviation", "N.m", ge=0, le=1e3)

    def __post_init__(self) -> None:
        if len(self.torque_nm) < 2 or len(self.torque_nm) != len(self.deviation_nm):
            raise refuse("deviation_nm", len(self.deviation_nm), f"as many values as torque_nm: {len(self.torque_nm)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoggingRecord(RobotRecord):
    """Cogging as it is stored, one file a robot."""

    texts: ClassVar[RecordTexts] = RecordTexts(
        "Written by calibrate-cogging.",
        "cogging record",
        "has no table of its motors' cogging",
        "has a table of cogging that cannot be used",
        "has a table of cogging of another",
        CALIBRATE_FIRST,
    )
    # Two tables of 1440 entries for each of 64 motors.
    bounds: ClassVar[YamlBounds] = YamlBounds(characters=1 << 22, values=200_000, expanded_characters=1 << 22)
    serial_number: str = quantity("of the robot", filled=True)
    angle_known: bool = quantity("false: the motors were switched off since, and count from another zero", default=True)
    motors: tuple[MotorCogging, ...] = quantity("of every tendon, in order")

    def __post_init__(self) -> None:
        lengths = {len(motor.torque_nm) for motor in self.motors}
        if len(lengths) != 1:
            raise refuse("motors", sorted(lengths), "tables of one length, of at least one motor")

    @property
    def m_per_turn(self) -> Vector:
        """Tendon that a turn of each motor winds, shape (N,), m."""
        return np.array([motor.m_per_turn for motor in self.motors])

    @property
    def force_n(self) -> Vector:
        """The table as forces on the tendons, shape (N, K), N."""
        table = np.array([motor.torque_nm for motor in self.motors])
        return np.asarray(table * (2 * math.pi / self.m_per_turn)[:, None])


def spooled_per_turn_m(robot: Robot) -> Vector:
    """Tendon that a turn of each motor winds, by the robot file, shape (N,), m."""
    return np.array([2 * math.pi * nominal_lever_m(robot, tendon) for tendon in range(robot.tendon_count)])


def make_cogging_record(robot: Robot, fit: CoggingFit, now: datetime | None = None) -> CoggingRecord:
    """What is stored of a calibration."""
    per_turn = spooled_per_turn_m(robot)
    lever_m = per_turn / (2 * math.pi)
    motors = tuple(
        MotorCogging(
            tendon=name,
            m_per_turn=float(per_turn[j]),
            torque_nm=tuple(float(f"{value:.6g}") for value in fit.force_n[j] * lever_m[j]),
            deviation_nm=tuple(float(f"{value:.3g}") for value in fit.deviation_n[j] * lever_m[j]),
        )
        for j, name in enumerate(robot.tendon_names)
    )
    return CoggingRecord(**origin(robot, now), serial_number=serial_number(robot), motors=motors)


def cogging_path(robot: Robot, folder: Path | None = None) -> Path:
    """The file of a robot's cogging; arguments and errors as :func:`record_path`."""
    return record_path(robot, folder, "cogging")


def load_cogging(robot: Robot, path: Path) -> CoggingRecord:
    """Read the cogging of a robot's motors and make sure that it is this robot's."""
    record = CoggingRecord.load(
        robot,
        path,
        lambda record: ("robot", record.robot, robot.name),
        lambda record: ("serial number", record.serial_number, serial_number(robot)),
        lambda record: ("tendons", [motor.tendon for motor in record.motors], list(robot.tendon_names)),
    )
    per_turn = spooled_per_turn_m(robot)
    if not np.allclose(record.m_per_turn, per_turn, rtol=1e-6):
        raise DeviceError(
            robot.name,
            f"has a table of cogging for other spools or gears ({record.m_per_turn.tolist()} m a turn, now"
            f" {per_turn.tolist()})",
            CALIBRATE_FIRST,
        )
    if not record.angle_known:
        raise DeviceError(
            robot.name, "has a table of cogging from before its motors were aligned again", CALIBRATE_FIRST
        )
    return record


def forget_angles(robot: Robot, folder: Path | None = None) -> bool:
    """Note in the stored table, if there is one, that the motors count from another zero now; whether there was one."""
    path = cogging_path(robot, folder)
    try:
        record = load_cogging(robot, path)
    except DeviceError:
        return False
    dataclasses.replace(record, angle_known=False).store(path)
    return True
