# SPDX-License-Identifier: Apache-2.0
"""The driver's thread: deadlines that passed are skipped, calls run between cycles, failures end it loudly."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.runtime import periodic
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.periodic import (
    FrozenGarbage,
    ProcessorFraction,
    RealtimeSettings,
    apply_realtime,
    ask_for_short_slices,
)


def make(cycle, period_s=0.005, **more) -> ControlThread:
    failures: list[BaseException] = []
    thread = ControlThread("test", period_s, cycle, on_failure=failures.append, **more)
    thread.failures = failures  # type: ignore[attr-defined]
    return thread


class Held:
    """Holds itself: only the garbage collector frees it."""

    def __init__(self):
        self.own = self


def test_what_was_frozen_is_freed_when_the_last_loop_ends():
    held = []
    for _ in range(3):  # as a stack that is reset: each loop freezes what the one before left
        one = Held()
        held.append(weakref.ref(one))
        FrozenGarbage.hold()
        FrozenGarbage.hold()
        del one
        FrozenGarbage.release()
        assert held[-1]() is not None  # another loop runs: nothing stops it for a collection
        FrozenGarbage.release()
        assert held[-1]() is None


def test_missed_deadlines_are_counted_and_skipped_never_caught_up():
    starts: list[float] = []

    def cycle(now_s: float, *_numbers: float) -> None:
        starts.append(now_s)
        if len(starts) == 3:
            time.sleep(0.052)  # ten deadlines pass

    thread = make(cycle)
    thread.start()
    while len(starts) < 8:
        time.sleep(0.005)
    assert thread.stop()
    report = thread.statistics.report()
    assert report.missed >= 9
    # A burst would run the ten missed cycles at once: between the cycles lies a period, give or take its jitter.
    after = [b - a for a, b in itertools.pairwise(starts[4:])]
    assert sum(gap < 0.001 for gap in after) <= 1
    assert report.cycles + report.missed >= (starts[-1] - starts[0]) / 0.005 - 1


def test_deadlines_stay_on_their_grid():
    starts: list[float] = []
    thread = make(lambda now_s, *_numbers: starts.append(now_s), 0.01)
    thread.start()
    while len(starts) < 20:
        time.sleep(0.01)
    thread.stop()
    # Sleeping relative to the end of a cycle would drift; the mean period is exact in spite of jitter.
    skipped = thread.statistics.report().missed
    assert (starts[-1] - starts[0]) / (len(starts) - 1 + skipped) == pytest.approx(0.01, rel=0.1)


def test_elapsed_time_is_that_between_starts():
    seen: list[tuple[float, float]] = []
    thread = make(lambda now_s, elapsed_s, _missed: seen.append((now_s, elapsed_s)))
    thread.start()
    while len(seen) < 10:
        time.sleep(0.005)
    thread.stop()
    for (before_s, _), (now_s, elapsed_s) in itertools.pairwise(seen):
        assert elapsed_s == pytest.approx(now_s - before_s, abs=1e-9)


def test_calls_run_in_the_thread_and_hand_back_results_and_errors():
    thread = make(lambda *_numbers: None)
    thread.start()
    assert thread.call(lambda: threading.current_thread().name) == "test"

    def fail() -> None:
        raise ParameterError("x", 1, "2")

    with pytest.raises(ParameterError, match="expected 2"):
        thread.call(fail)
    assert thread.stop()
    assert thread.call(lambda: threading.current_thread().name) != "test"  # directly, once it has ended


def test_a_hanging_cycle_is_reported_to_the_caller():
    entered, release = threading.Event(), threading.Event()

    def cycle(*_numbers: float) -> None:
        entered.set()
        release.wait(60.0)

    thread = make(cycle)
    thread.start()
    assert entered.wait(60.0)
    made: list[int] = []
    with pytest.raises(DeviceError, match="did not answer"):
        thread.call(lambda: made.append(1), timeout_s=0.05)
    release.set()
    thread.call(lambda: made.append(2), timeout_s=60.0)
    assert made == [2], "what was refused is never done"
    assert thread.stop()


def test_a_call_that_began_in_time_is_waited_for_and_never_refused_though_it_took_effect():
    begun, release = threading.Event(), threading.Event()
    thread = make(lambda *_numbers: None)
    thread.start()

    def slow() -> str:
        begun.set()
        release.wait(60.0)
        return "done"

    answers: list[str] = []
    caller = threading.Thread(target=lambda: answers.append(thread.call(slow, timeout_s=0.2)))
    caller.start()
    assert begun.wait(60.0)
    release.set()
    caller.join(60.0)
    assert answers == ["done"]
    begun.clear()
    release.clear()
    with pytest.raises(DeviceError, match="has begun"):
        thread.call(slow, timeout_s=0.05)
    release.set()
    assert thread.stop()


def test_a_failing_cycle_ends_the_thread_and_is_handed_on():
    def cycle(*_numbers: float) -> None:
        raise ZeroDivisionError("boom")

    thread = make(cycle)
    thread.start()
    while thread.running:
        time.sleep(0.005)
    assert [type(error) for error in thread.failures] == [ZeroDivisionError]


def test_what_the_system_refuses_is_said_with_the_remedy():
    sentences = apply_realtime(RealtimeSettings(cpu_affinity=(4095,)))
    assert len(sentences) == 1
    assert "4095" in sentences[0]


def test_a_period_must_be_positive():
    with pytest.raises(ParameterError):
        make(lambda *_numbers: None, 0.0)


def test_short_slices_need_no_privileges_and_leave_other_scheduling_alone() -> None:
    found: list[tuple[bool, int]] = []

    def ask(policy: int) -> None:
        if policy != os.SCHED_OTHER:
            os.sched_setscheduler(0, policy, os.sched_param(0))
        found.append((ask_for_short_slices(), os.sched_getscheduler(0)))

    for policy in (os.SCHED_OTHER, os.SCHED_IDLE):
        thread = threading.Thread(target=ask, args=(policy,))
        thread.start()
        thread.join()
    # Older kernels know no slices; asking is no error there.
    assert found[0] in ((True, os.SCHED_OTHER), (False, os.SCHED_OTHER))
    assert found[1] == (False, os.SCHED_IDLE)


class Clocks:
    """Time and processor time of a thread, as a test has them pass."""

    def __init__(self) -> None:
        self.now_ns = self.used_ns = 0

    def pass_time(self, passed_s: float, fraction: float) -> None:
        self.now_ns += round(passed_s * 1e9)
        self.used_ns += round(passed_s * fraction * 1e9)


@pytest.fixture
def asked(monkeypatch):
    """What the thread asks of the scheduler."""
    policies: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _pid, policy, _param: policies.append(policy))
    return policies


def test_a_thread_that_never_sleeps_gives_its_priority_back(asked):
    clocks = Clocks()
    fraction = ProcessorFraction(lambda: clocks.now_ns, lambda: clocks.used_ns)
    for _ in range(20):  # busy for a moment, then idle
        clocks.pass_time(0.1, 1.0)
        clocks.pass_time(0.2, 0.1)
        assert fraction.give_up("simulator") == ""
    assert asked == []
    clocks.pass_time(0.2, 0.95)
    assert fraction.give_up("simulator") == ""
    clocks.pass_time(0.1, 0.95)
    assert fraction.give_up("simulator") == ""  # the first of two
    clocks.pass_time(0.3, 0.95)
    assert "simulator used 95 % of a core" in fraction.give_up("simulator")
    assert asked == [os.SCHED_OTHER]


def test_a_start_that_loads_code_is_no_reason(asked):
    clocks = Clocks()
    fraction = ProcessorFraction(lambda: clocks.now_ns, lambda: clocks.used_ns)
    for used in (0.95, 0.2, 0.95, 0.2):
        clocks.pass_time(0.3, used)
        assert fraction.give_up("simulator") == ""
    assert asked == []


def test_a_loop_says_when_it_gave_its_priority_back(monkeypatch, asked):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _pid: os.SCHED_FIFO)
    said: list[str] = []

    def busy(*_numbers: float) -> None:
        end_s = time.thread_time() + 0.01
        while time.thread_time() < end_s:
            pass

    monkeypatch.setattr(periodic, "_LARGEST_FRACTION", 0.0)  # what the machine leaves to this thread is its own affair
    thread = make(busy, 0.001, on_refused=said.extend)
    thread.start()
    while not said:
        time.sleep(0.01)
    assert thread.stop()
    assert len(said) == 1
    assert asked == [os.SCHED_OTHER]


def give_way_in_a_program(right: int) -> str:
    """Policy and nice value of a thread that a program had before it gave way, and of one that it makes later."""
    program = f"""
import os, threading
from continuum_robot.runtime import periodic
periodic.allowed_priority = lambda _: {right}
seen, go = [], threading.Event()
def look():
    go.wait()
    seen.append((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
before = threading.Thread(target=look); before.start()
periodic.give_way()
later = threading.Thread(target=look); later.start()
go.set(); before.join(); later.join()
print(seen[0] == seen[1], *seen[0])
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_all_threads_of_a_process_give_way():
    nice = max(periodic.GIVEN_WAY, os.getpriority(os.PRIO_PROCESS, 0))
    assert give_way_in_a_program(80) == f"True {os.SCHED_OTHER} {nice}"
    assert give_way_in_a_program(0).startswith(f"True {os.SCHED_IDLE} ")
