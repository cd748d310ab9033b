# SPDX-License-Identifier: Apache-2.0
"""The judges of a soak, on series and truths whose answer is known."""

from __future__ import annotations

import csv
import os
import threading

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the soak needs ROS 2")

from faults.kinds import SOAK
from faults.processes import QUANTITIES, Growth, UsageLog, judge_growth, usage_of
from faults.soak import Soak, SoakRecord, draw
from faults.up import Overload

from continuum_robot.robot.loading import load_robot

HOUR_S, PERIOD_S, WARM_UP_S, BIN_S = 3600.0, 5.0, 300.0, 60.0
TIME_S = np.arange(0.0, HOUR_S, PERIOD_S)
ONE_LIFE = np.full(TIME_S.size, 4711)


def judge(value, life=ONE_LIFE, allowed_per_h=4.0):
    return judge_growth(
        "process", "pss_mib", TIME_S, value, life, warm_up_s=WARM_UP_S, bin_s=BIN_S, allowed_per_h=allowed_per_h
    )


def noise(seed, spread=0.5, memory=0.9):
    """A first-order autoregressive process: neighbours are alike, as they are in a process's memory."""
    rng = np.random.default_rng(seed)
    value, values = 0.0, []
    for step in rng.normal(0.0, spread * np.sqrt(1 - memory**2), TIME_S.size):
        value = memory * value + step
        values.append(value)
    return 100.0 + np.array(values)


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_growth_and_its_interval_holds_zero(seed):
    found = judge(noise(seed))
    assert found.judged
    assert not found.grows
    assert found.low_per_h < 1.0
    assert found.high_per_h > -1.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("leak_per_h", [10.0, 40.0])
def test_a_leak_is_found_with_its_rate(seed, leak_per_h):
    found = judge(noise(seed) + leak_per_h * TIME_S / HOUR_S)
    assert found.grows
    assert found.low_per_h < leak_per_h < found.high_per_h or found.per_h == pytest.approx(leak_per_h, rel=0.1)
    assert found.last - found.first == pytest.approx(leak_per_h * found.bins * BIN_S / HOUR_S, rel=0.3)


def test_a_leak_is_found_across_restarts_that_hide_it_from_the_eye():
    life = (TIME_S // 900.0).astype(int)
    value = noise(1) + 40.0 * (TIME_S % 900.0) / HOUR_S  # each life begins where the first one began
    found = judge(value, life)
    assert found.grows
    assert found.per_h == pytest.approx(40.0, rel=0.2)


def test_a_restart_that_begins_higher_or_lower_is_no_growth():
    life = (TIME_S // 900.0).astype(int)
    assert not judge(noise(2) + 30.0 * life, life).grows
    assert judge(noise(2) - 30.0 * life, life).per_h == pytest.approx(0.0, abs=2.0)


def test_what_grows_in_the_warm_up_only_does_not_count():
    assert not judge(noise(3) + 50.0 * np.minimum(TIME_S / WARM_UP_S, 1.0)).grows


def test_one_step_is_no_slope():
    assert not judge(noise(4) + 3.0 * (TIME_S > 1800.0)).grows


def test_growth_within_what_is_allowed_is_none():
    value = noise(5, spread=0.01) + 2.0 * TIME_S / HOUR_S
    assert not judge(value, allowed_per_h=4.0).grows
    assert judge(value, allowed_per_h=1.0).grows


def test_a_short_soak_is_not_judged():
    short = TIME_S < 800.0
    found = judge_growth(
        "process", "handles", TIME_S[short], TIME_S[short], ONE_LIFE[short], warm_up_s=WARM_UP_S, bin_s=10.0
    )
    assert not found.judged
    assert not found.grows


# --- what was found


def record(**values):
    known = {
        "number": 1,
        "fault": "reset",
        "detail": "",
        "at_s": 1.0,
        "moving": True,
        "reaction": "safe",
        "time_to_safe_ms": 12.0,
        "peak_n": 5.0,
        "faults": (),
        "recovery_s": 1.0,
        "recovered": True,
        "unsafe": (),
        "problems": (),
    }
    return SoakRecord(**(known | values))


def test_each_kind_of_failure_fails_the_soak():
    soak = Soak("robot", 0, 60.0, records=[record()], unprompted=["3 s: loop_too_slow"])
    assert soak.failures == []
    grown = Growth("sensing", "handles", 9.0, 8.0, 10.0, 20.0, 29.0, 40, grows=True, judged=True)
    for field, value in (
        ("records", [record(unsafe=("the motors go on to pull",))]),
        ("records", [record(recovered=False)]),
        ("records", [record(problems=("reset_estop was accepted",))]),
        ("overloads", ["3 s: a tendon had 25 N"]),
        ("growths", [grown]),
        ("ended", "the stack ended with code -11"),
    ):
        failing = Soak("robot", 0, 60.0)
        setattr(failing, field, value)
        assert len(failing.failures) == 1, field


def test_what_the_soaks_own_program_holds_is_not_judged():
    own = Growth("client", "rss_mib", 9.0, 8.0, 10.0, 20.0, 29.0, 40, grows=True, judged=True)
    assert Soak("robot", 0, 60.0, growths=[own]).failures == []


def test_only_what_a_motor_can_do_on_the_way_of_the_slack_is_a_shock():
    robot = load_robot("opencr_five_tendon")
    maximum_n = robot.limits.maximum_n
    # 4 N over 4 mm are 16 mJ, which stretch a tendon of 20 kN/m until it has 25 N.
    assert Overload(1.0, maximum_n + 20.0, 4.0).is_shock(robot, 0.004)
    assert not Overload(1.0, maximum_n + 30.0, 4.0).is_shock(robot, 0.004)
    assert not Overload(1.0, maximum_n + 1.0, 4.0).is_shock(robot, 0.0)
    assert not Overload(1.0, maximum_n + 1.0, maximum_n + 1.0).is_shock(robot, 0.004)


def test_a_seed_draws_the_same_faults_and_in_the_end_all_of_them():
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    drawn = [draw(rng).name for _ in range(600)]
    assert drawn == [draw(again).name for _ in range(600)]
    assert set(drawn) == {kind.name for kind in SOAK}


# --- what processes hold


def test_the_usage_of_this_process_follows_its_handles_and_threads(tmp_path):
    before = usage_of(os.getpid())
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(7)]
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    after = usage_of(os.getpid())
    ended.set()
    thread.join()
    for handle in held:
        os.close(handle)
    assert after.handles - before.handles == 7
    assert after.threads - before.threads == 1
    assert 0 < after.pss_mib <= after.rss_mib


def test_the_log_has_a_row_for_each_process_that_lives(tmp_path):
    with UsageLog(tmp_path / "usage.csv") as log:
        log.sample({"own": os.getpid(), "gone": 2**22 + 1})
    with (tmp_path / "usage.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["process"] for row in rows] == ["own"]
    assert set(QUANTITIES) < set(rows[0])
    time_s, value, life = log.series("own", "handles")
    assert time_s.shape == value.shape == life.shape == (1,)
    assert life[0] == os.getpid()
