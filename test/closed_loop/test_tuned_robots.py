# SPDX-License-Identifier: Apache-2.0
"""Tuned gains: their margins by the loop's own analysis, and what they do on the simulated robot in virtual time."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from virtual_loop import VirtualLoop

from continuum_robot.app.tune import reasons
from continuum_robot.control.delay_margin import delay_margin_s
from continuum_robot.control.references import blend
from continuum_robot.control.tuning import GAIN_MARGIN, PHASE_MARGIN_RAD, tune
from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.errors import ParameterError
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.loading import load_robot

NINE = str(Path(__file__).parents[1] / "robots/untuned_nine_servos.yaml")


class Blended:
    """The robot's reference, entered within half a second, as the controller does it."""

    def __init__(self, start, reference):
        self.start, self.reference = start, reference

    def at(self, time_s):
        desired = self.reference.at(time_s)
        return desired if time_s >= 0.5 else blend(self.start, desired, max(0.0, time_s), 0.5)


def tracked(robot, duration_s=2.0):
    """Error of every coordinate after the first second, (T, coordinates), m."""
    loop = VirtualLoop(robot)
    loop.activate()
    loop.reference = Blended(loop.controller.manifold.clarke(loop.reading.displacement_m), loop.reference)
    loop.reference_start_s = loop.now_s
    record = loop.run(duration_s)
    assert not loop.faults
    kept = record["time_s"] > loop.reference_start_s + 1.0
    return (record["clarke"] - record["reference"])[kept]


def rms(error):
    return float(np.sqrt(np.mean(error**2)))


@pytest.mark.parametrize(
    ("name", "cycles"),
    [
        (NINE, 4),
        *(pytest.param(name, 1, marks=pytest.mark.long) for name in ("vanderbilt_segment", "mixed_routing")),
        pytest.param("opencr_five_tendon", 1, marks=pytest.mark.long),
    ],
)
def test_tuned_robots_keep_their_margins_and_track_better(name: str, cycles: int) -> None:
    robot = load_robot(name)
    found = tune(robot, computing_cycles=cycles)
    better = robot.changed(control=found.control)
    margins = delay_margin_s(better, computing_cycles=cycles)
    assert margins.phase_margin_rad >= math.radians(45)
    assert margins.gain_margin >= 2.5
    assert margins == found.margins
    simulation = dataclasses.replace(robot.simulation, command_delay_s=1e-3 * (cycles - 1))
    duration_s = 6.0 if name == "opencr_five_tendon" else 2.0  # which has good gains
    before, after = (tracked(one.changed(simulation=simulation), duration_s) for one in (robot, better))
    assert rms(after) < 0.9 * rms(before)
    quarter = len(after) // 4  # the first has the blend from rest
    assert rms(after[3 * quarter :]) < 1.5 * rms(after[quarter : 2 * quarter])  # nothing grows


def test_two_segments_get_the_margins_that_they_lack() -> None:
    robot = load_robot("two_segment")
    before = delay_margin_s(robot)
    assert before.phase_margin_rad < math.radians(35)
    found = tune(robot)
    assert found.margins.phase_margin_rad >= math.radians(45)
    assert rms(tracked(robot.changed(control=found.control))) < 4e-4


def test_a_mechanism_is_tuned_on_its_motors_and_less_margin_gives_more_gain() -> None:
    robot = load_robot("rolling_five_link")
    found = [tune(robot, phase_margin_rad=math.radians(degrees)) for degrees in (30, 45, 60)]
    gains = [one.control.gains[0].i for one in found]
    assert gains == sorted(gains, reverse=True)
    assert {one.margins.plant for one in found} == {"motors"}
    slow = tune(robot, period_s=0.004)
    assert slow.control.gains[0].i < found[1].control.gains[0].i


def test_a_robot_without_control_gets_it_and_the_file_keeps_all_else(tmp_path: Path) -> None:
    robot = load_robot("opencr_five_tendon")
    found = tune(robot)
    written = write_fitted_robot(robot, found, tmp_path / "tuned.yaml")
    assert written == robot.changed(control=found.control, assumed=written.assumed)
    assert set(robot.assumed) >= set(written.assumed)
    without = write_fitted_robot(written, tune(written.changed(control=None)), tmp_path / "again.yaml")
    assert without.control is not None
    assert delay_margin_s(without).phase_margin_rad >= math.radians(45)


def test_the_integral_of_servos_is_tuned_at_the_rate_of_their_bus(tmp_path: Path) -> None:
    robot = load_robot("three_segment_servo")
    with pytest.raises(ParameterError, match="tracker"):
        tune(robot)
    tracker = NdiSerial(kind="ndi_serial", port="/dev/tracker", latency_s=0.06)
    seen = robot.changed(hardware=dataclasses.replace(robot.hardware, tracker=tracker))
    found, slow = tune(seen), tune(seen, period_s=0.02)
    assert found.computing_s == pytest.approx(0.005 + 0.01 + 0.06)
    assert found.margins.phase_margin_rad >= PHASE_MARGIN_RAD
    assert found.margins.gain_margin >= GAIN_MARGIN
    rate = found.control.integral_per_s
    further = seen.changed(control=dataclasses.replace(seen.control, integral_per_s=1.05 * rate))
    margins = delay_margin_s(further)
    assert min(margins.phase_margin_rad / PHASE_MARGIN_RAD, margins.gain_margin / GAIN_MARGIN) < 1
    assert slow.control.integral_per_s < rate
    assert reasons(seen, found)


def test_the_loop_has_the_rate_of_the_file() -> None:
    robot = load_robot("opencr_five_tendon")
    slow = robot.changed(actuators=dataclasses.replace(robot.actuators, rate_hz=200.0))
    assert delay_margin_s(slow) == delay_margin_s(robot, period_s=0.005) != delay_margin_s(robot)


def test_what_cannot_be_tuned_is_refused() -> None:
    robot = load_robot("rolling_five_link")
    law = dataclasses.replace(robot.control_settings, law="inverse_dynamics")
    with pytest.raises(ParameterError, match=r"control.law.*pid"):
        tune(robot.changed(control=law))
    with pytest.raises(ParameterError, match="limits"):
        tune(robot.changed(limits=None, control=None))
    with pytest.raises(ParameterError, match="phase_margin"):
        tune(robot, phase_margin_rad=math.radians(5))
