# SPDX-License-Identifier: Apache-2.0
"""Simulated actuators and string encoders: protocols, time, delays, the board's timeout, each fault."""

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.drivers.protocols import StringEncoders, TendonActuators
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle
from continuum_robot.simulation import faults
from continuum_robot.simulation.bodies.mechanisms import linked_count
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, PlantLinkWriter
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant

ROBOT = load_robot("opencr_five_tendon")
TENSION = np.array([3.0, 1.5, 1.0, 1.0, 1.5])
DT = 1e-3


def with_simulation(**fields):
    return dataclasses.replace(ROBOT, simulation=dataclasses.replace(ROBOT.simulation, **fields))


@pytest.fixture(scope="module")
def plant():
    return Plant(ROBOT)


@pytest.fixture
def device(plant):
    plant.reset()
    device = SimulatedTendonActuators(ROBOT, plant)
    device.open()
    return device


def run(device, cycles, tension=TENSION, start_s=None):
    """Cycles of reading and writing; the readings."""
    now_s = (device.now_s or 0.0) if start_s is None else start_s
    readings = []
    for _ in range(cycles):
        now_s += DT
        readings.append(device.read(now_s))
        if tension is not None:
            device.write(tension, now_s)
    return readings


def started(device):
    device.read(0.0)
    device.enable()
    return run(device, 100)[-1]


@pytest.mark.parametrize("fields", [{}, {"current_noise_a": 0.01, "reading_jitter_s": 1e-3, "reading_delay_s": 2e-3}])
def test_compiled_steps_give_the_same_bits(fields):
    """With faults and a push in between, for which arrays step in."""
    try:
        parts = compiled_cycle()
    except NotCompiledError as error:
        pytest.skip(str(error))
    traces = []
    for compiled in (False, True):
        device, trace = SimulatedTendonActuators(with_simulation(**fields)), []
        device.open()
        if compiled:
            device.step_with(parts)
            assert device._step is not None
        started(device)
        for tension, fault in ((2.0, ""), (40.0, "stuck_motor"), (3.0, "slack_tendon"), (2.5, "nan_reading")):
            device.inject(fault, 1 if fault else -1)
            for reading in run(device, 30, tension * TENSION):
                arrays = reading.displacement_m, reading.velocity_m_per_s, reading.tension_n, reading.current_a
                trace.append(b"".join(array.tobytes() for array in arrays))
            trace += [device.plant.limited.tolist(), device.plant.tension.tobytes(), device.plant.c.tobytes()]
            device.plant.push(0.1, [0.2, 0.0, 0.0])
            run(device, 5)
            device.plant.release()
        assert device.plant.limited.shape == (ROBOT.tendon_count,)
        traces.append(trace)
    assert traces[0] == traces[1]


def test_a_compiled_step_that_cannot_be_solved_says_so():
    try:
        parts = compiled_cycle()
    except NotCompiledError as error:
        pytest.skip(str(error))
    device = SimulatedTendonActuators(ROBOT)
    device.open()
    device.step_with(parts)
    started(device)
    device.plant._body.moving.c[:] = math.nan
    with pytest.raises(ContinuumRobotError, match=r"diverged at .*reduce the gains"):
        run(device, 1)


def test_they_are_what_the_protocols_ask_for(device):
    assert isinstance(device, TendonActuators)
    assert isinstance(SimulatedStringEncoders(ROBOT, device.string_source), StringEncoders)
    assert device.simulated
    assert device.tendon_count == 5


def test_it_moves_when_it_is_enabled_and_only_then():
    device = SimulatedTendonActuators(ROBOT)
    device.open()
    device.read(0.0)
    still = run(device, 300)[-1]
    assert np.abs(still.displacement_m).max() < 1e-4
    device.enable()
    moved = run(device, 300)[-1]
    assert moved.displacement_m[0] > 5e-4
    device.disable()
    assert np.abs(run(device, 100, tension=None)[-1].current_a).max() < 1e-6


def test_the_first_tension_may_be_written_before_the_torque_is_on(device):
    device.read(0.0)
    device.write(TENSION, 0.0)
    device.enable()
    device.read(0.02)
    np.testing.assert_allclose(device.plant.current * device.plant.motor.newton_per_ampere, TENSION, rtol=1e-3)


def test_readings_are_those_of_the_encoders(device):
    reading = started(device)
    resolution_m = 2 * math.pi * ROBOT.actuators.spool_radius_m / ROBOT.actuators.gear_ratio / 20000
    counts = reading.displacement_m / resolution_m
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    np.testing.assert_allclose(reading.displacement_m, device.plant.displacement, atol=resolution_m / 2 + 1e-12)
    np.testing.assert_allclose(reading.velocity_m_per_s, device.plant.velocity, atol=2e-3)
    np.testing.assert_allclose(reading.tension_n, reading.current_a * ROBOT.actuators.newton_per_ampere)
    assert np.isnan(reading.temperature_c).all()
    assert reading.age_s.max() == 0
    assert reading.stamp_s == device.now_s


def test_noise_on_the_current_is_seeded():
    robot = with_simulation(current_noise_a=0.05)
    readings = []
    for _ in range(2):
        device = SimulatedTendonActuators(robot)
        device.open()
        readings.append([one.current_a for one in run(device, 200, None)])
    np.testing.assert_array_equal(*readings)
    assert np.std(readings[0]) == pytest.approx(0.05, rel=0.1)


def test_a_reading_delay_shows_in_stamp_and_values(plant):
    plant.reset()
    device = SimulatedTendonActuators(with_simulation(reading_delay_s=0.005), plant)
    device.open()
    first = device.read(0.0)
    assert np.isnan(first.displacement_m).all()
    assert np.isinf(first.age_s).all()
    device.enable()
    truth = {}
    for cycle in range(1, 60):
        now_s = cycle * DT
        reading = device.read(now_s)
        truth[cycle] = plant.displacement
        device.write(TENSION, now_s)
        if cycle > 6:
            assert reading.stamp_s == pytest.approx(now_s - 0.005)
            np.testing.assert_allclose(reading.displacement_m, truth[cycle - 5], atol=3e-7)


def test_a_command_delay_holds_the_command_back(plant):
    plant.reset()
    device = SimulatedTendonActuators(with_simulation(command_delay_s=0.004), plant)
    device.open()
    device.read(0.0)
    device.enable()
    device.write(TENSION, 0.0)
    device.read(0.0039)
    assert plant.current.max() == 0.0
    device.read(0.0045)
    expected = TENSION[0] * (1 - math.exp(-1)) / plant.motor.newton_per_ampere
    assert plant.current[0] == pytest.approx(expected, rel=0.01)


def test_the_board_forgets_a_command_after_its_timeout(device):
    started(device)
    last_s = device.now_s
    device.read(last_s + 0.049)
    device.read(last_s + 0.098)
    assert device.plant.current.min() > 0.05
    device.read(last_s + 0.13)
    assert np.abs(device.plant.current).max() < 1e-6
    assert device.timeouts == 1
    run(device, 20)
    assert device.plant.current.max() > 0.1


def test_a_long_stall_is_skipped_and_counted_and_not_caught_up(device, plant):
    started(device)
    before_s = plant.time_s
    device.read(device.now_s + 2.0)
    assert plant.time_s - before_s == pytest.approx(0.05)
    assert device.skipped_s == pytest.approx(1.95)
    assert device.stalls == 1
    run(device, 1)
    assert plant.time_s - before_s == pytest.approx(0.051)


def test_reading_twice_at_a_time_changes_nothing(device):
    reading = started(device)
    again = device.read(device.now_s)
    for name in ("displacement_m", "velocity_m_per_s", "current_a"):
        np.testing.assert_array_equal(getattr(again, name), getattr(reading, name))


def test_closed_and_opened_again_it_goes_on(device):
    reading = started(device)
    device.close()
    with pytest.raises(DeviceError, match="Open"):
        device.read(1.0)
    device.open()
    again = device.read(100.0)  # another clock reading: no motion in between
    np.testing.assert_array_equal(again.displacement_m, reading.displacement_m)
    np.testing.assert_array_equal(again.velocity_m_per_s, 0)


@pytest.mark.parametrize("tension", [np.full(5, np.nan), np.ones(4), np.array([1, 1, 1, 1, np.inf])])
def test_only_finite_tensions_are_taken(device, tension):
    with pytest.raises(ParameterError):
        device.write(tension, 0.0)


def test_impossible_devices_are_refused(plant):
    with pytest.raises(ParameterError, match="actuators"):
        SimulatedTendonActuators(ROBOT.changed(actuators=None, hardware=None))
    with pytest.raises(ParameterError, match="plant"):
        SimulatedTendonActuators(load_robot("rolling_five_link"), plant)
    with pytest.raises(ParameterError):
        SimulatedTendonActuators(ROBOT, receive_timeout_s=0.0)
    with pytest.raises(ParameterError, match="strings"):
        SimulatedStringEncoders(load_robot("two_segment"), PlantLinkReader("nowhere"))


# --- faults


def test_unknown_faults_are_refused_with_the_names(device):
    with pytest.raises(ParameterError) as caught:
        device.inject("gremlin")
    for name in faults.FAULTS:
        assert (name in str(caught.value)) == (name not in faults.BRAKES), "it has no brakes"


@pytest.mark.parametrize(
    ("name", "tendon", "magnitude", "duration_s"),
    [
        (faults.FREEZE_SENSOR, 5, 0, 0),
        (faults.FREEZE_SENSOR, -2, 0, 0),
        (faults.DROP_READINGS, 0, 1.5, 0),
        (faults.DELAY_READINGS, 0, -0.1, 0),
        (faults.ENCODER_JUMP, 0, math.nan, 0),
        (faults.FREEZE_SENSOR, 0, 0, -1),
        (faults.FREEZE_SENSOR, 0, 0, math.nan),
    ],
)
def test_faults_out_of_range_are_refused(device, name, tendon, magnitude, duration_s):
    with pytest.raises(ParameterError):
        device.inject(name, tendon, magnitude, duration_s)


def test_a_mechanism_refuses_what_only_a_plant_can_do():
    device = SimulatedTendonActuators(load_robot("rolling_five_link"))
    for name, kind in faults.FAULTS.items():
        if kind.mechanical:
            with pytest.raises(ParameterError, match="fault"):
                device.inject(name)


def test_a_frozen_sensor_repeats_bit_by_bit_and_thaws(device):
    started(device)
    device.inject(faults.FREEZE_SENSOR, 2, duration_s=0.05)
    frozen = run(device, 40)
    assert len({one.displacement_m[2] for one in frozen}) == 1
    assert len({one.velocity_m_per_s[2] for one in frozen}) == 1
    assert len({one.displacement_m[0] for one in frozen}) > 10
    assert frozen[-1].age_s.max() == 0  # it looks fresh
    thawed = run(device, 30)
    assert thawed[-1].displacement_m[2] != frozen[-1].displacement_m[2]


def test_a_fault_can_be_scheduled(device):
    started(device)
    start_s = device.now_s + 0.0205
    device.inject(faults.NAN_READING, 1, duration_s=0.01, start_s=start_s)
    readings = run(device, 50)
    unknown = [one.stamp_s for one in readings if np.isnan(one.displacement_m[1])]
    assert len(unknown) == 10
    assert unknown[0] >= start_s
    assert not any(np.isnan(one.displacement_m[0]) for one in readings)
    for one in readings:
        if np.isnan(one.displacement_m[1]):
            assert np.isnan([one.velocity_m_per_s[1], one.tension_n[1], one.current_a[1]]).all()


def test_lost_readings_grow_old(device):
    started(device)
    device.inject(faults.DROP_READINGS, 3)
    readings = run(device, 30)
    ages = np.array([one.age_s[3] for one in readings])
    np.testing.assert_allclose(np.diff(ages), DT, rtol=1e-6)
    assert all(one.age_s[0] == 0 for one in readings)
    assert len({one.displacement_m[3] for one in readings}) == 1
    device.inject("")
    assert run(device, 1)[0].age_s.max() == 0


def test_readings_are_lost_with_the_given_probability(device):
    started(device)
    device.inject(faults.DROP_READINGS, -1, 0.25)
    lost = np.array([one.age_s > 0 for one in run(device, 800)])
    assert lost.mean() == pytest.approx(0.25, abs=0.03)


def test_late_readings_have_an_age_and_the_old_value(device, plant):
    started(device)
    truth = {}
    for _ in range(60):
        run(device, 1)
        truth[round(device.now_s * 1e3)] = plant.displacement[1]
    device.inject(faults.DELAY_READINGS, 1, 0.02)
    reading = run(device, 1)[0]
    assert reading.age_s[1] == pytest.approx(0.02, abs=1e-9)
    assert reading.displacement_m[1] == pytest.approx(truth[round(device.now_s * 1e3) - 20], abs=3e-7)
    assert reading.age_s[0] == 0


def test_an_encoder_jump_adds_its_length_while_it_lasts(device, plant):
    started(device)
    device.inject(faults.ENCODER_JUMP, 4, 0.003)
    reading = run(device, 1)[0]
    assert reading.displacement_m[4] - plant.displacement[4] == pytest.approx(0.003, abs=1e-6)
    device.inject("")
    reading = run(device, 1)[0]
    assert reading.displacement_m[4] - plant.displacement[4] == pytest.approx(0.0, abs=1e-6)


def test_brakes_hold_where_the_torque_is_off_unless_they_do_not_close_or_open(plant):
    brakes = dataclasses.replace(ROBOT.actuators, brake_holds_n=2 * ROBOT.limits.maximum_n)
    plant.reset()
    device = SimulatedTendonActuators(ROBOT.changed(actuators=brakes), plant)
    device.open()
    device.enable()
    run(device, 400)
    device.inject(faults.BRAKE_OPEN, 1)
    device.disable()
    held = plant.displacement
    run(device, 300, tension=None)
    moved_m = np.abs(plant.displacement - held)
    assert moved_m[1] > 1e-5
    assert np.delete(moved_m, 1).max() == 0.0
    device.inject("")
    device.enable()
    device.inject(faults.BRAKE_SHUT, 2)
    held = plant.displacement
    run(device, 300, tension=2 * TENSION)
    moved_m = np.abs(plant.displacement - held)
    assert moved_m[2] == 0.0
    assert np.delete(moved_m, 2).min() > 0.0


def test_mechanical_faults_reach_the_plant_and_leave_it(device, plant):
    started(device)
    device.inject(faults.SATURATE_CURRENT, 0, 0.05)
    device.inject(faults.SLACK_TENDON, 1, 0.01)
    device.inject(faults.SNAPPED_TENDON, 2)
    device.inject(faults.STUCK_MOTOR, 3)
    run(device, 30)
    assert plant.current[0] == pytest.approx(0.05, rel=1e-3)
    assert plant.tension[1] == 0
    assert plant.tension[2] == 0
    held = plant.displacement[3]
    run(device, 30)
    assert plant.displacement[3] == pytest.approx(held, abs=1e-9)
    device.inject("")
    run(device, 1500)  # what was slack is spooled
    assert plant.current[0] > 0.1
    assert plant.tension.min() > 0
    assert plant.displacement[3] != held


def test_a_device_fault_is_reported_takes_the_current_and_latches(device, plant):
    started(device)
    device.inject(faults.DEVICE_FAULT, 2, duration_s=0.02)
    reading = run(device, 30)[-1]
    assert reading.device_faults == ("tendon 2: motor board fault",)
    assert abs(plant.current[2]) < 1e-6
    assert plant.current[0] > 0.1
    device.clear_faults()
    assert run(device, 30)[-1].device_faults == ()
    assert plant.current[2] > 0.05


# --- strings


def test_strings_show_the_plants_extensions_with_noise_and_resolution(device, plant):
    strings = SimulatedStringEncoders(ROBOT, device.string_source)
    strings.open()
    assert np.isnan(strings.read(0.0).extension_m).all()  # no plant yet
    started(device)
    misses = []
    for _ in range(400):
        run(device, 1)
        reading = strings.read(device.now_s)
        misses.append(reading.extension_m - plant.string_extension)
        counts = reading.extension_m / ROBOT.simulation.string_resolution_m
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    expected = math.hypot(ROBOT.simulation.string_noise_m, ROBOT.simulation.string_resolution_m / math.sqrt(12))
    assert np.std(misses) == pytest.approx(expected, rel=0.1)
    assert reading.stamp_s == device.now_s


def test_string_faults(device):
    strings = SimulatedStringEncoders(ROBOT, device.string_source)
    strings.open()
    started(device)
    strings.read(device.now_s)
    strings.inject(faults.NAN_READING, 1)
    reading = strings.read(device.now_s)
    assert np.isnan(reading.extension_m[1])
    assert np.isfinite(reading.extension_m[0])
    with pytest.raises(ParameterError, match="freeze_sensor"):
        strings.inject(faults.STUCK_MOTOR)
    with pytest.raises(ParameterError, match="string"):
        strings.inject(faults.NAN_READING, 2)
    strings.inject("")
    strings.inject(faults.ENCODER_JUMP, 0, 0.01, 0.005)
    run(device, 3)
    assert strings.read(device.now_s).extension_m[0] > 0.009
    run(device, 5)
    assert strings.read(device.now_s).extension_m[0] < 0.009


def test_strings_of_a_silent_plant_are_unknown_and_grow_old(plant, tmp_path):
    plant.reset()
    path = tmp_path / "plant"
    device = SimulatedTendonActuators(ROBOT, plant, link=PlantLinkWriter(path, linked_count(ROBOT)))
    strings = SimulatedStringEncoders(ROBOT, PlantLinkReader(path))
    strings.open()
    assert np.isinf(strings.read(0.0).age_s).all()
    device.open()
    run(device, 10)
    assert np.isfinite(strings.read(device.now_s).extension_m).all()
    ages = [strings.read(device.now_s + late_s).age_s[0] for late_s in (0.06, 0.5, 3.0)]
    np.testing.assert_allclose(ages, [0.06, 0.5, 3.0])
    assert np.isnan(strings.read(device.now_s + 0.06).extension_m).all()
    device.close()
    assert not path.exists()
    assert np.isnan(strings.read(device.now_s + 1.0).extension_m).all()
    strings.close()
    with pytest.raises(DeviceError):
        strings.read(0.0)


def test_another_number_of_strings_is_an_error(tmp_path):
    writer = PlantLinkWriter(tmp_path / "plant", 3)
    writer.open()
    writer.write(1.0, np.zeros(3))
    strings = SimulatedStringEncoders(ROBOT, PlantLinkReader(tmp_path / "plant"))
    strings.open()
    with pytest.raises(DeviceError, match="3 values, strings and tip"):
        strings.read(1.0)
    writer.close()
