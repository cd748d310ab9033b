# SPDX-License-Identifier: Apache-2.0
"""Robots whose tendons have spools, motors and limits of their own, in the shipped loop and behind emulated servos."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from changed_robots import SMALL_SPOOLS, restated, with_own
from virtual_loop import VirtualLoop, rmse

from continuum_robot.drivers.dynamixel import protocol_2
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware

DISTAL = slice(6, 9)


def ran(robot, duration_s, hardware=None, on_cycle=None):
    loop = VirtualLoop(robot, hardware=hardware)
    loop.activate()
    record = loop.run(duration_s, on_cycle)
    loop.close()
    assert not loop.faults
    return record


def test_small_spools_behind_emulated_servos_follow_as_the_others_do():
    """A servo with a spool of 6 mm turns 10 / 6 as far, and is told to pull no more than its tendon bears."""
    robot = load_robot(SMALL_SPOOLS)
    hardware, turns = SimulatedHardware(robot), []

    def look(running):
        motors = hardware.motors.at(robot.hardware.tendon_actuators)
        turned = [motors["", number].position_rev for number in range(1, 10)]
        turns.append((turned, hardware.plant.displacement))

    record = ran(robot, 2.5, hardware, look)
    equal = load_robot("three_segment_servo")
    plain = ran(equal, 2.5, SimulatedHardware(equal))
    assert rmse(record, 1.0).max() < 1.2 * rmse(plain, 1.0).max()
    assert record["tension"][200:].min() > 0
    turned, displacement_m = (np.array(column) for column in zip(*turns, strict=True))
    per_turn_m = 2 * np.pi * np.where(np.arange(9) < 6, 0.01, 0.006)
    np.testing.assert_allclose(turned * per_turn_m, displacement_m, atol=1e-9)
    assert np.ptp(displacement_m[:, DISTAL], axis=0).min() > 1e-3


def test_a_servo_gives_no_more_torque_than_its_tendon_bears():
    robot = load_robot(SMALL_SPOOLS)
    hardware = SimulatedHardware(robot)
    loop = VirtualLoop(robot, hardware=hardware)
    loop.activate()
    loop.run(0.1)
    servos = [hardware.servos.servos.servos[number] for number in range(1, 10)]
    registers = protocol_2.GOAL_PWM, protocol_2.PWM_LIMIT
    written, limit = (np.array([one.get(at, 2) for one in servos]) for at in registers)
    loop.close()
    # Of a stall torque of 1.404 N.m: 60 N at 10 mm, 25 N at 6 mm.
    needed = np.where(np.arange(9) < 6, 60 * 0.01, 25 * 0.006) / (1.08 * 1.3)
    np.testing.assert_array_equal(written, np.ceil(needed * limit))


def test_tensions_of_two_segments_with_other_motors():
    """The distal segment has half the spool and weak tendons; the loop tracks as that of equal motors does."""
    robot = load_robot("two_segment")
    rows, first = robot.tendon_slices[1], robot.tendon_slices[1].start
    numbers = range(first + 1, rows.stop + 1)
    actuators = with_own(robot.actuators, numbers, spool_radius_m=0.7 * robot.actuators.spool_radius_m)
    own = robot.changed(
        actuators=actuators, limits=with_own(robot.limits, numbers, maximum_n=0.7 * robot.limits.maximum_n)
    )
    record, plain = ran(own, 1.5), ran(robot, 1.5)
    assert rmse(record, 0.5).max() < 1.5 * rmse(plain, 0.5).max()
    assert record["tension"][:, rows].max() < own.limits.of(first + 1).maximum_n


@pytest.mark.parametrize("name", ["opencr_five_tendon", "three_segment_servo"])
def test_values_that_each_tendon_states_are_all_that_counts(name):
    """To the last bit: controller, driver, safety and plant, whatever stands there for all."""
    robot = load_robot(name)
    one, other = ran(robot, 0.6), ran(restated(robot), 0.6)
    for key, values in one.items():
        np.testing.assert_array_equal(values, other[key], err_msg=key)


def test_a_motor_takes_its_mechanics_to_the_tendon_that_it_really_pulls():
    robot = load_robot(SMALL_SPOOLS)
    swapped = WiringErrors(pulls_tendon=(7, 2, 3, 4, 5, 6, 1, 8, 9))
    plant = Plant(robot.changed(simulation=dataclasses.replace(robot.simulation, wiring_errors=swapped)))
    np.testing.assert_allclose(plant.motor.newton_per_ampere[[0, 6, 7]], 1.08 / np.array([0.006, 0.01, 0.006]))
    np.testing.assert_allclose(plant.newton_per_ampere[[0, 6, 7]], 1.08 / np.array([0.01, 0.006, 0.006]))
