# SPDX-License-Identifier: Apache-2.0
"""The plant of rolling joints: its power balance, across jumps of a curvature too, and its motors' friction."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bodies.mechanisms import RollingPlant

ROBOT = load_robot("rolling_five_link")
STEP_S = 1e-3


def changed(damping_nms, friction_nm=0.0):
    return ROBOT.changed(
        mechanism=dataclasses.replace(ROBOT.mechanism, joint_damping_nms=damping_nms),
        actuators=dataclasses.replace(ROBOT.actuators, coulomb_friction_nm=friction_nm),
    )


def swung(robot, amplitude_n, seconds=4.0):
    """Displacements (T, 2) of a robot under tensions (T, 2) that swing about 11 N."""
    plant, times = RollingPlant(robot), np.arange(0, seconds, STEP_S)
    swing = amplitude_n * np.sin(2 * np.pi * times) * np.minimum(1.0, times)
    tension, moved = np.stack([11.0 + swing, 11.0 - swing], axis=1), []
    for row in tension:
        plant.advance(row, STEP_S)
        moved.append(plant.displacement)
    return np.array(moved), tension


def test_without_friction_the_work_of_the_tensions_is_in_the_motors():
    robot = changed(1e-7)
    moved, tension = swung(robot, 3.0)
    steps = np.diff(moved, axis=0)
    speed = steps / STEP_S
    # Through the middle, where the curvature of two surfaces jumps by a factor of five, the motors go on.
    assert np.abs(np.diff(speed, axis=0)).max() < 2.5 * STEP_S * np.ptp(tension) / robot.actuators.reflected_mass_kg
    work = np.cumsum((tension[1:] * steps).sum(axis=1))
    energy = 0.5 * robot.actuators.reflected_mass_kg * (speed**2).sum(axis=1)
    # Links without mass that nothing damps store no energy; equal tensions work against the pose.
    assert energy.max() > 0.004
    assert work == pytest.approx(energy, abs=0.05 * energy.max())


def test_friction_of_the_motors_takes_what_it_works():
    friction_nm = 1e-3
    robot = changed(1e-7, friction_nm)
    moved, tension = swung(robot, 3.0)
    steps = np.diff(moved, axis=0)
    friction_n = robot.actuators.coulomb_n
    assert friction_n > 0.5
    taken = np.cumsum(np.abs(steps).sum(axis=1)) * friction_n
    work = np.cumsum((tension[1:] * steps).sum(axis=1))
    energy = 0.5 * robot.actuators.reflected_mass_kg * ((steps / STEP_S) ** 2).sum(axis=1)
    assert taken[-1] > 0.02
    assert work - energy == pytest.approx(taken, abs=0.05 * taken[-1])


def test_less_than_friction_does_not_move_it_far():
    moved, _ = swung(changed(2e-3, 1e-3), 0.3, 1.0)
    free, _ = swung(changed(2e-3), 0.3, 1.0)
    assert np.ptp(moved[:, 0]) < 0.2 * np.ptp(free[:, 0])
