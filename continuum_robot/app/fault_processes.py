# SPDX-License-Identifier: Apache-2.0
"""The faults that only exist between processes: nodes that are killed or stopped, a second writer, a full disk.

The nodes run as programs over DDS, with the real drivers; the devices are a program of their own behind
pseudo-terminals, so that they live on when the driver dies. What happens to the robot is read from the devices' truth.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from rcl_interfaces.srv import SetParameters
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter

from continuum_robot.app.fault_devices import READY, read_truth
from continuum_robot.app.processes import ProcessGroup, node_command
from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.tendon_faults import FAULTS
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.campaign import (
    DISPLACEMENT_SHARE,
    MOMENTS,
    MOVE_S,
    FaultRecord,
    moments,
)
from continuum_robot.experiments.fault_campaign.judgement import TORQUE_MARGIN_N, judge
from continuum_robot.experiments.fault_campaign.kind import PROCESSES, FaultKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS
from continuum_robot.msg import ClarkeState, StackStatus, TendonCommands, TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.calling import call_service
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.spinning import Spinner, initialize, wait_for
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import OdriCan
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.desk import robot_on_ports
from continuum_robot.srv import ManageStack

Vector = NDArray[np.float64]

NODES = ("tendon_driver", "string_encoder", "shape_estimator", "clarke_controller")
SUPERVISOR, RECORDER = "supervisor", "recorder"
RATE_HZ = 250.0
REFERENCE_PERIOD_S = 0.01
UP_TIMEOUT_S = 90.0
RESET_TIMEOUT_S = 90.0
WATCH_S = 1.5
NOTICE_S = 15.0
"""Until the supervisor tells that a node is gone; the tendons are safe long before."""
SLOW_RAD_PER_S = 20.0
"""Poles of the controller: the devices send every 4 ms here, behind adapters."""
DEVIATION_M = 0.008
"""Largest distance to the reference of a robot that goes on; those poles lag behind."""
STORM_HZ = 10000.0
CLOCK_STEP_S = 3600.0
SETTLE_S = 1.0
ATTEMPTS = 4
LEASE_S = 3.0


class _Ears:
    """A node that listens to the stack, publishes the reference, and calls services."""

    def __init__(self, robot: Robot) -> None:
        self.context = Context()
        initialize([], self.context)
        self.node = Node("fault_campaign", context=self.context)
        self.spinner = Spinner([self.node], self.context)
        self.told: list[str] = []
        self.found: dict[str, float] = {}
        self.state = self.stack_state = ""
        self.sequence = 0
        self.reference = RestToRest(np.zeros(robot.coordinate_count), np.zeros(robot.coordinate_count), MOVE_S)
        self.begin_s = time.monotonic()
        self.stamp_shift_s = 0.0
        self._clients: dict[str, Any] = {}
        self._publisher = self.node.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        self.node.create_subscription(DiagnosticStatus, "driver_status", self._on_driver, qos.latched())
        self.node.create_subscription(StackStatus, "stack_status", self._on_stack, qos.latched())
        self.node.create_subscription(TendonStates, "tendon_states_decimated", self._on_states, qos.newest_state())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._play, name="reference", daemon=True)
        self.spinner.start()
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.spinner.stop()
        self.node.destroy_node()
        self.context.try_shutdown()

    def _play(self) -> None:
        message = ClarkeState()
        while not self._ended.wait(REFERENCE_PERIOD_S):
            wanted = self.reference.at(time.monotonic() - self.begin_s)
            message.position, message.velocity = wanted.position.tolist(), wanted.velocity.tolist()
            message.acceleration = wanted.acceleration.tolist()
            now_ns = self.node.get_clock().now().nanoseconds + round(1e9 * self.stamp_shift_s)
            conversions.set_stamp(message.header.stamp, now_ns)
            message.sequence += 1
            self._publisher.publish(message)

    def _tell(self, who: str, sentence: str) -> None:
        if who not in self.found:
            self.found[who] = time.monotonic()
            self.told.append(sentence)

    def _on_driver(self, message: DiagnosticStatus) -> None:
        values = values_of(message)
        self.state = values["state"]
        for name in filter(None, values["faults"].split(", ")):
            self._tell(f"tendon_driver: {name}", f"{message.message}: {FAULTS.get(name, name)}")

    def _on_stack(self, message: StackStatus) -> None:
        self.stack_state = message.state
        for fault in message.faults:
            self._tell(f"supervisor: {fault}", fault)

    def _on_states(self, message: TendonStates) -> None:
        self.sequence = message.sequence

    def forget(self) -> None:
        """Begin anew with what was told."""
        self.found.clear()
        self.told.clear()

    def call(self, kind: Any, service: str, request: Any, timeout_s: float) -> Any:
        """Call a service. Raises :class:`DeviceError` where it does not answer."""
        client = self._clients.setdefault(service, self.node.create_client(kind, service))
        return call_service(client, request, timeout_s)


class ProcessRobot:
    """A robot whose nodes and devices are processes. Use as a context manager.

    Parameters
    ----------
    robot_file : with a hardware section of motor boards on CAN
    folder : for ports, logs and recordings
    seed : of noise
    """

    def __init__(self, robot_file: str, folder: Path, seed: int) -> None:
        self.folder = folder
        self.file = self._written(robot_file)
        self.robot = load_robot(str(self.file))
        self._devices = subprocess.Popen(
            [sys.executable, "-m", "continuum_robot.app.fault_devices", str(self.file), str(folder), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer(READY)
        self._groups: dict[str, ProcessGroup] = {}
        for node in (*NODES, RECORDER, SUPERVISOR):
            self.start(node)
        self.ears = _Ears(self.robot)

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

    def pid(self, node: str) -> int:
        """Process id of a node."""
        return self._groups[node].pids[node]

    def signal(self, nodes: Sequence[str], number: signal.Signals) -> None:
        """Send a signal to nodes.

        Parameters
        ----------
        number : of the signal
        """
        for node in nodes:
            os.kill(self.pid(node), number)

    def order(self, **what: object) -> None:
        """Have the devices do something.

        Parameters
        ----------
        what : keys and values of the order

        Raises
        ------
        DeviceError : the devices' process has ended, or answers with an error
        """
        if self._devices.stdin is None:
            raise DeviceError("devices", "ended", "See their log.")
        self._devices.stdin.write(json.dumps(what) + "\n")
        self._devices.stdin.flush()
        self._answer("done")

    def _answer(self, expected: str) -> None:
        line = "" if self._devices.stdout is None else self._devices.stdout.readline().strip()
        if line != expected:
            raise DeviceError("simulated devices", f"said {line!r}", "See their messages above.")

    def truth(self, begin_s: float) -> dict[str, Vector]:
        """The truth since a time of the monotonic clock, with the reference as ``reference_m``.

        Parameters
        ----------
        begin_s : of the monotonic clock, s

        Returns
        -------
        by name, shape (T,) or (T, entries)
        """
        self.order()
        truth = read_truth(self.folder, self.robot.tendon_count, self.robot.coordinate_count)
        kept = truth["time_s"] >= begin_s
        truth = {name: values[kept] for name, values in truth.items()}
        ears = self.ears
        truth["reference_m"] = np.array([ears.reference.at(t - ears.begin_s).position for t in truth["time_s"]])
        return truth

    def wait_until_up(self, timeout_s: float = UP_TIMEOUT_S) -> bool:
        """Whether the stack came up and obeys commands."""
        ears = self.ears
        wait_for(lambda: ears.stack_state in ("up", "fault"), timeout_s, 0.05)
        return wait_for(lambda: ears.stack_state == "up" and ears.state == "active", 1.0, 0.05)

    def follow(self, share: float) -> None:
        """Move to a share of the largest displacement from where the reference stands."""
        limits, ears = self.robot.limits, self.ears
        here = ears.reference.at(time.monotonic() - ears.begin_s).position
        end = np.zeros_like(here)
        if limits is not None:
            end[0] = share * limits.maximum_displacement_m
        ears.reference, ears.begin_s = RestToRest(here, end, MOVE_S), time.monotonic()

    def recover(self) -> str:
        """Start what ended, reset the stack; why it does not come up again, "" where it does."""
        self.order(inject=[""], plug_in=True)
        self.ears.stamp_shift_s = 0.0
        for node, group in self._groups.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid(node), signal.SIGCONT)
            if group.ended():
                self.start(node)
        time.sleep(SETTLE_S)
        self.ears.reference = RestToRest(*2 * (np.zeros(self.robot.coordinate_count),), MOVE_S)
        problem = ""
        for _ in range(ATTEMPTS):
            problem = self._reset()
            if not problem:
                break
            time.sleep(LEASE_S)  # a node that was killed is listed for a while, and asked in vain
        return problem

    def _reset(self) -> str:
        request = ManageStack.Request(command=ManageStack.Request.RESET)
        try:
            answer = self.ears.call(ManageStack, "supervisor/manage", request, RESET_TIMEOUT_S)
        except DeviceError as error:
            return str(error)
        if not answer.success:
            return str(answer.message)
        return "" if self.wait_until_up(20.0) else f"the stack is {self.ears.stack_state}, the driver {self.ears.state}"

    def __enter__(self) -> ProcessRobot:
        return self

    def __exit__(self, *_error: object) -> None:
        self.ears.close()
        for group in reversed(self._groups.values()):
            group.stop()
        if self._devices.stdin is not None:
            self._devices.stdin.close()
        try:
            self._devices.wait(5.0)
        except subprocess.TimeoutExpired:
            self._devices.kill()
            self._devices.wait()


# --- what happens, by the name of the kind; returns what ends it, or None


def _kill(node: str) -> Callable[[ProcessRobot], None]:
    return lambda robot: robot.signal([node], signal.SIGKILL)


def _stop_for(nodes: Sequence[str], duration_s: float) -> Callable[[ProcessRobot], None]:
    def act(robot: ProcessRobot) -> None:
        robot.signal(nodes, signal.SIGSTOP)
        time.sleep(duration_s)
        robot.signal(nodes, signal.SIGCONT)

    return act


def _set_limit(robot: ProcessRobot) -> None:
    parameter = Parameter("limits.maximum_n", value=1000.0).to_parameter_msg()
    request = SetParameters.Request(parameters=[parameter])
    result = robot.ears.call(SetParameters, "tendon_driver/set_parameters", request, 10.0).results[0]
    if not result.successful:
        robot.ears._tell("tendon_driver: parameter refused", result.reason)


def _write_too(rate_hz: float, duration_s: float) -> Callable[[ProcessRobot], None]:
    def act(robot: ProcessRobot) -> None:
        ears = robot.ears
        publisher = ears.node.create_publisher(TendonCommands, "tendon_commands", qos.command_publisher())
        wait_for(lambda: publisher.get_subscription_count() > 0, 5.0)
        message = TendonCommands(tension=[5.0] * robot.robot.tendon_count)
        begin_s = time.monotonic()
        sent = 0
        while (elapsed_s := time.monotonic() - begin_s) < duration_s:
            message.sequence = ears.sequence
            publisher.publish(message)
            sent += 1
            time.sleep(max(0.0, sent / rate_hz - elapsed_s))
        ears.node.destroy_publisher(publisher)

    return act


def _fill_disk(robot: ProcessRobot) -> None:
    files = [file for file in (robot.folder / "runs").rglob("*") if file.is_file()]
    largest = max((file.stat().st_size for file in files), default=0)
    resource.prlimit(robot.pid(RECORDER), resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))


def _step_clock(robot: ProcessRobot) -> None:
    robot.ears.stamp_shift_s = CLOCK_STEP_S


def _unplug(robot: ProcessRobot) -> None:
    robot.order(unplug=0)


ACTIONS: dict[str, Callable[[ProcessRobot], None]] = {
    "controller_killed": _kill("clarke_controller"),
    "estimator_killed": _kill("shape_estimator"),
    "driver_killed": _kill("tendon_driver"),
    "driver_stopped_50ms": _stop_for(["tendon_driver"], 0.05),
    "driver_stopped_500ms": _stop_for(["tendon_driver"], 0.5),
    "controller_stopped_500ms": _stop_for(["clarke_controller"], 0.5),
    "all_nodes_stopped_500ms": _stop_for([*NODES, SUPERVISOR], 0.5),
    "limit_set": _set_limit,
    "two_writers": _write_too(RATE_HZ, 1.2),
    "command_storm": _write_too(STORM_HZ, 1.2),
    "disk_full": _fill_disk,
    "clock_stepped": _step_clock,
    "port_unplugged": _unplug,
}
"""What each kind that runs in processes does."""


def run_one(stand: ProcessRobot, kind: FaultKind, moment: str, seed: int) -> FaultRecord:
    """Move, let it happen, watch, judge, recover; the stack is up before.

    Parameters
    ----------
    stand : the robot under test
    moment : a key of ``MOMENTS``
    seed : of noise and faults

    Raises
    ------
    ParameterError : a robot without limits
    """
    ears = stand.ears
    stand.follow(DISPLACEMENT_SHARE)
    time.sleep(MOMENTS[moment])
    ears.forget()
    begin_s = time.monotonic()
    ACTIONS[kind.name](stand)
    time.sleep(max(0.0, WATCH_S - (time.monotonic() - begin_s)))
    truth = stand.truth(begin_s)
    if kind.detectors:
        wait_for(lambda: any(who.startswith(kind.detectors) for who in ears.found), NOTICE_S)
    found, told = dict(ears.found), tuple(ears.told)
    limits = stand.robot.limits
    if limits is None:
        raise ParameterError("robot.limits", None, "limits")
    motor = truth["motor_n"][-1]
    stopped = bool((motor <= limits.safe_n + TORQUE_MARGIN_N).all())
    first_s = min(found.values(), default=math.nan)
    after_s = knowable_after_s(kind, stand.robot)
    knowable_s = begin_s + (after_s if math.isfinite(after_s) else 0.0)
    if math.isnan(after_s) and found:
        knowable_s = first_s
    judgement = judge(stand.robot, limits, truth, knowable_s=knowable_s, stopped_s=knowable_s if stopped else math.nan)
    problems = list(judgement.problems)
    reaction = table.SAFE if stopped else table.TOLERATED
    if kind.reaction == table.SAFE and not stopped:
        problems.append("it was tolerated")
    detected = [who for who in found if who.startswith(kind.detectors)] if kind.detectors else []
    if kind.detectors and not found:
        problems.append("nobody noticed it")
    ended_safe = not problems
    if kind.reaction == table.TOLERATED and stopped:
        # Safe as well: a busy computer that stops the nodes too long is a fault of its own.
        problems.append("it stopped all the same: " + ", ".join(found))
    recovery = stand.recover()
    if recovery:
        problems.append(f"not recovered: {recovery}")
    return FaultRecord(
        fault=kind.name,
        moment=moment,
        seed=seed,
        runs=PROCESSES,
        reaction=reaction,
        detected_by=tuple(dict.fromkeys([*detected, *found])),
        detected_after_ms=1e3 * (first_s - begin_s),
        time_to_safe_ms=1e3 * judgement.time_to_safe_s,
        tension_peak_n=judgement.tension_peak_n,
        tension_left_n=judgement.tension_left_n,
        slack_ms=1e3 * judgement.slack_s,
        deviation_mm=1e3 * judgement.deviation_m,
        told=told,
        ended_safe=ended_safe,
        recovered_without_restart=not recovery,
        problems=tuple(problems),
    )


def unknown(kind: FaultKind, moment: str, seed: int, problem: str) -> FaultRecord:
    """A run of which nothing is known: not safe.

    Parameters
    ----------
    kind, moment, seed : of the run
    problem : why, a sentence
    """
    return FaultRecord(
        fault=kind.name,
        moment=moment,
        seed=seed,
        runs=PROCESSES,
        reaction="unknown",
        detected_by=(),
        detected_after_ms=math.nan,
        time_to_safe_ms=math.nan,
        tension_peak_n=math.nan,
        tension_left_n=math.nan,
        slack_ms=math.nan,
        deviation_mm=math.nan,
        told=(),
        ended_safe=False,
        recovered_without_restart=False,
        problems=(problem,),
    )


def knowable_after_s(kind: FaultKind, robot: Robot) -> float:
    """As of the table, for a robot with motor boards on CAN. Raises :class:`ParameterError` for another one.

    Parameters
    ----------
    kind : of fault
    """
    boards = robot.hardware.tendon_actuators if robot.hardware is not None else None
    if robot.limits is None or not isinstance(boards, OdriCan):
        raise ParameterError("robot", robot.name, "a robot with limits and motor boards on CAN")
    return table.knowable_after_s(kind, robot.limits, boards)


def run_campaign(
    robot_file: str, kinds: Sequence[FaultKind] = KINDS, moment_count: int = len(MOMENTS), seed: int = 0
) -> Iterator[FaultRecord]:
    """All runs in processes, on one stack that is brought up once, and anew where a run left it broken.

    Parameters
    ----------
    robot_file : path of a robot file or name of a shipped one, with motor boards on CAN
    kinds : those in virtual time are left out
    moment_count : of ``MOMENTS``, the first ones
    seed : of noise

    Yields
    ------
    a record a run

    Raises
    ------
    DeviceError : the stack does not come up
    """
    wanted = [kind for kind in kinds if kind.runs == PROCESSES]
    if not wanted:
        return
    waiting = [(kind, moment) for kind in wanted for moment in moments(moment_count)]
    while waiting:
        with (
            tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name,
            ProcessRobot(robot_file, Path(name), seed) as stand,
        ):
            if not stand.wait_until_up() and stand.recover():
                raise DeviceError("stack", f"is {stand.ears.stack_state or 'silent'}", "See the log above.")
            time.sleep(SETTLE_S)
            recovered = True
            while waiting and recovered:
                kind, moment = waiting.pop(0)
                try:
                    record = run_one(stand, kind, moment, seed)
                except ContinuumRobotError as error:
                    record = unknown(kind, moment, seed, str(error))
                recovered = record.recovered_without_restart
                yield record
