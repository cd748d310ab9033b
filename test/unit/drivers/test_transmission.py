# SPDX-License-Identifier: Apache-2.0
"""Motors behind a transmission as the actuators of the tendons."""

from __future__ import annotations

import numpy as np
import pytest
from changed_robots import pair

from continuum_robot.drivers.joined_actuators import REFUSED, transmitted
from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.protocols import CountsFromPowerOn, DisplacementActuators, TendonReading, never
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.hardware import Motor

GEARS = [[1.0, 0.0], [0.3, 1.0]]


class Motors:
    """Motors that are where they were told to be."""

    simulated = True

    def __init__(self, count, takes_displacements=True):
        self.tendon_count, self.takes_displacements = count, takes_displacements
        self.place, self.load = np.zeros(count), np.zeros(count)
        self.values = {name: np.arange(count) + 1.0 for name in ("current_a", "temperature_c", "age_s")}
        self.cleared = 0

    def open(self):
        pass

    enable = disable = close = lambda self, aborted=never: None

    def clear_faults(self):
        self.cleared += 1

    def read(self, now_s):
        return TendonReading(
            now_s, self.place.copy(), np.full(self.tendon_count, 0.01), self.load, **self.values, device_faults=("hot",)
        )

    def write(self, command, now_s):
        self.place = np.array(command)


class Counting(Motors):
    aligned = True

    @property
    def zero_lost(self):
        return np.arange(self.tendon_count) == 0

    def counters(self):
        return {"bus": {"rounds": 3}}


@pytest.mark.parametrize(("matrix", "preload_n"), [([[1.0], [-1.0]], 8.0), (GEARS, 0.0)])
@pytest.mark.parametrize("layer_m", [0.0, 1e-3])
def test_a_command_is_read_back(matrix, preload_n, layer_m):
    coupling = Coupling(pair(matrix, preload_n, layer_m=[layer_m] * len(matrix[0])))
    driver = transmitted(Motors(len(matrix[0])), coupling)
    assert isinstance(driver, DisplacementActuators)
    assert driver.tendon_count == 2
    asked = coupling.tendons(np.linspace(2e-3, 3e-3, len(matrix[0])))
    driver.write(asked, 0.0)
    np.testing.assert_allclose(driver.read(0.0).displacement_m, asked, atol=1e-12)


def test_speed_and_load_see_the_radius_of_the_spool():
    motors, layer_m = Motors(1), 2e-3
    driver = transmitted(motors, Coupling(pair(layer_m=[layer_m])))
    motors.place, motors.load = np.array([0.02]), np.array([4.0])
    radius = 1 + layer_m * motors.place[0] / (2 * np.pi * 0.01**2)
    reading = driver.read(0.0)
    np.testing.assert_allclose(reading.velocity_m_per_s, [0.01 * radius, -0.01 * radius])
    np.testing.assert_allclose(reading.tension_n, [8 + 2 / radius, 8 - 2 / radius])


def test_what_the_motors_say_goes_to_the_tendons_they_move():
    reading = transmitted(Motors(2), Coupling(pair(GEARS, 0.0))).read(1.5)
    assert reading.stamp_s == 1.5
    np.testing.assert_array_equal(reading.current_a, [1.0, 2.0])
    np.testing.assert_array_equal(reading.temperature_c, [1.0, 2.0])
    np.testing.assert_array_equal(reading.age_s, [1.0, 2.0])
    assert reading.device_faults == ("hot",)
    capstan = transmitted(Motors(1), Coupling(pair())).read(0.0)
    np.testing.assert_array_equal(capstan.current_a, [1.0, -1.0])


def test_a_motor_that_says_nothing_hides_only_its_tendons():
    motors = Motors(2)
    driver = transmitted(motors, Coupling(pair([[1.0, 0.3], [0.0, 1.0]], 0.0)))
    motors.place, motors.values["temperature_c"] = np.array([np.nan, 1e-3]), np.array([np.nan, 40.0])
    motors.load = np.array([np.nan, 2.0])
    reading = driver.read(0.0)
    assert np.isnan(reading.displacement_m[0])
    assert reading.displacement_m[1] == pytest.approx(1e-3)
    np.testing.assert_array_equal(reading.temperature_c, [40.0, 40.0])
    assert np.isnan(reading.tension_n).all()


def test_a_lost_zero_is_lost_for_all_tendons_of_the_motor():
    driver = transmitted(Counting(2), Coupling(pair(GEARS, 0.0)))
    assert isinstance(driver, CountsFromPowerOn)
    np.testing.assert_array_equal(driver.zero_lost, [True, True])
    other = transmitted(Counting(2), Coupling(pair([[1.0, 0.3], [0.0, 1.0]], 0.0)))
    np.testing.assert_array_equal(other.zero_lost, [True, False])
    assert driver.aligned
    assert driver.counters() == {"bus": {"rounds": 3}}
    absolute = transmitted(Motors(2), Coupling(pair(GEARS, 0.0)))
    assert absolute.aligned
    assert not absolute.zero_lost.any()
    assert absolute.counters() == {}


def test_a_refused_command_moves_nothing_and_latches_its_reason():
    motors = Motors(1)
    driver = transmitted(motors, Coupling(pair()))
    with pytest.raises(ParameterError, match=r"transmission\.matrix"):
        driver.write(np.array([1e-3, 1e-3]), 0.0)
    assert motors.place == 0
    fault = driver.read(0.0).device_faults[-1]
    assert fault.startswith(REFUSED)
    assert "tendon 1" in fault
    driver.clear_faults()
    assert driver.read(0.0).device_faults == ("hot",)
    assert motors.cleared == 1


def test_tensions_become_forces_of_the_motors():
    motors = Motors(1, takes_displacements=False)
    transmitted(motors, Coupling(pair())).write(np.array([11.0, 5.0]), 0.0)
    np.testing.assert_allclose(motors.place, [6.0])


def test_drivers_have_a_channel_for_each_motor():
    robot = pair()
    motors = MotorCurrents(robot, None, [Motor(column=1)])
    assert motors.signed_m_per_rev.shape == (1,)
    with pytest.raises(ParameterError, match="1 motors of the transmission"):
        transmitted(Motors(2), Coupling(robot))
