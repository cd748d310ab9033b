# SPDX-License-Identifier: Apache-2.0
"""The fault campaign over a robot of servos that take displacements, and its judge."""

import json
import math
from io import StringIO

import numpy as np
import pytest
from faults import __main__ as command
from faults.judge import judge
from faults.kinds import SERVOS, by_name
from faults.virtual import run_virtual, virtual_runs
from rich.console import Console
from robot_files import made, robot_values

from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("three_segment_servo")
N, PERIOD_S = ROBOT.tendon_count, 0.005
FEW = (
    ("command_missing", 0),
    ("readings_lost", 0),
    ("tendon_snaps", 0),
    ("servo_fault", 0),
    ("bus_silent", 0),
    ("bus_unplugged", 2),
    ("bus_overload", 1),
    ("bus_watchdog", 0),
)
"""A kind, and which of its moments; all are in the campaign below."""


def feetech_robot():
    """The same robot on Feetech servos."""
    values = robot_values(robot=ROBOT.name)
    section = values["hardware"]["tendon_actuators"]
    kept = {key: section[key] for key in ("port", "motors", "receive_timeout_ms") if key in section}
    values["hardware"]["tendon_actuators"] = {"kind": "feetech", **kept}
    values["simulation"].pop("truth", None)
    return made(values)


FEETECH = feetech_robot()


def test_kinds_are_unique_and_expect_faults_that_there_are():
    names = [kind.name for kind in SERVOS]
    assert len(set(names)) == len(names) >= 40
    for kind in SERVOS:
        assert set(kind.found_by) <= set(FAULTS)
    found = {name for kind in SERVOS for name in kind.found_by}
    assert found >= {"displacement_lag", "slack_tendon", "tension_out_of_range", "command_wrong_size"}
    with pytest.raises(ParameterError, match="command_nan"):
        by_name(SERVOS, "command_lost")


def test_a_robot_gets_the_faults_that_its_servos_can_have():
    dynamixel, feetech = ({run.kind for run in virtual_runs(robot, SERVOS)} for robot in (ROBOT, FEETECH))
    assert dynamixel - feetech == {"bus_watchdog", "bus_drive_reversed"}
    assert feetech < dynamixel == {kind.name for kind in SERVOS}


@pytest.mark.parametrize(("name", "place"), FEW)
def test_a_few_faults_end_safe_and_recover(name, place):
    assert not problems(virtual_runs(ROBOT, by_name(SERVOS, name))[place])


@pytest.mark.parametrize("name", ["bus_electrical_shock", "bus_narrow_limits"])
def test_faults_of_feetech_servos_end_safe_and_recover(name):
    assert not problems(virtual_runs(FEETECH, by_name(SERVOS, name), 1)[0])


def problems(run):
    record = run_virtual(run)
    assert bool(record.problems) == (not record.ended_safe or not record.recovered_without_restart)
    return record.problems


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("robot", [ROBOT, FEETECH], ids=["dynamixel", "feetech"])
def test_each_kind_at_each_moment_ends_safe_and_recovers(robot, seed):
    runs = virtual_runs(robot, SERVOS, seed=seed)
    if robot is FEETECH:
        runs = [run for run in runs if run.kind.startswith("bus_")]
    failed = {(run.kind, run.moment): problems(run) for run in runs}
    assert {which: found for which, found in failed.items() if found} == {}


def seen(duration_s=2.0, stops_s=1.0, **changes):
    """A robot that is pulled in, and from ``stops_s`` on paid out."""
    time_s = PERIOD_S * np.arange(round(duration_s / PERIOD_S))
    commanded = np.where(time_s < stops_s, 0.01 * time_s, 0.01 * stops_s - 0.02 * (time_s - stops_s))
    tension = np.where(time_s < stops_s + 0.2, 10.0, 0.0)
    values = {
        "time_s": time_s,
        "tension_n": tension[:, None] * np.ones(N),
        "motor_n": np.zeros((time_s.size, N)),
        "spool_m": commanded[:, None] * np.ones(N),
        "commanded": commanded[:, None] * np.ones(N),
        "clarke_m": np.zeros((time_s.size, ROBOT.coordinate_count)),
        "reference_m": np.zeros((time_s.size, ROBOT.coordinate_count)),
    }
    return values | {name: np.array(value) for name, value in changes.items()}


def judged(seen, **changes):
    values = {"period_s": PERIOD_S, "known_s": 0.98, "stopped_s": 1.0, "powered": True, "spared": -1} | changes
    return judge(ROBOT, ROBOT.displacement_limits, seen, **values)


def test_a_release_is_safe_and_its_time_counts_to_the_last_pull():
    judgement = judged(seen())
    assert judgement.problems == ()
    assert judgement.time_to_safe_s == pytest.approx(0.02)
    assert judgement.tension_peak_n == 10.0


def test_a_servo_that_goes_on_pulling_is_not_safe():
    assert "still pulled in" in judged(seen(stops_s=1.5)).problems[0]


def test_more_than_servos_may_measure_or_what_is_left_is_not_safe():
    loud = seen()
    loud["tension_n"][10] = np.full(N, 100.0)
    assert "a tendon had 100.0 N" in judged(loud).problems[0]
    assert "are left on the tendons" in judged(seen(tension_n=[np.full(N, 10.0)] * 400)).problems[0]
    one = [np.where(np.arange(N) == 3, 10.0, 0.0)] * 400
    assert judged(seen(tension_n=one)).problems
    assert not judged(seen(tension_n=one), spared=3).problems


def test_a_robot_that_is_held_keeps_its_loads_and_winds_nothing_in():
    loaded = [np.full(N, 10.0)] * 400
    assert not judged(seen(tension_n=loaded), holds=True).problems
    winding = [np.full(N, 1e-3 * k / 100) for k in range(400)]
    assert "wound in" in judged(seen(tension_n=loaded, spool_m=winding), holds=True).problems[0]


def test_a_robot_that_goes_on_must_stay_near_its_reference():
    far = seen(clarke_m=[np.full(ROBOT.coordinate_count, 0.02)] * 400)
    judgement = judged(far, stopped_s=math.nan)
    assert judgement.problems == ("the robot went on, 20.0 mm away from its reference",)
    assert math.isnan(judgement.time_to_safe_s)


def test_the_command_runs_them_for_such_a_robot(tmp_path):
    file, console = tmp_path / "faults.json", Console(file=StringIO(), width=160)
    code = command.run_faults(ROBOT.name, kinds="estop", count=1, json_file=file, console=console)
    assert code == 0
    record = json.loads(file.read_text(encoding="utf-8"))["records"][0]
    assert (record["fault"], record["rate_hz"], record["detected_by"][0]) == ("estop", 200.0, "tendon_safety: estop")
