# SPDX-License-Identifier: Apache-2.0
"""What a driver that starts again assumes of its motors' temperatures."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.nodes.driver.stored import StoredHeat
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
N = ROBOT.tendon_count
AMBIENT_C, WARN_C = ROBOT.actuators.heat.ambient_c, ROBOT.actuators.temperature_warn_c


class Log:
    def __init__(self):
        self.lines = []

    def info(self, line, **_):
        self.lines.append(line)

    warning = info


def begin(folder, *, simulated=False):
    """A driver program that starts: its memory, its new model, and what it logs."""
    log = Log()
    memory = StoredHeat(
        SimpleNamespace(node=SimpleNamespace(simulated=simulated, get_logger=lambda: log), folder=folder)
    )
    heat = HeatWatch(ROBOT.actuators, [0.1] * N)
    memory.begin(ROBOT, heat)
    return memory, heat, log.lines


def loop_of(heat):
    return SimpleNamespace(safety=SimpleNamespace(heat=heat))


def test_motors_go_on_from_where_they_were_when_the_driver_ended(tmp_path):
    memory, heat, _ = begin(tmp_path)
    heat.take([84.0] * N, [75.0] * N, 0.0)
    memory.keep(loop_of(heat), now=True)
    _, again, lines = begin(tmp_path)
    assert 80.0 < again.winding()[0] <= 84.0
    assert 74.0 < again.housing()[0] <= 75.5
    assert "go on from 8" in lines[-1]


@pytest.mark.parametrize(("ago_s", "low_c", "high_c"), [(600.0, AMBIENT_C, 70.0), (-3600.0, 84.0, 84.0)])
def test_the_time_in_between_cools_and_a_clock_that_ran_backwards_does_not(tmp_path, ago_s, low_c, high_c):
    memory, heat, _ = begin(tmp_path)
    memory.keep(loop_of(heat), now=True)
    file = next(tmp_path.glob("*.heat.json"))
    file.write_text(json.dumps({"time_s": time.time() - ago_s, "winding_c": [84.0] * N, "housing_c": [75.0] * N}))
    _, again, _ = begin(tmp_path)
    assert low_c <= again.winding()[0] <= high_c


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"time_s": 1, "winding_c": [20.0], "housing_c": [20.0]}', "[[[", "NaN"]
)
def test_real_motors_of_which_nothing_is_known_begin_at_the_warning_temperature(tmp_path, text):
    if text is not None:
        memory, heat, _ = begin(tmp_path)
        memory.keep(loop_of(heat), now=True)
        next(tmp_path.glob("*.heat.json")).write_text(text)
    _, heat, lines = begin(tmp_path)
    assert heat.winding() == heat.housing() == [WARN_C] * N
    assert "nothing is known" in lines[-1]


def test_simulated_motors_begin_cold_and_leave_no_file(tmp_path):
    memory, heat, _ = begin(tmp_path, simulated=True)
    memory.keep(loop_of(heat), now=True)
    assert heat.winding() == [AMBIENT_C] * N
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    memory, heat, lines = begin(tmp_path / "file")
    memory.keep(loop_of(heat), now=True)
    assert "cannot be kept" in lines[-1]
