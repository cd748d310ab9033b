# SPDX-License-Identifier: Apache-2.0
"""The stack under test in soak and campaign: its program, a client's link, a thread that watches the robot's truth."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.running.child_process import CHILD_MODULE
from continuum_robot.app.soak.stack import PIDS, TRUTH
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.truth_ring import TruthRingReader
from continuum_robot.srv import ManageStack

Vector = NDArray[np.float64]

UP_TIMEOUT_S = 180.0
RESET_TIMEOUT_S = 90.0
RETURN_TIMEOUT_S = 60.0
ATTEMPTS = 4
PAUSE_S = 3.0
"""Between two attempts: a node that was killed is listed for a while."""
CLIENT = "client"
"""This process itself, which is a client of the stack. What it holds is written, and judged by nobody: it keeps what it
saw, and its middleware something of each program that came and went."""
POLL_S = 0.1
_KEPT_S = 150.0
_END_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Overload:
    """A tendon had more than the robot's maximum."""

    at_s: float
    peak_n: float
    motor_n: float

    def __str__(self) -> str:
        return f"{self.at_s:.1f} s: a tendon had {self.peak_n:.2f} N"

    def is_shock(self, robot: Robot, slack_m: float) -> bool:
        """Whether a motor that took up slack made it: it has T s of energy at most, and a tendon takes T^2 / (2 k)."""
        if robot.limits is None or self.motor_n > robot.limits.maximum_n:
            return False
        shock_n = math.sqrt(2 * robot.tendon_stiffnesses_n_per_m.max() * self.motor_n * slack_m)
        return self.peak_n <= robot.limits.maximum_n + shock_n


class StackStand:
    """See the module."""

    def __init__(
        self,
        robot: str,
        folder: Path,
        options: Mapping[str, object] | None = None,
        look: Callable[[Mapping[str, int]], None] = lambda _pids: None,
    ) -> None:
        self.robot = load_robot(robot)
        robot_limits = self.robot.displacement_limits if self.robot.takes_displacements else self.limits
        self._maximum_n = robot_limits.maximum_n
        self.peak_n = self.lived_s = 0.0
        self._overloads: list[Overload] = []
        self._robot_name, self._folder = robot, folder
        self._options, self._look = {"contact": True, **(options or {})}, look
        self._environment = dict(os.environ)
        self._ring = TruthRingReader(folder / TRUTH)
        self._newest: deque[dict[str, Vector]] = deque()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._begin_s = time.monotonic()
        self._program: subprocess.Popen[bytes] | None = None
        self.link: StackLink = None  # type: ignore[assignment]
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)

    @property
    def limits(self) -> TensionLimits:
        """Those of a robot that takes tensions. Raises :class:`ParameterError` for another one."""
        return self.robot.tension_limits

    def start(self) -> None:
        """Start the stack, wait until it is up, and watch it."""
        self._start()
        if not self._watcher.is_alive():
            self._watcher.start()

    def close(self) -> str:
        """End the stack; why it did not end well, "" where it did."""
        self._ended.set()
        if self._watcher.is_alive():
            self._watcher.join()
        return self._end()

    def restart(self) -> str:
        """Stop the stack's program and start another; gives why the old one did not end well, "" where it did."""
        problem = self._end()
        self._start()
        return problem

    def _start(self) -> None:
        (self._folder / PIDS).unlink(missing_ok=True)
        with_parent = [sys.executable, "-m", CHILD_MODULE, str(os.getpid())]
        program = [sys.executable, "-m", "continuum_robot.app.soak.stack", self._robot_name, str(self._folder)]
        command = [*with_parent, *program, json.dumps(self._options)]
        with (self._folder / "stack.log").open("ab") as log:
            self._program = started = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, process_group=0, env=self._environment
            )
        wait_for(lambda: bool(self._pids()) or started.poll() is not None, UP_TIMEOUT_S, POLL_S)
        if not self._pids():
            raise DeviceError("stack", "did not come up", f"See {self._folder / 'stack.log'}")
        self.link = StackLink()
        if not self.wait_until_up(UP_TIMEOUT_S):
            raise DeviceError("stack", f"is {self.state.stack or 'silent'}", f"See {self._folder / 'stack.log'}")

    def _end(self) -> str:
        if self.link is not None:
            self.link.close()
        program, self._program = self._program, None
        if program is None:
            return ""
        program.send_signal(signal.SIGCONT)
        program.send_signal(signal.SIGTERM)
        try:
            code = program.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            return f"the stack did not end within {_END_TIMEOUT_S:g} s"
        return "" if code == 0 else f"the stack ended with code {code}"

    # --- processes

    def _pids(self) -> dict[str, int]:
        try:
            return dict(json.loads((self._folder / PIDS).read_text(encoding="utf-8")))
        except OSError:
            return {}

    def pid(self, process: str) -> int:
        """Process id of a part of the stack. Raises :class:`DeviceError` where it is not known."""
        pids = self._pids()
        if process not in pids:
            raise DeviceError(process, "is no process of the stack", f"Processes: {', '.join(pids)}")
        return pids[process]

    # --- what the stack reports

    @property
    def state(self) -> RobotState:
        """The stack's status now."""
        return self.link.state()

    def wait_until_up(self, timeout_s: float) -> bool:
        """Whether the stack is up within a time."""
        return wait_for(lambda: self.state.obeys, timeout_s, POLL_S)

    def recover(self) -> str:
        """What an operator does: wait for lost processes to come back, reset; why it is not up then, "" where it is."""
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S)
            wait_for(lambda: self._all_there() or self._ended_by_itself, RETURN_TIMEOUT_S, POLL_S)
            if self._ended_by_itself:
                return "the stack's program is gone"
            try:
                self.link.manage(ManageStack.Request.RESET, RESET_TIMEOUT_S)
            except ContinuumRobotError as error:
                problem = str(error)
                continue
            if self.wait_until_up(20.0):
                return ""
            state = self.state
            problem = f"the stack is {state.stack}, faults: {', '.join(state.all_faults) or 'none'}"
        return problem

    @property
    def _ended_by_itself(self) -> bool:
        return self._program is not None and self._program.poll() is not None

    def _all_there(self) -> bool:
        nodes = self.state.nodes
        return bool(nodes) and all(state in ("inactive", "active") for state in nodes.values())

    # --- the truth

    def _watch(self) -> None:
        while not self._ended.wait(POLL_S):
            self._take()
            self._look({**self._pids(), CLIENT: os.getpid()})

    def _take(self) -> None:
        with self._lock:
            truth = self._ring.read()
            if truth and truth["time_s"].size:
                self._note(truth)

    def _note(self, truth: dict[str, Vector]) -> None:
        peak_n = float(truth["tension_n"].max())
        self.peak_n = max(self.peak_n, peak_n)
        if peak_n > self._maximum_n:
            at_s = float(truth["time_s"][int(truth["tension_n"].max(axis=1).argmax())]) - self._begin_s
            self._overloads.append(Overload(at_s, peak_n, float(truth["motor_n"].max())))
        self.lived_s += float(np.clip(np.diff(truth["lived_s"]), 0.0, None).sum())
        self._newest.append(truth)
        while self._newest[0]["time_s"][-1] < truth["time_s"][-1] - _KEPT_S:
            self._newest.popleft()

    def overloads(self) -> list[Overload]:
        """When a true tension was beyond the robot's maximum, since the last call."""
        self._take()
        with self._lock:
            found, self._overloads = self._overloads, []
        return found

    def truth(self, begin_s: float) -> dict[str, Vector]:
        """What happened since a time, as far as it is kept; empty where no robot lived."""
        self._take()
        with self._lock:
            parts = [part for part in self._newest if part["time_s"][-1] >= begin_s]
        if not parts:
            return {}
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        kept = joined["time_s"] >= begin_s
        return {name: values[kept] for name, values in joined.items()} if kept.any() else {}

    def lived(self, begin_s: float, duration_s: float, timeout_s: float) -> bool:
        """Wait until the robot has lived for a time: this machine may be too busy to simulate it in real time."""

        def enough() -> bool:
            lived_s = self.truth(begin_s).get("lived_s")
            return lived_s is not None and float(np.ptp(lived_s)) >= duration_s

        return wait_for(enough, timeout_s, POLL_S)

    @property
    def truth_lost(self) -> int:
        """Milliseconds of truth that were overwritten before they were read."""
        return self._ring.lost
