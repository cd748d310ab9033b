# SPDX-License-Identifier: Apache-2.0
"""The margins that the notes of the robot files state, on the linearised plant sampled at 1 kHz."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import expm

from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bending_body import BendingBody
from continuum_robot.simulation.contact import PlantContacts
from continuum_robot.simulation.motors import MotorModel
from continuum_robot.simulation.tendon_actuators import VELOCITY_FILTER_S

DT = 1e-3


def linearised(robot):
    """(A, B, C): tight tendons, no dry friction nor cogging; generalised force in, Clarke coordinates out."""
    actuators = dataclasses.replace(robot.actuators, cogging_amplitude_nm=0.0, coulomb_friction_nm=0.0)
    motor = MotorModel.from_actuators(actuators, robot.tendon_count, np.random.default_rng(robot.simulation.seed))
    A, B = BendingBody(robot, motor, PlantContacts(robot, ()), compile="never").linearised()
    manifold, count = clarke_manifold(robot), robot.tendon_count
    # The tensions of least norm that give a generalised force.
    tension = np.linalg.pinv(manifold.displacement_matrix.T)
    C = np.zeros((manifold.coordinate_count, len(A)))
    start = 2 * robot.coefficient_count
    C[:, start : start + count] = manifold.clarke_matrix
    return A, B[:, :count] @ tension / robot.actuators.newton_per_ampere, C


def closed_loop(robot, delay_cycles):
    """Open- and closed-loop transition: x(k+1) = (F0 + g F1) x(k) with the loop gain g."""
    A, B, C = linearised(robot)
    n, k = B.shape
    step = expm(DT * np.block([[A, B], [np.zeros((k, n + k))]]))
    spread = [np.repeat([getattr(one, name) for one in robot.control.gains], 2) for name in ("p", "i", "d")]
    p, i, d = (np.diag(values) for values in spread)
    board = DT / (VELOCITY_FILTER_S + DT)
    smooth = 1 - np.exp(-DT / robot.control.gains[0].derivative_filter_time)
    sizes = [n, k, k, k, k] + [k] * delay_cycles
    ends = np.cumsum(sizes)
    rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    total = int(ends[-1])
    x, before, velocity, rate, integral, *queue = (np.eye(total)[place] for place in rows)
    position = C @ x
    new_velocity = velocity + board * ((position - before) / DT - velocity)
    new_rate = rate + smooth * (new_velocity - rate)
    force = -p @ position - d @ new_rate - i @ integral
    F = [np.zeros((total, total)), np.zeros((total, total))]
    F[0][rows[0]] = step[:n, :n] @ x
    F[0][rows[1]], F[0][rows[2]], F[0][rows[3]], F[0][rows[4]] = (
        position,
        new_velocity,
        new_rate,
        integral + DT * position,
    )
    F[1][rows[5]] = force
    for place, source in zip(rows[6:], queue[:-1], strict=True):
        F[0][place] = source
    F[0][rows[0]] += step[:n, n:] @ queue[-1]
    return F


@pytest.mark.parametrize(
    ("name", "gain_margins", "phase_margins_deg"),
    [("opencr_five_tendon", (5.0, 4.1, 3.1), (48, 44, 38)), ("two_segment", (4.4, 3.0, 2.3), (32, 32, 30))],
)
def test_the_stated_margins_hold(name, gain_margins, phase_margins_deg):
    robot = load_robot(name)
    for delay_ms, gain, phase_deg in zip((1, 2, 3), gain_margins, phase_margins_deg, strict=True):
        open_, feedback = closed_loop(robot, delay_ms)

        def is_stable(factor, open_=open_, feedback=feedback):
            return np.abs(np.linalg.eigvals(open_ + factor * feedback)).max() < 1

        assert all(is_stable(factor) for factor in (0.5, 1.0, 0.97 * gain))
        assert not is_stable(1.1 * gain)
        assert is_stable(np.exp(-1j * np.radians(phase_deg - 3)))
        assert not is_stable(np.exp(-1j * np.radians(phase_deg + 3)))
        stated = robot.control.note
        assert f"{gain:.1f}" in stated
        assert str(phase_deg) in stated
