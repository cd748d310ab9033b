# SPDX-License-Identifier: Apache-2.0
"""Which devices a robot has and how they are wired: motors to tendons, encoders to strings, ports and channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.doors import (
    FORCE_SENSORS,
    STRING_ENCODERS,
    TENDON_ACTUATORS,
    TENSION_SENSORS,
    TRACKERS,
)
from continuum_robot.robot.schema import quantity, refuse, refuse_repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Motor:
    """A motor and the tendon that it pulls; kinds of motors add where it is connected."""

    tendon: int | None = quantity(
        "number of the tendon that it pulls, from 1, in tendon order; none with transmission",
        default=None,
        ge=1,
        le=640,
    )
    column: int | None = quantity("with transmission, its column in the matrix, from 1", default=None, ge=1, le=640)
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

    @property
    def number(self) -> int:
        """Of its tendon, or its column in a transmission, from 1; 0 where the entry states none."""
        return self.column or self.tendon or 0

    def newton_per_ampere(self, actuators: Actuators) -> float:
        """Tendon tension for the size of a motor current, N/A; ``actuators``, of its tendon, has what is not here."""
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


class MotorSections(tuple[MotorsSection, ...]):
    """Sections of motors of different kinds, or at different ports, as the one of all motors."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kinds, in their order."""
        return ", ".join(section.kind for section in self)

    @property
    def receive_timeout_ms(self) -> int:
        """Time without a command after which the last ones let go, ms."""
        return max(section.receive_timeout_ms for section in self)

    @property
    def motors(self) -> Sequence[Motor]:
        """Every motor, in the order of the sections."""
        return [entry for section in self for entry in section.motors]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The devices of a real robot. Those of ``--simulation-level wire`` are wired in the same way."""

    serial_number: str = quantity("of this robot, kept in its calibration files", filled=True)
    tendon_actuators: MotorsSection = quantity(
        "the motors that pull the tendons, by kind; a list of such sections where motors differ in kind or port",
        door=TENDON_ACTUATORS,
        several=MotorSections,
    )
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
    base_stage: MotorsSection | None = quantity(
        "the motors of the base stage, a kind of tendon_actuators: tendon 1 is its first axis, 2 the other",
        default=None,
        door=TENDON_ACTUATORS,
    )

    def __post_init__(self) -> None:
        sections, taken = self.motor_sections, dict[str, str]()
        if not sections:
            raise refuse("tendon_actuators", [], "at least one section")
        for key, section in sections.items():
            place = key.removeprefix("hardware.")
            if not section.motors and len(sections) > 1:
                raise refuse(f"{place}.motors", [], "at least one motor")
            for port in ports_of(section) if len(sections) > 1 else ():
                if port in taken:
                    name = "port" if hasattr(section, "port") else "channels"
                    expected = f"a port of its own: only one driver can open it, and {taken[port]} has it"
                    raise refuse(f"{place}.{name}", port, expected)
            taken |= dict.fromkeys(ports_of(section), place)

    @property
    def motor_sections(self) -> dict[str, MotorsSection]:
        """The sections of the motors that pull the tendons, by their keys in the robot file."""
        key, given = "hardware.tendon_actuators", self.tendon_actuators
        if isinstance(given, MotorSections):
            return {f"{key}[{index}]": section for index, section in enumerate(given)}
        return {key: given}

    @property
    def motors(self) -> dict[str, Motor]:
        """Their motors, by their keys in the robot file."""
        return {
            f"{key}.motors[{index}]": entry
            for key, section in self.motor_sections.items()
            for index, entry in enumerate(section.motors)
        }

    def check_motors(self, motor_count: int, *, transmission: bool) -> None:
        """Refuse a motor mapped twice and a tendon, or a column of a transmission, without a motor."""
        name, other = ("column", "tendon") if transmission else ("tendon", "column")
        given: dict[int, str] = {}
        for key, entry in self.motors.items():
            number = getattr(entry, name)
            if getattr(entry, other) is not None:
                expected = f"none, but {name}: the robot file has {'a' if transmission else 'no'} transmission"
                raise refuse(f"{key}.{other}", getattr(entry, other), expected)
            if number is None or number > motor_count:
                whose = "the columns of transmission.matrix" if transmission else "the robot's tendons"
                raise refuse(f"{key}.{name}", number, f"1 to {motor_count}, {whose}")
            if number in given:
                pulls = "has column" if transmission else "pulls tendon"
                expected = f"a {name} of its own: {given[number]} {pulls} {number}"
                raise refuse(f"{key}.{name}", number, expected)
            given[number] = key.removeprefix("hardware.").removeprefix("tendon_actuators.")
        missing = [str(number) for number in range(1, motor_count + 1) if number not in given]
        if missing:
            expected = f"a motor for {name} {', '.join(missing)} too"
            raise refuse(" or ".join(f"{key}.motors" for key in self.motor_sections), len(given), expected)

    def check_strings(self, names: Sequence[str]) -> None:
        """Refuse strings that the robot does not have or that no counter reads."""
        if self.string_encoders is None:
            return
        read = [entry.string for entry in self.string_encoders.strings]
        for index, name in enumerate(read):
            if name not in names:
                key = f"hardware.string_encoders.strings[{index}].string"
                raise refuse(key, name, f"one of the robot's strings: {', '.join(names) or 'it has none'}")
        key = "hardware.string_encoders.strings[{}].string"
        refuse_repeated(read, key, "each string once: strings[{}] reads it")
        missing = [name for name in names if name not in read]
        if missing:
            raise refuse("hardware.string_encoders.strings", read, f"a counter for {', '.join(missing)} too")


def ports_of(section: Any) -> list[str]:
    """Ports and channels of a section of any kind, and of the entries in it that have a port of their own."""
    ports = (getattr(one, "port", "") for one in (section, *getattr(section, "cells", ())))
    return [*getattr(section, "channels", ()), *filter(None, ports)]


def check_polarity(polarity: int) -> None:
    """Refuse a polarity that is neither +1 nor -1. Raises :class:`RobotFileError`."""
    if polarity == 0:
        raise refuse("polarity", polarity, "+1 or -1")


def check_channels(channels: Sequence[str]) -> None:
    """Refuse no channel at all, and a channel that stands twice. Raises :class:`RobotFileError`."""
    if not channels or len(set(channels)) != len(channels):
        raise refuse("channels", list(channels), "at least one channel, each once")


def check_motors(channels: Sequence[str], places: Sequence[tuple[str, int]], name: str) -> None:
    """Refuse motors on an unknown channel, and two entries for one motor."""
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
