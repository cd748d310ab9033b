# SPDX-License-Identifier: Apache-2.0
"""Simulated servos that hold displacements."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import tendon_matrix
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.motors import PositionLoop
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.plant import Plant

ROBOT = load_robot("three_segment_servo")
N = ROBOT.tendon_count
LOOP = PositionLoop.of(ROBOT.actuators, N)
W = 2 * np.pi * ROBOT.actuators.servo.bandwidth_hz
BENT = tendon_matrix(ROBOT) @ np.array([2.0, -1.0, -0.5, 1.5, 1.0, 0.5])
GOAL = BENT + 5e-4
"""All tendons tight."""


def servo_robot(**changes):
    """The robot with ideal gears and other actuators' numbers."""
    smooth = {"viscous_friction_nms": 0.0, "coulomb_friction_nm": 0.0, "friction_travel_m": 0.0}
    return ROBOT.changed(actuators=dataclasses.replace(ROBOT.actuators, **{**smooth, **changes}))


def unloaded(robot):
    """A plant whose tendons are cut."""
    plant = Plant(robot)
    plant.stiffness_fraction = np.zeros(N)
    return plant


def settle(plant, goal, duration_s=4.0):
    for _ in range(round(duration_s / 0.01)):
        plant.advance(goal, 0.01)


def test_an_unloaded_servo_follows_a_step_as_a_critically_damped_mass():
    plant, step_m, seen = unloaded(servo_robot()), 2e-5, []
    begin = plant.displacement
    for _ in range(60):
        plant.advance(begin + step_m, 1e-3)
        seen.append(plant.displacement[0] - begin[0])
    at = W * 1e-3 * np.arange(1, 61)
    np.testing.assert_allclose(seen, step_m * (1 - (1 + at) * np.exp(-at)), atol=2e-3 * step_m)


def test_an_unloaded_servo_lags_behind_a_ramp_by_two_over_its_bandwidth():
    plant, speed = unloaded(servo_robot()), 0.01
    for k in range(600):
        plant.advance(np.full(N, speed * (k + 1) * 1e-3), 1e-3)
    np.testing.assert_allclose(speed * 0.6 - plant.displacement, 2 * speed / W, rtol=0.02)


def test_no_servo_is_faster_than_without_load():
    plant, fastest = unloaded(servo_robot()), 0.0
    for _ in range(400):
        plant.advance(np.full(N, 0.03), 1e-3)
        fastest = max(fastest, float(plant.velocity.max()))
    assert 0.95 * LOOP.no_load_speed_m_per_s[0] < fastest < LOOP.no_load_speed_m_per_s[0] * 1.001


def test_a_servo_yields_to_more_than_its_largest_torque():
    plant = Plant(servo_robot())
    plant.current_limit_a = np.full(N, 0.02)
    settle(plant, GOAL + 3e-3)
    largest_n = 0.02 * ROBOT.actuators.newton_per_ampere
    assert np.all(plant.tension <= largest_n * (1 + 1e-6))
    assert np.any(np.isclose(plant.tension, largest_n, rtol=1e-3))
    np.testing.assert_allclose(plant.current * ROBOT.actuators.newton_per_ampere, plant.tension, atol=1e-3)
    assert np.all(GOAL + 3e-3 - plant.displacement > plant.tension / LOOP.stiffness_n_per_m - 1e-9)


def test_a_servo_without_torque_gives_no_current_and_can_be_turned():
    plant = Plant(servo_robot())
    settle(plant, GOAL)
    off = GOAL.copy()
    off[0] = np.nan
    settle(plant, off)
    assert plant.current[0] == 0
    assert plant.tension[0] < 0.05
    assert np.all(plant.current[1:] > 0)


@pytest.mark.parametrize("stiffness", [1e3, 2e4, 1e6])
@pytest.mark.parametrize("inertia", [5e-6, 5e-4, 2e-2])
@pytest.mark.parametrize("bandwidth", [2.0, 12.0, 200.0])
def test_servos_are_stable_with_any_gear_and_tendon(inertia, stiffness, bandwidth):
    servo = dataclasses.replace(ROBOT.actuators.servo, bandwidth_hz=bandwidth)
    robot = servo_robot(rotor_inertia_kg_m2=inertia, servo=servo)
    robot = robot.changed(tendon_stiffness_n_per_m=stiffness)
    plant, loop = Plant(robot), PositionLoop.of(robot.actuators, N)
    goal = BENT + np.minimum(1e-2, 15 / stiffness + 15 / loop.stiffness_n_per_m)
    settle(plant, goal)
    np.testing.assert_allclose(loop.stiffness_n_per_m * (goal - plant.displacement), plant.tension, atol=0.01)
    tight = plant.tension > 0
    stretch = (plant.displacement - plant.rod_displacement)[tight]
    np.testing.assert_allclose(stretch, plant.tension[tight] / stiffness, atol=1e-9 + 0.01 / stiffness)
    assert np.abs(plant.velocity).max() < 1e-5  # of the rod, which a soft loop leaves to swing


def test_the_chain_of_mujoco_settles_where_the_rod_does():
    pytest.importorskip("mujoco")
    chain, rod = MujocoPlant(servo_robot()), Plant(servo_robot())
    for plant in (chain, rod):
        settle(plant, GOAL, 0.8)
    np.testing.assert_allclose(chain.displacement, rod.displacement, atol=2e-5)
    np.testing.assert_allclose(chain.tension, rod.tension, atol=0.5)
    np.testing.assert_allclose(chain.current, rod.current, atol=5e-3)


def test_the_law_is_that_of_the_rods_steps():
    robot = servo_robot()
    plant = unloaded(robot)
    largest_n = np.full(N, robot.actuators.maximum_tension_n)
    for goal in (0.02, -0.01, 1e-4, 0.0):
        for _ in range(20):
            plant.advance(np.full(N, goal), 1e-3)
            force, _ = LOOP.force(np.full(N, goal), plant.displacement, plant.velocity, largest_n, 1e-3)
            np.testing.assert_allclose(plant.current * robot.actuators.newton_per_ampere, force, atol=1e-6)


def test_enabled_servos_hold_where_they_are_until_a_command_comes_and_after_the_last():
    actuators = SimulatedTendonActuators(ROBOT, receive_timeout_s=0.05)
    assert actuators.takes_displacements
    actuators.open()
    begin = actuators.read(0.0).displacement_m
    actuators.write(begin + 5e-3, 0.0)  # of nobody any more once the torque is on
    actuators.enable()
    for k in range(20):
        held = actuators.read(0.005 * k)
    np.testing.assert_allclose(held.displacement_m, begin, atol=1e-4)
    now = 0.1
    for k in range(60):
        now = 0.1 + 0.005 * k
        actuators.write(begin + 4e-4, now)
        reading = actuators.read(now)
    moved = reading.displacement_m - begin
    assert np.all(moved > 1e-4)
    assert np.all(reading.tension_n > 1.0)
    assert actuators.timeouts == 0
    for k in range(40):
        last = actuators.read(now + 0.005 * k)
    assert actuators.timeouts == 1
    np.testing.assert_allclose(last.displacement_m, reading.displacement_m, atol=2.5e-4)
    actuators.disable()
    for k in range(40, 120):
        last = actuators.read(now + 0.005 * k)
    np.testing.assert_array_equal(last.current_a, 0.0)


def test_tensions_and_displacements_are_not_mixed():
    with pytest.raises(ParameterError, match="9 displacements"):
        Plant(ROBOT).advance(np.zeros(3), 0.01)
    assert not SimulatedTendonActuators(load_robot("opencr_five_tendon")).takes_displacements
