# SPDX-License-Identifier: Apache-2.0
"""A loop that is late warns, then stops; a single stall does not, and nothing counts before the activation."""

import dataclasses
import math

import numpy as np
import pytest
from safety_steps import TendonSafety

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.command_watch import LatenessWatch
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_faults import COMMAND_TIMEOUT, LOOP_TOO_SLOW
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
N = ROBOT.tendon_count
DT = 1e-3
LATE_S = 0.004


def run(watch, cycles, *, latency_s=3e-4, missed=0, start_s=0.0, judged=True):
    """Cycles of 1 ms, each after ``missed`` missed ones: (slow, warning) of each, and when the last one was."""
    found, now_s = [], start_s
    for _ in range(cycles):
        now_s += DT * (1 + missed)
        found.append((watch.step(now_s, latency_s, missed, judged), bool(watch.late_warning)))
    return found, now_s


def test_late_answers_in_a_row_warn_and_then_are_a_fault():
    settings = SafetySettings(late_time_s=0.02)
    watch = LatenessWatch(LATE_S, settings)
    _, now_s = run(watch, 100)
    found, now_s = run(watch, 19, latency_s=1.01 * LATE_S, start_s=now_s)
    assert found == [(False, False)] * 19
    found, now_s = run(watch, 1, latency_s=0.99 * LATE_S, start_s=now_s)
    assert found == [(False, True)]  # not late, but the twentieth beyond half of it
    found, now_s = run(watch, 20, latency_s=1.01 * LATE_S, start_s=now_s)
    assert [slow for slow, _ in found] == [False] * 19 + [True]
    assert watch.worst_latency_s == 1.01 * LATE_S
    found, _ = run(watch, 1, start_s=now_s)
    assert found == [(False, False)]


@pytest.mark.parametrize(("missed", "too_slow"), [(3, False), (4, True)])
def test_servos_that_smooth_their_goals_need_few_of_them(missed, too_slow):
    watch, period_s = LatenessWatch(0.05, SafetySettings(), 0.005, 48.0), 0.005
    slow = [watch.step(k * period_s * (1 + missed), 0.01, missed, True) for k in range(1, 200)]
    assert any(slow) == too_slow, "200 Hz of which a quarter, then a fifth are left; 48 are enough"
    watch.procedure = True
    assert not any(watch.step(10 + k * period_s * (1 + missed), 0.01, missed, True) for k in range(200))


def test_an_answer_of_unknown_age_is_not_in_time():
    """Nor is it late: a loop whose controller writes every other cycle is judged by what it writes."""
    watch = LatenessWatch(LATE_S, SafetySettings(late_time_s=0.02))
    now_s, slow = 0.0, []
    for k in range(42):
        now_s += DT
        slow.append(watch.step(now_s, 2 * LATE_S if k % 2 else math.nan, 0, True))
    assert slow.index(True) == 39
    unknown = LatenessWatch(LATE_S, SafetySettings())
    assert not any(slow for slow, _ in run(unknown, 3000, latency_s=math.nan)[0])
    assert math.isnan(unknown.worst_latency_s)


@pytest.mark.parametrize(("missed", "slow", "warning"), [(0, False, False), (1, True, True), (3, True, True)])
def test_missed_cycles_are_a_fraction_of_a_second(missed, slow, warning):
    watch = LatenessWatch(LATE_S, SafetySettings())
    found, _ = run(watch, 3000 // (1 + missed), missed=missed)
    assert found[-1] == (slow, warning)
    assert watch.missed_fraction == pytest.approx(missed / (1 + missed), abs=0.01)
    first = [one for one, _ in found].index(True) * DT * (1 + missed) if slow else 1.0
    assert first == pytest.approx(1.0, abs=0.01)  # nothing is concluded from less than a second


@pytest.mark.parametrize(("every", "slow", "warning"), [(3, True, True), (6, False, True), (20, False, False)])
def test_the_warning_comes_at_half_of_the_fraction(every, slow, warning):
    """One cycle missed after so many: 25 %, 14 % and 5 %."""
    watch = LatenessWatch(LATE_S, SafetySettings())
    now_s, found = 0.0, []
    for k in range(2000):
        missed = int(k % every == 0)
        now_s += DT * (1 + missed)
        found.append((watch.step(now_s, 0.0, missed, True), bool(watch.late_warning)))
    assert found[-1] == (slow, warning)


@pytest.mark.parametrize("after", [10, 500, 3000])
def test_one_stall_of_30_ms_is_no_fault_whenever_it_comes(after):
    watch = LatenessWatch(LATE_S, SafetySettings())
    found, now_s = run(watch, after)
    now_s += 31 * DT
    found.append((watch.step(now_s, 0.0, 30, True), bool(watch.late_warning)))
    found += run(watch, 2000, start_s=now_s)[0]
    assert found == [(False, False)] * len(found)
    assert watch.missed_fraction == 0.0  # forgotten after a second


def test_what_was_before_the_first_cycle_does_not_count():
    watch = LatenessWatch(LATE_S, SafetySettings())
    run(watch, 2000)
    watch.restart()
    watch.step(5.0, 1.0, 900, True)
    assert math.isnan(watch.missed_fraction)
    assert run(watch, 1500, start_s=5.0)[0] == [(False, False)] * 1500


def test_a_clock_that_goes_back_starts_again():
    watch = LatenessWatch(LATE_S, SafetySettings())
    _, now_s = run(watch, 1500, missed=1)
    assert watch.late_warning
    assert not watch.step(now_s - 2.0, 0.0, 5, True)
    assert not watch.late_warning


# --- in the safety logic


def reading_at(stamp_s, tension):
    zero = np.zeros(N)
    return TendonReading(
        stamp_s, zero + 1e-9 * round(1e3 * stamp_s), zero, tension, tension / ROBOT.newton_per_ampere, zero, zero
    )


class Loop:
    """Commands that answer each reading, with what the loop reports of its own lateness."""

    def __init__(self, *, active=True, **arguments):
        self.safety = TendonSafety(ROBOT, **arguments)
        self.now_s, self.count = 10.0, 0
        if active:
            self.safety.activate(reading_at(self.now_s, np.full(N, 3.0)), self.now_s)

    def cycles(self, count, *, latency_s=3e-4, missed=0):
        for _ in range(count):
            self.count += 1
            elapsed_s = DT * (1 + missed)
            self.now_s += elapsed_s
            self.safety.latency_s, self.safety.missed = latency_s, missed
            reading = reading_at(self.now_s, self.safety.commanded)
            output = self.safety.update(
                reading, np.full(N, 3.0), 0.0, self.now_s, elapsed_s, command_sequence=self.count
            )
        return output


def test_late_commands_latch_and_ramp_down():
    loop = Loop(delay_margin_s=LATE_S)
    assert loop.safety.late_latency_s == LATE_S
    loop.cycles(100)
    assert loop.cycles(19, latency_s=0.005).state == "active"
    assert not loop.safety.late_warning
    output = loop.cycles(1, latency_s=0.005)
    assert output.new_faults == (LOOP_TOO_SLOW,)
    assert output.state == "safe"
    assert loop.safety.worst_latency_s == 0.005
    before = loop.safety.commanded
    output = loop.cycles(100)
    assert (output.tension < before).all()
    assert loop.safety.released
    # It clears without a new process, and the past does not count.
    assert loop.safety.reset() == ()
    loop.safety.activate(reading_at(loop.now_s, np.full(N, 3.0)), loop.now_s)
    assert loop.cycles(2000).state == "active"


def test_half_of_the_cycles_missed_cannot_go_unnoticed():
    loop = Loop()
    loop.cycles(1500)
    output = loop.cycles(600, missed=1)
    assert output.faults == (LOOP_TOO_SLOW,)
    assert loop.safety.missed_fraction == pytest.approx(0.5, abs=0.02)


def test_a_stall_of_30_ms_passes():
    loop = Loop()
    loop.cycles(100)
    loop.cycles(1, missed=30, latency_s=0.03)
    assert loop.cycles(2000).faults == ()
    assert not loop.safety.late_warning


def test_an_inactive_loop_may_be_late():
    loop = Loop(active=False)
    assert loop.cycles(3000, missed=3, latency_s=0.09).faults == ()
    assert not loop.safety.late_warning
    assert loop.safety.missed_fraction == pytest.approx(0.75, abs=0.01)


def test_who_gives_no_times_is_not_judged():
    safety, now_s = TendonSafety(ROBOT), 1.0
    safety.activate(reading_at(now_s, np.full(N, 3.0)), now_s)
    for k in range(1, 1500):
        now_s += DT
        output = safety.update(reading_at(now_s, safety.commanded), np.full(N, 3.0), 0.0, now_s, DT, command_sequence=k)
    assert output.faults == ()


@pytest.mark.parametrize(
    ("setting_s", "margin_s", "expected_s"),
    [(0.0, None, 0.05), (0.0, 0.0, 0.05), (0.0, 0.007, 0.007), (0.003, 0.007, 0.003), (0.003, None, 0.003)],
)
def test_the_setting_goes_before_the_robot_and_that_before_the_timeout(setting_s, margin_s, expected_s):
    limits = dataclasses.replace(ROBOT.limits, command_timeout_s=0.1)
    safety = TendonSafety(
        dataclasses.replace(ROBOT, limits=limits),
        SafetySettings(late_latency_s=setting_s),
        delay_margin_s=margin_s,
    )
    assert safety.late_latency_s == expected_s


@pytest.mark.parametrize("margin_s", [-0.001, math.nan])
def test_an_impossible_margin_is_refused(margin_s):
    with pytest.raises(ParameterError, match="delay_margin_s"):
        TendonSafety(ROBOT, delay_margin_s=margin_s)


# --- ages, stalls and requests, decided once


@pytest.mark.parametrize("age_s", [math.nan, math.inf])
@pytest.mark.parametrize("sequence", [0, 7])
def test_a_command_of_unknown_age_is_never_fresh(age_s, sequence):
    safety, now_s = TendonSafety(ROBOT, SafetySettings(activation_grace_s=0.0)), 1.0
    safety.activate(reading_at(now_s, np.full(N, 3.0)), now_s)
    for k in range(1, 120):
        now_s += DT
        output = safety.update(
            reading_at(now_s, safety.commanded),
            np.full(N, 6.0),
            age_s,
            now_s,
            DT,
            command_sequence=sequence + k if sequence else 0,
        )
        assert output.state != "active" or (output.tension == 3.0).all()
    assert output.faults == (COMMAND_TIMEOUT,)


@pytest.mark.parametrize("age_s", [-5.0, -math.inf])
def test_a_command_from_the_future_does_not_delay_the_timeout(age_s):
    safety, now_s = TendonSafety(ROBOT), 1.0
    safety.activate(reading_at(now_s, np.full(N, 3.0)), now_s)
    for _ in range(120):
        now_s += DT
        output = safety.update(
            reading_at(now_s, safety.commanded), np.full(N, 3.0), age_s, now_s, DT, command_sequence=1
        )
    assert output.faults == (COMMAND_TIMEOUT,)


@pytest.mark.parametrize("change", [{"age_s": np.full(N, np.nan)}, {"stamp_s": math.nan}])
def test_a_reading_of_unknown_age_is_stale_in_every_state(change):
    safety = TendonSafety(ROBOT)
    unknown = dataclasses.replace(reading_at(1.0, np.full(N, 3.0)), **change)
    safety.update(unknown, None, 0.0, 1.0, DT)
    assert "reading_timeout" in safety.conditions
    safety.update(None, None, 0.0, 1.001, DT)
    assert "reading_timeout" in safety.conditions


@pytest.mark.parametrize(("periods", "period_s", "stall_s"), [(3, 0.001, 0.01), (3, 0.001, 0.09), (5, 0.002, 0.09)])
def test_a_stall_is_no_credit_for_the_rate_limit(periods, period_s, stall_s):
    safety, now_s = TendonSafety(ROBOT, SafetySettings(credit_periods=periods), period_s), 1.0
    safety.activate(reading_at(now_s, np.full(N, 3.0)), now_s)
    now_s += period_s
    safety.update(reading_at(now_s, safety.commanded), np.full(N, 3.0), 0.0, now_s, period_s, command_sequence=1)
    before = safety.commanded
    now_s += stall_s
    high = 0.5 * ROBOT.limits.maximum_n
    output = safety.update(reading_at(now_s, before), np.full(N, high), 0.0, now_s, stall_s, command_sequence=2)
    assert output.state == "active"
    rise_n = ROBOT.limits.rate_n_per_s * periods * period_s
    np.testing.assert_allclose(output.tension - before, min(rise_n, high - 3.0))


def test_cycles_without_a_command_are_no_credit_either():
    loop = Loop()
    loop.cycles(3)
    for _ in range(40):
        loop.now_s += DT
        loop.safety.update(reading_at(loop.now_s, loop.safety.commanded), None, 0.0, loop.now_s, DT)
    before = loop.safety.commanded
    loop.now_s += DT
    output = loop.safety.update(
        reading_at(loop.now_s, before), np.full(N, 10.0), 0.0, loop.now_s, DT, command_sequence=99
    )
    np.testing.assert_allclose(output.tension - before, 3 * DT * ROBOT.limits.rate_n_per_s)


def test_the_ramp_to_the_safe_tension_follows_real_time():
    loop = Loop()
    loop.cycles(5)
    loop.safety.deactivate()
    before = loop.safety.commanded
    loop.now_s += 0.01
    output = loop.safety.update(reading_at(loop.now_s, before), None, 0.0, loop.now_s, 0.01)
    fall_n = min(0.01 * ROBOT.limits.safe_rate_n_per_s, before[0] - ROBOT.limits.safe_n)
    np.testing.assert_allclose(before - output.tension, fall_n)


def test_an_estop_that_is_asked_for_is_obeyed_by_the_next_step():
    loop = Loop()
    loop.cycles(5)
    loop.safety.ask_estop("button", held=True)
    assert loop.safety.state == "active"
    output = loop.cycles(1)
    assert output.new_faults == ("estop",)
    assert not loop.safety.estop_asked
    assert loop.safety.reset() == ("estop",)
    loop.safety.release_estop()
    assert loop.safety.reset() == ()


def test_an_estop_that_no_step_came_for_is_neither_lost_nor_obeyed_twice():
    safety = TendonSafety(ROBOT)
    safety.ask_estop("button")
    with pytest.raises(Exception, match="estop"):
        safety.activate(reading_at(1.0, np.full(N, 3.0)), 1.0)
    assert safety.state == "safe"
    safety.ask_estop("again")
    assert safety.reset() == ()  # what was asked for before the reset is part of it
    assert safety.update(None, None, 0.0, 1.0, DT).state == "inactive"


@pytest.mark.parametrize(("period_s", "cycles"), [(0.001, 20), (0.005, 4), (0.01, 4)])
def test_lateness_is_counted_in_time_at_any_rate_and_names_the_rate(period_s, cycles):
    watch = LatenessWatch(LATE_S, SafetySettings(), period_s)
    now_s, slow = 0.0, []
    for _ in range(30):
        now_s += period_s
        slow.append(watch.step(now_s, 1.5 * LATE_S, 0, True))
    assert slow.index(True) == cycles  # the first shows nothing yet
    assert f"({1e3 * LATE_S:.2f} ms allowed, {cycles} times in a row)" in watch.text
    assert watch.text.endswith(f"lower rate_hz = {1 / period_s:g}")
