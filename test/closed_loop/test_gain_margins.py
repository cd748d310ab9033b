# SPDX-License-Identifier: Apache-2.0
"""The margins that the notes of the robot files state, on the linearised plant sampled at 1 kHz."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.control.delay_margin import linear_plant, sampled_loop
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bodies.explicit import ExplicitBody
from continuum_robot.simulation.contact import PlantContacts
from continuum_robot.simulation.motors import MotorModel


def linearised(robot):
    """(A, B, C): tight tendons, no dry friction nor cogging; generalised force in, Clarke coordinates out."""
    actuators = dataclasses.replace(robot.actuators, cogging_amplitude_nm=0.0, coulomb_friction_nm=0.0)
    motor = MotorModel.from_actuators(actuators, robot.tendon_count, np.random.default_rng(robot.simulation.seed))
    segments = tuple(
        segment
        if segment.capstans is None
        else dataclasses.replace(
            segment, capstans=dataclasses.replace(segment.capstans, friction_coefficients=(0.0, 0.0))
        )
        for segment in robot.segments
    )
    robot = dataclasses.replace(robot, segments=segments)
    A, B = ExplicitBody(robot, motor, PlantContacts(robot, ()), compile="never").linearised()
    manifold, count = clarke_manifold(robot), robot.tendon_count
    # The tensions of least norm that give a generalised force.
    tension = np.linalg.pinv(manifold.displacement_matrix.T)
    C = np.zeros((manifold.coordinate_count, len(A)))
    start = 2 * robot.coefficient_count
    C[:, start : start + count] = manifold.clarke_matrix
    return A, B[:, :count] @ tension / robot.actuators.newton_per_ampere, C


@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment", "vanderbilt_segment"])
def test_the_linear_plant_of_the_margins_is_that_of_the_simulation(name):
    """Two derivations: the general rod's matrices in Clarke coordinates, and the derivative of the simulated robot."""
    robot = load_robot(name)
    responses = []
    for A, B, C in (linear_plant(robot), linearised(robot)):
        s = 2j * np.pi * np.geomspace(0.1, 300, 200)[:, None, None]
        responses.append(C @ np.linalg.solve(s * np.eye(len(A)) - A, B.astype(complex)[None]))
    size = np.abs(responses[1]).max(axis=(1, 2))
    # The bending rod of the simulation leaves out how thin disks turn.
    assert (np.abs(responses[0] - responses[1]).max(axis=(1, 2)) < 0.01 * size).all()


@pytest.mark.parametrize(
    ("name", "gain_margins", "phase_margins_deg"),
    [("opencr_five_tendon", (5.0, 4.1, 3.1), (48, 44, 38)), ("two_segment", (4.4, 3.0, 2.3), (32, 32, 30))],
)
def test_the_stated_margins_hold(name, gain_margins, phase_margins_deg):
    robot = load_robot(name)
    for delay_ms, gain, phase_deg in zip((1, 2, 3), gain_margins, phase_margins_deg, strict=True):
        is_stable = sampled_loop(robot, computing_cycles=delay_ms).is_stable
        assert all(is_stable(factor) for factor in (0.5, 1.0, 0.97 * gain))
        assert not is_stable(1.1 * gain)
        assert is_stable(np.exp(-1j * np.radians(phase_deg - 3)))
        assert not is_stable(np.exp(-1j * np.radians(phase_deg + 3)))
        stated = robot.control.note
        assert f"{gain:.1f}" in stated
        assert str(phase_deg) in stated
