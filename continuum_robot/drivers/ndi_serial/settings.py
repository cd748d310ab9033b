# SPDX-License-Identifier: Apache-2.0
"""The tracker's section of a robot file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from continuum_robot.robot.doors import TRACKERS
from continuum_robot.robot.schema import quantity, refuse

DOOR = TRACKERS
NDI_SERIAL = "ndi_serial"
NDI_BAUD_CODES = {9600: 0, 19200: 2, 38400: 3, 57600: 4, 115200: 5}
"""What the command COMM calls a baud rate, bit/s. The library ndicapi sets no other rate of a port under Linux."""
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)
_UNIT = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class NdiSerial:
    """An NDI Polaris or Aurora on a serial port, and a tool at the tip."""

    kind: str = quantity("ndi_serial", choices=(NDI_SERIAL,))
    port: str = quantity("serial port, e.g. /dev/continuum_robot_tracker", filled=True)
    baud_bps: int = quantity("baud rate", default=115200, ge=9600, le=115200)
    tool_file: str = quantity(
        "definition file (.rom) of a tool without a wire; empty: the first tool that is plugged in", default=""
    )
    base_position_m: tuple[float, ...] = quantity(
        "where the robot's base is in the tracker's frame", default=(0.0, 0.0, 0.0), length=3, ge=-10, le=10
    )
    base_quaternion: tuple[float, ...] = quantity(
        "how the robot's base is turned there: w, x, y, z", default=_UPRIGHT, length=4, ge=-1, le=1
    )
    tip_position_m: tuple[float, ...] = quantity(
        "where the robot's tip is in the tool's frame", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    tip_quaternion: tuple[float, ...] = quantity(
        "how the robot's tip is turned there: w, x, y, z", default=_UPRIGHT, length=4, ge=-1, le=1
    )
    frame_hz: float = quantity(
        "frames a second that the tracker counts: 60 for a Polaris, 40 for an Aurora", default=60.0, ge=5, le=1000
    )
    latency_s: float = quantity("age of a pose when it can be read at the earliest", default=0.02, ge=0, le=0.5)
    sigma_m: float = quantity("standard deviation of a position in each axis", default=2.5e-4, gt=0, le=0.1)
    sigma_rad: float = quantity("standard deviation of a turn about each axis", default=1e-2, gt=0, le=1)

    def __post_init__(self) -> None:
        if self.baud_bps not in NDI_BAUD_CODES:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, NDI_BAUD_CODES)))
        for key in ("base_quaternion", "tip_quaternion"):
            if abs(math.hypot(*getattr(self, key)) - 1) > _UNIT:
                raise refuse(key, getattr(self, key), "four numbers whose squares add up to 1")
