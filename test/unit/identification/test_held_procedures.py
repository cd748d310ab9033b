# SPDX-License-Identifier: Apache-2.0
"""Procedures on simulated servos that hold displacements, in virtual time, at their bus's rate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from changed_robots import PRELOAD_N, pair

from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.cogging import CoggingCalibration
from continuum_robot.identification.procedures.homing import Homing, HomingSettings, LoadOnset, homing_of
from continuum_robot.identification.procedures.hung_weight import HungWeight
from continuum_robot.identification.procedures.procedure import CANCELLED, ProcedureRun
from continuum_robot.identification.procedures.tendon_check import OK, LoadCheck, TendonCheck, tendon_check_of
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop, make_safety
from continuum_robot.runtime.cycle.forms import interpreted_form
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.truth import true_robot

WHOLE = load_robot("three_segment_servo")
PERIOD_S = 1 / WHOLE.actuators.cycle_hz
LOADS = ("tension_n", "current_a")


def first(segments):
    """The robot with its first segments alone, and with the truth of these."""
    robot = WHOLE.changed(segments=WHOLE.segments[:segments], hardware=None, reference=None, reaction=None)
    truth, count = true_robot(WHOLE), 3 * segments
    errors = truth.simulation.wiring_errors
    kept = {one.name: getattr(errors, one.name)[:count] for one in dataclasses.fields(errors)}
    simulation = dataclasses.replace(truth.simulation, wiring_errors=WiringErrors(**kept))
    truth = truth.changed(segments=truth.segments[:segments], hardware=None, reference=None, simulation=simulation)
    return robot.changed(simulation=dataclasses.replace(robot.simulation, truth="")), truth


ROBOT, TRUTH = first(1)
N = ROBOT.tendon_count


class Servos:
    """Simulated servos that may tell no load, or one with noise."""

    simulated = takes_displacements = True

    def __init__(self, robot=ROBOT, *, tell=True, noise_n=0.0):
        self.noise = np.random.default_rng(1).normal(0.0, noise_n, (20000, robot.tendon_count)).tolist()
        self.inner, self.tendon_count, self.tell = SimulatedTendonActuators(robot), robot.tendon_count, tell
        self.peak_n = 0.0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self, now_s):
        reading = self.inner.read(now_s)
        if self.inner.plant is not None:
            self.peak_n = max(self.peak_n, float(self.inner.plant.tension.max()))
        unknown = np.full(self.tendon_count, np.nan)
        told_n = reading.tension_n + self.noise.pop()
        reading = dataclasses.replace(reading, tension_n=told_n)
        return reading if self.tell else dataclasses.replace(reading, **dict.fromkeys(LOADS, unknown))


class Onlooker(QuietWatcher):
    def __init__(self, look):
        self.on_row = look


def drive(servos, procedure, *, robot=ROBOT, cancel_s=None, longest_s=100.0, missed=0):
    """Run a procedure to its end, on a computer that misses cycles."""
    servos.open()
    pace = VirtualPace(PERIOD_S)

    def look(_row):
        if cancel_s is not None and pace.now_s() > cancel_s:
            run.cancel()
        if missed and loop.procedure is not None:
            pace.pass_time(missed * PERIOD_S)

    safety = make_safety(robot, interpreted_form("virtual time"), period_s=PERIOD_S)
    loop = make_loop(robot, servos, Onlooker(look), pace, safety=safety)
    run = ProcedureRun(procedure, loop.safety)
    loop.start()
    pace.run_one()
    servos.enable()
    loop.begin_procedure(run)
    assert pace.wait(lambda: run.finished, longest_s)
    run.restore()
    run.conclude()
    return run


@pytest.mark.parametrize(("tell", "missed", "noise_n"), [(True, 2, 0.0), (True, 0, 0.4), (False, 0, 0.0)])
def test_homing_finds_where_loads_begin(tell, missed, noise_n):
    """Also where two of three cycles are missed: servos hold their place meanwhile."""
    slack_m = np.array([1.0, 0.0, 3.0]) * 1e-3
    servos = Servos(tell=tell, noise_n=noise_n)
    for tendon, value in enumerate(slack_m):
        servos.inject("slack_tendon", tendon, float(value))
    procedure = homing_of(ROBOT)
    run = drive(servos, procedure, missed=missed)
    assert run.succeeded, run.problem
    error_m = procedure.result.zero_m - slack_m
    assert np.abs(error_m).max() < (2e-4 if tell else 7e-4), "what a segment's tendons have in common bends nothing"
    assert np.abs(controlled_manifold(ROBOT).clarke(error_m)).max() < (2e-4 if noise_n else 1e-4)
    assert servos.peak_n < 15.0
    # A release counts from the pose that was found: else each procedure would let the tendons out further.
    left_m = servos.read(1e6).displacement_m - procedure.result.zero_m
    np.testing.assert_allclose(left_m, -ROBOT.limits.pay_out_m, atol=1e-3)


def test_where_slack_counts_as_a_fault_a_homing_still_lets_tendons_out():
    robot = ROBOT.changed(limits=dataclasses.replace(ROBOT.limits, slack_n=0.4))
    run = drive(Servos(robot), homing_of(robot), robot=robot)
    assert run.succeeded, run.problem


def test_a_tendon_that_is_not_attached_is_named():
    servos = Servos()
    servos.inject("slack_tendon", 1, 0.1)
    run = drive(servos, homing_of(ROBOT))
    assert "proximal/tendon_2 came in by 40 mm and bears no load yet" in run.problem


def test_a_goal_that_the_driver_would_not_let_through_ends_a_procedure():
    """Else it would wait for ever behind limits that scale all tendons back."""
    robot = ROBOT.changed(limits=dataclasses.replace(ROBOT.limits, maximum_displacement_m=0.011, pay_out_m=0.011))
    servos = Servos(robot)
    servos.inject("slack_tendon", -1, 0.0115)
    run = drive(servos, homing_of(robot), robot=robot)
    assert "bears no load yet" in run.problem or "limits.maximum_displacement_m = 0.011" in run.problem


def test_a_cancelled_homing_lets_all_tendons_out():
    servos = Servos()
    run = drive(servos, homing_of(ROBOT), cancel_s=5.0)
    assert run.problem == CANCELLED
    assert servos.inner.plant.tension.max() < 0.1


@pytest.mark.parametrize(
    ("pulls_tendon", "tell", "named"),
    [((), True, []), ((4, 2, 3, 1, 5, 6), False, ["proximal/tendon_1", "middle/tendon_1"])],
)
def test_the_check_of_a_robot_that_is_not_its_file(pulls_tendon, tell, named):
    """Stiffer, with friction in its guides, other spools and slack: no false alarm; motors swapped between segments."""
    robot, truth = first(2)
    errors = dataclasses.replace(truth.simulation.wiring_errors, pulls_tendon=pulls_tendon)
    truth = truth.changed(simulation=dataclasses.replace(truth.simulation, wiring_errors=errors))
    procedure = tendon_check_of(robot)
    run = drive(Servos(truth, tell=tell), procedure, robot=robot, missed=1)
    assert run.succeeded, run.problem
    verdicts = dict(zip(robot.tendon_names, procedure.result.verdicts, strict=True))
    assert [name for name, one in verdicts.items() if one != OK] == named
    assert all("swap their motors" in verdicts[name] for name in named)


class Moved(Servos):
    """Servos that count from elsewhere: shifted by ``offset_m``."""

    def __init__(self, robot, offset_m):
        super().__init__(robot)
        self.offset_m = offset_m

    def read(self, now_s):
        reading = self.inner.read(now_s)
        return dataclasses.replace(reading, displacement_m=reading.displacement_m + self.offset_m)

    def write(self, displacement_m, now_s):
        self.inner.write(displacement_m - self.offset_m, now_s)


def test_a_pair_on_one_servo_counts_from_where_it_stands_straight():
    robot, offset_m = pair(), np.array([3e-3, -3e-3])
    servos, procedure = Moved(robot, offset_m), homing_of(robot)
    run = drive(servos, procedure, robot=robot)
    assert run.succeeded, run.problem
    np.testing.assert_allclose(procedure.result.zero_m, offset_m, atol=2 * robot.actuators.meter_per_count)
    assert procedure.result.tension_n == PRELOAD_N
    assert servos.peak_n < PRELOAD_N + 1


def test_tendons_that_share_a_motor_are_not_pulled_one_after_the_other():
    for make in (LoadOnset, LoadCheck):
        with pytest.raises(ParameterError, match=r"transmission\.matrix"):
            make(pair())
    with pytest.raises(ParameterError, match="preload_n"):
        homing_of(pair(), HomingSettings(tension_n=5.0))


def test_what_commands_tensions_is_refused():
    for make in (lambda: HungWeight(ROBOT, 0, 0.5), lambda: Homing(ROBOT), lambda: CoggingCalibration(ROBOT)):
        with pytest.raises(ParameterError, match=r"actuators\.command = 'displacement'.*tension"):
            make()
    with pytest.raises(ParameterError, match=r"actuators\.command"):
        TendonCheck(ROBOT)
    tensions = load_robot("two_segment")
    for make in (LoadOnset, LoadCheck):
        with pytest.raises(ParameterError, match="displacements"):
            make(tensions)
    with pytest.raises(ParameterError, match="tension_n"):
        homing_of(ROBOT, HomingSettings(tension_n=50.0))
