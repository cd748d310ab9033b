# SPDX-License-Identifier: Apache-2.0
"""The symbolic model of rods that do more than bend, or whose tendons are routed, against the chain of any rod."""

import numpy as np
import pytest
from motion_oracle import motion_terms

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.inertia import damping_matrix
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.strain.dynamics import StrainDynamics
from continuum_robot.rod.strain.rod import StrainRod


@pytest.fixture(scope="module", params=["rucker_helical", "mixed_routing"])
def both(request):
    """The model, the same robot's chain, and states that bend and twist it, shear and stretch it."""
    robot = load_robot(request.param)
    dynamics = StrainDynamics(StrainRod.from_robot(robot, magnus_steps=20), damping=damping_matrix(robot))
    rng = np.random.default_rng(3)
    size = np.where(dynamics.rod.strain_scale == 1, 0.01, 0.3) / dynamics.rod.strain_scale
    states = [tuple(size * rng.normal(size=(2, dynamics.size))) for _ in range(3)]
    return RodModel(robot, quadrature_nodes=16), dynamics, states


def close(found, expected, fraction):
    expected = np.asarray(expected)
    np.testing.assert_allclose(
        np.array(found).reshape(expected.shape), expected, atol=fraction * np.abs(expected).max()
    )


def test_poses_and_jacobians_anywhere(both):
    model, dynamics, states = both
    for c, _ in states:
        for ratio in (0.0, 0.3, 0.77, 1.0):
            s_m = ratio * model.robot.length_m
            np.testing.assert_allclose(np.array(model.pose(c, s_m)), dynamics.rod.poses(c, [s_m])[0], atol=5e-7)
            np.testing.assert_allclose(
                np.array(model.body_jacobian(c, s_m)), dynamics.rod.body_jacobian(c, s_m), atol=1e-6
            )


def test_displacements_and_their_gradients(both):
    model, dynamics, states = both
    for c, _ in states:
        close(model.displacement(c), dynamics.rod.tendon_displacement(c), 1e-12)
        close(model.displacement_jacobian(c), dynamics.rod.displacement_jacobian(c), 1e-12)


def test_equations_of_motion(both):
    """Mass and momentum, and the force that is left where nothing accelerates, with tensions."""
    model, dynamics, states = both
    tension = np.linspace(0.5, 3.0, model.robot.tendon_count)
    for c, rate in states:
        terms = motion_terms(dynamics, c, rate, tension)
        close(model.mass_matrix(c), dynamics.mass_matrix(c), 1e-6)
        close(model.momentum(c, rate), terms.momentum, 1e-6)
        pulled = dynamics.rod.displacement_jacobian(c).T @ tension
        # p' = force is M c'' + M' c' = force: what is left of inverse dynamics is M' c' - force at c'' = 0.
        step = 1e-6
        along = (dynamics.mass_matrix(c + step * rate) - dynamics.mass_matrix(c - step * rate)) / (2 * step)
        close(model.inverse_dynamics(c, rate, np.zeros(model.size)), along @ rate - terms.force + pulled, 1e-5)
        acceleration = np.array(model.forward_dynamics(c, rate, tension, np.zeros(model.size))).ravel()
        close(np.array(model.mass_matrix(c)) @ acceleration, terms.force - along @ rate, 1e-4)


def test_energies(both):
    model, dynamics, states = both
    for c, rate in states:
        expected = dynamics.energy(c, rate)
        translational, rotational, gravity, _, elastic = (np.array(value) for value in model.energies(c, rate))
        np.testing.assert_allclose(translational.sum() + rotational.sum(), expected.kinetic_j, rtol=1e-6)
        straight = dynamics.energy(np.zeros(model.size), np.zeros(model.size)).potential_j
        unbent = float(np.array(model.energies(np.zeros(model.size), rate)[2]).sum())
        np.testing.assert_allclose(
            gravity.sum() - unbent + elastic.sum(), expected.potential_j - straight, rtol=1e-6, atol=1e-12
        )
