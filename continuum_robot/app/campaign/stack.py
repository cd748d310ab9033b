# SPDX-License-Identifier: Apache-2.0
"""The faults that need a whole stack as ``up`` starts it: pages, requests, resets, and processes that come back.

The robot is simulated in a process of its own, with boards that have a receive timeout. Times to the safe state are
those that this robot lived through: what it left out since the machine was busy does not count.

Names
-----
begin_s : from when on the truth is judged, of the monotonic clock, s
after_s : how long after that the fault can be known, s
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
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import yaml
from numpy.typing import NDArray
from std_msgs.msg import Float64

from continuum_robot.action import CheckTendons
from continuum_robot.app.campaign.runner import WATCH_S, Effect, Rng, killed, run_on_stacks, run_one, stopped_for
from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.client.trajectories import source_parameters
from continuum_robot.app.soak.faults import (
    BOARD_TIMEOUTS,
    STALL_S,
    estop_by_two,
    foreign_commands,
    forged_owner,
    hostile_requests,
    is_refused,
    parameter_flood,
    wrong_shapes,
)
from continuum_robot.app.soak.stand import StackStand
from continuum_robot.drivers.backends import boards_of
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.campaign import (
    DISPLACEMENT_FRACTION,
    INJECTION_TIMES,
    MOVE_S,
    FaultRecord,
)
from continuum_robot.experiments.fault_campaign.judgement import DEVIATION_M, TORQUE_MARGIN_N
from continuum_robot.experiments.fault_campaign.kind import STACK, FaultKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.file.parts import self_contained
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.srv import ManageStack

Vector = NDArray[np.float64]

LONGEST_WATCH_S = 30.0
LOWERED = 0.3
"""Fraction of limits.maximum_n to which the file is changed: less than the motion needs."""
PAGE_TIMEOUT_S = 60.0
RATES_HZ = (1000.0, 500.0, 250.0)
"""Of the driver, the first that this machine keeps."""
TRIALS, TRIAL_S = 3, 3.0
RESPAWNED = {"driver_respawned": "tendon_driver", "controller_respawned": "clarke_controller"}
"""Kinds that kill a process, and which."""
CONTROLLERS = {
    **dict.fromkeys((*RESPAWNED, "unsequenced_writer"), "topic"),
    **dict.fromkeys(("own_controller_refuses", "own_observer_fails"), "own"),
}
"""What the controller of a kind's stack is: in the cycle, unless it is in a process or of another package."""
PAGES = ("cross_origin", "page_connections", "page_message")
"""Kinds that need the page."""
CONNECTIONS, LONG_MIB = 300, 45
FLOOD_S, LOG_BYTES = 3.0, 4000
"""Of connections that idle, and how much the page's log may grow by them."""
SILENT_S = 0.5
"""Of the contact monitor."""
PROCEDURE_TIMEOUT_S = 120.0
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
_TOO_BIG = rb"\x88[\x02-\x7d]" + (1009).to_bytes(2, "big")
"""The last frame of a websocket that is closed for that reason, and so much of it at most."""
_LAST_BYTES = 127
_WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: viser-v{version}\r\n\r\n"
)


class UpStand(StackStand):
    """The stack under test as ``up`` starts it, and what some of the actions need beside it.

    A machine on which the driver is late without any fault would judge itself: there the driver runs slower.
    """

    def __init__(self, robot_file: str, folder: Path, controller: str) -> None:
        self.file = folder / "robot.yaml"
        self.text = self_contained(find_robot_file(robot_file))
        self._parameters: dict[str, dict[str, object]] = {}
        if controller == "own":
            self._parameters["contact_monitor"] = {"method": "own"}
            data = yaml.safe_load(self.text)
            data["control"]["law"] = "own"
            self.text, controller = yaml.safe_dump(data, sort_keys=False), "clarke"
            _write_own_package(folder)
        self.file.write_text(self.text, encoding="utf-8")
        robot = load_robot(str(self.file))
        boards_of(robot)
        amplitude_m = np.zeros(robot.coordinate_count)
        amplitude_m[0] = DISPLACEMENT_FRACTION * robot.tension_limits.maximum_displacement_m
        motion = source_parameters(robot, "rest_to_rest", {"amplitude_m": amplitude_m, "period_s": MOVE_S})
        self._parameters[SOURCE] = {**motion, "blend_s": 0.0}
        self._parameters["clarke_controller"] = {"reference.blend_s": 0.0}
        self.rate_hz = RATES_HZ[0]
        super().__init__(str(self.file), folder, {"controller": controller})
        paths = (str(folder), os.environ.get("PYTHONPATH", ""))
        self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._page: _PageProgram | None = None

    @property
    def page(self) -> _PageProgram:
        """The page, started with the first look at it. Raises :class:`DeviceError` where it does not come up."""
        if self._page is None:
            self._page = _PageProgram(self.file, self.file.parent)
        return self._page

    def start(self) -> None:
        """Start the stack at the highest rate at which a motion without a fault is not late here, and watch it."""
        problem = ""
        for self.rate_hz in RATES_HZ:
            self._options["parameters"] = {**self._parameters, "tendon_driver": {"rate_hz": self.rate_hz}}
            try:
                super().start()
                problem = self._late()
            except DeviceError as error:
                problem = str(error)
            if not problem:
                return
            self._end()
        late = f"does not run without a fault at {self.rate_hz:g} Hz either: {problem}"
        raise DeviceError("stack", late, "See its log")

    def _late(self) -> str:
        """What stops motions and resets though nothing is broken, "" where nothing does."""
        for _ in range(TRIALS):
            self.move()
            if wait_for(lambda: not self.state.obeys, TRIAL_S, 0.05):
                return ", ".join(self.state.all_faults) or f"the stack is {self.state.stack or 'silent'}"
            problem = self.recover()
            if problem:
                return problem
        return ""

    def move(self) -> None:
        """Move from a straight robot to a fraction of the largest displacement. Raises :class:`DeviceError`."""
        self.link.restart()

    def knowable_after_s(self, kind: FaultKind) -> float:
        """As of the table; NaN: from its detection."""
        if kind.name in PAGES:
            _ = self.page
        if kind.detectable == table.BOARD:  # of this simulated robot's boards
            return BOARD_TIMEOUTS * self.limits.command_timeout_s
        return table.knowable_after_s(kind, self.limits, boards_of(self.robot))

    def watch(self, begin_s: float, after_s: float) -> None:
        """Wait until the robot has lived for long enough."""
        self.lived(begin_s, WATCH_S + (after_s if math.isfinite(after_s) else 0.0), LONGEST_WATCH_S)

    def judged_truth(self, begin_s: float) -> dict[str, Vector]:
        """The robot's truth since a time, on the time that it lived through; where it should be is not known here."""
        truth = self.truth(begin_s)
        if not truth:
            raise DeviceError("simulator", "wrote no truth", "See the stack's log.")
        clarke_m = np.array([controlled_manifold(self.robot).clarke(row) for row in truth["displacement_m"]])
        return {
            "time_s": begin_s + truth["lived_s"] - truth["lived_s"][0],
            "tension_n": truth["tension_n"],
            "motor_n": truth["motor_n"],
            "clarke_m": clarke_m,
            "reference_m": np.full_like(clarke_m, np.nan),
        }

    def close(self) -> str:
        """End page and stack; why the stack did not end well, "" where it did."""
        if self._page is not None:
            self._page.close()
        return super().close()


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

    @property
    def log_bytes(self) -> int:
        """How long its log is."""
        return self._log.stat().st_size

    def connect(self) -> socket.socket:
        """A connection on which nothing was sent."""
        return socket.create_connection(("127.0.0.1", self.address.port or 0), 20.0)

    def status(self, *, host: str = "", origin: str = "", query: str | None = None) -> int:
        """HTTP status with which a websocket is answered; 101: it was opened, 0: there was no answer."""
        with contextlib.suppress(TimeoutError, ConnectionError), self.connect() as connection:
            return self.join(connection, host=host, origin=origin, query=query)
        return 0

    def join(self, connection: socket.socket, *, host: str = "", origin: str = "", query: str | None = None) -> int:
        """As :meth:`status`, on a connection that stays."""
        address = self.address
        lines = f"GET /?{address.query if query is None else query} HTTP/1.1\r\nHost: {host or address.netloc}\r\n"
        lines += f"Origin: {origin}\r\n" if origin else ""
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


def _write_own_package(folder: Path) -> None:
    """A package of others, as its installation leaves it."""
    about = folder / "own_of_campaign-1.0.dist-info"
    about.mkdir()
    (folder / "own_of_campaign.py").write_text(OWN_PACKAGE, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-of-campaign\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(OWN_ENTRIES, encoding="utf-8")


# --- what happens


def _cross_origin(stand: UpStand, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    page, writer = stand.page, stand.link.writer
    forged = {
        "origin": page.status(origin="https://evil.example"),
        "host": page.status(host=f"evil.example:{page.address.port}"),
        "no token": page.status(query=""),
        "old token": page.status(query="token=of_an_earlier_start"),
    }
    admitted = [f"{name} ({status})" for name, status in forged.items() if status != 403]
    problems, found = [], {}
    if admitted:
        problems.append(f"not refused: {', '.join(admitted)}")
    elif page.status() != 101:
        problems.append("the page takes nobody: the refusals prove nothing")
    else:
        found["view: refused"] = "403"
    if stand.link.writer != writer:
        problems.append(f"{stand.link.writer} writes the references now")
    return Effect(begin_s=begin_s, found=found, problems=tuple(problems))


def _stale_file(stand: UpStand, _rng: Rng) -> Effect:
    data = yaml.safe_load(stand.text)
    data["limits"]["maximum_n"] = LOWERED * stand.limits.maximum_n
    stand.file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    lowered = load_robot(str(stand.file)).tension_limits
    stand.link.manage(ManageStack.Request.SHUTDOWN)
    stand.link.manage(ManageStack.Request.STARTUP)
    begin_s = time.monotonic()
    found = {"supervisor: up": "up with the new limits"} if stand.wait_until_up(20.0) else {}
    stand.move()
    time.sleep(MOVE_S + 0.5)
    motor_n = float(stand.truth(begin_s)["motor_n"].max())
    problems: tuple[str, ...] = ()
    if lowered is None or motor_n > lowered.maximum_n + TORQUE_MARGIN_N:
        problems = (f"a motor pulled with {motor_n:.1f} N, more than the file's new limit",)
    repair = partial(stand.file.write_text, stand.text, encoding="utf-8")
    return Effect(begin_s=begin_s, limits=lowered, repair=repair, found=found, problems=problems)


def _reset_moves_nothing(stand: UpStand, _rng: Rng) -> Effect:
    stand.link.trigger("estop")
    stand.link.manage(ManageStack.Request.RESET)
    if not stand.wait_until_up(20.0):
        raise DeviceError("stack", f"is {stand.state.stack} after the reset", "See its log.")
    begin_s = time.monotonic()
    # Now: a busy machine may be late afterwards, which stops the robot as well.
    found = {"supervisor: holding": "holds"} if wait_for(lambda: stand.state.holding, WATCH_S, 0.01) else {}
    time.sleep(max(0.0, begin_s + WATCH_S - time.monotonic()))
    way_m = float(np.ptp(stand.truth(begin_s)["displacement_m"], axis=0).max())
    problems: tuple[str, ...] = ()
    if way_m > DEVIATION_M:
        problems = (f"a tendon moved by {1e3 * way_m:.1f} mm though nobody started a motion",)
    return Effect(begin_s=begin_s, found=found, problems=problems)


def _hostile(stand: UpStand, rng: Rng) -> Effect:
    return Effect(found={"services: refused": hostile_requests(stand, rng).detail})


def _harmless(act: Callable[[UpStand, Rng], Effect], stand: UpStand, rng: Rng) -> Effect:
    """Nothing of the stack may take notice but in its log, and contacts are still looked for."""
    begin_s = time.monotonic()
    effect = act(stand, rng)
    time.sleep(WATCH_S)
    problems = [*effect.problems, *(f"declared {fault}" for fault in stand.state.all_faults)]
    stand.link.messages.forget("contact")
    if not wait_for(lambda: stand.link.messages["contact"] is not None, SILENT_S):
        problems.append("the contact monitor is silent")
    return dataclasses.replace(effect, begin_s=begin_s, problems=tuple(problems))


def _stall_supervisor(stand: UpStand, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    stopped_for(stand, ["supervisor"], STALL_S)
    time.sleep(WATCH_S)
    lost = [f"declared {fault}" for fault in stand.state.all_faults if fault.startswith("node_lost")]
    return Effect(begin_s=begin_s, problems=tuple(lost))


def _ask_own_controller(stand: UpStand, _rng: Rng) -> Effect:
    asked_n = 1.0 + float(stand.link.get_parameter("clarke_controller", "pretension_n"))
    with stand.link.publisher(Float64, "tension_reference") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, 5.0)
        publisher.publish(Float64(data=asked_n))
        time.sleep(0.5)
    if is_refused(lambda: stand.link.set_parameters("clarke_controller", {"pretension_n": asked_n})):
        return Effect(found={"clarke_controller: refused": "the controller does not take the pretension"})
    return Effect()


def _fail_in_observer(stand: UpStand, _rng: Rng) -> Effect:
    (stand.file.parent / "raise").touch()
    return Effect(repair=(stand.file.parent / "raise").unlink)


def _two_procedures(stand: UpStand, _rng: Rng) -> Effect:
    stand.link.manage(ManageStack.Request.PAUSE)

    def check(_number: int) -> str:
        try:
            stand.link.run_action(CheckTendons, "check_tendons", CheckTendons.Goal(), PROCEDURE_TIMEOUT_S)
        except ContinuumRobotError as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(2) as threads:
        answers = sorted(threads.map(check, range(2)), key="done".__ne__)
    begin_s = time.monotonic()
    if answers[0] == "done" and "under way" in answers[1]:
        return Effect(begin_s=begin_s, found={"tendon_driver: under way": answers[1]})
    return Effect(begin_s=begin_s, problems=(f"answered {answers}",))


def _idle_connections(stand: UpStand, _rng: Rng) -> Effect:
    log_bytes = stand.page.log_bytes
    with contextlib.ExitStack() as idle:
        for _ in range(CONNECTIONS):
            idle.enter_context(stand.page.connect())
        time.sleep(FLOOD_S)
        problems = [] if stand.page.status() == 101 else ["the page takes nobody any more"]
    if stand.page.log_bytes > log_bytes + LOG_BYTES:
        problems.append(f"the page's log grew by {stand.page.log_bytes - log_bytes} bytes")
    return Effect(problems=tuple(problems))


def _long_message(stand: UpStand, _rng: Rng) -> Effect:
    heard = b""
    with stand.page.connect() as browser:
        stand.page.join(browser)
        with contextlib.suppress(ConnectionError, TimeoutError):
            browser.sendall(b"\x82\xff" + (LONG_MIB << 20).to_bytes(8, "big") + bytes(4))
            for _ in range(LONG_MIB):  # what comes behind the refused head is thrown away
                browser.sendall(bytes(1 << 20))
            while more := browser.recv(1 << 16):
                heard = (heard + more)[-_LAST_BYTES:]
        problems = [] if stand.page.status() == 101 else ["the page takes nobody any more"]
    if not re.search(_TOO_BIG, heard):
        problems.append(f"the page did not refuse a message of {LONG_MIB} MiB")
    return Effect(problems=tuple(problems))


def _kill(process: str, stand: UpStand, _rng: Rng) -> Effect:
    return Effect(repair=killed(stand, process))


ACTIONS: dict[str, Callable[[UpStand, Rng], Effect]] = {
    "cross_origin": _cross_origin,
    "stale_file": _stale_file,
    "reset_moves_nothing": _reset_moves_nothing,
    "estop_by_two": estop_by_two,
    "hostile_request": _hostile,
    "forged_owner": partial(_harmless, forged_owner),
    "wrong_shapes": partial(_harmless, wrong_shapes),
    "parameter_flood": partial(_harmless, parameter_flood),
    "own_controller_refuses": partial(_harmless, _ask_own_controller),
    "own_observer_fails": _fail_in_observer,
    "two_procedures": _two_procedures,
    "page_connections": partial(_harmless, _idle_connections),
    "page_message": partial(_harmless, _long_message),
    "supervisor_stalled": _stall_supervisor,
    "unsequenced_writer": foreign_commands,
    **{name: partial(_kill, process) for name, process in RESPAWNED.items()},
}
"""What each kind does that runs in the processes of ``up``."""


def run_campaign(
    robot_file: str, kinds: Sequence[FaultKind] = KINDS, injection_time_count: int = len(INJECTION_TIMES), seed: int = 0
) -> Iterator[FaultRecord]:
    """All runs on stacks as ``up`` starts them, one for each of their controllers."""
    for controller in ("clarke", "topic", "own"):
        chosen = [k for k in kinds if k.runs == STACK and CONTROLLERS.get(k.name, "clarke") == controller]
        yield from run_on_stacks(
            partial(_running, robot_file, controller), chosen, partial(run_one, ACTIONS), injection_time_count, seed
        )


@contextlib.contextmanager
def _running(robot_file: str, controller: str) -> Iterator[UpStand]:
    with tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name:
        stand = UpStand(robot_file, Path(name), controller)
        try:
            stand.start()
            yield stand
        finally:
            stand.close()
