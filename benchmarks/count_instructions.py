# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415 - each form imports what its checkout has
"""Counts the machine instructions of a control cycle: python benchmarks/count_instructions.py.

A cycle: read three motor boards' frames, watch them, control (PID and force shifting on Clarke coordinates, the
reference held), check, write; five tendons. The count is repeatable whatever else the machine does. It needs valgrind
(apt-get install valgrind).

The counted program runs under ``valgrind --tool=callgrind`` with N cycles, then 2N; the difference over N is a cycle.
The simulated boards are in another process, behind socket pairs, in virtual time, and cost nothing in the count. What
the counted program does to let time pass is counted by itself, in the same way, and taken off.

Forms: ``interpreted`` and ``compiled`` are the cycle of this checkout. The two ``before`` are that of version 1598afe,
with arrays of NumPy: ``before`` takes frames from sockets by python-can, as on hardware, but without threads;
``before-memory`` from the memory of the process, as its ``bench`` did, which is less than any hardware costs. Both were
counted with N = 200 (twice, 0.05 % apart) on CPython 3.11.7, NumPy 2.4.6, python-can 4.6.1, x86-64; ``--before
CHECKOUT`` counts them again on a checkout of that version.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMS = ("interpreted", "compiled")
BEFORE = {"before": 1_400_000, "before-memory": 919_000}
ROBOT = "opencr_five_tendon"
CHANNELS = 3
CYCLES = 200
WARM_UP_CYCLES = 100
PERIOD_S = 0.001
SETTLE_S = 1.2  # until the boards' first statuses with the motors on have come
START_S = 100.0

_FRAME = struct.Struct("<IB3x8s")  # struct can_frame
_TICK = struct.Struct("<d?")
_LONGEST_REPLY = 1 << 16

Cycle = Callable[[float, float], object]


# --- the counted program


class Stand:
    """Sockets to the simulated boards, and the virtual time that their process keeps.

    Attributes
    ----------
    sockets : of the CAN channels, non-blocking, each datagram a struct can_frame
    in_memory : frames arrive in ``inboxes`` instead
    now_s : virtual time
    """

    def __init__(self, descriptors: list[int], *, in_memory: bool) -> None:
        self._sync, *self.sockets = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        for one in self.sockets:
            one.setblocking(False)
        self.in_memory, self.inboxes = in_memory, [deque() for _ in self.sockets]
        self.now_s = START_S

    def clock(self) -> float:
        """Now, s."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Let time pass; afterwards the frames are there."""
        self.now_s += duration_s
        self._tick(idle=False)

    def idle(self) -> None:
        """What :meth:`sleep` does, without the boards."""
        self._tick(idle=True)
        if self.in_memory:
            for inbox in self.inboxes:
                inbox.clear()

    def _tick(self, *, idle: bool) -> None:
        self._sync.send(_TICK.pack(self.now_s, idle))
        reply = self._sync.recv(_LONGEST_REPLY)
        if self.in_memory:
            import can

            for channel, identifier, length, data in struct.iter_unpack("<BIB3x8s", reply):
                self.inboxes[channel].append(
                    can.Message(arbitration_id=identifier, data=data[:length], is_extended_id=False)
                )


def make_cycle(form: str, stand: Stand) -> tuple[Cycle, Callable[[], tuple[str, ...]]]:
    """The cycle to count, enabled and active, and what shows its faults: the only code here that knows its classes.

    Parameters
    ----------
    form : of :data:`FORMS` or :data:`BEFORE`
    stand : sockets, clock and sleep for it
    """
    if form in BEFORE:
        return _cycle_before(stand)
    from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
    from continuum_robot.robot.loading import load_robot
    from continuum_robot.runtime.cycle.assembly import make_safety
    from continuum_robot.runtime.cycle.forms import compiled_form, interpreted_form

    chosen = compiled_form() if form == "compiled" else interpreted_form("it is counted")
    if chosen.name != form:
        raise SystemExit(f"there is no compiled form here: {chosen.reason}")
    robot = load_robot(ROBOT)
    names = list(robot.hardware.tendon_actuators.channels)
    actuators = OdriTendonActuators(
        robot,
        robot.hardware.tendon_actuators,
        socket_factory=lambda name: stand.sockets[names.index(name)],
        clock=stand.clock,
        sleep=stand.sleep,
        form=chosen.parts if chosen.compiled else None,
    )
    parts, safety = chosen.parts, make_safety(robot, chosen)
    controller = parts.ControllerCycle(
        parts.ClarkeController(robot),
        parts.ReferenceInput(robot.coordinate_count),
        robot.control.state_timeout_s,
        PERIOD_S,
    )
    cycle = parts.DriverCycle(actuators.cycle, safety, robot.tendon_count, robot.coordinate_count, controller)
    actuators.open()
    actuators.enable()
    for _ in range(round(SETTLE_S / PERIOD_S)):
        stand.sleep(PERIOD_S)
        cycle.step_once(stand.now_s, PERIOD_S)
    safety.activate(cycle.newest_reading(), stand.now_s)
    cycle.power(on=True)
    cycle.control_now(on=True)

    def faults() -> tuple[str, ...]:
        if safety.faults or safety.state != "active" or not controller.answered:
            return (*safety.faults, safety.state, f"{controller.answered} answers")
        return ()

    return cycle.step_once, faults


def _cycle_before(stand: Stand) -> tuple[Cycle, Callable[[], tuple[str, ...]]]:
    """As version 1598afe runs them, in its nodes and in its ``bench``."""
    import can
    from can.interfaces.socketcan.socketcan import SocketcanBus
    from continuum_robot.drivers.tendon_safety import TendonSafety
    from continuum_robot.drivers.zeroed import ZeroedActuators
    from continuum_robot.simulation.wire.memory_bus import MemoryBus

    from continuum_robot.control.clarke_controller import ClarkeController
    from continuum_robot.control.references import ClarkeReference
    from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
    from continuum_robot.robot.loading import load_robot

    class PairBus(SocketcanBus):
        """python-can's own bus, on a socket that is there."""

        def __init__(self, name: str, open_socket: socket.socket) -> None:
            self.socket, self.channel = open_socket, name
            self._bcm_sockets, self._is_filtered = {}, False
            open_socket.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
            can.BusABC.__init__(self, channel=name)

        def _apply_filters(self, filters: Any) -> None:
            """A socket pair has none."""

    robot = load_robot(ROBOT)
    names = list(robot.hardware.tendon_actuators.channels)

    def bus(name: str) -> can.BusABC:
        number = names.index(name)
        if not stand.in_memory:
            return PairBus(name, stand.sockets[number])

        class Outbox(deque):
            def append(self, message: can.Message) -> None:
                data = bytes(message.data)
                stand.sockets[number].send(_FRAME.pack(message.arbitration_id, len(data), data))

        return MemoryBus(name, stand.inboxes[number], Outbox())

    actuators = ZeroedActuators(
        OdriTendonActuators(robot, bus_factory=bus, clock=stand.clock, sleep=stand.sleep, threaded=False)
    )
    safety, controller = TendonSafety(robot), ClarkeController(robot)
    actuators.open()
    actuators.enable()
    for _ in range(round(SETTLE_S / PERIOD_S)):
        stand.sleep(PERIOD_S)
        reading = actuators.read(stand.now_s)
    safety.activate(reading, stand.now_s)
    controller.reset(reading.displacement_m, reading.tension_n, velocity=reading.velocity_m_per_s)
    reference = ClarkeReference.at_rest(controller.manifold.clarke(reading.displacement_m))
    number = 0

    def cycle(now_s: float, elapsed_s: float) -> None:
        nonlocal number
        number += 1
        reading = actuators.read(now_s)
        desired = controller.update(reading.displacement_m, reading.velocity_m_per_s, reference, elapsed_s).command
        output = safety.update(reading, desired, 0.0, now_s, elapsed_s, command_sequence=number)
        if output.write:
            actuators.write(output.tension, now_s)

    return cycle, lambda: () if safety.state == "active" else (*safety.faults, safety.state)


def run_counted(form: str, descriptors: list[int], cycles: int) -> None:
    """Bring the robot up, then run N and 2N cycles, and as often only let time pass; a mark before and behind each."""
    import gc

    stand = Stand(descriptors, in_memory=form.endswith("memory"))
    cycle, faults = make_cycle(form, stand)

    def run(count: int) -> None:
        for _ in range(count):
            stand.sleep(PERIOD_S)
            cycle(stand.now_s, PERIOD_S)

    def pause(count: int) -> None:
        for _ in range(count):
            stand.idle()

    run(WARM_UP_CYCLES)
    gc.collect()
    gc.freeze()
    for what, count in ((run, cycles), (run, 2 * cycles), (pause, cycles), (pause, 2 * cycles)):
        os.getsid(0)  # the mark: callgrind writes what it counted before this function of the C library
        what(count)
    os.getsid(0)
    if faults():
        raise SystemExit(f"the driver stopped: {', '.join(faults())}")


# --- the program around it


class SocketWire:
    """A simulated board's end of a channel."""

    def __init__(self, end: socket.socket, sent: list[bytes]) -> None:
        self._end, self._sent = end, sent

    def receive(self) -> list[tuple[int, bytes]]:
        """Frames that the counted program sent."""
        found = []
        while True:
            try:
                identifier, length, data = _FRAME.unpack(self._end.recv(_FRAME.size))
            except (BlockingIOError, ConnectionError, struct.error):
                return found
            found.append((identifier, data[:length]))

    def send(self, identifier: int, data: bytes) -> bool:
        """Keep a frame until the step has ended."""
        self._sent.append(_FRAME.pack(identifier, len(data), data))
        return True

    def close(self) -> None:
        """The socket is closed by who made it."""


def count(form: str, checkout: Path, cycles: int) -> float:
    """Instructions a cycle of a form, with the package of a checkout.

    Parameters
    ----------
    form : of :data:`FORMS` or :data:`BEFORE`
    checkout : root of its source
    cycles : N
    """
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(1 + CHANNELS)]
    theirs = [pair[1] for pair in pairs]
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, __file__, "--counted", form, "--cycles", str(cycles), "--descriptors"]
        program += [str(end.fileno()) for end in theirs]
        dumps = Path(folder, "counted")
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--dump-before=getsid"]
        valgrind += [f"--callgrind-out-file={dumps}.%p"]
        environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
        child = subprocess.Popen(
            valgrind + program,
            env=environment,
            pass_fds=[end.fileno() for end in theirs],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for end in theirs:
            end.close()
        try:
            simulate(*(pair[0] for pair in pairs), in_memory=form.endswith("memory"))
        finally:
            for pair in pairs:
                pair[0].close()  # what waits for the boards ends
            said = child.communicate()[0]
        if child.returncode:
            raise SystemExit(f"{form}: the counted program failed:\n{said[-2000:]}")
        found = {
            int(path.name.rsplit(".", 1)[1]): int(re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.M)[1])
            for path in Path(folder).glob("counted.*.*")
        }
        if len(found) < 5:
            raise SystemExit(f"{form}: {len(found)} counts instead of 5:\n{said[-2000:]}")
    once, twice, idle_once, idle_twice = (found[number] for number in range(2, 6))
    return (twice - once - (idle_twice - idle_once)) / cycles


def simulate(sync: socket.socket, *ends: socket.socket, in_memory: bool) -> None:
    """Step the simulated boards whenever the counted program lets time pass, until it ends."""
    from continuum_robot.robot.loading import load_robot
    from continuum_robot.simulation.wire.hardware import SimulatedHardware

    hardware = SimulatedHardware(load_robot(ROBOT))
    hardware.open()
    sent: list[list[bytes]] = [[] for _ in ends]
    for board, end, frames in zip(hardware.boards.values(), ends, sent, strict=True):
        end.setblocking(False)
        board.wire = SocketWire(end, frames)
    reply = b""
    while True:
        try:
            tick = sync.recv(_TICK.size)
        except ConnectionError:
            return
        if not tick:
            return
        now_s, idle = _TICK.unpack(tick)
        if not idle:
            hardware.step(now_s)
            if in_memory:
                reply = b"".join(bytes([number]) + one for number, frames in enumerate(sent) for one in frames)
            else:
                for end, frames in zip(ends, sent, strict=True):
                    for frame in frames:
                        with contextlib.suppress(BlockingIOError):  # a full queue loses frames, as on a bus
                            end.send(frame)
            for frames in sent:
                frames.clear()
        sync.send(reply or b"\0")


def main() -> None:
    """Count and print a table."""
    parser = argparse.ArgumentParser(description="Machine instructions of a control cycle")
    parser.add_argument("forms", nargs="*", metavar="FORM", help=f"of {', '.join(FORMS)}; all when left out")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="count the version before again, from there")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="N of the method")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument("--counted", help=argparse.SUPPRESS)
    parser.add_argument("--descriptors", type=int, nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.counted:
        run_counted(asked.counted, asked.descriptors, asked.cycles)
        return
    unknown = [form for form in asked.forms if form not in FORMS]
    if unknown:
        parser.error(f"unknown form {', '.join(unknown)}; there are {', '.join(FORMS)}")
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed. Run: sudo apt-get install valgrind")
    counts: dict[str, float] = {form: number for form, number in BEFORE.items() if number}
    if asked.before:
        for form in BEFORE:
            counts[form] = count(form, asked.before.resolve(), asked.cycles)
    here = Path(__file__).resolve().parent.parent
    for form in asked.forms or FORMS:
        try:
            counts[form] = count(form, here, asked.cycles)
        except SystemExit as error:
            print(error, file=sys.stderr)
    print(f"{'form':14s} {'instructions a cycle':>20s}" + "".join(f"{'/ ' + form:>16s}" for form in BEFORE))
    for form, number in counts.items():
        ratios = "".join(f"{number / counts[other]:16.4f}" if other in counts else f"{'-':>16s}" for other in BEFORE)
        print(f"{form:14s} {number:20,.0f}{ratios}")
    if asked.json:
        asked.json.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
