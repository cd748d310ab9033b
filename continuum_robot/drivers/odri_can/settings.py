# SPDX-License-Identifier: Apache-2.0
"""The motor boards' section of a robot file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from continuum_robot.robot.doors import TENDON_ACTUATORS
from continuum_robot.robot.hardware import Motor, check_channels, check_motors
from continuum_robot.robot.schema import quantity

DOOR = TENDON_ACTUATORS
ODRI_CAN = "odri_can"
FULL_SCALE_A = 24.0
"""Largest current that a board measures, A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OdriMotor(Motor):
    """A motor on one of the CAN boards, and the tendon that it pulls."""

    channel: str = quantity("CAN channel of its board, one of channels", filled=True)
    motor: int = quantity("which of the board's two motors, 1 or 2", ge=1, le=2)
    gear_ratio: float | None = quantity(
        "turns of the motor for a turn of the spool: count the teeth; none: that of actuators",
        default=None,
        gt=0,
        le=1000,
    )

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
    maximum_current_a: float | None = quantity(
        "clamp on every current that is sent: the firmware has none, and its reading wraps at 24 A; none: that of"
        " actuators",
        default=None,
        gt=0,
        lt=FULL_SCALE_A,
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
    motors: tuple[OdriMotor, ...] = quantity(
        "every motor and the tendon that it pulls; left out, where this is the only section: two a channel, in the"
        " order of the tendons"
    )

    @staticmethod
    def usual_motors(section: Mapping[str, Any], tendon_count: int) -> list[dict[str, Any]]:
        """Entries of ``motors`` where the file has none: two a channel, in the order of the tendons."""
        places = [(channel, motor) for channel in section.get("channels", ()) for motor in (1, 2)]
        return [
            {"channel": channel, "motor": motor, "tendon": tendon}
            for tendon, (channel, motor) in enumerate(places[:tendon_count], 1)
        ]

    @classmethod
    def assumed(cls, count: int, name: str, largest_a: float, timeout_ms: int) -> OdriCan:
        """Boards for motors that are simulated and that no file names."""
        channels = tuple(f"can{index}" for index in range(-(-count // 2)))
        entries = cls.usual_motors({"channels": channels}, count)
        return cls(
            kind=ODRI_CAN,
            channels=channels,
            maximum_current_a=min(largest_a, 0.99 * FULL_SCALE_A),
            current_mismatch_a=0.05 * min(largest_a, FULL_SCALE_A),
            receive_timeout_ms=min(1000, max(5, timeout_ms)),
            motors=tuple(OdriMotor(**{name: entry.pop("tendon"), **entry}) for entry in entries),
        )

    def __post_init__(self) -> None:
        check_channels(self.channels)
        check_motors(self.channels, [(entry.channel, entry.motor) for entry in self.motors], "motor")
