# SPDX-License-Identifier: Apache-2.0
"""The string-encoder board's section of a robot file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from continuum_robot.robot.doors import STRING_ENCODERS
from continuum_robot.robot.hardware import check_polarity
from continuum_robot.robot.schema import quantity, refuse_repeated

DOOR = STRING_ENCODERS
STRING_ENCODER_SERIAL = "string_encoder_serial"
ENCODER_TRANSPORTS = ("serial", "udp")


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
    strings: tuple[EncoderString, ...] = quantity(
        "every string and its counter; name or counter left out: in the order of strings"
    )

    @staticmethod
    def usual_strings(names: Sequence[str]) -> list[dict[str, Any]]:
        """What entries of ``strings`` have where the file does not say it: the counters in the order of the strings."""
        return [{"string": name, "channel": channel} for channel, name in enumerate(names)]

    def __post_init__(self) -> None:
        used = [entry.channel for entry in self.strings]
        refuse_repeated(used, "strings[{}].channel", "a counter of its own: strings[{}] has it")
