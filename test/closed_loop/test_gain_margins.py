# SPDX-License-Identifier: Apache-2.0
"""The margins that the notes of the robot files state, on the linearised plant sampled at 1 kHz."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.control.delay_margin import linear_plant, sampled_loop
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.motors import MotorModel
from continuum_robot.simulation.moving_rod import MovingRod, Springs

STEP_S = 1e-3


def linearised(robot):
    """(A, B, C): tight tendons, no dry friction nor cogging; generalised force in, Clarke coordinates out.

    Of the simulated robot's step by the midpoint rule, whose map of a linear system is (1 - h A / 2)^-1 (1 + h A / 2).
    """
    actuators = dataclasses.replace(robot.actuators, cogging_amplitude_nm=0.0, coulomb_friction_nm=0.0)
    motor = MotorModel.from_actuators(actuators, robot.tendon_count, np.random.default_rng(robot.simulation.seed))
    simulation = robot.simulation
    springs = Springs(robot.tendon_stiffness_n_per_m, damping_ns_per_m=simulation.tendon_damping_ns_per_m)
    moving = MovingRod(Rod(robot), springs=springs, motor=motor, method="midpoint", tolerance=1e-13)
    n, count = robot.coefficient_count, robot.tendon_count
    rest = equilibrium(Rod(robot), np.zeros(count)).c
    moving.reset(rest)
    at = np.concatenate([rest, np.zeros(n), moving.spooled_m + 1e-3, np.zeros(2 * count)])
    size = 2 * n + 2 * count

    def after(y):
        c, rate, spooled, speed, current = np.split(y, np.cumsum([n, n, count, count]))
        moving.reset(c, rate, spooled_m=spooled)
        moving.speed_m_per_s[:], moving.current_a[:], moving.desired[:] = speed, current, current
        moving.step(STEP_S)
        return np.concatenate([moving.c, moving.rate(), moving.spooled_m, moving.speed_m_per_s])

    steps = np.repeat([1e-3, 1e-2, 1e-4, 1e-2], [n, n, count, 2 * count])
    columns = [(after(at + d) - after(at - d)) / (2 * d.max()) for d in np.diag(steps)]
    motion, by_current = np.array(columns)[:size].T, np.array(columns)[size:].T
    one = np.eye(size)
    own = 2 / STEP_S * np.linalg.solve((motion + one).T, (motion - one).T).T
    given = (one - STEP_S / 2 * own) @ by_current / STEP_S
    lag = 1 / motor.current_time_constant_s
    A = np.block([[own, given], [np.zeros((count, size)), -lag * np.eye(count)]])
    B = np.vstack([np.zeros((size, count)), lag * np.eye(count)])
    manifold = clarke_manifold(robot)
    # The tensions of least norm that give a generalised force.
    tension = np.linalg.pinv(manifold.displacement_matrix.T)
    C = np.zeros((manifold.coordinate_count, len(A)))
    C[:, 2 * n : 2 * n + count] = manifold.clarke_matrix
    return A, B @ tension / robot.actuators.newton_per_ampere, C


@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment", "vanderbilt_segment"])
def test_the_linear_plant_of_the_margins_is_that_of_the_simulation(name):
    """Two derivations: the general rod's matrices in Clarke coordinates, and the derivative of the simulated robot."""
    robot = load_robot(name)
    responses = []
    for A, B, C in (linear_plant(robot), linearised(robot)):
        s = 2j * np.pi * np.geomspace(0.1, 300, 200)[:, None, None]
        responses.append(C @ np.linalg.solve(s * np.eye(len(A)) - A, B.astype(complex)[None]))
    size = np.abs(responses[1]).max(axis=(1, 2))
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
