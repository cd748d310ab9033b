# SPDX-License-Identifier: Apache-2.0
"""The faults that only exist between processes: nodes that are killed or stopped, a second writer, a full disk.

The nodes run as programs over DDS, with the real drivers; the devices are a program of their own behind
pseudo-terminals, so that they live on when the driver dies. What happens to the robot is read from the devices' truth.

Names
-----
begin_s : from when on the truth is judged, of the monotonic clock, s
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from numpy.typing import NDArray

from continuum_robot.app.campaign.devices import READY, read_truth
from continuum_robot.app.campaign.runner import (
    NOTICE_S,
    WATCH_S,
    Effect,
    Rng,
    killed,
    run_on_stacks,
    run_one,
    stopped_for,
)
from continuum_robot.app.client.stack_link import DIAGNOSTICS, REFERENCE_PERIOD_S, StackLink
from continuum_robot.app.running.processes import ProcessGroup, node_command
from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.backends import boards_of
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.campaign import (
    DISPLACEMENT_FRACTION,
    INJECTION_TIMES,
    MOVE_S,
    FaultRecord,
)
from continuum_robot.experiments.fault_campaign.kind import PROCESSES, FaultKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS
from continuum_robot.msg import TendonCommands
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.device_ports import robot_on_ports
from continuum_robot.srv import ManageStack

Vector = NDArray[np.float64]

NODES = ("tendon_driver", "string_encoder", "shape_estimator", "clarke_controller")
SUPERVISOR, RECORDER = "supervisor", "recorder"
RATE_HZ = 250.0
UP_TIMEOUT_S = 90.0
RESET_TIMEOUT_S = 90.0
SLOW_RAD_PER_S = 20.0
"""Poles of the controller: the devices send every 4 ms here, behind adapters."""
STORM_HZ = 10000.0
CLOCK_STEP_S = 3600.0
SETTLE_S = 1.0
ATTEMPTS = 4
LEASE_S = 3.0


class _Reference:
    """Publishes a reference in a thread: this stack has no reference source."""

    def __init__(self, link: StackLink, coordinates: int) -> None:
        self._link, self._straight = link, np.zeros(coordinates)
        self._motion, self._begin_s = RestToRest(self._straight, self._straight, MOVE_S), time.monotonic()
        self.stamp_shift_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._play, name="reference", daemon=True)
        self._thread.start()

    def position(self, time_s: float) -> Vector:
        """At a time of the monotonic clock, shape (2m,), m."""
        return self._motion.at(time_s - self._begin_s).position

    def move_to(self, end: Vector) -> None:
        """Move from where it stands, shape (2m,), m."""
        self._motion, self._begin_s = RestToRest(self.position(time.monotonic()), end, MOVE_S), time.monotonic()

    def straighten(self) -> None:
        """Be straight at once."""
        self._motion = RestToRest(self._straight, self._straight, MOVE_S)

    def close(self) -> None:
        """Fall silent."""
        self._ended.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._ended.wait(REFERENCE_PERIOD_S):
            stamp_ns = time.time_ns() + round(1e9 * self.stamp_shift_s)
            self._link.publish_reference(self._motion.at(time.monotonic() - self._begin_s), stamp_ns)


class ProcessRobot:
    """A robot whose nodes and devices are processes. Use as a context manager."""

    def __init__(self, robot_file: str, folder: Path, seed: int) -> None:
        self.folder, self.rate_hz = folder, RATE_HZ
        self.file = self._written(robot_file)
        self.robot = load_robot(str(self.file))
        boards_of(self.robot)
        self.limits = self.robot.tension_limits
        self._devices = subprocess.Popen(
            [sys.executable, "-m", "continuum_robot.app.campaign.devices", str(self.file), str(folder), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer(READY)
        self._groups: dict[str, ProcessGroup] = {}
        for node in (*NODES, RECORDER, SUPERVISOR):
            self.start(node)
        self.link = StackLink(name="fault_campaign")
        self._reference = _Reference(self.link, self.robot.coordinate_count)

    def _written(self, robot_file: str) -> Path:
        """The robot file with its boards on the adapters of the folder."""
        data = robot_on_ports(load_robot(robot_file), self.folder)
        mass_kg = 5.46
        for gains in data["control"]["gains"]:
            gains |= {
                "p": mass_kg * SLOW_RAD_PER_S**2,
                "d": 1.4 * mass_kg * SLOW_RAD_PER_S,
                "i": mass_kg * SLOW_RAD_PER_S**3 / 8,
                "derivative_filter_time": 0.004,
            }
        file = self.folder / "robot.yaml"
        file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return file

    def start(self, node: str) -> None:
        """Start a node's program, again where it ended."""
        parameters: dict[str, object] = {"robot": str(self.file), "use_fake_hardware": False}
        own: dict[str, dict[str, object]] = {
            "tendon_driver": {"rate_hz": RATE_HZ, "homing": "ignored"},
            "clarke_controller": {"reference.blend_s": 0.0},
            RECORDER: {"directory": str(self.folder / "runs")},
            SUPERVISOR: {"node_names": list(NODES)},
        }
        parameters |= own.get(node, {})
        self._groups[node] = ProcessGroup({node: node_command(node, parameters)})
        self._groups[node].start()

    def end(self, node: str) -> None:
        """End a node's program; the recovery starts another one."""
        self._groups[node].stop()

    def pid(self, node: str) -> int:
        """Process id of a node."""
        return self._groups[node].pids[node]

    def order(self, **what: object) -> None:
        """Have the devices do something."""
        if self._devices.stdin is None:
            raise DeviceError("devices", "ended", "See their log.")
        self._devices.stdin.write(json.dumps(what) + "\n")
        self._devices.stdin.flush()
        self._answer("done")

    def _answer(self, expected: str) -> None:
        line = "" if self._devices.stdout is None else self._devices.stdout.readline().strip()
        if line != expected:
            raise DeviceError("simulated devices", f"reported {line!r}", "See their messages above.")

    def judged_truth(self, begin_s: float) -> dict[str, Vector]:
        """The truth since a time of the monotonic clock, with the reference as ``reference_m``."""
        self.order()
        truth = read_truth(self.folder, self.robot.tendon_count, self.robot.coordinate_count)
        kept = truth["time_s"] >= begin_s
        truth = {name: values[kept] for name, values in truth.items()}
        return truth | {"reference_m": np.array([self._reference.position(time_s) for time_s in truth["time_s"]])}

    def knowable_after_s(self, kind: FaultKind) -> float:
        """As of the table; NaN: from its detection."""
        return table.knowable_after_s(kind, self.limits, boards_of(self.robot))

    def watch(self, begin_s: float, _after_s: float) -> None:
        """Wait for long enough."""
        time.sleep(max(0.0, WATCH_S - (time.monotonic() - begin_s)))

    def wait_until_up(self, timeout_s: float = UP_TIMEOUT_S) -> bool:
        """Whether the stack came up and obeys commands."""
        wait_for(lambda: self.link.state().stack in ("up", "fault"), timeout_s, 0.05)
        return wait_for(lambda: self.link.state().obeys, 1.0, 0.05)

    def move(self) -> None:
        """Move to a fraction of the largest displacement from where the reference stands."""
        end = np.zeros(self.robot.coordinate_count)
        end[0] = DISPLACEMENT_FRACTION * self.limits.maximum_displacement_m
        self._reference.move_to(end)

    def step_clock(self, step_s: float) -> None:
        """Stamp references as on a clock that was stepped by ``step_s``, s."""
        self._reference.stamp_shift_s = step_s

    def recover(self) -> str:
        """Start what ended, reset the stack; why it does not come up again, "" where it does."""
        self.order(inject=[""], plug_in=True)
        self.step_clock(0.0)
        for node, group in self._groups.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid(node), signal.SIGCONT)
            if group.ended():
                self.start(node)
        time.sleep(SETTLE_S)
        self._reference.straighten()
        problem = ""
        for _ in range(ATTEMPTS):
            problem = self._reset()
            if not problem:
                break
            time.sleep(LEASE_S)  # a node that was killed is listed for a while, and asked in vain
        return problem

    def _reset(self) -> str:
        try:
            self.link.manage(ManageStack.Request.RESET, RESET_TIMEOUT_S)
        except ContinuumRobotError as error:
            return str(error)
        if self.wait_until_up(20.0):
            return ""
        state = self.link.state()
        return f"the stack is {state.stack}, the driver {state.driver}"

    def __enter__(self) -> ProcessRobot:
        return self

    def __exit__(self, *_error: object) -> None:
        self._reference.close()
        self.link.close()
        for group in reversed(self._groups.values()):
            group.stop()
        if self._devices.stdin is not None:
            self._devices.stdin.close()
        try:
            self._devices.wait(5.0)
        except subprocess.TimeoutExpired:
            self._devices.kill()
            self._devices.wait()


# --- what happens


def _kill(node: str, robot: ProcessRobot, _rng: Rng) -> Effect:
    killed(robot, node)  # the recovery starts it again
    return Effect()


def _stop_for(nodes: Sequence[str], duration_s: float, robot: ProcessRobot, _rng: Rng) -> Effect:
    stopped_for(robot, nodes, duration_s)
    return Effect()


def _set_limit(robot: ProcessRobot, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    try:
        robot.link.set_parameters("tendon_driver", {"limits.maximum_n": 1000.0})
    except ParameterError as error:
        return Effect(begin_s=begin_s, found={"tendon_driver: parameter refused": str(error)})
    return Effect(begin_s=begin_s)


def _write_too(rate_hz: float, duration_s: float, robot: ProcessRobot, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    with robot.link.publisher(TendonCommands, "tendon_commands") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, 5.0)
        message = TendonCommands(tension=[5.0] * robot.robot.tendon_count)
        first_s, sent = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - first_s) < duration_s:
            states = robot.link.messages["tendon_states_decimated"]
            message.sequence = 0 if states is None else states.sequence
            publisher.publish(message)
            sent += 1
            time.sleep(max(0.0, sent / rate_hz - elapsed_s))
    return Effect(begin_s=begin_s)


def _fill_disk(robot: ProcessRobot, _rng: Rng) -> Effect:
    files = [file for file in (robot.folder / "runs").rglob("*") if file.is_file()]
    largest = max((file.stat().st_size for file in files), default=0)
    resource.prlimit(robot.pid(RECORDER), resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    return _ended_recording(robot)


def _remove_recording(robot: ProcessRobot, _rng: Rng) -> Effect:
    for folder in [file.parent for file in (robot.folder / "runs").rglob("*.mcap")]:
        shutil.rmtree(folder)
    return _ended_recording(robot)


def _ended_recording(robot: ProcessRobot) -> Effect:
    """What the recorder reports of it; the next run needs another recording."""
    begin_s, found = time.monotonic(), dict[str, str]()

    def take(message: DiagnosticArray) -> None:
        bad = [one for one in message.status if one.level != DiagnosticStatus.OK and f"{RECORDER}: " in one.name]
        found.update({f"{RECORDER}: ended early": one.message for one in bad})

    robot.link.listen(DiagnosticArray, DIAGNOSTICS, take, qos.events())
    wait_for(lambda: bool(found), NOTICE_S)
    return Effect(begin_s=begin_s, found=found, repair=partial(robot.end, RECORDER))


def _step_clock(robot: ProcessRobot, _rng: Rng) -> Effect:
    robot.step_clock(CLOCK_STEP_S)
    return Effect()


def _unplug(robot: ProcessRobot, _rng: Rng) -> Effect:
    robot.order(unplug=0)
    return Effect()


ACTIONS: dict[str, Callable[[ProcessRobot, Rng], Effect]] = {
    "controller_killed": partial(_kill, "clarke_controller"),
    "estimator_killed": partial(_kill, "shape_estimator"),
    "driver_killed": partial(_kill, "tendon_driver"),
    "driver_stopped_50ms": partial(_stop_for, ["tendon_driver"], 0.05),
    "driver_stopped_500ms": partial(_stop_for, ["tendon_driver"], 0.5),
    "controller_stopped_500ms": partial(_stop_for, ["clarke_controller"], 0.5),
    "all_nodes_stopped_500ms": partial(_stop_for, [*NODES, SUPERVISOR], 0.5),
    "limit_set": _set_limit,
    "two_writers": partial(_write_too, RATE_HZ, 1.2),
    "command_storm": partial(_write_too, STORM_HZ, 1.2),
    "disk_full": _fill_disk,
    "recording_vanishes": _remove_recording,
    "clock_stepped": _step_clock,
    "port_unplugged": _unplug,
}
"""What each kind that runs in processes does."""


def run_campaign(
    robot_file: str, kinds: Sequence[FaultKind] = KINDS, injection_time_count: int = len(INJECTION_TIMES), seed: int = 0
) -> Iterator[FaultRecord]:
    """All runs in processes, on one stack that is started once, and again where a run left it broken."""
    chosen = [kind for kind in kinds if kind.runs == PROCESSES]
    yield from run_on_stacks(
        partial(_running, robot_file, seed), chosen, partial(run_one, ACTIONS), injection_time_count, seed
    )


@contextlib.contextmanager
def _running(robot_file: str, seed: int) -> Iterator[ProcessRobot]:
    with (
        tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name,
        ProcessRobot(robot_file, Path(name), seed) as stand,
    ):
        if not stand.wait_until_up() and stand.recover():
            raise DeviceError("stack", f"is {stand.link.state().stack or 'silent'}", "See the log above.")
        time.sleep(SETTLE_S)
        yield stand
