# SPDX-License-Identifier: Apache-2.0
"""Keeps DDS on this machine, unless the user opens it to the network.

ROS 2's own way, ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, looks for others on the loopback only, but rmw_fastrtps still
binds its UDP ports to all addresses. A profile of ours asks for the same and binds them to the loopback.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

import rclpy

from continuum_robot.errors import ParameterError
from continuum_robot.robot.shipped_files import shipped_file

_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"


def keep_to_loopback(environment: MutableMapping[str, str]) -> None:
    """Set what keeps DDS on the loopback; what the user set in another way stays.

    Parameters
    ----------
    environment : of this process or of one that it will start, changed; before DDS is joined
    """
    if "ROS_LOCALHOST_ONLY" in environment:
        return
    if environment.setdefault(_RANGE, "LOCALHOST") != "LOCALHOST" or environment.get("ROS_STATIC_PEERS"):
        return
    if not _reads_profiles():
        return
    try:
        profile = str(shipped_file("dds/loopback.xml"))
    except ParameterError:
        return  # LOCALHOST is what remains
    if environment.setdefault(_PROFILES, profile) == profile:
        # With LOCALHOST, rmw_fastrtps would add its own transports to those of the profile.
        environment[_RANGE] = "SYSTEM_DEFAULT"


def _reads_profiles() -> bool:
    """Whether the middleware is a Fast DDS that reads the variable; releases before 3 are another library, and do not.

    One that did not read it would be open to the network.
    """
    if not rclpy.get_rmw_implementation_identifier().startswith("rmw_fastrtps"):  # this loads it
        return False
    try:
        return "/libfastdds." in Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return False
