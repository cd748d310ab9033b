# SPDX-License-Identifier: Apache-2.0
"""The force sensor's section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.doors import FORCE_SENSORS
from continuum_robot.robot.schema import quantity, refuse

DOOR = FORCE_SENSORS
ROKUBI_SERIAL = "rokubi_serial"
ROKUBI_BASE_RATE_HZ = 51200
ROKUBI_FRAME_BITS = 37 * 10
ROKUBI_BAUDS_BPS = (9600, 57600, 115200, 230400, 460800)


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
