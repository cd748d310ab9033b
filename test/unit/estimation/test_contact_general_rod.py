# SPDX-License-Identifier: Apache-2.0
"""The contact monitor on rods with torsion, shear and extension and tendons on any path, at the plant's true shape."""

import numpy as np
import pytest

from continuum_robot.estimation.contact_monitor import ContactMonitor
from continuum_robot.estimation.contact_settings import MonitorSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.simulation.plant import Plant

DT_S = 0.01
REST_N = 2.0
# Larger where the rod is stiffer: it bends each by some centimetres.
PUSHES_N = {"rucker_helical": (0.02, 0.01, 0.0), "mixed_routing": (0.1, 0.05, 0.0)}


def run(plant, monitor, tension, duration_s):
    """Estimates while the tensions go from ``REST_N`` to others; the shape and its rates are the true ones."""
    noise = np.eye(plant.c.size) * 1e-8
    found, steps = [], round(duration_s / DT_S)
    for k in range(steps):
        plant.advance(REST_N + (tension - REST_N) * min(1.0, 2 * (k + 1) / steps), DT_S)
        found.append(monitor.update(plant.c, plant.c_rate, noise, DT_S, tension=plant.tension))
    return found


def at_rest(name):
    plant = Plant(load_robot(name))
    plant.advance(np.full(plant.tendon_count, REST_N), 3.0)
    return plant


@pytest.mark.parametrize(("name", "contact_type"), [("rucker_helical", "point"), ("mixed_routing", "hard_finger")])
def test_a_push_at_the_tip_is_felt_and_free_motion_is_not(name, contact_type):
    """A force along the backbone, too, where the rod is bent enough to tell it."""
    plant = at_rest(name)
    robot, rod = plant.robot, StrainRod.from_robot(plant.robot)
    settings = MonitorSettings(method="gmo", contact_type=contact_type, known_arc_length_m=robot.length_m)
    monitor = ContactMonitor(robot, settings)
    tension = np.full(robot.tendon_count, REST_N)
    tension[0] += 1.5  # it moves
    assert {estimate.state for estimate in run(plant, monitor, tension, 2.0)} == {"clear"}
    plant.push(robot.length_m, PUSHES_N[name])
    noise, found, true = np.eye(plant.c.size) * 1e-8, [], []
    for _ in range(200):
        plant.advance(tension, DT_S)
        found.append(monitor.update(plant.c, plant.c_rate, noise, DT_S, tension=plant.tension))
        true.append(rod.poses(plant.c, robot.length_m)[0][:3, :3].T @ PUSHES_N[name])
    assert all(estimate.in_contact for estimate in found[50:])
    sensed = {"point": 2, "hard_finger": 3}[contact_type]
    assert found[-1].wrench.sensed.tolist() == [True] * sensed + [False] * (6 - sensed)
    force = np.mean([estimate.wrench.wrench[:sensed] for estimate in found[100:]], axis=0)
    expected = np.mean(true[100:], axis=0)[:sensed]
    np.testing.assert_allclose(force, expected, atol=0.03 * np.linalg.norm(PUSHES_N[name]))


def test_levers_that_hang_on_the_shape_are_those_of_the_rod():
    """With the tendons' forces at the straight rod a bent one would seem to be touched."""
    plant = at_rest("mixed_routing")
    robot = plant.robot
    monitor = ContactMonitor(robot, MonitorSettings(method="jfd", known_arc_length_m=robot.length_m))
    tension = np.full(robot.tendon_count, REST_N)
    tension[[0, 5]] = 7.0
    estimates = run(plant, monitor, tension, 6.0)
    bent = np.linalg.norm(plant.pose(robot.length_m)[:2, 3])
    assert bent > 0.05
    assert abs(estimates[-1].residual).max() < 0.05 * abs(monitor.functions.model.stiffness @ plant.c).max()
