# SPDX-License-Identifier: Apache-2.0
"""What faults.yaml names as actions on the stack of `up`: processes, pages, requests, people and other programs."""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import yaml
from continuum_robot.action import CheckTendons
from continuum_robot.msg import ClarkeState, DriverStatus, Shape, StackStatus, TendonCommands
from continuum_robot.srv import ManageStack, ReleaseEstop
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from std_msgs.msg import Bool, Float64, String

from continuum_robot.app.client.stack_link import DIAGNOSTICS, REFERENCE_PERIOD_S
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation import faults as devices
from faults.actions import on_bus
from faults.judge import DEVIATION_M, TORQUE_MARGIN_N
from faults.kinds import MOVE_S, SAFE, Kind
from faults.runner import Effect

Rng = np.random.Generator
Action = Callable[..., Effect]

WATCH_S = 1.5
NOTICE_S = 15.0
"""Until the supervisor notices that a node is gone; the tendons are safe long before."""
BOARD_TIMEOUTS = 1.5
"""Of limits.command_timeout_s: receive timeout of the boards at level dynamics, as the driver sets it."""
COOL_C = 25.0
STALL_S = 4.0
"""Of the supervisor: longer than it waits for any node."""
RESPAWN_TIMEOUT_S, PAGE_TIMEOUT_S, PROCEDURE_TIMEOUT_S = 60.0, 60.0, 120.0
LOWERED = 0.3
"""Fraction of limits.maximum_n to which the file is changed: less than the motion needs."""
CONNECTIONS, LONG_MIB = 300, 45
FLOOD_S, LOG_BYTES = 3.0, 4000
"""Of connections that idle, and how much the page's log may grow by them."""
LATE = ("loop_too_slow", "command_timeout", "reading_timeout")
"""Faults that a busy machine makes without any other."""
SILENT_S = 0.5
"""Of the contact monitor."""
CLOCK_STEP_S = 3600.0
RECORDER = "display"
"""The process that records."""
_DISCOVERY_S, _FLOOD_S, _CLIENT_TIMEOUT_S = 5.0, 2.0, 60.0
_JOINED_S = 1.0
"""Both sides know of each other so long after one does; what is published before waits for that."""
_SHAPE_ARRAYS = ("coefficients", "coefficient_rates", "covariance")
_TOO_BIG = rb"\x88[\x02-\x7d]" + (1009).to_bytes(2, "big")
"""The last frame of a websocket that is closed for that reason, and so much of it at most."""
_LAST_BYTES = 127
_WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: viser-v{version}\r\n\r\n"
)


def happen(kind: Kind, stand: Any, rng: Rng) -> Effect:
    """Let a fault happen to a stack; a range of a number in faults.yaml is drawn from."""
    if kind.bus:
        tendon = int(rng.integers(stand.robot.tendon_count))
        on_bus(stand, tendon, **kind.bus)
        return Effect(tendon=tendon, repair=lambda: stand.inject(""))
    if kind.inject:
        return _device(kind, stand, rng)
    name, given = kind.call
    if isinstance(span := given.get("duration_s"), list):
        given["duration_s"] = float(rng.uniform(*span))
    before_s = stand.now_s
    effect = globals()[name](stand, rng, **given)
    timed = kind.weight and kind.known != "at once" and math.isnan(effect.known_s)
    return replace(effect, known_s=before_s + stand.known_after_s(kind)) if timed else effect


def _device(kind: Kind, stand: Any, rng: Rng) -> Effect:
    fault, span = str(kind.inject["fault"]), kind.inject.get("magnitude", 0.0)
    tendon = int(rng.integers(stand.robot.tendon_count))
    magnitude = float(rng.uniform(*span)) if isinstance(span, list) else float(span)
    stand.inject(fault, tendon, magnitude)
    now_s = stand.now_s  # the service has answered: it acts from the next step on

    def repair() -> None:
        stand.inject("")
        if fault == devices.HOT_MOTOR:
            # What was measured as hot is hot until it is measured as cool.
            stand.inject(fault, tendon, COOL_C)

    # A tendon that is fastened again where its spool then stands needs another length: that is another robot.
    return Effect(
        f"tendon {tendon + 1}, {magnitude:.3g}",
        tendon=tendon,
        known_s=now_s + stand.known_after_s(kind),
        repair=(lambda: None) if kind.mechanical else repair,
        slack_m=magnitude if fault == devices.SLACK_TENDON else 0.0,
    )


# --- processes


def killed(stand: Any, process: str) -> Callable[[], None]:
    """Kill a process; gives what waits until it was started again, and raises :class:`DeviceError` where it is not."""
    pid = stand.pid(process)
    os.kill(pid, signal.SIGKILL)

    def wait() -> None:
        if not wait_for(lambda: stand.pid(process) != pid, RESPAWN_TIMEOUT_S, 0.1):
            raise DeviceError(process, f"was not started again within {RESPAWN_TIMEOUT_S:g} s", "See the log")

    return wait


def stopped_for(stand: Any, processes: Sequence[str], duration_s: float) -> float:
    """Stop processes for a time; gives when they went on, monotonic, s."""
    pids = [stand.pid(process) for process in processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(duration_s)
    finally:
        resumed_s = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    return resumed_s


def kill(stand: Any, _rng: Rng, process: str) -> Effect:
    return Effect(process, repair=killed(stand, process))


def stop(stand: Any, _rng: Rng, processes: Sequence[str], duration_s: float) -> Effect:
    """Stop processes, all but the simulated robot where none is named."""
    named = list(processes) or [one for one in stand.processes if one not in ("simulator", "process_server")]
    begin_s = stand.now_s
    resumed_s = stopped_for(stand, named, duration_s)
    board_s = BOARD_TIMEOUTS * stand.limits.command_timeout_s
    late = processes == ["control_loop"] and duration_s > board_s
    return Effect(
        f"{', '.join(named)} for {duration_s:.2f} s",
        begin_s=begin_s,
        resumed_s=resumed_s,
        known_s=begin_s + board_s if late else math.nan,
        becomes=SAFE if late else "",
    )


def stall_supervisor(stand: Any, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    stopped_for(stand, ["supervisor"], STALL_S)
    time.sleep(WATCH_S)
    lost = [f"declared {fault}" for fault in stand.state.all_faults if fault.startswith("node_lost")]
    return Effect(begin_s=begin_s, problems=tuple(lost))


def set_limit(stand: Any, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    try:
        stand.link.set_parameters("tendon_driver", {"limits.maximum_n": 1000.0})
    except ParameterError as error:
        return Effect(begin_s=begin_s, found={"tendon_driver: parameter refused": str(error)})
    return Effect(begin_s=begin_s)


def write_too(stand: Any, _rng: Rng, rate_hz: float, duration_s: float = 1.2) -> Effect:
    begin_s = time.monotonic()
    with stand.link.publisher(TendonCommands, "tendon_commands") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, 5.0)
        message = TendonCommands(tension=[5.0] * stand.robot.tendon_count)
        first_s, sent = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - first_s) < duration_s:
            states = stand.link.messages["tendon_states_decimated"]
            message.sequence = 0 if states is None else states.sequence
            publisher.publish(message)
            sent += 1
            time.sleep(max(0.0, sent / rate_hz - elapsed_s))
    return Effect(begin_s=begin_s)


def fill_disk(stand: Any, _rng: Rng) -> Effect:
    files = [file for file in (stand.folder / "runs").rglob("*") if file.is_file()]
    largest = max((file.stat().st_size for file in files), default=0)
    resource.prlimit(stand.pid(RECORDER), resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    return _ended_recording(stand)


def remove_recording(stand: Any, _rng: Rng) -> Effect:
    for folder in [file.parent for file in (stand.folder / "runs").rglob("*.mcap")]:
        shutil.rmtree(folder)
    return _ended_recording(stand)


def _ended_recording(stand: Any) -> Effect:
    """What the recorder reports of it; the next run needs another recording."""
    begin_s, found = time.monotonic(), dict[str, str]()

    def take(message: DiagnosticArray) -> None:
        bad = [one for one in message.status if one.level != DiagnosticStatus.OK and "recorder: " in one.name]
        if bad:
            found["recorder: ended early"] = bad[-1].message

    stand.link.listen(DiagnosticArray, DIAGNOSTICS, take, qos.events())
    wait_for(lambda: bool(found), NOTICE_S)
    return Effect(begin_s=begin_s, found=found, repair=partial(_start_recorder_again, stand))


def _start_recorder_again(stand: Any) -> None:
    """The next run needs another recording."""
    killed(stand, RECORDER)()


def step_clock(stand: Any, _rng: Rng) -> Effect:
    """References of a program whose clock is an hour ahead."""
    link, reading = stand.link, stand.state
    here = controlled_manifold(stand.robot).clarke(reading.displacement_m)
    begin_s = time.monotonic()
    link.take_reference()
    while time.monotonic() < begin_s + WATCH_S:
        link.publish_reference(ClarkeReference.at_rest(here), time.time_ns() + round(1e9 * CLOCK_STEP_S))
        time.sleep(REFERENCE_PERIOD_S)
    return Effect(begin_s=begin_s, repair=link.give_back)


# --- people and other programs


def estop_service(stand: Any, _rng: Rng) -> Effect:
    stand.link.trigger("estop")
    return Effect("service", known_s=time.monotonic())  # it has answered, so it is latched


def estop_by_two(stand: Any, rng: Rng) -> Effect:
    """Two publishers that have joined press; one releases, and a reset is refused; in the repair the other does."""
    closing = contextlib.ExitStack()
    buttons = [closing.enter_context(stand.link.publisher(Bool, "estop", qos.latched())) for _ in range(2)]
    wait_for(lambda: all(button.get_subscription_count() > 0 for button in buttons), _DISCOVERY_S)
    for button in buttons:
        button.publish(Bool(data=False))
    time.sleep(_JOINED_S)
    known_s = time.monotonic()
    for button in buttons:
        button.publish(Bool(data=True))
    time.sleep(0.3)
    released = int(rng.integers(2))
    buttons[released].publish(Bool(data=False))
    time.sleep(0.2)
    refused = is_refused(lambda: stand.link.trigger("reset_estop"))

    def repair() -> None:
        for button in buttons:
            button.publish(Bool(data=False))
        time.sleep(0.3)
        closing.close()

    if not refused:
        raise ParameterError("reset_estop", "accepted", "refused: one of two publishers still holds the e-stop")
    return Effect("held by two, released by one, reset refused", known_s=known_s, repair=repair)


def foreign_commands(stand: Any, rng: Rng) -> Effect:
    """Commands without sequence numbers from another program, while the controller is in the cycle."""
    with stand.link.publisher(TendonCommands, "tendon_commands") as publisher:
        tension = rng.uniform(0.0, stand.limits.maximum_n, stand.robot.tendon_count).tolist()
        for _ in range(200):
            publisher.publish(TendonCommands(tension=tension))
            time.sleep(0.005)
    return Effect("200 commands")


def foreign_references(stand: Any, rng: Rng) -> Effect:
    """References of a program that has not taken its turn."""
    node = stand.link.node
    with stand.link.publisher(ClarkeState, "clarke_reference") as publisher:
        message = ClarkeState()
        place = rng.uniform(-1, 1, stand.robot.coordinate_count) * stand.limits.maximum_displacement_m
        message.position = place.tolist()
        message.velocity = message.acceleration = [0.0] * stand.robot.coordinate_count
        for _ in range(100):
            message.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(message)
            time.sleep(0.01)
    return Effect("100 references")


def forged_owner(stand: Any, rng: Rng) -> Effect:
    """Latched topics of the driver and of the reference source, published by another program, then its references."""
    name = stand.link.name
    with contextlib.ExitStack() as stack:
        for kind, topic, message in (
            (String, "reference_writer", String(data=name)),
            (Bool, "reference_holding", Bool(data=True)),
            (StackStatus, "stack_status", StackStatus(state="fault", faults=["one"])),
            (DriverStatus, "driver_status", DriverStatus(state=DriverStatus.INACTIVE, faults=[200, 1], estop=True)),
        ):
            publisher = stack.enter_context(stand.link.publisher(kind, topic, qos.latched()))
            deadline_s = time.monotonic() + _DISCOVERY_S
            while not publisher.get_subscription_count() and time.monotonic() < deadline_s:
                time.sleep(0.02)
            publisher.publish(message)
        time.sleep(_JOINED_S)
        foreign_references(stand, rng)
    return Effect(f"as if {name} had the turn and the driver had stopped")


def wrong_shapes(stand: Any, rng: Rng) -> Effect:
    """Shapes whose arrays have other sizes than the robot's."""
    sizes = rng.integers(0, 30, 3).tolist()
    with stand.link.publisher(Shape, "shape") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, _DISCOVERY_S)
        message = Shape(**dict(zip(_SHAPE_ARRAYS, ([0.0] * int(size) for size in sizes), strict=True)))
        for _ in range(60):
            message.header.stamp = stand.link.node.get_clock().now().to_msg()
            publisher.publish(message)
            time.sleep(0.02)
    return Effect(f"sizes {sizes}")


def parameter_flood(stand: Any, _rng: Rng) -> Effect:
    """The pretension, set to what it is, more often than a node takes changes."""
    link, refused, end_s = stand.link, 0, time.monotonic() + _FLOOD_S
    pretension_n, count = link.get_parameter("clarke_controller", "pretension_n"), 0
    while time.monotonic() < end_s:
        refused += is_refused(lambda: link.set_parameters("clarke_controller", {"pretension_n": pretension_n}))
        count += 1
    return Effect(f"{count} changes in {_FLOOD_S:g} s, {refused} refused")


def hostile_requests(stand: Any, _rng: Rng) -> Effect:
    """Requests out of range, each of which must be refused. Raises :class:`ParameterError` where one is accepted."""
    link = stand.link
    requests: tuple[tuple[str, Callable[[], object]], ...] = (
        ("inject_fault NaN", lambda: stand.inject(devices.ENCODER_JUMP, 0, math.nan)),
        ("inject_fault tendon", lambda: stand.inject(devices.ENCODER_JUMP, 4711, 0.0)),
        ("manage_stack 250", lambda: link.manage(250, 10.0)),
        ("release_estop", lambda: link.ask("release_estop", ReleaseEstop, ReleaseEstop.Request(holder="\0" * 4096))),
        ("limits.maximum_n", lambda: link.set_parameters("tendon_driver", {"limits.maximum_n": 1000.0})),
        ("limits NaN", lambda: link.set_parameters("tendon_driver", {"limits.maximum_n": math.nan})),
    )
    accepted = [name for name, request in requests if not is_refused(request)]
    if accepted:
        raise ParameterError("request", ", ".join(accepted), "a refusal")
    refused = f"{len(requests)} requests refused"
    return Effect(refused, found={"services: refused": refused})


def is_refused(request: Callable[[], object]) -> bool:
    """Whether a request ends with an error of this project."""
    try:
        request()
    except ContinuumRobotError:
        return True
    return False


# --- operation


def client_comes_and_goes(stand: Any, _rng: Rng) -> Effect:
    """A program of its own, as with people: it asks which controller commands, and leaves."""
    command = [sys.executable, "-m", "continuum_robot.app.command_line", "controller"]
    namespace = ["--namespace", stand.link.namespace] if stand.link.namespace else []
    try:
        asked = subprocess.run(
            [*command, *namespace], capture_output=True, text=True, timeout=_CLIENT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeviceError("client", f"did not end within {_CLIENT_TIMEOUT_S:g} s", "The machine is too busy") from None
    return Effect(asked.stdout.strip() or asked.stderr.strip())


def manage(stand: Any, _rng: Rng, commands: Sequence[str]) -> Effect:
    """Requests to the supervisor, one after the other, by their names in ManageStack."""
    for command in commands:
        stand.link.manage(getattr(ManageStack.Request, command))
    return Effect()


def concurrent_resets(stand: Any, rng: Rng) -> Effect:
    """Two operators at once: one of them may be refused."""
    threads = [threading.Thread(target=is_refused, args=(lambda: manage(stand, rng, ["RESET"]),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Effect()


# --- pages, files, procedures


def cross_origin(stand: Any, _rng: Rng) -> Effect:
    begin_s = time.monotonic()
    page, writer = _page(stand), stand.link.writer
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


def stale_file(stand: Any, rng: Rng) -> Effect:
    data = yaml.safe_load(stand.text)
    data["limits"]["maximum_n"] = LOWERED * stand.limits.maximum_n
    stand.file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    lowered = load_robot(str(stand.file)).tension_limits
    manage(stand, rng, ["SHUTDOWN", "STARTUP"])
    begin_s = time.monotonic()
    found = {"supervisor: up": "up with the new limits"} if stand.wait_until_up(20.0) else {}
    stand.link.restart()
    time.sleep(MOVE_S + 0.5)
    motor_n = float(stand.rows(begin_s)["motor_n"].max())
    problems: tuple[str, ...] = ()
    if lowered is None or motor_n > lowered.maximum_n + TORQUE_MARGIN_N:
        problems = (f"a motor pulled with {motor_n:.1f} N, more than the file's new limit",)
    repair = partial(stand.file.write_text, stand.text, encoding="utf-8")
    return Effect(begin_s=begin_s, limits=lowered, repair=repair, found=found, problems=problems)


def reset_moves_nothing(stand: Any, _rng: Rng) -> Effect:
    stand.link.trigger("estop")
    stand.link.manage(ManageStack.Request.RESET)
    if not stand.wait_until_up(20.0):
        raise DeviceError("stack", f"is {stand.state.stack} after the reset", "See its log.")
    begin_s = time.monotonic()
    # Now: a busy machine may be late afterwards, which stops the robot as well.
    found = {"supervisor: holding": "holds"} if wait_for(lambda: stand.state.holding, WATCH_S, 0.01) else {}
    time.sleep(max(0.0, begin_s + WATCH_S - time.monotonic()))
    way_m = float(np.ptp(stand.rows(begin_s)["displacement_m"], axis=0).max())
    problems: tuple[str, ...] = ()
    if way_m > DEVIATION_M:
        problems = (f"a tendon moved by {1e3 * way_m:.1f} mm though nobody started a motion",)
    return Effect(begin_s=begin_s, found=found, problems=problems)


def harmless(stand: Any, rng: Rng, action: str) -> Effect:
    """Nothing of the stack may take notice but in its log, and contacts are still looked for."""
    begin_s = time.monotonic()
    effect = globals()[action](stand, rng)
    time.sleep(WATCH_S)
    problems = [*effect.problems, *(f"declared {fault}" for fault in stand.state.all_faults if fault not in LATE)]
    stand.link.messages.forget("contact")
    if not wait_for(lambda: stand.link.messages["contact"] is not None, SILENT_S):
        problems.append("the contact monitor is silent")
    return replace(effect, begin_s=begin_s, problems=tuple(problems))


def ask_own_controller(stand: Any, _rng: Rng) -> Effect:
    asked_n = 1.0 + float(stand.link.get_parameter("clarke_controller", "pretension_n"))
    with stand.link.publisher(Float64, "tension_reference") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, 5.0)
        publisher.publish(Float64(data=asked_n))
        time.sleep(0.5)
    if is_refused(lambda: stand.link.set_parameters("clarke_controller", {"pretension_n": asked_n})):
        return Effect(found={"clarke_controller: refused": "the controller does not take the pretension"})
    return Effect()


def fail_in_observer(stand: Any, _rng: Rng) -> Effect:
    (stand.file.parent / "raise").touch()
    return Effect(repair=(stand.file.parent / "raise").unlink)


def two_procedures(stand: Any, _rng: Rng) -> Effect:
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


def idle_connections(stand: Any, _rng: Rng) -> Effect:
    log_bytes = _page(stand).log_bytes
    with contextlib.ExitStack() as idle:
        for _ in range(CONNECTIONS):
            idle.enter_context(_page(stand).connect())
        time.sleep(FLOOD_S)
        problems = [] if _page(stand).status() == 101 else ["the page takes nobody any more"]
    if _page(stand).log_bytes > log_bytes + LOG_BYTES:
        problems.append(f"the page's log grew by {_page(stand).log_bytes - log_bytes} bytes")
    return Effect(problems=tuple(problems))


def long_message(stand: Any, _rng: Rng) -> Effect:
    heard = b""
    with _page(stand).connect() as browser:
        _page(stand).join(browser)
        with contextlib.suppress(ConnectionError, TimeoutError):
            browser.sendall(b"\x82\xff" + (LONG_MIB << 20).to_bytes(8, "big") + bytes(4))
            for _ in range(LONG_MIB):  # what comes behind the refused head is thrown away
                browser.sendall(bytes(1 << 20))
            while more := browser.recv(1 << 16):
                heard = (heard + more)[-_LAST_BYTES:]
        problems = [] if _page(stand).status() == 101 else ["the page takes nobody any more"]
    if not re.search(_TOO_BIG, heard):
        problems.append(f"the page did not refuse a message of {LONG_MIB} MiB")
    return Effect(problems=tuple(problems))


class _PageProgram:
    """The page in the browser, as ``continuum-robot view`` serves it."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._log = folder / "view.log"
        command = [sys.executable, "-m", "continuum_robot.app.command_line", "view", str(file), "--folder", str(folder)]
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


def _page(stand: Any) -> _PageProgram:
    """The page of a stack, started with the first look at it. Raises :class:`DeviceError` where it does not come up."""
    if stand.page is None:
        stand.page = _PageProgram(stand.file, stand.folder)
    page: _PageProgram = stand.page
    return page
