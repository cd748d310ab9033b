# SPDX-License-Identifier: Apache-2.0
"""Virtual time: cycles run while somebody waits; stalls miss deadlines; defects end it loudly."""

from __future__ import annotations

import pytest

from continuum_robot.runtime.pace import VirtualPace

DT = 0.001


class Bench:
    def __init__(self):
        self.steps, self.cycles, self.failures = [], [], []
        self.pace = VirtualPace(DT, 1.0, self.steps.append)

    def start(self, cycle=None):
        self.pace.start(cycle or (lambda *numbers: self.cycles.append(numbers)), on_failure=self.failures.append)


@pytest.fixture
def bench():
    return Bench()


def test_time_stands_while_nobody_waits_and_devices_come_before_the_cycle(bench):
    bench.start(lambda now_s, elapsed_s, missed: bench.cycles.append((now_s, elapsed_s, missed, len(bench.steps))))
    assert bench.pace.now_s() == 1.0
    bench.pace.run(0.003)
    assert [row[0] for row in bench.cycles] == pytest.approx([1.001, 1.002, 1.003])
    assert [row[1] for row in bench.cycles] == pytest.approx([DT] * 3)
    assert [row[3] for row in bench.cycles] == [1, 2, 3]
    assert bench.pace.running


def test_times_are_whole_nanoseconds_however_long_it_runs(bench):
    bench.start()
    bench.pace.run(5.0)
    assert [row[0] for row in bench.cycles] == [round((1.0 + k * DT) * 1e9) * 1e-9 for k in range(1, 5001)]


def test_a_stall_is_one_long_cycle_with_missed_deadlines_and_devices_go_on(bench):
    bench.start()
    bench.pace.run_one()
    bench.pace.pass_time(0.0095)
    bench.pace.run_one()
    now_s, elapsed_s, missed = bench.cycles[-1]
    assert len(bench.cycles) == 2
    assert elapsed_s == pytest.approx(0.0105)
    assert missed == 9
    assert now_s == pytest.approx(1.0115)
    assert max(b - a for a, b in zip(bench.steps, bench.steps[1:], strict=False)) <= DT * (1 + 1e-6)


def test_waiting_lets_cycles_run_until_the_condition_or_the_timeout(bench):
    assert not bench.pace.wait(lambda: False, 1.0), "nothing runs"
    bench.start()
    assert bench.pace.wait(lambda: len(bench.cycles) == 7, 1.0)
    assert len(bench.cycles) == 7
    assert not bench.pace.wait(lambda: False, 0.01)
    assert bench.pace.now_s() == pytest.approx(1.017, abs=1.5 * DT)
    assert bench.pace.wait(lambda: True, 0.0)
    assert bench.pace.call(lambda: 42) == 42


def test_after_stop_no_cycle_runs_and_time_passes_all_the_same(bench):
    bench.start()
    bench.pace.run_one()
    assert bench.pace.stop()
    bench.pace.run(0.01)
    bench.pace.run_one()
    assert len(bench.cycles) == 1
    bench.pace.pass_time(0.5)
    bench.start()
    bench.pace.run_one()
    assert bench.cycles[-1][1:] == (pytest.approx(DT), 0), "the pause was no cycle"


def test_a_defect_ends_it_and_is_told_and_raised(bench):
    def broken(*_numbers):
        raise RuntimeError("defect")

    bench.start(broken)
    with pytest.raises(RuntimeError, match="defect"):
        bench.pace.run_one()
    assert [str(error) for error in bench.failures] == ["defect"]
    assert not bench.pace.running
    assert bench.pace.report() is None
    assert bench.pace.response_report() is None
