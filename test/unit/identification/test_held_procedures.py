# SPDX-License-Identifier: Apache-2.0
"""Procedures on simulated servos that hold displacements, in virtual time, at their bus's rate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from transmitted_robots import PRELOAD_N, pair

from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.cogging_calibration import CoggingCalibration
from continuum_robot.identification.procedures.homing import Homing, HomingSettings
from continuum_robot.identification.procedures.hung_weight import HungWeight
from continuum_robot.identification.procedures.load_check import LoadCheck, tendon_check_of
from continuum_robot.identification.procedures.load_onset import LoadOnset, OnsetSettings, homing_of
from continuum_robot.identification.procedures.run import CANCELLED, ProcedureRun
from continuum_robot.identification.procedures.tendon_check import OK, TendonCheck
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop, make_safety
from continuum_robot.runtime.cycle.forms import interpreted_form
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators

ROBOT = load_robot("three_segment_servo")
N = ROBOT.tendon_count
PERIOD_S = 1 / ROBOT.actuators.cycle_hz
LOADS = ("tension_n", "current_a")


class Servos:
    """Simulated servos that may tell no load, or pull other tendons than the driver believes."""

    simulated = takes_displacements = True

    def __init__(self, robot=ROBOT, *, tell=True, order=None):
        self.inner, self.tendon_count, self.tell = SimulatedTendonActuators(robot), robot.tendon_count, tell
        self.order = np.arange(N) if order is None else np.array(order)
        self.peak_n = 0.0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self, now_s):
        reading = self.inner.read(now_s)
        if self.inner.plant is not None:
            self.peak_n = max(self.peak_n, float(self.inner.plant.tension.max()))
        kept = {one.name: getattr(reading, one.name) for one in dataclasses.fields(reading)}
        changed = {name: value[self.order] for name, value in kept.items() if isinstance(value, np.ndarray)}
        if not self.tell:
            changed |= {name: np.full(N, np.nan) for name in LOADS}
        return dataclasses.replace(reading, **changed)

    def write(self, displacement_m, now_s):
        wired = np.zeros(N)
        wired[self.order] = displacement_m
        self.inner.write(wired, now_s)


class Onlooker(QuietWatcher):
    def __init__(self, look):
        self.on_row = look


def drive(servos, procedure, *, robot=ROBOT, cancel_s=None, longest_s=300.0):
    """Run a procedure to its end."""
    servos.open()
    pace = VirtualPace(PERIOD_S)

    def look(_row):
        if cancel_s is not None and pace.now_s() > cancel_s:
            run.cancel()

    safety = make_safety(robot, interpreted_form("virtual time"), period_s=PERIOD_S)
    loop = make_loop(robot, servos, Onlooker(look), lambda _cycle, _form: pace, safety=safety)
    run = ProcedureRun(procedure, loop.safety)
    loop.start()
    pace.run_one()
    servos.enable()
    loop.begin_procedure(run)
    assert pace.wait(lambda: run.finished, longest_s)
    run.restore()
    return run


@pytest.mark.parametrize("tell", [True, False])
def test_homing_finds_where_loads_begin(tell):
    slack_m = np.array([1.0, 0.0, 3.0, 2.0, 0.5, 1.0, 2.0, 0.0, 1.0]) * 1e-3
    servos = Servos(tell=tell)
    for tendon, value in enumerate(slack_m):
        servos.inject("slack_tendon", tendon, float(value))
    procedure = homing_of(ROBOT)
    run = drive(servos, procedure)
    assert run.succeeded, run.problem
    error_m = procedure.result.zero_m - slack_m
    assert np.abs(error_m).max() < (2e-4 if tell else 7e-4), "what a segment's tendons have in common bends nothing"
    assert np.abs(controlled_manifold(ROBOT).clarke(error_m)).max() < 1e-4
    assert servos.peak_n < 15.0


def test_where_slack_counts_as_a_fault_a_homing_still_lets_tendons_out():
    robot = ROBOT.changed(limits=dataclasses.replace(ROBOT.limits, slack_n=0.4))
    run = drive(Servos(robot), homing_of(robot), robot=robot)
    assert run.succeeded, run.problem


def test_a_tendon_that_is_not_attached_is_named():
    servos = Servos()
    servos.inject("slack_tendon", 4, 0.1)
    run = drive(servos, LoadOnset(ROBOT, OnsetSettings(longest_m=0.02)))
    assert "middle/tendon_2 came in by 20 mm and bears nothing" in run.problem


def test_a_cancelled_homing_lets_all_tendons_out():
    servos = Servos()
    run = drive(servos, homing_of(ROBOT), cancel_s=20.0)
    assert run.problem == CANCELLED
    assert servos.inner.plant.tension.max() < 0.1


def test_the_check_passes_a_robot_as_its_file_states():
    procedure = tendon_check_of(ROBOT)
    run = drive(Servos(tell=False), procedure)
    assert run.succeeded, run.problem
    assert procedure.result.verdicts == (OK,) * N
    assert procedure.result.misfit < 0.4


def test_the_check_names_motors_that_are_swapped():
    procedure = tendon_check_of(ROBOT)
    assert drive(Servos(order=[0, 1, 2, 4, 3, 5, 6, 7, 8]), procedure).succeeded
    wrong = [name for name, one in zip(ROBOT.tendon_names, procedure.result.verdicts, strict=True) if one != OK]
    assert wrong == ["middle/tendon_1", "middle/tendon_2"]
    assert all("swap their motors" in one for one in procedure.result.verdicts if one != OK)


class Moved(Servos):
    """Servos that count from elsewhere: shifted by ``offset_m``."""

    def __init__(self, robot, offset_m):
        super().__init__(robot, order=range(robot.tendon_count))
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
