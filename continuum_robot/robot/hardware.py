# SPDX-License-Identifier: Apache-2.0
"""Which devices a robot has and how they are wired: motors to tendons, encoders to strings, ports and channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.doors import FORCE_SENSORS, STRING_ENCODERS, TENDON_ACTUATORS, TRACKERS
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.tracker import NdiSerial

ODRI_CAN = "odri_can"
DYNAMIXEL = "dynamixel"
STRING_ENCODER_SERIAL = "string_encoder_serial"
ROKUBI_SERIAL = "rokubi_serial"

DYNAMIXEL_BAUDS_BPS = (57600, 115200, 1_000_000, 2_000_000, 3_000_000, 4_000_000)
ENCODER_TRANSPORTS = ("serial", "udp")
ROKUBI_BASE_RATE_HZ = 51200
ROKUBI_FRAME_BITS = 37 * 10
ROKUBI_BAUDS_BPS = (9600, 57600, 115200, 230400, 460800)


@dataclass(frozen=True, slots=True, kw_only=True)
class Motor:
    """A motor and the tendon that it pulls; kinds of motors add where it is connected."""

    tendon: int = quantity("number of the tendon that it pulls, from 1, in tendon order", ge=1, le=640)
    polarity: int = quantity("+1: a positive current pulls the tendon in, -1: it lets it out", default=1, ge=-1, le=1)
    gear_ratio: float = quantity(
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
        return torque_constant * self.gear_ratio / (self.spool_radius_m or actuators.spool_radius_m)

    def meter_per_turn(self, actuators: Actuators) -> float:
        """Tendon that is pulled in by a turn of the motor in its pulling direction, m."""
        return 2 * math.pi * (self.spool_radius_m or actuators.spool_radius_m) / self.gear_ratio


class MotorsSection(Protocol):
    """What the section of any kind of motors has."""

    @property
    def kind(self) -> str:
        """Name of the kind."""

    @property
    def receive_timeout_ms(self) -> int:
        """Time without a command after which the motors let go by themselves, ms."""

    @property
    def maximum_current_a(self) -> float:
        """Clamp on every current that is sent, A."""

    @property
    def motors(self) -> Sequence[Motor]:
        """Every motor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OdriMotor(Motor):
    """A motor on one of the CAN boards, and the tendon that it pulls."""

    channel: str = quantity("CAN channel of its board, one of channels", filled=True)
    motor: int = quantity("which of the board's two motors, 1 or 2", ge=1, le=2)
    gear_ratio: float = quantity("turns of the motor for a turn of the spool: count the teeth", gt=0, le=1000)

    @property
    def place(self) -> tuple[str, int]:
        """Where it is connected: channel, and motor of the board."""
        return self.channel, self.motor


@dataclass(frozen=True, slots=True, kw_only=True)
class OdriCan:
    """Dual-motor boards with the ODRI CAN firmware. A board has no address: one board a channel, two motors a board."""

    kind: str = quantity("odri_can", choices=(ODRI_CAN,))
    interface: str = quantity(
        "python-can interface: socketcan, slcan, pcan, kvaser, ...", default="socketcan", filled=True
    )
    channels: tuple[str, ...] = quantity("CAN channels, e.g. can0, or a serial port for slcan")
    bitrate_bps: int = quantity("bit rate of the bus; the firmware's is fixed", default=1_000_000, ge=1e4, le=1e6)
    receive_timeout_ms: int = quantity(
        "time without a current reference after which a board switches its motors off by itself",
        default=150,
        ge=5,
        le=1000,
    )
    silent_after_s: float = quantity(
        "age of the newest frames, a thousand a second, from which a board counts as silent",
        default=0.03,
        ge=0.005,
        le=1,
    )
    maximum_current_a: float = quantity(
        "clamp on every current that is sent: the firmware has none, and its reading wraps at 24 A", gt=0, lt=24
    )
    current_mismatch_a: float = quantity(
        "largest difference of commanded and measured current", default=0.15, gt=0, lt=24
    )
    current_mismatch_time_s: float = quantity("how long they must differ without a break", default=0.02, ge=0, le=10)
    alignment_timeout_s: float = quantity(
        "longest time from enable to ready: alignment of the rotors and a second for the status frame",
        default=15.0,
        ge=1,
        le=120,
    )
    motors: tuple[OdriMotor, ...] = quantity("every motor and the tendon that it pulls")

    def __post_init__(self) -> None:
        check_channels(self.channels)
        check_motors(self.channels, [(entry.channel, entry.motor) for entry in self.motors], "motor")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamixelMotor(Motor):
    """A servo on the bus, and the tendon that its spool pulls."""

    id: int = quantity("number of the servo on the bus", ge=0, le=252)

    @property
    def place(self) -> tuple[str, int]:
        """Where it is connected: "" for the only bus, and its number there."""
        return "", self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamixel:
    """Dynamixel servos of the X series with current control, on one serial bus with protocol 2."""

    kind: str = quantity("dynamixel", choices=(DYNAMIXEL,))
    port: str = quantity("serial port of the adapter, e.g. /dev/continuum_robot_servos", filled=True)
    baud_bps: int = quantity(
        "baud rate of port and servos: 57600, 115200 or 1 to 4 million", default=1_000_000, ge=57600, le=4_000_000
    )
    receive_timeout_ms: int = quantity(
        "time without a packet after which a servo stops by itself, rounded up to 20 ms; without a command the driver"
        " lets go by then",
        default=160,
        ge=20,
        le=2540,
    )
    maximum_current_a: float = quantity("clamp on every current that is sent", gt=0, le=20)
    current_unit_a: float = quantity(
        "current of a count: 0.00269 for XM430 and XH430, 0.001 for XC330 and XL330", default=0.00269, gt=0, le=0.1
    )
    motors: tuple[DynamixelMotor, ...] = quantity("every servo and the tendon that it pulls")

    @property
    def current_error_fraction(self) -> float:
        """How far the servos' measured current may be off, as a fraction of the largest: it is not calibrated."""
        return 0.2

    def __post_init__(self) -> None:
        if self.baud_bps not in DYNAMIXEL_BAUDS_BPS:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, DYNAMIXEL_BAUDS_BPS)))
        check_motors((self.port,), [(self.port, entry.id) for entry in self.motors], "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderString:
    """A counter of the string-encoder board and the string that turns it."""

    string: str = quantity("name of the string, as in strings", filled=True)
    channel: int = quantity("counter of the board, 0 to 3", ge=0, le=3)
    pulley_radius_m: float = quantity("radius at which the string winds", gt=0, le=0.5)
    polarity: int = quantity(
        "+1: counts rise when the string leaves the robot's body, -1: fall", default=1, ge=-1, le=1
    )

    def __post_init__(self) -> None:
        check_polarity(self.polarity)


@dataclass(frozen=True, slots=True, kw_only=True)
class StringEncoderSerial:
    """The string-encoder board (firmware in hardware/string_encoder) on a serial port or UDP."""

    kind: str = quantity("string_encoder_serial", choices=(STRING_ENCODER_SERIAL,))
    port: str = quantity(
        "serial port, e.g. /dev/continuum_robot_strings; with udp: ADDRESS:PORT to listen on", filled=True
    )
    baud_bps: int = quantity("baud rate; a board with USB of its own ignores it", default=1_000_000, ge=9600, le=12e6)
    transport: str = quantity("how the frames come", default="serial", choices=ENCODER_TRANSPORTS)
    counts_per_turn: int = quantity("counts of a turn of an encoder; 12 bits: 4096", default=4096, ge=4, le=2**24)
    strings: tuple[EncoderString, ...] = quantity("every string and its counter")

    def __post_init__(self) -> None:
        used = [entry.channel for entry in self.strings]
        for index, channel in enumerate(used):
            if channel in used[:index]:
                raise refuse(
                    f"strings[{index}].channel", channel, f"a counter of its own: strings[{used.index(channel)}] has it"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class RokubiSerial:
    """A Bota Rokubi force-torque sensor on a serial port (RS422 or USB)."""

    kind: str = quantity("rokubi_serial", choices=(ROKUBI_SERIAL,))
    port: str = quantity("serial port, e.g. /dev/continuum_robot_force", filled=True)
    baud_bps: int = quantity("baud rate: 9600, 57600, 115200, 230400 or 460800", default=460800, ge=9600, le=460800)
    sinc: int = quantity(
        "length of the sensor's filter: it sends 51200/sinc frames a second", default=256, ge=64, le=512
    )
    frame_id: str = quantity("tf frame of the sensor", default="force_sensor", filled=True)

    def __post_init__(self) -> None:
        if self.baud_bps not in ROKUBI_BAUDS_BPS:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, ROKUBI_BAUDS_BPS)))
        if self.rate_hz * ROKUBI_FRAME_BITS > self.baud_bps:
            raise refuse(
                "sinc",
                self.sinc,
                f"at least {-(-ROKUBI_BASE_RATE_HZ * ROKUBI_FRAME_BITS // self.baud_bps)}, "
                f"whose frames fit {self.baud_bps} bit/s",
            )

    @property
    def rate_hz(self) -> float:
        """Frames a second, Hz."""
        return ROKUBI_BASE_RATE_HZ / self.sinc


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The devices of a real robot. Those of ``--simulation-level wire`` are wired in the same way."""

    serial_number: str = quantity("of this robot, kept in its calibration files", filled=True)
    tendon_actuators: OdriCan | Dynamixel = quantity("the motors that pull the tendons, by kind", door=TENDON_ACTUATORS)
    string_encoders: StringEncoderSerial | None = quantity(
        "the string encoders, by kind", default=None, door=STRING_ENCODERS
    )
    force_sensor: RokubiSerial | None = quantity("a force-torque sensor, by kind", default=None, door=FORCE_SENSORS)
    tracker: NdiSerial | None = quantity("a tracker of the tip, by kind", default=None, door=TRACKERS)

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
