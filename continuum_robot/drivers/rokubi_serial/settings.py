# SPDX-License-Identifier: Apache-2.0
"""The force sensor's section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.doors import FORCE_SENSORS
from continuum_robot.robot.schema import quantity, refuse

DOOR = FORCE_SENSORS
ROKUBI_SERIAL = "rokubi_serial"
BASE_RATE_HZ = 51200
FRAME_BYTES = 37
_FRAME_BITS = 10 * FRAME_BYTES
BAUD_RATES_BPS = (9600, 57600, 115200, 230400, 460800)
"""Positions in this tuple are the sensor's codes."""


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
        if self.baud_bps not in BAUD_RATES_BPS:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, BAUD_RATES_BPS)))
        if self.rate_hz * _FRAME_BITS > self.baud_bps:
            raise refuse(
                "sinc",
                self.sinc,
                f"at least {-(-BASE_RATE_HZ * _FRAME_BITS // self.baud_bps)}, "
                f"whose frames fit {self.baud_bps} bit/s",
            )

    @property
    def rate_hz(self) -> float:
        """Frames a second, Hz."""
        return BASE_RATE_HZ / self.sinc
