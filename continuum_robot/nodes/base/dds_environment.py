# SPDX-License-Identifier: Apache-2.0
"""How DDS of this package's processes talks: on this machine unless the user opens it, and without shared memory.

ROS 2's own way, ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, looks for others on the loopback only, but rmw_fastrtps still
binds its UDP ports to all addresses. A profile of ours asks for the same and binds them to the loopback.

In shared memory a process that is killed leaves ports behind. Who sends to one waits up to a second for its reader, and
holds the interpreter lock meanwhile, since rclpy publishes so: a cycle in Python stands still, and an e-stop is not
heard. And a process that is started again takes the port's number while others still write to the dead one. UDP has
neither.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

import rclpy

from continuum_robot.errors import ParameterError
from continuum_robot.robot.file.shipped_files import shipped_file

_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
_TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"


def set_dds_environment(environment: MutableMapping[str, str]) -> None:
    """Set what keeps DDS on the loopback and out of shared memory; what the user set in another way stays."""
    if _PROFILES not in environment:
        environment.setdefault(_TRANSPORTS, "UDPv4")
    _keep_to_loopback(environment)


def _keep_to_loopback(environment: MutableMapping[str, str]) -> None:
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
