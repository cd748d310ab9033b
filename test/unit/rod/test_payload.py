# SPDX-License-Identifier: Apache-2.0
"""What the tip carries is in every model of the robot: a point at the backbone's end."""

import numpy as np
import pytest

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.rod import Rod

PAYLOAD_KG = 0.02


@pytest.fixture(params=["opencr_five_tendon", "vanderbilt_segment", "two_segment"])
def robots(request):
    robot = load_robot(request.param)
    return robot, robot.changed(payload_kg=PAYLOAD_KG)


def test_it_moves_and_hangs_as_a_point_at_the_tip(robots):
    plain, loaded = (RodDynamics(robot, compile="never") for robot in robots)
    rng = np.random.default_rng(5)
    c, rate = rng.normal(size=plain.size), rng.normal(size=plain.size)
    tip_m = robots[0].length_m
    pose, jacobian = plain.poses(c, tip_m)[0], plain.body_jacobian(c, tip_m)
    velocity = jacobian[:3] @ rate
    few, many = plain.energies(c, rate), loaded.energies(c, rate)
    assert many.kinetic_translational - few.kinetic_translational == pytest.approx(
        PAYLOAD_KG / 2 * velocity @ velocity, rel=1e-6
    )
    weight_n = PAYLOAD_KG * np.array(robots[0].gravity_m_per_s2)
    np.testing.assert_allclose(
        loaded.gravity_force(c) - plain.gravity_force(c), -jacobian[:3].T @ (pose[:3, :3].T @ weight_n), atol=1e-9
    )


def test_statics_and_the_equations_of_motion_agree_on_it(robots):
    _, loaded = robots
    dynamics = RodDynamics(loaded, compile="never")
    tension = np.linspace(1.0, 2.0, loaded.tendon_count)
    c = Rod(loaded).equilibrium(tension).c
    rest = np.zeros(dynamics.size)
    held = dynamics.inverse_dynamics(c, rest, rest)
    pulled = dynamics.displacement_jacobian().T @ tension
    np.testing.assert_allclose(held, pulled, atol=2e-6 * np.abs(pulled).max())


def test_the_chain_of_mujoco_carries_it():
    pytest.importorskip("mujoco")
    from continuum_robot.simulation.mujoco.chain import Chain  # noqa: PLC0415

    robot = load_robot("opencr_five_tendon")
    plain, loaded = Chain(robot), Chain(robot.changed(payload_kg=PAYLOAD_KG))
    more = [b.mass_kg - a.mass_kg for a, b in zip(plain.links, loaded.links, strict=True)]
    assert more[-1] == pytest.approx(PAYLOAD_KG)
    assert not any(more[:-1])
