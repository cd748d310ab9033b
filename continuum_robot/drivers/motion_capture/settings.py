# SPDX-License-Identifier: Apache-2.0
"""The section of a motion capture system in a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.mounted_tracker import MountedTracker
from continuum_robot.robot.doors import TRACKERS
from continuum_robot.robot.schema import quantity, refuse

DOOR = TRACKERS
MOTION_CAPTURE = "motion_capture"
SYSTEMS = ("vicon", "optitrack", "optitrack_closed_source", "qualisys", "vrpn", "nokov", "motionanalysis", "mock")


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionCapture(MountedTracker):
    """A motion capture system and its rigid bodies at the tip and, where the base moves, on the base."""

    kind: str = quantity("motion_capture", choices=(MOTION_CAPTURE,))
    system: str = quantity("whose; mock: the library's own, without bodies", choices=SYSTEMS)
    hostname: str = quantity("address of the computer that streams", filled=True)
    tip_body: str = quantity("name of the rigid body at the tip, as the system has it", filled=True)
    base_body: str = quantity(
        "name of the rigid body on the base; base_position_m and base_quaternion are in its frame then. Empty: none",
        default="",
    )

    def __post_init__(self) -> None:
        MountedTracker.__post_init__(self)
        if self.base_body == self.tip_body:
            raise refuse("base_body", self.base_body, "another body than tip_body")
