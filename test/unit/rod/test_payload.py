# SPDX-License-Identifier: Apache-2.0
"""What the tip carries is in every model of the robot: a point at the backbone's end."""

import numpy as np
import pytest

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod

PAYLOAD_KG = 0.02


@pytest.fixture(params=["opencr_five_tendon", "vanderbilt_segment", "two_segment"])
def robots(request):
    robot = load_robot(request.param)
    return robot, robot.changed(payload_kg=PAYLOAD_KG)


def test_it_moves_and_hangs_as_a_point_at_the_tip(robots):
    plain, loaded = map(Rod, robots)
    rng = np.random.default_rng(5)
    c, rate = rng.normal(size=(2, plain.n))
    few, many = plain.terms(c, rate), loaded.terms(c, rate)
    velocity = few.jacobian[-1, :3] @ rate
    moved = (many.momentum - few.momentum) @ rate / 2
    assert moved == pytest.approx(PAYLOAD_KG / 2 * velocity @ velocity, rel=1e-12)
    weight_n, still = PAYLOAD_KG * np.array(robots[0].gravity_m_per_s2), np.zeros(plain.n)
    pulled = loaded.terms(c, still).force - plain.terms(c, still).force
    np.testing.assert_allclose(pulled, few.jacobian[-1, :3].T @ (few.rotation[-1].T @ weight_n), atol=1e-15)


def test_nothing_accelerates_in_equilibrium(robots):
    rod = Rod(robots[1])
    tension = np.linspace(1.0, 2.0, rod.tendon_count)
    c, still = rod.equilibrium(tension).c, np.zeros(rod.n)
    held = rod.arrays.stiffness @ c - rod.terms(c, still).force
    pulled = rod.displacement_gradient(c).T @ tension
    np.testing.assert_allclose(held, pulled, atol=2e-6 * np.abs(pulled).max())


def test_the_chain_of_mujoco_carries_it():
    pytest.importorskip("mujoco")
    from continuum_robot.simulation.mujoco.chain import Chain  # noqa: PLC0415

    robot = load_robot("opencr_five_tendon")
    plain, loaded = Chain(robot), Chain(robot.changed(payload_kg=PAYLOAD_KG))
    more = [b.mass_kg - a.mass_kg for a, b in zip(plain.links, loaded.links, strict=True)]
    assert more[-1] == pytest.approx(PAYLOAD_KG)
    assert not any(more[:-1])
