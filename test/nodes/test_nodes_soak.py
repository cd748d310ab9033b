# SPDX-License-Identifier: Apache-2.0
"""A soak of a minute, and the campaign on stacks as ``up`` starts them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from faults import up
from faults.kinds import KINDS, SAFE, by_name
from faults.up import run_on_up
from robot_files import robot_values, written
from ros_probe import patient_on_wires

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import wait_for

pytestmark = [pytest.mark.ros, pytest.mark.real_time, pytest.mark.long]

MINUTE_H = 1 / 60


def soak(folder, hours):
    command = [sys.executable, "-m", "faults", "soak", "--hours", str(hours), "--seed", "3", "--folder", str(folder)]
    path = os.pathsep.join([str(up.TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def found(folder):
    return json.loads(next(folder.glob("*/soak.json")).read_text(encoding="utf-8"))


def test_a_minute_of_soak_ends_with_all_its_files(domain, tmp_path):
    program = soak(tmp_path, MINUTE_H)
    said, _ = program.communicate(timeout=600.0)
    numbers = found(tmp_path)
    run = next(tmp_path.iterdir())
    assert program.returncode == int(bool(numbers["failures"])), said
    # Times are not judged here: this machine may be busy. What latched is recovered on any machine.
    assert [record["fault"] for record in numbers["records"] if not record["recovered"]] == []
    assert len(numbers["records"]) >= 1
    assert numbers["ended"] == ""
    with (run / "usage.csv").open(encoding="utf-8") as file:
        processes = {row["process"] for row in csv.DictReader(file)}
    assert {"supervisor", "simulator", "control_loop", "sensing", "display", "client"} <= processes
    assert (run / "soak.png").read_bytes().startswith(b"\x89PNG")
    assert len((run / "faults.jsonl").read_text(encoding="utf-8").splitlines()) == len(numbers["records"])


def test_ctrl_c_ends_a_soak_with_the_same_report(domain, tmp_path):
    program = soak(tmp_path, 1.0)
    assert wait_for(lambda: list(tmp_path.glob("*/faults.jsonl")), 120.0)
    time.sleep(2.0)
    program.send_signal(signal.SIGINT)
    said, _ = program.communicate(timeout=120.0)
    assert found(tmp_path)["ended"] == ""
    assert "growth an hour" in said
    run = next(tmp_path.iterdir())
    assert (run / "soak.png").exists()
    for pid in json.loads((run / "pids.json").read_text(encoding="utf-8")).values():
        assert wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), 10.0)


def test_others_cannot_make_the_robot_unsafe(domain, tmp_path):
    """One moment of the kinds whose verdict is no time: what is judged holds on any machine."""
    file = written(patient_on_wires(robot_values()), tmp_path, "opencr_five_tendon")
    kinds = by_name(KINDS, "cross_origin,stale_file,reset_moves_nothing,hostile_request,driver_killed")
    records = {record.fault: record for record in run_on_up(file, kinds, 1)}
    assert records.keys() == {kind.name for kind in kinds}
    for record in records.values():
        assert record.recovered_without_restart, record.problems
        assert record.detected_by, record.fault
    assert records["driver_killed"].reaction == SAFE
    for name in ("cross_origin", "stale_file", "reset_moves_nothing", "hostile_request"):
        assert records[name].ended_safe, records[name].problems


def test_a_stack_that_does_not_come_up_fails_its_run_and_the_others_are_judged(monkeypatch):
    """It ended the campaign, and what had been judged before was lost."""

    def refuse(*_arguments):
        raise DeviceError("stack", "is fault", "See its log")

    monkeypatch.setattr(up, "running", refuse)
    records = list(run_on_up("opencr_five_tendon", by_name(KINDS, "driver_killed,estop_by_two"), 2))
    assert sorted((record.fault, record.ended_safe) for record in records) == [
        *[("driver_killed", False)] * 2,
        *[("estop_by_two", False)] * 2,
    ]
    assert all("is fault" in record.problems[0] for record in records)
