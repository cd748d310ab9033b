# SPDX-License-Identifier: Apache-2.0
"""The faults that need a whole stack as ``up`` starts it: pages, requests, resets, and processes that come back.

The robot is simulated in a process of its own, with boards that have a receive timeout. Times to the safe state are
those that this robot lived through: what it left out since the machine was busy does not count.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import yaml
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.client.trajectories import source_parameters
from continuum_robot.app.fault_processes import NOTICE_S, WATCH_S, knowable_after_s, unknown
from continuum_robot.app.soak.faults import (
    BOARD_TIMEOUTS,
    STALL_S,
    Effect,
    estop_by_two,
    foreign_commands,
    hostile_requests,
)
from continuum_robot.app.soak.stand import RETURN_TIMEOUT_S, StackStand
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.campaign import (
    DISPLACEMENT_SHARE,
    MOMENTS,
    MOVE_S,
    FaultRecord,
    moments,
)
from continuum_robot.experiments.fault_campaign.judgement import DEVIATION_M, TORQUE_MARGIN_N, judge
from continuum_robot.experiments.fault_campaign.kind import STACK, FaultKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS
from continuum_robot.nodes.spinning import wait_for
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.srv import ManageStack

Vector = NDArray[np.float64]

LONGEST_WATCH_S = 30.0
NOTICE_PERIOD_S = 0.005
LOWERED = 0.3
"""Fraction of limits.maximum_n to which the file is changed: less than the motion needs."""
PAGE_TIMEOUT_S = 60.0
RESPAWNED = {"driver_respawned": "tendon_driver", "controller_respawned": "clarke_controller"}
"""Kinds that kill a process, and which."""
OWN_PROCESS = (*RESPAWNED, "unsequenced_writer")
"""Kinds that need the controller in a process of its own."""
_WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: viser-v{version}\r\n\r\n"
)


@dataclass(slots=True)
class _Deed:
    """What an action did and found.

    Attributes
    ----------
    begin_s : from when on the robot's truth is judged, s
    found : who found it
    problems : what was not as it must be
    limits : by which the truth is judged; None: those of the robot
    repair : ends the cause
    """

    begin_s: float
    found: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    limits: TensionLimits | None = None
    repair: Callable[[], None] = lambda: None


class _Run:
    """The stack under test, and what some of the actions need beside it."""

    def __init__(self, stand: StackStand, file: Path, seed: int) -> None:
        self.stand, self.file = stand, file
        self.text = file.read_text(encoding="utf-8")
        self.rng = np.random.default_rng(seed)
        self.page: _PageProgram | None = None

    def move(self) -> None:
        """Move from a straight robot to a share of the largest displacement. Raises :class:`DeviceError`."""
        self.stand.link.restart()

    def close(self) -> None:
        if self.page is not None:
            self.page.close()


class _PageProgram:
    """The page in the browser, as ``continuum-robot view`` serves it."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._log = folder / "view.log"
        command = [sys.executable, "-m", "continuum_robot.app.command_line", "view", str(file), "--out", str(folder)]
        with self._log.open("wb") as log:
            self._program = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "300"}, process_group=0
            )
        if not wait_for(lambda: bool(self._found()) or self._program.poll() is not None, PAGE_TIMEOUT_S, 0.1):
            raise DeviceError("view", "serves no page", f"See {self._log}")
        self.address = urlsplit(self._found())

    def _found(self) -> str:
        match = re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", self._log.read_text(encoding="utf-8"))
        return match.group(0) if match else ""

    def status(self, *, host: str = "", origin: str = "", query: str | None = None) -> int:
        """HTTP status with which a websocket is answered; 101: it was opened.

        Parameters
        ----------
        host, origin : headers; "": of the page, none
        query : behind the question mark; None: the page's own, with its token
        """
        address = self.address
        lines = f"GET /?{address.query if query is None else query} HTTP/1.1\r\nHost: {host or address.netloc}\r\n"
        lines += f"Origin: {origin}\r\n" if origin else ""
        with socket.create_connection(("127.0.0.1", address.port or 0), 10.0) as connection:
            connection.sendall((lines + _WEBSOCKET.format(version=version("viser"))).encode())
            answer = connection.recv(4096).decode(errors="replace")
        match = re.match(r"HTTP/1\.1 (\d{3})", answer)
        return int(match.group(1)) if match else 0

    def close(self) -> None:
        self._program.send_signal(signal.SIGINT)
        try:
            self._program.wait(10.0)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()


# --- what happens


def _cross_origin(run: _Run) -> _Deed:
    deed = _Deed(time.monotonic())
    page, link = run.page, run.stand.link
    if page is None:
        raise DeviceError("view", "was not started", "Start it before.")
    writer = link.writer
    forged = {
        "origin": page.status(origin="https://evil.example"),
        "host": page.status(host=f"evil.example:{page.address.port}"),
        "no token": page.status(query=""),
        "old token": page.status(query="token=of_an_earlier_start"),
    }
    admitted = [f"{name} ({status})" for name, status in forged.items() if status != 403]
    if admitted:
        deed.problems.append(f"not refused: {', '.join(admitted)}")
    elif page.status() != 101:
        deed.problems.append("the page takes nobody: the refusals prove nothing")
    else:
        deed.found.append("view: refused")
    if link.writer != writer:
        deed.problems.append(f"{link.writer} writes the references now")
    return deed


def _stale_file(run: _Run) -> _Deed:
    data = yaml.safe_load(run.text)
    limits = run.stand.limits
    data["limits"]["maximum_n"] = LOWERED * limits.maximum_n
    run.file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    lowered = load_robot(str(run.file)).limits
    link = run.stand.link
    link.manage(ManageStack.Request.SHUTDOWN)
    link.manage(ManageStack.Request.STARTUP)
    deed = _Deed(time.monotonic(), limits=lowered, repair=lambda: void(run.file.write_text(run.text, encoding="utf-8")))
    if run.stand.wait_until_up(20.0):
        deed.found.append("supervisor: up")
    run.move()
    time.sleep(MOVE_S + 0.5)
    truth = run.stand.truth(deed.begin_s)
    motor_n = float(truth["motor_n"].max())
    if lowered is None or motor_n > lowered.maximum_n + TORQUE_MARGIN_N:
        deed.problems.append(f"a motor pulled with {motor_n:.1f} N, more than the file's new limit")
    return deed


def void(_result: object) -> None:
    """Nothing."""


def _reset_moves_nothing(run: _Run) -> _Deed:
    stand = run.stand
    stand.link.trigger("estop")
    stand.link.manage(ManageStack.Request.RESET)
    if not stand.wait_until_up(20.0):
        raise DeviceError("stack", f"is {stand.stack_state} after the reset", "See its log.")
    deed = _Deed(time.monotonic())
    time.sleep(WATCH_S)
    truth = stand.truth(deed.begin_s)
    way_m = float(np.ptp(truth["displacement_m"], axis=0).max())
    if stand.holding:
        deed.found.append("supervisor: holding")
    if way_m > DEVIATION_M:
        deed.problems.append(f"a tendon moved by {1e3 * way_m:.1f} mm though nobody started a motion")
    return deed


def _shared(action: Callable[[StackStand, np.random.Generator], Effect], found: str) -> Callable[[_Run], _Deed]:
    """An action of the soak; ``found`` where it found all as it must be."""

    def act(run: _Run) -> _Deed:
        begin_s = time.monotonic()
        effect = action(run.stand, run.rng)
        begin_s = effect.known_s if math.isfinite(effect.known_s) else begin_s
        return _Deed(begin_s, [found] if found else [], repair=effect.repair)

    return act


def _stall_supervisor(run: _Run) -> _Deed:
    pid = run.stand.pid("supervisor")
    deed = _Deed(time.monotonic())
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(pid, signal.SIGCONT)
    time.sleep(WATCH_S)
    deed.problems += [f"declared {fault}" for fault in run.stand.faults if fault.startswith("node_lost")]
    return deed


def _kill(process: str) -> Callable[[_Run], _Deed]:
    def act(run: _Run) -> _Deed:
        pid = run.stand.pid(process)
        begin_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)

        def repair() -> None:
            if not wait_for(lambda: run.stand.pid(process) != pid, RETURN_TIMEOUT_S, 0.1):
                raise DeviceError(process, "was not started again", "See the stack's log.")

        return _Deed(begin_s, repair=repair)

    return act


ACTIONS: dict[str, Callable[[_Run], _Deed]] = {
    "cross_origin": _cross_origin,
    "stale_file": _stale_file,
    "reset_moves_nothing": _reset_moves_nothing,
    "estop_by_two": _shared(estop_by_two, ""),
    "hostile_request": _shared(hostile_requests, "services: refused"),
    "supervisor_stalled": _stall_supervisor,
    "unsequenced_writer": _shared(foreign_commands, ""),
    **{name: _kill(process) for name, process in RESPAWNED.items()},
}
"""What each kind does that runs in the processes of ``up``."""


class _Notices:
    """When which fault was named first, while a block runs.

    Attributes
    ----------
    first_s : on the monotonic clock, s, by who and what
    """

    def __init__(self, stand: StackStand) -> None:
        self.first_s: dict[str, float] = {}
        self._stand, self._ended = stand, threading.Event()
        self._thread = threading.Thread(target=self._look, name="notices", daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(NOTICE_PERIOD_S):
            for name in self._stand.faults:
                who = "supervisor" if ":" in name else "tendon_driver"
                self.first_s.setdefault(f"{who}: {name}", time.monotonic())

    def __enter__(self) -> _Notices:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()


def run_one(run: _Run, kind: FaultKind, moment: str, seed: int) -> FaultRecord:
    """Move, let it happen, watch, judge, recover; the stack is up, straight and holds before.

    Parameters
    ----------
    run : the stack under test
    moment : a key of ``MOMENTS``
    seed : of the campaign

    Raises
    ------
    ContinuumRobotError : the motion cannot be started, or the action fails
    """
    stand = run.stand
    run.move()
    time.sleep(MOMENTS[moment])
    after_s = knowable_after_s(kind, stand.robot)
    if kind.detectable == table.BOARD:
        after_s = BOARD_TIMEOUTS * stand.limits.command_timeout_s  # of this simulated robot's boards
    with _Notices(stand) as notices:
        deed = ACTIONS[kind.name](run)
        stand.lived(deed.begin_s, WATCH_S + (after_s if math.isfinite(after_s) else 0.0), LONGEST_WATCH_S)
        truth = judged_truth(stand, deed.begin_s)
        if kind.detectors and not deed.found:
            wait_for(lambda: any(name.startswith(kind.detectors) for name in list(notices.first_s)), NOTICE_S, 0.05)
    found = [*deed.found, *notices.first_s]
    first_s = min(notices.first_s.values(), default=math.nan)
    limits = deed.limits or stand.limits
    knowable_s = deed.begin_s + (after_s if math.isfinite(after_s) else 0.0)
    stopped = bool((truth["motor_n"][-1] <= limits.safe_n + TORQUE_MARGIN_N).all())
    if math.isnan(after_s) and notices.first_s:
        knowable_s = first_s
    if kind.reaction != table.SAFE and stopped:
        # Stopped by a fault that follows, or by a busy computer: when that could be known is not known here.
        knowable_s = _last_pull_s(truth, limits.safe_n)
    judgement = judge(stand.robot, limits, truth, knowable_s=knowable_s, stopped_s=knowable_s if stopped else math.nan)
    problems = [*judgement.problems, *deed.problems]
    reaction = table.SAFE if stopped else table.TOLERATED
    detected = [who for who in found if who.startswith(kind.detectors)] if kind.detectors else []
    if kind.reaction == table.SAFE and not stopped:
        problems.append("it was tolerated")
    if kind.detectors and not detected:
        problems.append("nobody noticed it")
    ended_safe = not problems
    if kind.reaction == table.TOLERATED and stopped:
        problems.append("it stopped all the same: " + ", ".join(found))
    recovery = _recovery(stand, deed)
    if recovery:
        problems.append(f"not recovered: {recovery}")
    return FaultRecord(
        fault=kind.name,
        moment=moment,
        seed=seed,
        runs=STACK,
        reaction=reaction,
        detected_by=tuple(dict.fromkeys([*detected, *found])),
        detected_after_ms=1e3 * (first_s - deed.begin_s),
        time_to_safe_ms=1e3 * judgement.time_to_safe_s,
        tension_peak_n=judgement.tension_peak_n,
        tension_left_n=judgement.tension_left_n,
        slack_ms=1e3 * judgement.slack_s,
        deviation_mm=1e3 * judgement.deviation_m,
        told=tuple(found),
        ended_safe=ended_safe,
        recovered_without_restart=not recovery,
        problems=tuple(problems),
    )


def judged_truth(stand: StackStand, begin_s: float) -> dict[str, Vector]:
    """The robot's truth since a time, on the time that it lived through; where it should be is not known here.

    Parameters
    ----------
    begin_s : of the monotonic clock, s

    Returns
    -------
    as :func:`judge` takes it: ``time_s``, shape (T,), s; ``tension_n``, ``motor_n``, shape (T, N), N; ``clarke_m`` and
    ``reference_m``, which is NaN, shape (T, 2m), m

    Raises
    ------
    DeviceError : no robot lived
    """
    truth = stand.truth(begin_s)
    if not truth:
        raise DeviceError("simulator", "wrote no truth", "See the stack's log.")
    clarke_m = np.array([controlled_manifold(stand.robot).clarke(row) for row in truth["displacement_m"]])
    return {
        "time_s": begin_s + truth["lived_s"] - truth["lived_s"][0],
        "tension_n": truth["tension_n"],
        "motor_n": truth["motor_n"],
        "clarke_m": clarke_m,
        "reference_m": np.full_like(clarke_m, np.nan),
    }


def _last_pull_s(truth: dict[str, Vector], safe_n: float) -> float:
    pulling = np.flatnonzero((truth["motor_n"] > safe_n + TORQUE_MARGIN_N).any(axis=1))
    return float(truth["time_s"][pulling[-1] if pulling.size else 0])


def _recovery(stand: StackStand, deed: _Deed) -> str:
    try:
        deed.repair()
    except ContinuumRobotError as error:
        return str(error)
    return stand.recover()  # also where nothing stopped: the next motion begins from a straight robot


def run_campaign(
    robot_file: str, kinds: Sequence[FaultKind] = KINDS, moment_count: int = len(MOMENTS), seed: int = 0
) -> Iterator[FaultRecord]:
    """All runs on stacks as ``up`` starts them: one with the controller in the cycle, one with it in a process.

    Parameters
    ----------
    robot_file : path of a robot file or name of a shipped one, with motor boards on CAN
    kinds : those that run elsewhere are left out
    moment_count : of ``MOMENTS``, the first ones
    seed : of what is drawn

    Yields
    ------
    a record a run

    Raises
    ------
    DeviceError : the stack does not end
    """
    for controller in ("clarke", "topic"):
        chosen = [k for k in kinds if k.runs == STACK and (k.name in OWN_PROCESS) == (controller == "topic")]
        waiting = [(kind, moment) for kind in chosen for moment in moments(moment_count)]
        while waiting:
            try:
                with _running(robot_file, controller, seed) as run:
                    recovered = True
                    while waiting and recovered:
                        kind, moment = waiting.pop(0)
                        try:
                            if kind.name == "cross_origin" and run.page is None:
                                run.page = _PageProgram(run.file, run.file.parent)
                            record = run_one(run, kind, moment, seed)
                        except ContinuumRobotError as error:
                            record = dataclasses.replace(unknown(kind, moment, seed, str(error)), runs=STACK)
                        recovered = record.recovered_without_restart
                        yield record
            except DeviceError as error:  # it did not come up: that run has failed, and the others are to be judged
                if not waiting:
                    raise
                kind, moment = waiting.pop(0)
                yield dataclasses.replace(unknown(kind, moment, seed, str(error)), runs=STACK)


@contextlib.contextmanager
def _running(robot_file: str, controller: str, seed: int) -> Iterator[_Run]:
    with tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name:
        file = Path(name, "robot.yaml")
        file.write_text(find_robot_file(robot_file).read_text(encoding="utf-8"), encoding="utf-8")
        robot = load_robot(str(file))
        limits = robot.limits
        amplitude_m = np.zeros(robot.coordinate_count)
        if limits is not None:
            amplitude_m[0] = DISPLACEMENT_SHARE * limits.maximum_displacement_m
        motion = source_parameters(robot, "rest_to_rest", {"amplitude_m": amplitude_m, "period_s": MOVE_S})
        parameters = {SOURCE: {**motion, "blend_s": 0.0}, "clarke_controller": {"reference.blend_s": 0.0}}
        stand = StackStand(str(file), file.parent, {"controller": controller, "parameters": parameters})
        try:
            stand.start()
            run = _Run(stand, file, seed)
            try:
                yield run
            finally:
                run.close()
        finally:
            stand.close()
