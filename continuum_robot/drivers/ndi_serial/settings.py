# SPDX-License-Identifier: Apache-2.0
"""The tracker's section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.mounted_tracker import MountedTracker
from continuum_robot.robot.doors import TRACKERS
from continuum_robot.robot.schema import quantity, refuse

DOOR = TRACKERS
NDI_SERIAL = "ndi_serial"
NDI_BAUD_CODES = {9600: 0, 19200: 2, 38400: 3, 57600: 4, 115200: 5}
"""What the command COMM calls a baud rate, bit/s. The library ndicapi sets no other rate of a port under Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NdiSerial(MountedTracker):
    """An NDI Polaris or Aurora on a serial port or a network, and a tool at the tip."""

    kind: str = quantity("ndi_serial", choices=(NDI_SERIAL,))
    port: str = quantity("serial port, e.g. /dev/continuum_robot_tracker; of a Polaris Vega ADDRESS:8765", filled=True)
    baud_bps: int = quantity("baud rate of a serial port", default=115200, ge=9600, le=115200)
    tool_file: str = quantity(
        "definition file (.rom) of a tool without a wire; empty: the first tool that is plugged in", default=""
    )
    frame_hz: float = quantity(
        "frames a second that the tracker counts: 60 for a Polaris, 40 for an Aurora", default=60.0, ge=5, le=1000
    )

    def __post_init__(self) -> None:
        if self.baud_bps not in NDI_BAUD_CODES:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, NDI_BAUD_CODES)))
        MountedTracker.__post_init__(self)
