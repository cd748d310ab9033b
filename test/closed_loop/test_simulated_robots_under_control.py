# SPDX-License-Identifier: Apache-2.0
"""Controller, safety, simulated devices and plant in virtual time: tracking, activation, faults and recovery."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from virtual_loop import VirtualLoop, rmse

from continuum_robot.control.references import blend
from continuum_robot.drivers.safety import tendon_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.errors import DeviceError
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation import faults
from continuum_robot.simulation.plant import Plant

FIVE_TENDON = load_robot("opencr_five_tendon")


@pytest.fixture(scope="module")
def five_tendon_plant():
    return Plant(FIVE_TENDON)


@pytest.fixture
def loop(five_tendon_plant):
    """The five-tendon robot at rest and active, its plant shared to save time."""
    five_tendon_plant.reset()
    loop = VirtualLoop(FIVE_TENDON, plant=five_tendon_plant)
    loop.activate()
    return loop


def with_control(robot, gains=None, **control):
    entries = tuple(dataclasses.replace(one, **(gains or {})) for one in robot.control.gains)
    return dataclasses.replace(robot, control=dataclasses.replace(robot.control, gains=entries, **control))


def test_the_five_tendon_robot_tracks_the_papers_chirp_without_slack(loop):
    record = loop.run(6.0)
    assert loop.safety.state == "active"
    assert not loop.faults
    error = rmse(record)
    assert error[0] < 1e-4
    assert error[1] < 1e-4
    assert np.ptp(record["clarke"][:, 0]) > 0.018  # it moved
    assert record["tension"][record["time_s"] > 2].min() > 0
    assert np.all(record["command"] <= FIVE_TENDON.limits.maximum_n)


def test_two_segments_track_four_chirps_without_slack():
    robot = load_robot("two_segment")
    loop = VirtualLoop(robot)
    loop.activate()
    record = loop.run(5.0)
    assert not loop.faults
    assert np.all(rmse(record) < 4e-4)
    assert record["tension"][record["time_s"] > 2].min() > 0


@pytest.mark.long
def test_the_robot_of_two_modal_segments_comes_up_from_its_sag_and_tracks_without_slack():
    robot = load_robot("vanderbilt_two_segment")
    loop = VirtualLoop(robot)
    loop.activate()
    start, reference = loop.controller.manifold.clarke(loop.reading.displacement_m), loop.reference

    class Blended:
        """As the controller node does it."""

        def at(self, time_s):
            desired = reference.at(time_s)
            return desired if time_s >= 1 else blend(start, desired, max(0.0, time_s), 1.0)

    loop.reference = Blended()
    record = loop.run(2.5)
    assert not loop.faults
    assert record["tension"][record["time_s"] > 1.5].min() > 10
    assert np.all(rmse(record, 1.5) < 4e-3)


@pytest.mark.long
def test_pd_tracks_too_but_with_the_error_that_the_integral_removes(five_tendon_plant):
    errors = {}
    for name, fraction in (("pid", 1.0), ("pd", 0.0)):
        five_tendon_plant.reset()
        robot = with_control(FIVE_TENDON, {"i": fraction * FIVE_TENDON.control.gains[0].i})
        loop = VirtualLoop(robot, plant=five_tendon_plant)
        loop.activate()
        errors[name] = rmse(loop.run(6.0))[0]
        assert not loop.faults
    assert errors["pid"] < errors["pd"] < 3e-4


@pytest.mark.parametrize("delay_ms", [pytest.param(1, marks=pytest.mark.long), 2])
def test_tracking_bears_the_delays_that_the_gains_were_chosen_for(delay_ms):
    simulation = dataclasses.replace(FIVE_TENDON.simulation, command_delay_s=1e-3 * delay_ms, current_noise_a=0.005)
    robot = dataclasses.replace(FIVE_TENDON, simulation=simulation)
    loop = VirtualLoop(robot)
    loop.activate()
    record = loop.run(4.0)
    assert not loop.faults
    assert rmse(record)[0] < 1e-4


def test_runs_are_repeatable_bit_by_bit():
    records = []
    for _ in range(2):
        loop = VirtualLoop(FIVE_TENDON, seed=7)
        loop.activate()
        records.append(loop.run(0.3))
    for name, values in records[0].items():
        assert np.array_equal(values, records[1][name]), name


def test_activation_is_bumpless(loop):
    first = loop.safety.commanded
    np.testing.assert_array_equal(first, np.maximum(loop.reading.tension_n, FIVE_TENDON.limits.minimum_n))
    record = loop.run(0.2)
    steps = np.diff(np.vstack([first, record["command"]]), axis=0)
    assert np.abs(steps).max() <= FIVE_TENDON.limits.rate_n_per_s * 1e-3 * (1 + 1e-9)
    assert np.abs(record["clarke"][:, 1]).max() < 2e-4


def test_reactivation_while_bent_does_not_jump(loop):
    loop.run(2.4)
    loop.safety.deactivate()
    loop.attend(on=False)
    loop.run(0.08)
    loop.activate()
    record = loop.run(0.05)
    steps = np.abs(np.diff(record["command"], axis=0)).max()
    assert steps <= FIVE_TENDON.limits.rate_n_per_s * 1e-3 * (1 + 1e-9)


def test_a_killed_controller_ends_in_the_safe_state_within_the_timeout(loop):
    loop.run(1.0)
    killed_s = loop.now_s
    loop.attend(on=False)
    record = loop.run(0.6)
    (fault_s, name) = loop.faults[0]
    assert name == tendon_faults.COMMAND_TIMEOUT
    assert killed_s < fault_s <= killed_s + FIVE_TENDON.limits.command_timeout_s + 2e-3
    np.testing.assert_allclose(record["command"][-1], FIVE_TENDON.limits.safe_n)
    steps = np.abs(np.diff(record["command"], axis=0)).max()
    quickly = (record["command"].max() - FIVE_TENDON.limits.safe_n) / SafetySettings().safe_within_s
    assert steps <= max(FIVE_TENDON.limits.safe_rate_n_per_s, quickly) * 1e-3 * (1 + 1e-9)
    loop.run(1.0)
    assert loop.safety.state == "safe"  # a latched fault does not go away by itself


def test_a_dead_driver_leaves_the_motors_without_current(loop):
    """Nobody writes any more: the board's own timeout acts, not an old command."""
    loop.run(0.5)
    for cycle in range(1, 151):
        loop.actuators.read(loop.now_s + 1e-3 * cycle)
    assert loop.actuators.timeouts == 1
    assert np.abs(loop.actuators.plant.current).max() < 1e-6


@pytest.mark.parametrize(
    ("fault", "tendon", "magnitude", "expected"),
    [
        (faults.FREEZE_SENSOR, 1, 0.0, tendon_faults.FROZEN_READING),
        (faults.NAN_READING, 2, 0.0, tendon_faults.READING_NOT_FINITE),
        (faults.DROP_READINGS, 3, 1.0, tendon_faults.READING_TIMEOUT),
        (faults.DELAY_READINGS, -1, 0.2, tendon_faults.READING_TIMEOUT),
        (faults.ENCODER_JUMP, 1, 0.006, tendon_faults.INCONSISTENT_DISPLACEMENT),
        (faults.ENCODER_JUMP, 4, 0.003, tendon_faults.DISPLACEMENT_JUMP),
        (faults.DEVICE_FAULT, 0, 0.0, tendon_faults.DEVICE_FAULT),
        (faults.SATURATE_CURRENT, 0, 0.01, tendon_faults.CURRENT_MISMATCH),
        (faults.STUCK_MOTOR, 0, 0.0, tendon_faults.FROZEN_READING),
    ],
)
def test_each_fault_latches_the_safe_state_and_is_recovered_from(loop, fault, tendon, magnitude, expected):
    loop.run(0.5)
    loop.actuators.inject(fault, tendon, magnitude)
    record = loop.run(1.0)
    assert expected in [name for _, name in loop.faults]
    assert loop.safety.state == "safe"
    np.testing.assert_allclose(record["command"][-1], FIVE_TENDON.limits.safe_n)
    assert np.isfinite(record["command"]).all()
    with pytest.raises(DeviceError, match="reset"):
        loop.driver.obey()

    loop.actuators.inject("")
    loop.actuators.clear_faults()
    loop.run(0.3)
    assert loop.safety.reset() == ()
    assert loop.safety.state == "inactive"
    assert loop.safety.last_fault
    loop.faults.clear()
    loop.driver.power_off()
    loop.activate(FIVE_TENDON.control.pretension_n, 0.5)  # slack is taken up first
    record = loop.run(1.5)
    assert loop.safety.state == "active"
    assert rmse(record, after_s=loop.now_s - 0.5)[0] < 2e-4


@pytest.mark.parametrize("fault", [faults.NAN_READING, faults.DEVICE_FAULT, faults.DROP_READINGS])
def test_reset_is_refused_while_the_cause_persists(loop, fault):
    loop.run(0.2)
    loop.actuators.inject(fault, 0)
    loop.run(0.4)
    blocking = loop.safety.reset()
    assert blocking
    assert set(blocking) <= set(tendon_faults.FAULTS)
    assert loop.safety.state == "safe"


def test_a_snapped_tendon_shows_as_inconsistent_displacements(loop):
    loop.run(1.0)
    loop.actuators.inject(faults.SNAPPED_TENDON, 0)
    loop.run(2.0)
    assert loop.faults[0][1] in (
        tendon_faults.INCONSISTENT_DISPLACEMENT,
        tendon_faults.DISPLACEMENT_OUT_OF_RANGE,
    )


def test_the_emergency_stop_latches_until_it_is_released_and_reset(loop):
    loop.run(1.0)
    loop.safety.estop("button", held=True)
    record = loop.run(0.5)
    assert loop.faults == [(record["time_s"][0], tendon_faults.ESTOP)]
    np.testing.assert_allclose(record["command"][-1], FIVE_TENDON.limits.safe_n)
    assert loop.safety.reset() == (tendon_faults.ESTOP,)
    loop.safety.release_estop()
    assert loop.safety.state == "safe"
    assert loop.safety.reset() == ()
    assert loop.safety.last_fault == tendon_faults.ESTOP
    loop.activate()
    record = loop.run(2.0)
    assert rmse(record, after_s=loop.now_s - 1.0)[0] < 2e-4


def test_until_the_first_command_the_measured_tension_is_held(five_tendon_plant):
    five_tendon_plant.reset()
    loop = VirtualLoop(FIVE_TENDON, plant=five_tendon_plant, safety_settings=SafetySettings(activation_grace_s=0.3))
    loop.activate()
    loop.attend(on=False)
    held = loop.safety.commanded
    record = loop.run(0.39)
    assert loop.safety.state == "active"
    np.testing.assert_array_equal(record["command"], np.broadcast_to(held, record["command"].shape))
    loop.run(0.02)
    assert loop.faults[0][1] == tendon_faults.COMMAND_TIMEOUT


def test_nine_geared_servos_that_stick_run_without_a_fault():
    """Elastic tendons, heavy gears whose dry friction holds, encoders of 15 um: what rests is not frozen."""
    robot = load_robot(Path(__file__).parents[2] / "examples" / "nine_servos.yaml")
    loop = VirtualLoop(robot)
    loop.activate(robot.control.pretension_n)
    record = loop.run(4.0)
    assert not loop.faults
    assert np.all(rmse(record) < 5e-4)
    assert record["tension"][500:].min() > 1.0
