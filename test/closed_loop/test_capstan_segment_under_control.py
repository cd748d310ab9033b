# SPDX-License-Identifier: Apache-2.0
"""The heavy capstan-driven segment in the virtual loop: tracking, a wall in the way, a hand that pushes."""

import numpy as np
import pytest
from virtual_loop import VirtualLoop

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant

ROBOT = load_robot("vanderbilt_segment")
HAND_S = (1.0, 1.6)
WALL_S = 4.0


@pytest.fixture(scope="module")
def run():
    """6 s along the file's reference: a hand at disk 5 early, from 4 s on a stiff wall where disk 4 comes by."""
    contacts = [
        Contact(name="hand", kind="push", disk=5, force_n=(0.0, 12.0, 0.0), start_s=HAND_S[0], end_s=HAND_S[1]),
        Contact(
            name="wall",
            kind="wall",
            disk=4,
            point_m=(-0.015, 0.0, 0.0),
            normal=(1.0, 0.0, 0.0),
            stiffness_n_per_m=20000.0,
            friction_coefficient=0.3,
            start_s=WALL_S,
        ),
    ]
    loop = VirtualLoop(ROBOT, plant=Plant(ROBOT, contacts=contacts))
    loop.activate()
    seen = []

    def watch(loop):
        plant = loop.actuators.plant
        if loop.cycle % 5 == 0:
            seen.append((loop.now_s, plant.contact_loads, plant.friction_torque, plant.velocity, plant.tension))

    return loop, loop.run(6.5, watch), seen


def test_it_tracks_its_reference_without_slack_or_fault(run):
    loop, record, _ = run
    assert loop.safety.state == "active"
    assert not loop.faults
    free = (record["time_s"] > 1.8) & (record["time_s"] < 4.8)
    error = record["clarke"][free] - record["reference"][free]
    # 2 mm at the tendons are 1.8 degrees of bending; dry friction of the capstans reaches 100 N there.
    assert np.all(np.sqrt(np.mean(error**2, axis=0)) < 2e-3)
    assert record["tension"][record["time_s"] > 1.5].min() > 0
    speed = np.diff(record["clarke"], axis=0) / 1e-3 / drives(ROBOT)[0].path_per_radian_m
    assert np.degrees(np.abs(speed[1500:])).max() < 180  # of the capstans, degrees a second


def test_the_truth_of_contacts_is_there_to_read(run):
    _, _, seen = run
    for time_s, (hand, wall), _, _, _ in seen:
        if min(abs(time_s - edge_s) for edge_s in HAND_S) > 0.01:  # the plant is a cycle behind
            assert hand.touching == (HAND_S[0] < time_s < HAND_S[1])
        if time_s < WALL_S:
            assert not wall.touching
    forces = np.array([loads[1].force_in_base_n for _, loads, _, _, _ in seen])
    assert forces[:, 0].max() > 5  # the wall pushes back towards +x, and hard
    assert forces[:, 0].min() >= 0
    pressed = forces[:, 0] > 1
    assert np.all(np.linalg.norm(forces[pressed, 1:], axis=1) <= 0.3 * forces[pressed, 0] * (1 + 1e-9))
    # It stays in touch: no rattling on the stiff wall.
    touching = forces[:, 0] > 0
    assert np.count_nonzero(np.diff(touching.astype(int))) <= 6
    assert all(loads[1].penetration_m < 0.01 for _, loads, _, _, _ in seen)


def test_friction_resists_the_capstans(run):
    _, _, seen = run
    for _, _, friction, velocity, tension in seen[100:]:
        for k, drive in enumerate(drives(ROBOT)):
            speed = (velocity[drive.pulled] - velocity[drive.released]) / 2 / drive.path_per_radian_m
            assert friction[k] * speed >= 0
            wires_n = (tension[drive.pulled] + tension[drive.released]) / drive.strands
            assert abs(friction[k]) <= drive.capstans.radius_m * wires_n


def test_contacts_belong_to_a_plant_of_the_devices_own():
    contact = Contact(name="hand", kind="push", disk=1, force_n=(1.0, 0.0, 0.0))
    with pytest.raises(ParameterError, match="contacts"):
        SimulatedTendonActuators(ROBOT, Plant(ROBOT), contacts=[contact])
