# SPDX-License-Identifier: Apache-2.0
"""The stack of `up` in processes that faults happen to: its program, a client's link, the truth of its robot."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml
from continuum_robot.srv import InjectFault, ManageStack
from numpy.typing import NDArray

from continuum_robot.app.client.motions import source_parameters
from continuum_robot.app.client.stack_link import SOURCE, StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.running.child_process import CHILD_MODULE
from continuum_robot.drivers.backends import boards_of
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.parts import self_contained
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.assembly import cycle_period_s
from continuum_robot.simulation.truth import TruthRingReader
from faults.judge import Truth, has_stopped, shock_n
from faults.kinds import INJECTION_TIMES, MOVE_S, SAFE, UP, Kind, known_after_s, limits_of, moments, move_of
from faults.runner import Effect, FaultRecord, failed, run_one
from faults.up_actions import BOARD_TIMEOUTS, NOTICE_S, WATCH_S, happen
from faults.up_program import PIDS, TRUTH

Vector = NDArray[np.float64]

TESTS = Path(__file__).resolve().parents[1]
UP_TIMEOUT_S = 180.0
RESET_TIMEOUT_S = 90.0
RETURN_TIMEOUT_S = 60.0
RECOVERY_TIMEOUT_S = 180.0
"""After which no further reset is tried."""
PAUSE_S = 3.0
"""Between two attempts: a node that was killed is listed for a while."""
CLIENT = "client"
"""This process itself, which is a client of the stack. What it holds is written, and judged by nobody: it keeps what it
saw, and its middleware something of each program that came and went."""
POLL_S = 0.1
_KEPT_S = 150.0
_END_TIMEOUT_S = 60.0
LONGEST_WATCH_S, NOTICE_PERIOD_S = 30.0, 0.005
RATES_HZ = (1000.0, 500.0, 250.0)
"""Of the driver, the first that this machine keeps."""
TRIALS, TRIAL_S = 3, 3.0
SERVO_MOVE_S, LONGEST_SERVO_WATCH_S = 2.0, 600.0
OWN_PACKAGE = """
from pathlib import Path
import numpy as np
from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.estimation.contact.own_observer import Finding

class Controller:
    def __init__(self, robot):
        self._law = ClarkeController(robot)

    def reset(self, reading, tension, reference):
        self._law.reset(reading.displacement_m, tension)

    def update(self, reading, reference, dt):
        return self._law.update(reading.displacement_m, reading.velocity_m_per_s, reference, dt).command

    def ask_pretension(self, pretension_n):
        raise KeyError(pretension_n)

class Observer:
    def __init__(self, robot, size):
        self._nothing, self._one = np.zeros(size), np.ones(size)

    def reset(self):
        pass

    def update(self, cycle, state):
        if Path(__file__).with_name("raise").exists():
            raise ZeroDivisionError("a defect")
        return Finding(self._nothing, self._one, np.diag(self._one))
"""
OWN_ENTRIES = """
[continuum_robot.controllers]
own = own_of_campaign:Controller
[continuum_robot.contact_observers]
own = own_of_campaign:Observer
"""


@dataclass(frozen=True, slots=True)
class Overload:
    """A tendon had more than the robot's maximum."""

    at_s: float
    peak_n: float
    motor_n: float

    def __str__(self) -> str:
        return f"{self.at_s:.1f} s: a tendon had {self.peak_n:.2f} N"

    def is_shock(self, robot: Robot, slack_m: float) -> bool:
        """Whether a motor that took up slack made it."""
        if robot.limits is None or self.motor_n > robot.limits.maximum_n:
            return False
        return self.peak_n <= robot.limits.maximum_n + shock_n(robot, self.motor_n, slack_m)


class UpStand:
    """A :class:`.runner.Stand` on the stack that `up` starts. Its clock is the monotonic one.

    Truth is on the time that the robot lived through: what it left out since the machine was busy does not count.
    ``look`` gets the process ids, now and then.
    """

    exact = False

    def __init__(
        self,
        robot: str,
        folder: Path,
        options: Mapping[str, object] | None = None,
        look: Callable[[Mapping[str, int]], None] = lambda _pids: None,
        seed: int = 0,
    ) -> None:
        self.robot = load_robot(robot)
        self.rate_hz = 1 / cycle_period_s(self.robot)
        self.rng = np.random.default_rng(seed)
        self.notices: dict[str, float] = {}
        self.reported: list[str] = []
        self._listening = threading.Event()
        self._maximum_n = self.limits.maximum_n
        self.peak_n = self.lived_s = 0.0
        self._overloads: list[Overload] = []
        self._robot_name, self._folder = robot, folder
        self._options, self._look = {"contact": True, **(options or {})}, look
        paths = (str(folder), str(TESTS), os.environ.get("PYTHONPATH", ""))
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._ring = TruthRingReader(folder / TRUTH)
        self._newest: deque[dict[str, Vector]] = deque()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._begin_s = time.monotonic()
        self._program: subprocess.Popen[bytes] | None = None
        self.link: StackLink = None  # type: ignore[assignment]
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        threading.Thread(target=self._listen, name="notices", daemon=True).start()

    @property
    def limits(self) -> Any:
        """Of the robot."""
        return limits_of(self.robot)

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
        program = [sys.executable, "-m", "faults.up_program", self._robot_name, str(self._folder)]
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

    @property
    def processes(self) -> tuple[str, ...]:
        """Names of the parts of the stack."""
        return tuple(self._pids())

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

    def reset(self) -> str:
        """What an operator does: wait for lost processes to come back, reset; why it is not up then, "" where it is."""
        problem, end_s = "", time.monotonic() + RECOVERY_TIMEOUT_S
        while time.monotonic() < end_s:
            if problem:
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

    def rows(self, begin_s: float) -> dict[str, Vector]:
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
            lived_s = self.rows(begin_s).get("lived_s")
            return lived_s is not None and float(np.ptp(lived_s)) >= duration_s

        return wait_for(enough, timeout_s, POLL_S)

    @property
    def truth_lost(self) -> int:
        """Milliseconds of truth that were overwritten before they were read."""
        return self._ring.lost

    def inject(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Have a device fail, by the service of the simulator; "": end all."""
        request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
        self.link.ask("inject_fault", InjectFault, request, again_s=None)

    # --- as a stand

    def _listen(self) -> None:
        while not self._ended.wait(NOTICE_PERIOD_S):
            if not self._listening.is_set():
                continue
            with contextlib.suppress(ContinuumRobotError):
                state = self.state
                for name in state.driver_faults:
                    self._hear(f"tendon_driver: {name}", f"{state.driver_message}: {FAULTS.get(name, name)}")
                for name in state.faults:
                    self._hear(f"supervisor: {name}", name)

    def _hear(self, who: str, sentence: str) -> None:
        if who not in self.notices:
            self.notices[who] = self.now_s
            self.reported.append(sentence)

    @property
    def now_s(self) -> float:
        """As :class:`.runner.Stand`."""
        return time.monotonic()

    def move(self, _kind: Kind, moment: str) -> None:
        """As :class:`.runner.Stand`."""
        self.link.restart()
        time.sleep(INJECTION_TIMES[moment])

    def act(self, kind: Kind, _moment: str) -> Effect:
        """As :class:`.runner.Stand`."""
        self.notices, self.reported = {}, []
        self._listening.set()
        return happen(kind, self, self.rng)

    def known_after_s(self, kind: Kind) -> float:
        """As :class:`.runner.Stand`."""
        return known_after_s(kind, self.robot, BOARD_TIMEOUTS * self.limits.command_timeout_s)

    def watch(self, kind: Kind, effect: Effect, begin_s: float, after_s: float) -> None:
        """As :class:`.runner.Stand`."""
        self.lived(begin_s, WATCH_S + (after_s if math.isfinite(after_s) else 0.0), LONGEST_WATCH_S)
        if kind.found_by and not effect.found:
            wait_for(lambda: any(who.startswith(kind.found_by) for who in list(self.notices)), NOTICE_S, 0.05)

    def truth(self, begin_s: float) -> Truth:
        """As :class:`.runner.Stand`."""
        self._listening.clear()
        rows = self.rows(begin_s)
        if not rows:
            raise DeviceError("simulator", "wrote no truth", "See the stack's log.")
        manifold = controlled_manifold(self.robot)
        clarke_m = np.array([manifold.clarke(row) for row in rows["displacement_m"]])
        unknown = np.full_like(rows["displacement_m"], np.nan)
        self._wall_s, self._lived_s = rows["time_s"], begin_s + rows["lived_s"] - rows["lived_s"][0]
        self.notices = {who: self.truth_time(at_s) for who, at_s in self.notices.items()}
        return {
            "time_s": self._lived_s,
            "tension_n": rows["tension_n"],
            "motor_n": rows["motor_n"],
            "clarke_m": clarke_m,
            "reference_m": np.full_like(clarke_m, np.nan),
            "spool_m": rows["displacement_m"],
            "commanded": unknown,
        }

    def truth_time(self, at_s: float) -> float:
        """As :class:`.runner.Stand`."""
        late_s = max(0.0, at_s - float(self._wall_s[-1]))
        return float(np.interp(at_s, self._wall_s, self._lived_s)) + late_s

    def stopped(self, truth: Truth) -> bool:
        """As :class:`.runner.Stand`."""
        return has_stopped(self.robot, truth, self.limits)

    def recover(self, _kind: Kind, effect: Effect, *, stopped: bool) -> str:
        """As :class:`.runner.Stand`; also where nothing stopped: the next motion begins from a straight robot."""
        try:
            effect.repair()
        except ContinuumRobotError as error:
            return str(error)
        return self.reset()


class CampaignStand(UpStand):
    """The stack for one kind of controller: in the cycle, in a process (`topic`) or of another package (`own`).

    A machine on which the driver is late without any fault would judge itself: there the driver runs slower.
    """

    def __init__(
        self, robot_file: str, folder: Path, controller: str, seed: int, patience: Mapping[str, Mapping[str, object]]
    ) -> None:
        self.file, self.folder = folder / "robot.yaml", folder
        self.text = self_contained(find_robot_file(robot_file))
        self._parameters: dict[str, dict[str, object]] = {name: dict(values) for name, values in patience.items()}
        if controller == "own":
            self._parameters["contact_monitor"] = {"method": "own"}
            data = yaml.safe_load(self.text)
            data["control"]["law"] = "own"
            self.text, controller = yaml.safe_dump(data, sort_keys=False), "clarke"
            _write_own_package(folder)
        self.file.write_text(self.text, encoding="utf-8")
        robot = load_robot(str(self.file))
        boards_of(robot)
        amplitude_m = move_of(robot).at(MOVE_S).position
        motion = source_parameters(robot, "rest_to_rest", {"amplitude_m": amplitude_m, "period_s": MOVE_S})
        self._parameters[SOURCE] = {**motion, "blend_s": 0.0}
        self._parameters.setdefault("clarke_controller", {})["reference.blend_s"] = 0.0
        options = {"controller": controller, "record_directory": str(folder / "runs")}
        super().__init__(str(self.file), folder, options, seed=seed)
        self.page: Any = None

    def start(self) -> None:
        """Start the stack at the highest rate at which a motion without a fault is not late here, and watch it."""
        problem, driver = "", self._parameters.get("tendon_driver", {})
        given = [float(str(driver["rate_hz"]))] * len(RATES_HZ) if "rate_hz" in driver else RATES_HZ
        for self.rate_hz in given:
            driver = {**driver, "rate_hz": self.rate_hz}
            self._options["parameters"] = {**self._parameters, "tendon_driver": driver}
            try:
                super().start()
                problem = self._late()
            except DeviceError as error:
                problem = str(error)
            if not problem:
                return
            sys.stderr.write(f"{self.rate_hz:g} Hz: {problem} without a fault; the stack starts again\n")
            self._end()
        late = f"does not run without a fault at {self.rate_hz:g} Hz either: {problem}"
        raise DeviceError("stack", late, "See its log")

    def _late(self) -> str:
        """What stops motions and resets though nothing is broken, "" where nothing does."""
        for _ in range(TRIALS):
            self.link.restart()
            if wait_for(lambda: not self.state.obeys, TRIAL_S, 0.05):
                return ", ".join(self.state.all_faults) or f"the stack is {self.state.stack or 'silent'}"
            problem = self.reset()
            if problem:
                return problem
        return ""

    def close(self) -> str:
        """End page and stack; why the stack did not end well, "" where it did."""
        if self.page is not None:
            self.page.close()
        return super().close()


class ServoStand(UpStand):
    """A servo robot in the processes of `up`, with the driver at a pseudo-terminal, in lock-step.

    On any machine nothing is late, and the end is judged, no time. A reset makes the simulated devices anew.
    """

    def __init__(self, robot_file: str, folder: Path, _controller: str, seed: int, _patience: object) -> None:
        options = {"simulation_level": "wire", "contact": False, "clock": "lockstep"}
        super().__init__(robot_file, folder, options, seed=seed)

    @property
    def now_s(self) -> float:
        """The simulated robot's time."""
        return float(self.rows(-math.inf)["time_s"][-1])

    def move(self, _kind: Kind, _moment: str) -> None:
        """As :class:`.runner.Stand`."""
        self.link.restart()
        self.lived(self.now_s, SERVO_MOVE_S, LONGEST_SERVO_WATCH_S)

    def known_after_s(self, _kind: Kind) -> float:
        """From its detection."""
        return math.nan

    def watch(self, kind: Kind, _effect: Effect, begin_s: float, _after_s: float) -> None:
        """As :class:`.runner.Stand`."""
        if kind.becomes == SAFE:
            late_s = begin_s + NOTICE_S
            wait_for(lambda: bool(self.notices) or self.now_s > late_s, LONGEST_SERVO_WATCH_S, 0.1)
        longest_s = self.limits.longest_ramp_s if self.notices else 0.0
        self.lived(self.now_s, WATCH_S + longest_s, LONGEST_SERVO_WATCH_S)

    def stopped(self, _truth: Truth) -> bool:
        """As :class:`.runner.Stand`."""
        return bool(self.notices)


def _write_own_package(folder: Path) -> None:
    """A package of others, as its installation leaves it."""
    about = folder / "own_of_campaign-1.0.dist-info"
    about.mkdir()
    (folder / "own_of_campaign.py").write_text(OWN_PACKAGE, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-of-campaign\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(OWN_ENTRIES, encoding="utf-8")


@contextlib.contextmanager
def running(
    robot_file: str, controller: str, seed: int, patience: Mapping[str, Mapping[str, object]]
) -> Iterator[UpStand]:
    """A stack that is up, in a folder of its own."""
    kind = ServoStand if load_robot(robot_file).takes_displacements else CampaignStand
    with tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name:
        stand = kind(robot_file, Path(name), controller, seed, patience)
        try:
            stand.start()
            yield stand
        finally:
            stand.close()


def run_on_up(
    robot_file: str,
    kinds: Sequence[Kind],
    count: int = 3,
    seed: int = 0,
    patience: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[FaultRecord]:
    """All runs in the processes of `up`, one stack a controller, started again where a run left it broken.

    ``patience``: parameters of nodes that let a busy machine be late, among them the only ``rate_hz`` that is tried.
    """
    servos = load_robot(robot_file).takes_displacements
    for controller in ("clarke", "topic", "own"):
        waiting = [
            (kind, moment)
            for kind in kinds
            if (kind.up or kind.runs == UP) and kind.controller == controller
            for moment in moments(kind, 1 if servos else count)
        ]
        while waiting:
            try:
                with running(robot_file, controller, seed, patience) as stand:
                    recovered = True
                    while waiting and recovered:
                        kind, moment = waiting.pop(0)
                        record = run_one(stand, kind, moment, seed, runs=UP)
                        recovered = record.recovered_without_restart
                        yield record
            except DeviceError as error:  # it did not come up: that run has failed, and the others are to be judged
                if not waiting:
                    raise
                kind, moment = waiting.pop(0)
                yield failed(kind, moment, seed, str(error))
