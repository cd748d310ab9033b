# SPDX-License-Identifier: Apache-2.0
"""How hot a motor is: against the exact course of the two bodies, and what is unknown is never cool."""

import dataclasses
import math

import numpy as np
import pytest
from safety_steps import TendonSafety
from scipy.linalg import expm

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.drivers.safety.tendon_faults import MOTOR_HOT
from continuum_robot.errors import DeviceError, RobotFileError
from continuum_robot.robot.actuation import COPPER_PER_K
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
ACTUATORS = ROBOT.actuators
HEAT = ACTUATORS.heat
N = ROBOT.tendon_count
NEWTON_PER_AMPERE = ACTUATORS.newton_per_ampere
MANIFOLD = clarke_manifold(ROBOT)
MEASURED = dataclasses.replace(ACTUATORS, heat=None)


def reading_of(stamp_s, current=0.0, temperature=math.nan, displacement=None):
    """Of all motors; lists go motor by motor."""
    q = np.zeros(N) if displacement is None else np.asarray(displacement, dtype=float)
    current = np.broadcast_to(np.asarray(current, dtype=float), N)
    temperature = np.broadcast_to(np.asarray(temperature, dtype=float), N)
    tension = np.where(np.isfinite(current), current, 0.1) * NEWTON_PER_AMPERE
    return TendonReading(stamp_s, q, np.zeros(N), tension, current, temperature, np.zeros(N))


class Motors:
    def __init__(self, actuators=ACTUATORS):
        self.watch = HeatWatch(actuators, [1.0 / NEWTON_PER_AMPERE] * N)
        self.buffer, self.now_s = ReadingBuffer(N), 100.0
        self.step(0.0)

    def step(self, passed_s, current=0.0, temperature=math.nan, *, command=0.0, engaged=True, lost=False):
        self.now_s += passed_s
        self.buffer.set(reading_of(self.now_s, current, temperature))
        if lost:
            self.buffer.fail(self.now_s)
        return bool(self.watch.step(self.buffer, [command] * N, engaged, self.now_s))


def exact(time_s, current_a):
    """Rise of winding and housing above the air for a constant loss: the linear system, solved."""
    inner, outer = 1 / HEAT.winding_to_housing_k_per_w, 1 / HEAT.housing_to_ambient_k_per_w
    winding, housing = HEAT.winding_time_constant_s * inner, HEAT.housing_time_constant_s * outer
    rates = np.array([[-inner / winding, inner / winding, 0.0], [inner / housing, -(inner + outer) / housing, 0.0]])
    rates[0, 2] = HEAT.loss_w_per_a2 * current_a**2 / winding
    whole = np.vstack([rates, np.zeros(3)])
    return (expm(whole * time_s) @ [0.0, 0.0, 1.0])[:2]


@pytest.mark.parametrize("time_s", [10.0, 60.0, 600.0])
def test_the_model_warms_as_two_bodies_do(time_s, monkeypatch):
    monkeypatch.setattr("continuum_robot.drivers.safety.heat_watch.COPPER_PER_K", 0.0)
    motors = Motors()
    for _ in range(1000):
        motors.step(time_s / 1000, 2.0)
    winding_k, housing_k = exact(time_s, 2.0)
    np.testing.assert_allclose(motors.watch.winding(), HEAT.ambient_c + winding_k, rtol=2e-3)
    np.testing.assert_allclose(motors.watch.housing(), HEAT.ambient_c + housing_k, rtol=2e-3)


def test_the_steady_current_brings_the_winding_to_its_temperature():
    motors = Motors()
    for _ in range(400):
        motors.step(20.0, [HEAT.steady_current_a(80.0)] * (N - 1) + [0.0])
    np.testing.assert_allclose(motors.watch.winding(), [80.0] * (N - 1) + [HEAT.ambient_c], rtol=1e-4)
    assert COPPER_PER_K > 0  # a hot winding has more resistance than a cold one


@pytest.mark.parametrize("passed_s", [1e-3, 1.0, 10.0, 100.0, 1e6])
def test_a_step_of_any_length_stays_near_the_exact_course(passed_s):
    motors = Motors()
    motors.watch.take([80.0] * N, [60.0] * N, 0.0)
    motors.step(passed_s)
    inner, outer = 1 / HEAT.winding_to_housing_k_per_w, 1 / HEAT.housing_to_ambient_k_per_w
    winding, housing = HEAT.winding_time_constant_s * inner, HEAT.housing_time_constant_s * outer
    rates = np.array([[-inner / winding, inner / winding], [inner / housing, -(inner + outer) / housing]])
    course = HEAT.ambient_c + expm(rates * passed_s) @ (np.array([80.0, 60.0]) - HEAT.ambient_c)
    assert motors.watch.winding()[0] >= course[0] - 1.0
    assert motors.watch.housing()[0] >= course[1] - 1.0
    assert HEAT.ambient_c - 1e-9 <= motors.watch.winding()[0] <= 80.0


def test_an_unknown_current_counts_as_the_commanded_one_while_the_motors_are_on():
    known, unknown, lost, off = Motors(), Motors(), Motors(), Motors()
    for _ in range(50):
        known.step(1.0, 20.0 / NEWTON_PER_AMPERE)
        unknown.step(1.0, math.nan, command=20.0)
        lost.step(1.0, lost=True, command=20.0)
        off.step(1.0, math.nan, command=20.0, engaged=False)
    assert known.watch.winding() == unknown.watch.winding() == lost.watch.winding()
    assert known.watch.winding()[0] > HEAT.ambient_c + 1.0
    np.testing.assert_allclose(off.watch.winding(), HEAT.ambient_c)


def test_one_unknown_temperature_hides_no_hot_motor():
    motors = Motors(MEASURED)
    assert motors.step(0.001, 0.0, [math.nan, 250.0, 30.0, 30.0, 30.0])
    assert motors.watch.hot_motors() == [False, True, False, False, False]
    assert math.isnan(motors.watch.temperatures()[0])


def test_unknown_is_neither_hot_nor_cool_again():
    motors = Motors(MEASURED)
    assert not motors.step(0.001)
    assert motors.step(0.001, 0.0, ACTUATORS.temperature_error_c)
    assert motors.step(0.001)  # unknown
    assert motors.step(0.001, lost=True)
    assert motors.step(0.001, 0.0, ACTUATORS.temperature_warn_c)  # not yet below it
    assert not motors.step(0.001, 0.0, ACTUATORS.temperature_warn_c - 0.1)


def test_the_hotter_of_measured_and_modelled_counts():
    motors = Motors()
    motors.watch.take([60.0] * N, [60.0] * N, 0.0)
    motors.step(0.0, 0.0, [90.0, 40.0, math.nan, 40.0, 40.0])
    assert motors.watch.temperatures() == [90.0, 60.0, 60.0, 60.0, 60.0]


def test_a_robot_that_is_configured_anew_has_motors_as_hot_as_before():
    motors, again = Motors(), Motors()
    motors.watch.take([95.0] * N, [80.0] * N, 0.0)
    assert motors.step(0.0)
    again.watch.take_over(motors.watch)
    assert again.watch.hot
    assert again.watch.known_s() == motors.now_s
    again.now_s = motors.now_s
    again.step(200.0)  # the time in between cools
    assert 60.0 < again.watch.winding()[0] < 80.0


@pytest.mark.parametrize(
    ("key", "value"),
    [("temperature_warn_c", 90.0), ("temperature_error_c", 60.0), ("heat", dataclasses.replace(HEAT, ambient_c=75.0))],
)
def test_temperatures_that_do_not_fit_together_are_refused(key, value):
    with pytest.raises(RobotFileError, match="temperature_"):
        dataclasses.replace(ACTUATORS, **{key: value})


# --- in the safety logic


class Driver:
    def __init__(self, actuators=ACTUATORS):
        self.safety = TendonSafety(ROBOT.changed(actuators=actuators))
        self.now_s, self.sequence, self.output = 10.0, 0, None

    def cycle(self, command=3.0, dt=1e-3, temperature=math.nan):
        self.now_s += dt
        self.sequence += 1
        flicker = MANIFOLD.displacement([1e-6 * (self.sequence % 2), 0])
        current = self.safety.commanded / NEWTON_PER_AMPERE
        reading = reading_of(self.now_s, current, temperature, flicker)
        desired = np.full(N, command)
        self.output = self.safety.update(reading, desired, 0.0, self.now_s, dt, command_sequence=self.sequence)
        return reading

    def activate(self):
        self.safety.activate(self.cycle(), self.now_s)


@pytest.mark.parametrize("actuators", [ACTUATORS, MEASURED])
def test_a_motor_at_250_degrees_latches_ramps_down_and_stays_until_it_is_cool(actuators):
    driver = Driver(actuators)
    driver.activate()
    for _ in range(50):
        driver.cycle()
    assert driver.output.state == "active"
    hot = [math.nan, 250.0, math.nan, math.nan, math.nan]
    driver.cycle(temperature=hot)
    assert driver.output.faults == (MOTOR_HOT,)
    for _ in range(100):
        driver.cycle(temperature=hot)
    np.testing.assert_allclose(driver.output.tension, ROBOT.limits.safe_n)
    assert driver.safety.reset() == (MOTOR_HOT,)
    driver.safety.torque_off()
    assert driver.safety.reset() == (MOTOR_HOT,)  # without torque, and without a reading
    driver.cycle(temperature=40.0)
    assert driver.safety.reset() == ()
    driver.activate()
    assert driver.safety.state == "active"


def test_a_hot_motor_refuses_the_activation():
    driver = Driver()
    driver.cycle(temperature=100.0)
    with pytest.raises(DeviceError, match="error temperature"):
        driver.activate()  # with a reading that knows nothing of it


def test_current_over_time_latches_where_no_temperature_is_reported():
    """12 N on a motor with a thirtieth of the robot's cooling."""
    weak = dataclasses.replace(HEAT, housing_to_ambient_k_per_w=300.0, winding_to_housing_k_per_w=60.0)
    driver = Driver(dataclasses.replace(ACTUATORS, heat=weak))
    driver.activate()
    time_s = 0.0
    while driver.safety.state == "active" and time_s < 600.0:
        driver.cycle(12.0, dt=0.04)
        time_s += 0.04
    assert driver.output.faults == (MOTOR_HOT,)
    assert driver.safety.heat.winding()[0] == pytest.approx(ACTUATORS.temperature_error_c, abs=0.1)
    assert 10.0 < time_s < 600.0


def test_live_limits_hold_at_once():
    driver = Driver()
    driver.activate()
    driver.cycle(temperature=60.0)
    driver.safety.heat.set_limits(40.0, 50.0)
    driver.cycle(temperature=60.0)
    assert driver.output.faults == (MOTOR_HOT,)
