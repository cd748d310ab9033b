# SPDX-License-Identifier: Apache-2.0
"""What a running stack listens on, and what another user of the same computer can and cannot do with it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: there is no page without the extra viz")

from ros_probe import Probe, patient_robot

from continuum_robot.drivers.simulated_wires import simulator_folder
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

LONG_S = 120.0
LOOPBACK = ("0100007F", "00000000000000000000000001000000")
TCP_LISTENS = "0A"
NOBODY = 65534

# Another user, as soon as all that it needs was read: a checkout may be closed to others.
OTHER_USER = """
import encodings.idna, http.client, json, os, pathlib, socket, sys, tempfile, time
import rclpy
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.topics import qos
from std_srvs.srv import Trigger
port, page, wires = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
heard = []
def join(name):
    rclpy.init(args=[])
    node = rclpy.create_node(name)
    node.create_subscription(StackStatus, "stack_status", heard.append, qos.latched())
    return node, node.create_client(Trigger, "estop")
rclpy.spin_once(join("reads_what_it_needs")[0], timeout_sec=1.0)
rclpy.shutdown()
heard.clear()
os.setgroups([])
os.setresgid(NOBODY, NOBODY, NOBODY)
os.setresuid(NOBODY, NOBODY, NOBODY)
os.environ["HOME"] = os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp()
seen = {"user": os.getuid()}
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
connection.request("GET", "/")
seen["page"] = connection.getresponse().status
for name, path in (("environment", f"/proc/{page}/environ"), ("memory", f"/proc/{page}/mem")):
    try:
        pathlib.Path(path).read_bytes()
        seen[name] = "read"
    except PermissionError:
        seen[name] = "refused"
try:
    seen["wires"] = os.listdir(wires)
except PermissionError:
    seen["wires"] = "refused"
print(json.dumps(seen), flush=True)
node, client = join("of_another_user")
end_s = time.monotonic() + 60.0
answer = None
while time.monotonic() < end_s and not (heard and answer is not None and answer.done()):
    rclpy.spin_once(node, timeout_sec=0.1)
    if answer is None and client.service_is_ready():
        answer = client.call_async(Trigger.Request())
stopped = answer is not None and answer.done() and answer.result().success
print(json.dumps({"heard": bool(heard), "stopped": stopped}), flush=True)
""".replace("NOBODY", str(NOBODY))


class Up:
    """``continuum-robot up`` with its page, in processes."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "continuum_robot.app.command_line", "up", patient_robot()]
        options = ["--simulation-level", "dynamics", "--view", "--no-record"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.text += line

    def address(self) -> str:
        """The page's."""
        end_s = time.monotonic() + LONG_S
        while time.monotonic() < end_s:
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", self.text)
            if found:
                return found[0]
            assert self.process.poll() is None, self.text
            time.sleep(0.1)
        pytest.fail(f"no page: {self.text}")

    def pids(self) -> dict[int, str]:
        """Command lines of all of its processes."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue  # it ended
                parents[int(entry.name)] = (int(stat.rpartition(")")[2].split()[1]), command)
        found = {self.process.pid: parents[self.process.pid][1]}
        for _ in parents:
            found |= {pid: command for pid, (parent, command) in parents.items() if parent in found}
        return found

    def close(self) -> None:
        """End it in good order, or else at once."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60.0)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60.0)
        self._reader.join(10.0)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def up(domain) -> Iterator[Up]:
    running = Up()
    try:
        running.address()
        with Probe() as probe:
            probe.listen_to_stack()
            # All that it opens is open then; the wires are made where the simulator is configured.
            probe.wait(lambda: probe.stack_state() == "up", 60.0)
        yield running
    finally:
        running.close()


def sockets(pid: int, table: str) -> list[tuple[str, str, str]]:
    """Local and remote address, and state, of a process's sockets in one of the kernel's tables."""
    own = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            own.add(os.readlink(descriptor))
        rows = Path(f"/proc/{pid}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return []  # it ended, or there is no such table
    fields = [row.split() for row in rows]
    return [(row[1], row[2], row[3]) for row in fields if f"socket:[{row[9]}]" in own]


def test_all_that_a_stack_listens_on_is_bound_to_the_loopback(up):
    """Every socket of every process of ``up`` with its page: TCP, UDP and raw, of both families."""
    port = urlsplit(up.address()).port
    listening: set[tuple[str, int]] = set()
    datagrams = 0
    pids = up.pids()
    for pid, command in pids.items():
        for table in ("tcp", "tcp6"):
            for local, remote, state in sockets(pid, table):
                address, _, number = local.partition(":")
                assert address in LOOPBACK, (command, local, remote)
                if state == TCP_LISTENS:
                    listening.add((address, int(number, 16)))
        for table in ("udp", "udp6", "udplite", "udplite6"):
            for local, _, _ in sockets(pid, table):
                assert local.partition(":")[0] in LOOPBACK, (command, table, local)
                datagrams += 1
        for table in ("raw", "raw6", "icmp", "icmp6"):
            assert sockets(pid, table) == [], command
        packets = Path(f"/proc/{pid}/net/packet").read_text(encoding="utf-8").splitlines()[1:]
        own = {os.readlink(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [row for row in packets if f"socket:[{row.split()[8]}]" in own], command
    assert len(pids) >= 4, pids
    assert datagrams > 0
    # The page alone takes connections.
    assert listening == {(LOOPBACK[0], port)}


@pytest.mark.long
def test_another_user_has_neither_page_nor_wires_and_has_dds(up):
    """Loopback has no owners: who may run a program on this computer may command the robot over DDS, without SROS 2."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    address = urlsplit(up.address())
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("GET", f"/?{address.query}")
    assert connection.getresponse().status == 200  # who has the address is let in
    wires = simulator_folder("", load_robot(patient_robot()).name)
    assert wires.is_dir()
    (page,) = [pid for pid, command in up.pids().items() if " view " in f"{command} "]
    arguments = [str(address.port), str(page), str(wires)]
    profile = shipped_file("dds/loopback.xml")
    done = subprocess.run(
        [sys.executable, "-c", OTHER_USER, *arguments],
        env=os.environ
        | {"FASTDDS_DEFAULT_PROFILES_FILE": str(profile), "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    local, dds = map(json.loads, done.stdout.splitlines())
    refused = ("environment", "memory", "wires")
    assert local == {"user": NOBODY, "page": 403, **dict.fromkeys(refused, "refused")}
    assert dds == {"heard": True, "stopped": True}
