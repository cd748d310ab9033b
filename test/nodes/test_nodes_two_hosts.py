# SPDX-License-Identifier: Apache-2.0
"""Two hosts joined by a cable: nothing leaves a host by default; opened, a robot is driven across, and survives a cut.

The hosts are network namespaces with a shared memory each, the cable is a veth pair; all of it needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import PATIENT_STACK, patient_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time, pytest.mark.long]

ROBOT_HOST, OTHER_HOST = f"robot{os.getpid()}", f"other{os.getpid()}"
CABLE = {ROBOT_HOST: ("cable0", "198.51.100.1"), OTHER_HOST: ("cable0", "198.51.100.2")}
LONG_S = 120.0
MOVING_M_PER_S = 2e-4

# Every frame on an interface, by kind, until its input ends.
CAPTURE = """
import collections, json, socket, sys, threading
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
frames.bind((sys.argv[1], 0))
frames.settimeout(0.2)
kinds = collections.Counter()
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print(json.dumps({"listens": True}), flush=True)
while not ended.is_set():
    try:
        frame = frames.recv(65536)
    except TimeoutError:
        continue
    kind = frame[12:14]
    if kind == b"\\x86\\xdd":
        # Multicast listener reports stand behind a hop-by-hop header of 8 bytes.
        next_header, place = (frame[54], 62) if frame[20] == 0 else (frame[20], 54)
        kinds["IPv6 %d" % next_header + (" type %d" % frame[place] if next_header == 58 else "")] += 1
    elif kind == b"\\x08\\x00":
        kinds["IPv4 %d to %s" % (frame[23], socket.inet_ntoa(frame[30:34]))] += 1
print(json.dumps({"kinds": kinds}), flush=True)
"""
# Of the kernel, for every interface that comes up: neighbours, routers, and the groups of their own addresses.
NEIGHBOUR_DISCOVERY = {f"IPv6 58 type {kind}" for kind in (130, 131, 132, 133, 134, 135, 136, 143)}

STACK = """
import json, sys, time
import numpy as np
from continuum_robot.app.client.stack_link import DIAGNOSTICS, StackLink
from continuum_robot.client import Robot
from continuum_robot.nodes.base.diagnostics import Level
robot_file, parameters = sys.argv[1], json.loads(sys.argv[2])
with Robot(robot_file, simulation_level="dynamics", processes=False, visualize=False, parameters=parameters) as robot:
    watch = StackLink(name="watch", topics=(DIAGNOSTICS,), context=robot.link.context, listens_only=True)
    warnings = {}
    while True:
        state = robot.state
        for status in [status for message in watch.messages.drain(DIAGNOSTICS) for status in message.status]:
            warnings[status.name] = status.message if status.level == bytes([Level.WARN]) else ""
        print(json.dumps({
            "stack": state.stack, "faults": state.faults, "writer": state.writer, "holding": state.holding,
            "rate": float(np.abs(state.clarke_rate_m_per_s).max()), "clarke": state.clarke_m.tolist(),
            "tension": state.tension_n.tolist(), "warnings": " ".join(warnings.values()),
        }), flush=True)
        time.sleep(0.05)
"""

# What it gets on its input, one after the other; it answers each with a line.
CLIENT = """
import json, sys
import numpy as np
from continuum_robot.client import Robot
from continuum_robot.errors import ContinuumRobotError
robot = Robot.connect(timeout_s=float(sys.argv[1])) if len(sys.argv) < 3 else None
def circle(t_s):
    return [3e-3 * np.cos(t_s), 3e-3 * np.sin(t_s)]
for line in sys.stdin:
    try:
        if line.startswith("bend"):
            robot.wait_until_active(60.0)
            answer = {"clarke": robot.bend(1, float(line.split()[1])).clarke_m.tolist()}
        elif line.startswith("circle"):
            robot.follow(circle, 600.0, wait=False)
            answer = {"task": "runs"}
        elif line.startswith("result"):
            answer = {"clarke": robot.result(60.0).clarke_m.tolist()}
        elif line.startswith("state"):
            answer = {"stack": robot.state.stack, "writer": robot.state.writer, "age_s": robot.state.age_s}
    except ContinuumRobotError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(answer), flush=True)
robot.close()
"""


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, timeout=30)


def refusal() -> str:
    """Why there can be no hosts here; empty where there can."""
    if shutil.which("ip") is None:
        return "no program ip"
    try:
        ip("netns", "add", ROBOT_HOST)
        ip("-n", ROBOT_HOST, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
        subprocess.run([*inside(ROBOT_HOST), "true"], check=True, capture_output=True, timeout=30)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {(error.stderr or b'').decode(errors='replace').strip()}"
    finally:
        ip("netns", "del", ROBOT_HOST, check=False)
    return ""


def inside(host: str) -> list[str]:
    """How a program is started on a host: with its network, and a shared memory of its own."""
    alone = 'mount -t tmpfs tmpfs /dev/shm && exec "$@"'
    return ["ip", "netns", "exec", host, "unshare", "--mount", "sh", "-c", alone, "sh"]


class Program:
    """A program on a host, and the lines of JSON that it prints."""

    def __init__(self, host: str, environment: Mapping[str, str], source: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*inside(host), sys.executable, "-c", source, *arguments],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.newest: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # a line of the log
                self.newest = json.loads(line)
                self._lines.put(self.newest)
        self._lines.put(None)

    def answer(self) -> dict[str, Any]:
        """The next line that was not taken yet."""
        line = self._lines.get(timeout=LONG_S)
        assert line is not None, "the program ended"
        return line

    def ask(self, words: str) -> dict[str, Any]:
        """Say something to it, and give its answer."""
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self.answer()

    def wait(self, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait for a line of which something is true, of those that come from now on."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._lines.get_nowait()
        end_s = time.monotonic() + LONG_S
        while time.monotonic() < end_s:
            line = self.answer()
            if condition(line):
                return line
        pytest.fail(f"{what}; the last was {self.newest}")

    def end(self) -> list[dict[str, Any]]:
        """Let it end; the lines that were not taken."""
        self._process.stdin.close()
        self._process.wait(LONG_S)
        self._reader.join(LONG_S)
        return list(iter(self._lines.get, None))

    def kill(self) -> None:
        """End it in any case."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20.0)
        self._reader.join(20.0)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def cable() -> Iterator[Callable[[bool], None]]:
    """Two hosts, joined; called with False it is cut, with True joined again. Nothing of it stays behind."""
    reason = refusal()
    if reason:
        pytest.skip(reason)
    (near, _), (far, _) = CABLE.values()

    def switch(joined: bool) -> None:
        ip("-n", ROBOT_HOST, "link", "set", near, "up" if joined else "down")
        if joined:
            # The kernel forgets the routes of an interface that goes down.
            ip("-n", ROBOT_HOST, "route", "replace", "default", "dev", near)

    try:
        for host in CABLE:
            ip("netns", "add", host)
        ip("link", "add", near, "netns", ROBOT_HOST, "type", "veth", "peer", "name", far, "netns", OTHER_HOST)
        for host, (interface, address) in CABLE.items():
            ip("-n", host, "address", "add", f"{address}/24", "dev", interface)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", interface, "up")
            ip("-n", host, "route", "add", "default", "dev", interface)
        yield switch
    finally:
        for host in CABLE:
            ip("netns", "del", host, check=False)  # its end of the cable goes with it, and so the other one


@pytest.fixture
def programs(cable, domain) -> Iterator[Callable[..., Program]]:
    """Start programs on the hosts, which end with the test."""
    running: list[Program] = []

    def start(host: str, source: str, *arguments: str, **environment: str) -> Program:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTDDS")}
        kept.pop("ROS_AUTOMATIC_DISCOVERY_RANGE", None)
        running.append(Program(host, {**kept, "ROS_DOMAIN_ID": str(domain), **environment}, source, *arguments))
        return running[-1]

    try:
        yield start
    finally:
        for program in reversed(running):
            program.kill()


def start_stack(programs: Callable[..., Program], **environment: str) -> Program:
    stack = programs(ROBOT_HOST, STACK, patient_robot(), json.dumps(PATIENT_STACK), **environment)
    stack.wait(lambda line: line["stack"] == "up", "the stack did not come up")
    return stack


def test_nothing_leaves_a_host_unless_it_is_opened(programs):
    capture = programs(OTHER_HOST, CAPTURE, CABLE[OTHER_HOST][0])
    assert capture.answer() == {"listens": True}
    stack = start_stack(programs)
    client = programs(OTHER_HOST, CLIENT, "10")
    with pytest.raises(AssertionError, match="the program ended"):  # it found no stack
        client.answer()
    stack.wait(lambda line: line["stack"] == "up", "the stack did not stay up")
    kinds = capture.end()[-1]["kinds"]
    assert set(kinds) <= NEIGHBOUR_DISCOVERY, kinds


@pytest.mark.parametrize("cut_s", [3.0, 40.0])
def test_a_robot_is_driven_from_another_host_and_holds_when_the_cable_is_cut(cable, programs, cut_s):
    """For 3 s nobody is forgotten; after 20 s DDS forgets those that are silent, and has to find them again."""
    opened = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    capture = programs(OTHER_HOST, CAPTURE, CABLE[OTHER_HOST][0])
    assert capture.answer() == {"listens": True}
    stack = start_stack(programs, **opened)
    client = programs(OTHER_HOST, CLIENT, "60", **opened)
    assert "clarke" in client.ask("bend 0.3")
    assert client.ask("circle") == {"task": "runs"}
    moving = stack.wait(lambda line: line["rate"] > MOVING_M_PER_S and line["writer"] != "reference_source", "it stood")
    writer = moving["writer"]

    cable(False)
    cut_at_s = time.monotonic()
    # Safe: it comes to rest, and holds with tension on all tendons; no fault, since nothing is wrong with the robot.
    standing = stack.wait(lambda line: line["rate"] < 0.1 * MOVING_M_PER_S, "it moved on")
    assert standing["faults"] == []
    assert min(standing["tension"]) > 0.0
    # Named: on the robot's host in /diagnostics; the program that drives it learns that the robot is no longer heard.
    named = f"{writer}, which writes clarke_reference, was not heard"
    stack.wait(lambda line: named in line["warnings"], "the diagnostics did not name it")
    answer = client.ask("result")
    assert answer["error"] == "RobotTimeoutError", answer
    assert "was not heard for" in answer["text"], answer
    while time.monotonic() < cut_at_s + cut_s:
        line = stack.wait(lambda line: True, "the stack ended")
        assert line["faults"] == []
        assert line["rate"] < MOVING_M_PER_S

    cable(True)
    # Recovered: nothing moves by itself, and the same program drives again.
    stack.wait(lambda line: line["stack"] == "up", "the stack did not stay up")
    answers = []
    end_s = time.monotonic() + LONG_S
    while time.monotonic() < end_s:
        answers.append(client.ask("bend 0.2"))
        if "clarke" in answers[-1]:
            break
    assert "clarke" in answers[-1], answers
    given_back = lambda line: line["writer"] == "reference_source" and named not in line["warnings"]  # noqa: E731
    line = stack.wait(given_back, "the reference was not given back")
    assert line["faults"] == []
    kinds = capture.end()[-1]["kinds"]
    assert any(kind.startswith("IPv4 17") for kind in kinds), kinds
