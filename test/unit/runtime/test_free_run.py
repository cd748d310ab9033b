# SPDX-License-Identifier: Apache-2.0
"""The compiled cycle in the driver's thread, without the interpreter lock: rows, calls, and its end."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

from continuum_robot.drivers.can_bus import frame_sockets
from continuum_robot.drivers.odri_can import codec, protocol
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle
from continuum_robot.runtime.cycle.forms import Form
from continuum_robot.runtime.cycle.loop import CycleLoop
from continuum_robot.simulation.wire.can_wire import FrameSocketWire

ROBOT = load_robot("opencr_five_tendon")
PERIOD_S = 0.002
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def form():
    try:
        return Form(compiled_cycle(), True, "for the test")
    except NotCompiledError as error:
        pytest.skip(str(error))


def until(happened):
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.002)


class Rows(QuietWatcher):
    """Keeps what it is reported, and by whom."""

    def __init__(self):
        self.rows, self.threads, self.failures = [], set(), []

    def on_row(self, row):
        self.rows.append(row)
        self.threads.add(threading.current_thread().name)

    def on_failure(self, error):
        self.failures.append(error)


class Rig:
    """Boards that said something once, the shipped loop in real time."""

    def __init__(self, form):
        self.wires = {}
        actuators = OdriTendonActuators(
            ROBOT,
            ROBOT.hardware.tendon_actuators,
            socket_factory=self._socket,
            sleep=self._speak,
            simulated=True,
            form=form.parts,
        )
        actuators.open()
        self.watcher = Rows()
        self.loop = make_loop(ROBOT, actuators, self.watcher, ControlThread("tendon_driver", PERIOD_S), form=form)

    def _socket(self, name):
        host, device = frame_sockets()
        self.wires[name] = FrameSocketWire(device)
        return host

    def _speak(self, _duration_s):
        frames = (
            protocol.Current(0, 0),
            protocol.Position(0, 0),
            protocol.Velocity(0, 0),
            codec.decode(protocol.STATUS_ID, b"\x00"),
        )
        for wire, frame in itertools.product(self.wires.values(), frames):
            wire.send(*codec.encode(frame))

    def close(self):
        assert self.loop.stop()
        self.loop.close()
        for wire in self.wires.values():
            wire.close()


@pytest.fixture
def rig(form):
    made = Rig(form)
    yield made
    made.close()


def test_every_cycle_is_reported_once_in_a_thread_of_its_own(rig):
    loop, rows = rig.loop, rig.watcher.rows
    loop.start()
    until(lambda: len(rows) > 100)
    assert loop.stop()
    loop.report_rows()
    numbers = [row[loop.row.number] for row in rows]
    assert numbers == list(range(1, loop.cycle.cycles + 1))
    times = [row[loop.row.now_s] for row in rows]
    assert times == sorted(times)
    assert "cycle log" in rig.watcher.threads
    assert loop.pace.report().cycles > 50


def test_it_runs_while_another_thread_holds_the_interpreter(rig):
    loop = rig.loop
    loop.start()
    until(lambda: loop.cycle.cycles > 10)

    def cycles_meanwhile():
        before = loop.cycle.cycles
        sum(range(10_000_000))  # one call in C, which never lets another thread into the interpreter
        return loop.cycle.cycles - before

    until(lambda: cycles_meanwhile() > 10)
    assert not rig.watcher.failures


def test_calls_run_between_two_cycles_and_the_loop_goes_on(rig):
    loop = rig.loop
    loop.start()
    until(lambda: loop.cycle.cycles > 5)
    names, counts = set(), []

    def look():
        names.add(threading.current_thread().name)
        first = loop.cycle.cycles
        time.sleep(3 * PERIOD_S)
        counts.append((first, loop.cycle.cycles))

    for _ in range(5):
        loop.call(look, timeout_s=PATIENCE_S)
        seen = loop.cycle.cycles
        until(lambda seen=seen: loop.cycle.cycles > seen)
    assert names == {"tendon_driver"}
    assert all(first == last for first, last in counts), "no cycle runs meanwhile"
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 / 0, timeout_s=PATIENCE_S)
    seen = loop.cycle.cycles
    until(lambda: loop.cycle.cycles > seen)


def test_a_long_call_between_two_cycles_counts_as_missed_cycles(rig):
    loop, periods = rig.loop, 150
    loop.start()
    until(lambda: loop.cycle.cycles > 5)
    missed = loop.pace.report().missed
    loop.call(lambda: time.sleep(periods * PERIOD_S), timeout_s=PATIENCE_S)
    seen = loop.cycle.cycles
    until(lambda: loop.cycle.cycles > seen)
    assert loop.pace.report().missed >= missed + periods - 1


def test_python_code_that_looks_into_each_cycle_ends_the_free_run_and_gives_it_back(rig):
    loop = rig.loop
    loop.start()
    until(lambda: loop.pace.report() is not None and loop.pace.report().cycles > 5)

    def paced(on):
        """As the slot of the controller does it."""
        loop.python_paced = on
        loop.call(lambda: None, timeout_s=PATIENCE_S)

    paced(True)
    seen = loop.cycle.cycles
    until(lambda: loop.cycle.cycles > seen + 5)
    rig.watcher.threads.clear()
    counted, seen = loop.pace.report().cycles, loop.cycle.cycles
    until(lambda: loop.cycle.cycles > seen + 20)
    assert rig.watcher.threads == {"tendon_driver"}, "each row is reported before the next cycle"
    assert loop.pace.report().cycles > counted + 15, "cycles that Python code runs count too"
    paced(False)
    rig.watcher.threads.clear()
    until(lambda: "cycle log" in rig.watcher.threads)


def test_a_loop_that_leaves_no_time_to_others_leaves_its_c_code_so_that_its_priority_can_be_taken():
    for busy, leaves in ((0.5, False), (0.9, True)):
        cycles = CycleLoop(None, 1_000_000)
        cycles.window_ns = 1_000_000_000
        for start_ns in range(1_000_000_000, 1_400_000_000, 1_000_000):
            cycles.watch(start_ns, start_ns + round(busy * 1_000_000))
        assert cycles.leaves == leaves


def test_stop_ends_it_and_it_starts_again(rig):
    loop = rig.loop
    for _ in range(3):
        loop.start()
        seen = loop.cycle.cycles
        until(lambda seen=seen: loop.cycle.cycles > seen + 3)
        assert loop.stop()
        assert not loop.running
        seen = loop.cycle.cycles
        time.sleep(5 * PERIOD_S)
        assert loop.cycle.cycles == seen


def test_a_leave_before_the_run_is_kept_and_forgotten_by_arm(form, rig):
    cycles = form.parts.CycleLoop(rig.loop.cycle, round(PERIOD_S * 1e9))
    before = rig.loop.cycle.cycles
    cycles.leave()
    cycles.run()  # it returns at once
    assert rig.loop.cycle.cycles == before
    cycles.arm()
    late = threading.Timer(0.05, cycles.leave)
    late.start()
    cycles.run()
    late.join()
    assert rig.loop.cycle.cycles > before
    assert np.isfinite(cycles.statistics.report().period_max_us)


def test_a_defect_of_what_reads_the_rows_ends_the_power_in_the_loops_thread(rig):
    def broken(_row):
        raise ZeroDivisionError("a defect")

    rig.watcher.on_row = broken
    rig.loop.start()
    until(lambda: rig.watcher.failures)
    assert isinstance(rig.watcher.failures[0], ZeroDivisionError)
    assert rig.loop.safety.faults == ("estop",)
