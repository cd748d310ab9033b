# SPDX-License-Identifier: Apache-2.0
"""Rolling joints under a given coordinate: against the simulated plant, and against statics."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.equations import DrivenJoints
from continuum_robot.mechanisms.rolling_joint.building import make_linkage
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bodies.mechanisms import RollingPlant

ROBOT = load_robot("rolling_five_link")
STEP_S = 1e-3


@pytest.fixture(scope="module")
def joints():
    return DrivenJoints(ROBOT)


def test_what_moves_the_motors_is_what_the_joints_ask_for(joints):
    damping_nms = 0.01
    plant = RollingPlant(ROBOT.changed(mechanism=dataclasses.replace(ROBOT.mechanism, joint_damping_nms=damping_nms)))
    times, moved, pulled = np.arange(0, 4, STEP_S), [], []
    for time_s in times:
        swing = min(1.0, time_s) * (3.0 * np.sin(6 * time_s) + 1.5 * np.sin(17 * time_s))
        tension = np.array([11.0 + swing, 11.0 - swing])
        plant.advance(tension, STEP_S)
        moved.append(plant.displacement)
        pulled.append(tension)
    place = np.array(moved)
    speed = np.gradient(place, STEP_S, axis=0)
    # Tensions were held over the step that ended at each time.
    held = (np.array(pulled) + np.vstack([pulled[1:], pulled[-1:]])) / 2
    left = held - ROBOT.actuators.reflected_mass_kg * np.gradient(speed, STEP_S, axis=0)
    coordinate, total = (place[:, 0] - place[:, 1]) / 2, left.sum(axis=1)
    measured = left[:, 0] - left[:, 1]
    inside = slice(500, -10)
    asked = {factor: joints.difference(coordinate, total, factor * damping_nms, STEP_S) for factor in (1.0, 1.3)}
    slope = (asked[1.3] - asked[1.0])[inside] / 0.3
    missing = (measured - asked[1.0])[inside]
    assert measured[inside].std() > 3.0
    assert np.abs(missing).mean() < 0.03
    assert slope.std() > 0.5
    assert abs(slope @ missing / (slope @ slope)) < 0.01


def test_slow_motion_asks_for_the_tensions_of_statics(joints):
    statics = RollingStatics(make_linkage(ROBOT.mechanism))
    home = statics.solve_tension([1.0, 1.0]).tendon_length_m
    tension = np.array([8.0, 5.0])
    displacement = home - statics.solve_tension(tension).tendon_length_m
    coordinate = np.linspace(0.0, (displacement[0] - displacement[1]) / 2, 400)
    asked = joints.difference(coordinate, np.full(400, 13.0), 1e-4, 0.01)
    assert asked[-1] == pytest.approx(3.0, abs=5e-3)


def test_a_coordinate_out_of_reach_is_an_error(joints):
    with pytest.raises(ConvergenceError):
        joints.difference(np.linspace(0.0, 0.1, 200), np.full(200, 20.0), 2e-3, 4e-3)
