# SPDX-License-Identifier: Apache-2.0
"""Cogging of the motors: the fit on made-up readings, the sweep on the simulated robot, and the record."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.identification.cogging_fit import CoggingFit, fit_cogging
from continuum_robot.identification.procedures.cogging import (
    CoggingCalibration,
    CoggingSamples,
    CoggingSweep,
    CoggingSweepSettings,
)
from continuum_robot.identification.procedures.record import (
    cogging_path,
    forget_angles,
    load_cogging,
    make_cogging_record,
    spooled_per_turn_m,
)
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import VirtualStack

ROBOT = load_robot("opencr_five_tendon")
PER_TURN_M = spooled_per_turn_m(ROBOT)
MASS_KG = np.full(5, ROBOT.actuators.reflected_mass_kg)


def cogging(turns):
    """Two harmonics, N."""
    return 0.8 * np.sin(2 * np.pi * 36 * turns + 0.4) + 0.3 * np.cos(2 * np.pi * 12 * turns)


def made_up(noise_n=0.2, seed=1, circles=3):
    """One motor of 10 mm a turn, 2 kg, on a load that follows the circle, with friction and stretch."""
    rng = np.random.default_rng(seed)
    time_s = 0.001 * np.arange(round(circles * 4000))
    phase = np.where(time_s < time_s[-1] / 2, 1, -1) * 2 * np.pi * time_s / 4 + 0.3
    q = 6.5e-3 * np.cos(phase)
    speed, acceleration = np.gradient(q, 0.001), np.gradient(np.gradient(q, 0.001), 0.001)
    stretch = 1e-5 * np.sin(2 * np.pi * 16 * time_s)
    force = 9 + 2 * np.cos(phase) + 0.5 * np.sin(2 * phase) + 2e4 * stretch + 2 * acceleration
    force += 0.33 * np.tanh(speed / 5e-4) + 1.0 * speed + cogging(q / 0.01) + noise_n * rng.normal(size=q.size)
    return CoggingSamples(time_s, q[:, None], stretch[:, None], force[:, None], phase)


def test_the_table_of_made_up_readings_lies_within_its_deviation():
    fit = fit_cogging(made_up(), np.array([0.01]), np.array([2.0]))
    truth = cogging(np.arange(1440) / 1440)
    error = np.abs(fit.force_n[0] - truth)
    assert set(fit.orders[0]) >= {12, 36}
    assert error.max() < 0.05
    # The window that smooths currents and accelerations takes a little of the higher harmonic.
    assert np.mean(error < 3 * fit.deviation_n[0] + 0.01) > 0.9
    assert fit.residual_n[0] < 0.2


def test_without_cogging_the_table_is_nearly_empty():
    samples = made_up()
    force = samples.force_n - cogging(samples.displacement_m / 0.01)
    fit = fit_cogging(dataclasses.replace(samples, force_n=force), np.array([0.01]), np.array([2.0]))
    assert np.abs(fit.force_n).max() < 0.06


def test_a_correction_of_the_sweep_before_widens_the_deviation():
    samples = made_up()
    alone = fit_cogging(samples, np.array([0.01]), np.array([2.0]))
    moved = dataclasses.replace(alone, force_n=alone.force_n + 0.2)
    again = fit_cogging(samples, np.array([0.01]), np.array([2.0]), known=moved)
    assert again.deviation_n.min() >= 0.1 * (1 - 1e-9)
    np.testing.assert_array_equal(again.force_n, alone.force_n)


def test_readings_that_miss_a_part_of_the_turn_are_refused():
    samples = made_up()
    small = dataclasses.replace(samples, displacement_m=0.3 * samples.displacement_m)
    with pytest.raises(ParameterError, match="whole turn"):
        fit_cogging(small, np.array([0.01]), np.array([2.0]))
    few = CoggingSamples(*(getattr(samples, field.name)[::10] for field in dataclasses.fields(samples)))
    with pytest.raises(ParameterError, match=r"at least \d+ readings"):
        fit_cogging(few, np.array([0.01]), np.array([2.0]))


def test_lost_cycles_are_left_out():
    samples = made_up()
    kept = np.random.default_rng(3).random(samples.time_s.size) > 0.01
    thinned = CoggingSamples(*(getattr(samples, field.name)[kept] for field in dataclasses.fields(samples)))
    fit = fit_cogging(thinned, np.array([0.01]), np.array([2.0]))
    assert np.abs(fit.force_n[0] - cogging(np.arange(1440) / 1440)).max() < 0.06


def test_a_robot_that_cannot_wind_a_turn_is_refused():
    limits = dataclasses.replace(ROBOT.limits, maximum_displacement_m=0.004)
    with pytest.raises(ParameterError, match="maximum_displacement_m"):
        CoggingSweep(dataclasses.replace(ROBOT, limits=limits), PER_TURN_M)
    with pytest.raises(ParameterError, match="tension_n"):
        CoggingSweep(ROBOT, PER_TURN_M, CoggingSweepSettings(tension_n=15.0))


def test_forces_that_are_no_cogging_are_refused():
    """They are added behind the limiter of the tensions."""
    stack = VirtualStack(ROBOT, Plant(ROBOT))
    table = np.zeros((ROBOT.tendon_count, 64))
    table[2, 5] = -0.26 * ROBOT.limits.maximum_n
    with pytest.raises(ParameterError, match=r"at most 5 N, 0\.25 of limits\.maximum_n"):
        stack.loop.feed_cogging_forward(table, PER_TURN_M)
    with pytest.raises(ParameterError, match="a table first"):
        stack.loop.compensate_cogging(on=True)
    stack.loop.feed_cogging_forward(table * 0.25 / 0.26, PER_TURN_M)
    stack.close()


@pytest.mark.long
def test_a_calibration_finds_the_simulated_cogging_from_noisy_currents():
    noisy = dataclasses.replace(ROBOT, simulation=dataclasses.replace(ROBOT.simulation, current_noise_a=0.02))
    plant = Plant(noisy, rng=np.random.default_rng(3))
    stack = VirtualStack(noisy, plant, seed=3)
    stack.loop.safety.positions_known = False
    calibration = CoggingCalibration(noisy)
    while (sweep := calibration.sweep) is not None:
        stack.drive(sweep)
        table = calibration.take(sweep.result)
        stack.loop.feed_cogging_forward(table.force_n, calibration.m_per_turn)
        stack.loop.compensate_cogging(on=True)
    stack.close()
    motor = plant.motor
    place = PER_TURN_M[:, None] * np.arange(table.force_n.shape[1]) / table.force_n.shape[1]
    truth = motor.cogging_n * np.sin(motor.cogging_rad_per_m * place + motor.cogging_phase_rad[:, None])
    error = table.force_n - truth
    assert np.sqrt(np.mean(error**2)) < 0.05 * motor.cogging_n
    assert np.mean(np.abs(error) < 3 * table.deviation_n) > 0.95


# The record


def found(robot=ROBOT):
    force = 0.9 * np.sin(2 * np.pi * 72 * np.arange(1440) / 1440) * np.ones((5, 1))
    fit = CoggingFit(force, np.full((5, 1440), 0.02), np.full(5, 0.2), ((72,),) * 5)
    return make_cogging_record(robot, fit), force


def test_a_record_is_read_back_as_forces(tmp_path):
    record, force = found()
    path = cogging_path(ROBOT, tmp_path)
    record.store(path)
    again = load_cogging(ROBOT, path)
    np.testing.assert_allclose(again.force_n, force, atol=1e-5)
    np.testing.assert_allclose(again.m_per_turn, PER_TURN_M)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("serial_number: prototype", "serial_number: other"), "another serial number"),
        (lambda text: text.replace("tendon_2", "tendon_9"), "another tendons"),
        (lambda text: text.replace("m_per_turn: 0.0094", "m_per_turn: 0.0095", 1), "other spools or gears"),
        (lambda text: text.replace("deviation_nm", "spread_nm", 1), "spread_nm"),
        (lambda text: text + "surprise: 1\n", "surprise"),
        (lambda _text: "", "cannot be used"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path, change, said):
    path = cogging_path(ROBOT, tmp_path)
    found()[0].store(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(DeviceError, match=said) as caught:
        load_cogging(ROBOT, path)
    assert "calibrate-cogging" in str(caught.value)


def test_after_a_new_alignment_the_angles_are_lost(tmp_path):
    path = cogging_path(ROBOT, tmp_path)
    assert not forget_angles(ROBOT, tmp_path)
    found()[0].store(path)
    assert forget_angles(ROBOT, tmp_path)
    with pytest.raises(DeviceError, match="aligned again"):
        load_cogging(ROBOT, path)
