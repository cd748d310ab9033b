# SPDX-License-Identifier: Apache-2.0
"""Which devices a robot has and how they are wired: motors to tendons, encoders to strings, ports and channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.doors import (
    FORCE_SENSORS,
    STRING_ENCODERS,
    TENDON_ACTUATORS,
    TENSION_SENSORS,
    TRACKERS,
)
from continuum_robot.robot.schema import quantity, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Motor:
    """A motor and the tendon that it pulls; kinds of motors add where it is connected."""

    tendon: int = quantity("number of the tendon that it pulls, from 1, in tendon order", ge=1, le=640)
    polarity: int = quantity("+1: a positive current pulls the tendon in, -1: it lets it out", default=1, ge=-1, le=1)
    gear_ratio: float | None = quantity(
        "turns of the motor, or of the servo's horn, for a turn of the spool", default=1.0, gt=0, le=1000
    )
    spool_radius_m: float | None = quantity(
        "radius at which the tendon winds, with half its thickness; none: that of actuators", default=None, gt=0, le=0.2
    )
    torque_constant_nm_per_a: float | None = quantity(
        "torque of the motor, or of the servo's horn, per current, as calibrated; none: that of actuators",
        default=None,
        gt=0,
        le=10,
    )

    def __post_init__(self) -> None:
        check_polarity(self.polarity)

    def newton_per_ampere(self, actuators: Actuators) -> float:
        """Tendon tension for the size of a motor current, N/A; ``actuators`` has what is not stated here."""
        torque_constant = self.torque_constant_nm_per_a or actuators.torque_constant_nm_per_a
        return torque_constant * self._ratio(actuators) / (self.spool_radius_m or actuators.spool_radius_m)

    def meter_per_turn(self, actuators: Actuators) -> float:
        """Tendon that is pulled in by a turn of the motor in its pulling direction, m."""
        return 2 * math.pi * (self.spool_radius_m or actuators.spool_radius_m) / self._ratio(actuators)

    def _ratio(self, actuators: Actuators) -> float:
        return self.gear_ratio or actuators.gear_ratio


class Section(Protocol):
    """What the section of any device has: a dataclass in the settings.py of the device's folder, or of its package."""

    @property
    def kind(self) -> str:
        """Name of the kind: that of the folder, or of the entry point."""


class MotorsSection(Section, Protocol):
    """What the section of any kind of motors has.

    A kind may also have ``current_unit_a`` (current of a count, A), ``current_error_fraction`` (how far a measured
    current may be off, of the largest), ``velocity_unit_rev_per_s`` (speed of a count) and ``cycle_s`` (how long a
    command and the state of all motors take on their bus).
    """

    @property
    def receive_timeout_ms(self) -> int:
        """Time without a command after which the motors let go by themselves, or stop where they are, ms."""

    @property
    def motors(self) -> Sequence[Motor]:
        """Every motor."""


class NamedString(Protocol):
    """The entry of a string in the section of string encoders."""

    @property
    def string(self) -> str:
        """Its name, as in ``strings``."""


class StringsSection(Section, Protocol):
    """What the section of any kind of string encoders has."""

    @property
    def strings(self) -> Sequence[NamedString]:
        """Every string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The devices of a real robot. Those of ``--simulation-level wire`` are wired in the same way."""

    serial_number: str = quantity("of this robot, kept in its calibration files", filled=True)
    tendon_actuators: MotorsSection = quantity("the motors that pull the tendons, by kind", door=TENDON_ACTUATORS)
    string_encoders: StringsSection | None = quantity(
        "the string encoders, by kind", default=None, door=STRING_ENCODERS
    )
    tension_sensors: Section | None = quantity(
        "sensors of the tendons' tensions, by kind, for motors that take displacements",
        default=None,
        door=TENSION_SENSORS,
    )
    force_sensor: Section | None = quantity("a force-torque sensor, by kind", default=None, door=FORCE_SENSORS)
    tracker: Section | None = quantity("a tracker of the tip, by kind", default=None, door=TRACKERS)

    def check_tendons(self, tendon_count: int) -> None:
        """Refuse a motor mapped twice and a tendon without a motor, for a robot of ``tendon_count`` tendons.

        Raises
        ------
        RobotFileError : names the tendon, with the key in the robot file
        """
        pulled = [entry.tendon for entry in self.tendon_actuators.motors]
        for index, tendon in enumerate(pulled):
            key = f"hardware.tendon_actuators.motors[{index}].tendon"
            if tendon > tendon_count:
                raise refuse(key, tendon, f"1 to {tendon_count}, the robot's tendons")
            if tendon in pulled[:index]:
                raise refuse(key, tendon, f"a tendon of its own: motors[{pulled.index(tendon)}] pulls tendon {tendon}")
        missing = [str(tendon) for tendon in range(1, tendon_count + 1) if tendon not in pulled]
        if missing:
            raise refuse(
                "hardware.tendon_actuators.motors", len(pulled), f"a motor for tendon {', '.join(missing)} too"
            )

    def check_strings(self, names: Sequence[str]) -> None:
        """Refuse strings that the robot does not have or that no counter reads.

        Raises
        ------
        RobotFileError : names the string, with the key in the robot file
        """
        if self.string_encoders is None:
            return
        read = [entry.string for entry in self.string_encoders.strings]
        for index, name in enumerate(read):
            key = f"hardware.string_encoders.strings[{index}].string"
            if name not in names:
                raise refuse(key, name, f"one of the robot's strings: {', '.join(names) or 'it has none'}")
            if name in read[:index]:
                raise refuse(key, name, f"each string once: strings[{read.index(name)}] reads it")
        missing = [name for name in names if name not in read]
        if missing:
            raise refuse("hardware.string_encoders.strings", read, f"a counter for {', '.join(missing)} too")


def check_polarity(polarity: int) -> None:
    """Refuse a polarity that is neither +1 nor -1. Raises :class:`RobotFileError`."""
    if polarity == 0:
        raise refuse("polarity", polarity, "+1 or -1")


def check_channels(channels: Sequence[str]) -> None:
    """Refuse no channel at all, and a channel that stands twice. Raises :class:`RobotFileError`.

    Parameters
    ----------
    channels : names of CAN interfaces or serial ports
    """
    if not channels or len(set(channels)) != len(channels):
        raise refuse("channels", list(channels), "at least one channel, each once")


def check_motors(channels: Sequence[str], places: Sequence[tuple[str, int]], name: str) -> None:
    """Refuse motors on an unknown channel, and two entries for one motor.

    Parameters
    ----------
    channels : of the section
    places : channel and number of each motor
    name : key of the number

    Raises
    ------
    RobotFileError : names both entries
    """
    for index, (channel, number) in enumerate(places):
        if channel not in channels:
            raise refuse(f"motors[{index}].channel", channel, f"one of channels: {', '.join(channels)}")
        if (channel, number) in places[:index]:
            first = places.index((channel, number))
            raise refuse(
                f"motors[{index}].{name}",
                number,
                f"each motor once: motors[{first}] is {name} {number} of {channel} too",
            )
