# SPDX-License-Identifier: Apache-2.0
"""Participants of DDS: they stay on the loopback, hear others that do, and leave when they are closed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import Probe
from std_msgs.msg import String

from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.nodes.base import dds_environment
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics import qos

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

LOOPBACK = "0100007F"

# A program that knows nothing of this package.
STRANGER = """
import time, rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("stranger")
publisher = node.create_publisher(String, "greeting", 10)
while True:
    publisher.publish(String(data="hello"))
    time.sleep(0.05)
"""


def bound_addresses() -> list[tuple[str, str]]:
    """Address and port of every UDP socket of this process, in hexadecimal."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            own.add(os.readlink(descriptor))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/udp").read_text(encoding="utf-8").splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/udp6").read_text(encoding="utf-8").splitlines()[1:]]
    return sorted(tuple(row[1].split(":")) for row in rows if f"socket:[{row[9]}]" in own)


def test_every_port_is_bound_to_the_loopback_alone() -> None:
    with Probe():
        addresses = bound_addresses()
    assert addresses
    assert {address for address, _ in addresses} == {LOOPBACK}


def test_nothing_is_in_shared_memory() -> None:
    """A sender would wait for readers there that were killed."""
    with Probe() as probe:
        probe.listen(String, "greeting", qos.every_state())
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert "fastdds_" not in mapped


def test_one_that_keeps_to_the_loopback_in_another_way_is_heard() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTDDS")}
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    with subprocess.Popen([sys.executable, "-c", STRANGER], env=environment) as stranger, Probe() as probe:
        try:
            probe.listen(String, "greeting", qos.every_state())
            assert probe.wait_for_message("greeting", 30.0).data == "hello"
        finally:
            stranger.kill()


def test_those_that_were_closed_leave_nothing_behind() -> None:
    with Probe():
        pass
    gc.collect()
    before = bound_addresses()
    for _ in range(4):
        with Probe() as probe:
            probe.listen(String, "greeting")
    del probe
    gc.collect()
    assert bound_addresses() == before


def test_nodes_that_were_destroyed_leave_without_the_garbage_collector() -> None:
    """Others would see them, and wait for services that answer nobody."""
    options = StackOptions(robot="opencr_five_tendon", clock="lockstep", run_s=1e-3, visualize=False)
    before = bound_addresses()
    gc.collect()
    gc.disable()
    try:
        with ComposedStack(options) as stack:
            stack.wait_until_up(120.0)
        assert bound_addresses() == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "given",
    [
        {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"},
        {"ROS_LOCALHOST_ONLY": "1"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": "192.0.2.7"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "FASTDDS_DEFAULT_PROFILES_FILE": "mine.xml"},
    ],
)
def test_what_the_user_set_stays(given: dict[str, str]) -> None:
    environment = dict(given)
    dds_environment.set_dds_environment(environment)
    profile = "FASTDDS_DEFAULT_PROFILES_FILE" in given
    assert environment == given | ({} if profile else {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"})


def test_transports_that_the_user_chose_stay() -> None:
    environment = {"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"}
    dds_environment.set_dds_environment(environment)
    assert environment["FASTDDS_BUILTIN_TRANSPORTS"] == "DEFAULT"


def test_a_middleware_that_would_not_read_the_profile_keeps_to_the_loopback_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dds_environment.rclpy, "get_rmw_implementation_identifier", lambda: "rmw_cyclonedds_cpp")
    environment: dict[str, str] = {}
    dds_environment.set_dds_environment(environment)
    assert environment == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}


def test_it_may_be_asked_for_twice() -> None:
    environment: dict[str, str] = {}
    dds_environment.set_dds_environment(environment)
    once = dict(environment)
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    dds_environment.set_dds_environment(environment)
    assert environment == once


def test_a_process_that_was_in_dds_is_not_forked() -> None:
    """Python sees no thread any more, but Fast DDS keeps its own: a process that is forked hangs where it joins."""
    with Probe():
        pass
    with ProcessStack.server() as server:
        assert server is None
