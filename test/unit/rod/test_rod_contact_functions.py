# SPDX-License-Identifier: Apache-2.0
"""The contact terms against automatic differentiation of the rod model."""

import casadi as ca
import numpy as np
import pytest
from motion_oracle import motion_terms
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ParameterError
from continuum_robot.rod.contact.functions import ContactFunctions, FrictionTerms
from continuum_robot.rod.friction.tendons import TendonFriction
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.strain.dynamics import StrainDynamics


def close(value, expected, fraction):
    np.testing.assert_allclose(value, expected, rtol=0, atol=fraction * np.abs(expected).max())


def directional(function, point, step=1e-5):
    """Central differences of a function of n numbers, (m, n)."""
    columns = []
    for k in range(len(point)):
        shift = np.zeros(len(point))
        shift[k] = step
        columns.append((function(point + shift) - function(point - shift)) / (2 * step))
    return np.array(columns).T


@pytest.fixture(scope="module")
def segment():
    model = RodModel(load_robot("vanderbilt_segment"))
    return model, ContactFunctions(model)


@pytest.mark.parametrize(
    ("robot", "tendon_inertia"),
    [("vanderbilt_segment", False), ("opencr_five_tendon", True), ("two_segment", False), ("uneven", True)],
)
def test_terms_are_those_of_the_lagrangian(robot, tendon_inertia):
    made = uneven() if robot == "uneven" else load_robot(robot)
    model = RodModel(made, rotational_energy=True, tendon_inertia=tendon_inertia)
    functions = ContactFunctions(model)
    for c, rate in shapes(made, 3, 3, bending_rad=1.0):
        terms = functions(c, rate)
        close(terms.momentum, model.momentum(c, rate).full().ravel(), 1e-5)
        close(terms.mass, model.mass_matrix(c).full(), 1e-5)
        force = model.lagrangian_gradient(c, rate).full().ravel() - model.damping @ rate
        close(terms.known_force, force, 1e-5)


@pytest.fixture(scope="module", params=["rucker_helical", "mixed_routing"])
def general(request):
    model = RodModel(load_robot(request.param), quadrature_nodes=6)
    return model, ContactFunctions(model, np.eye(model.size))


def general_states(rod, count=3):
    """Shapes and rates of a rod that bends and twists by some tenths of a radian, and shears and stretches by 0.01."""
    rng = np.random.default_rng(11)
    size = np.where(rod.strain_scale == 1, 0.01, 0.3) / rod.strain_scale
    return [tuple(size * rng.normal(size=(2, rod.size))) for _ in range(count)]


def test_terms_of_any_strain_are_those_of_the_discrete_chain(general):
    """Another formulation: momentum and force by the exact derivatives of a chain of Magnus steps."""
    model, functions = general
    dynamics = StrainDynamics(functions.rod, damping=model.damping)
    for c, rate in general_states(functions.rod):
        terms = functions(c, rate)
        close(terms.momentum, dynamics.momentum(c, rate), 2e-5)
        close(terms.mass, dynamics.mass_matrix(c), 2e-5)
        chain = motion_terms(dynamics, c, rate)
        close(terms.known_force, chain.force, 2e-5)


def test_derivatives_by_any_strain_are_those_of_the_terms(general):
    model, functions = general
    scale = 1e-6 / functions.rod.strain_scale
    ((c, rate),) = general_states(functions.rod, 1)
    terms = functions(c, rate)

    def close_to_column(found, matrix, k):
        np.testing.assert_allclose(found, matrix[:, k], atol=2e-5 * np.abs(matrix).max())

    for k in range(0, model.size, 3):
        step = np.zeros(model.size)
        step[k] = scale[k]
        high, low = functions(c + step, rate), functions(c - step, rate)
        close_to_column((high.momentum - low.momentum) / (2 * step[k]), terms.momentum_by_c, k)
        close_to_column((high.known_force - low.known_force) / (2 * step[k]), terms.force_by_c, k)
        step *= 1e4  # the force is quadratic in the rates
        fast, slow = functions(c, rate + step), functions(c, rate - step)
        close_to_column((fast.known_force - slow.known_force) / (2 * step[k]), terms.force_by_rate, k)


@pytest.mark.parametrize(("nodes", "fraction"), [(None, 1e-4), (20, 3e-6)])
def test_jacobians_of_any_strain_are_those_of_the_rod(general, nodes, fraction):
    model, functions = general
    ((c, rate),) = general_states(functions.rod, 1)
    functions = ContactFunctions(model, np.eye(model.size), nodes=nodes)
    jacobians = functions(c, rate).jacobians
    for s_m, jacobian in list(zip(functions.nodes_m, jacobians, strict=True))[1:]:
        expected = functions.rod.body_jacobian(c, float(s_m))
        np.testing.assert_allclose(jacobian, expected, atol=fraction * np.abs(jacobians).max())


def test_a_rod_that_only_bends_has_the_same_terms_in_numbers():
    robot = load_robot("opencr_five_tendon")
    model = RodModel(robot, rotational_energy=True, quadrature_nodes=6)
    symbolic = ContactFunctions(model)
    numbers = ContactFunctions(model, np.eye(model.size))
    for c, rate in shapes(robot, 3, 2, bending_rad=1.0):
        one, other = symbolic(c, rate), numbers(c, rate)
        for name in ("momentum", "known_force", "mass", "momentum_by_c", "force_by_c"):
            close(getattr(other, name), getattr(one, name), 1e-9)


def test_coupled_segments_with_a_higher_basis():
    robot = with_basis(load_robot("two_segment"), [2, 1])
    model = RodModel(robot, rotational_energy=True)
    functions = ContactFunctions(model)
    for c, rate in shapes(robot, 8, 2, bending_rad=1.0):
        terms = functions(c, rate)
        close(terms.momentum, model.momentum(c, rate).full().ravel(), 1e-4)
        force = model.lagrangian_gradient(c, rate).full().ravel() - model.damping @ rate
        close(terms.known_force, force, 1e-4)


def test_derivatives_are_those_of_the_terms_themselves(segment):
    functions = ContactFunctions(segment[0], nodes=12)
    for c, rate in shapes(functions.model.robot, 4, 2, bending_rad=1.0):
        terms = functions(c, rate)
        close(terms.mass, directional(lambda v, c=c: functions(c, v).momentum, rate), 1e-7)
        close(terms.momentum_by_c, directional(lambda x, v=rate: functions(x, v).momentum, c), 1e-5)
        close(terms.force_by_c, directional(lambda x, v=rate: functions(x, v).known_force, c), 1e-5)
        close(terms.force_by_rate, directional(lambda v, c=c: functions(c, v).known_force, rate), 1e-5)


def test_derivatives_are_those_of_automatic_differentiation(segment):
    model, functions = segment
    x, v = ca.SX.sym("c", model.size), ca.SX.sym("c_rate", model.size)
    direction = ca.SX.sym("direction", model.size)
    gradient = model.lagrangian_gradient(x, v)
    along = ca.Function(
        "along",
        [x, v, direction],
        [ca.jtimes(model.momentum(x, v), x, direction), ca.jtimes(gradient, x, direction)],
    )
    (c, rate), *_ = shapes(model.robot, 5, 1, bending_rad=1.0)
    step = np.random.default_rng(6).normal(size=model.size)
    terms = functions(c, rate)
    momentum, force = (value.full().ravel() for value in along(c, rate, step))
    # The model's discretisation has errors of its own, and the capstans, most of the mass, do not enter these two.
    close(terms.momentum_by_c @ step, momentum, 5e-4)
    close(terms.force_by_c @ step, force, 1e-4)


def test_mass_times_rate_is_the_momentum_and_symmetry_holds(segment):
    _, functions = segment
    for c, rate in shapes(functions.model.robot, 7, 5):
        terms = functions(c, rate)
        close(terms.mass @ rate, terms.momentum, 1e-12)
        close(terms.mass, terms.mass.T, 1e-14)
        assert np.linalg.eigvalsh(terms.mass).min() > 0
        close(terms.force_by_c, terms.force_by_c.T, 1e-5)  # by quadrature: to the last digit with more nodes
        exact = ContactFunctions(segment[0], nodes=24)(c, rate).force_by_c
        close(exact, exact.T, 1e-12)


@pytest.mark.parametrize("name", ["vanderbilt_segment", "vanderbilt_two_segment", "two_segment"])
def test_jacobians_anywhere_on_the_backbone(name):
    robot = load_robot(name)
    model = RodModel(robot, quadrature_nodes=3)
    functions = ContactFunctions(model)
    places = np.linspace(0, robot.length_m, 17)
    for c, rate in shapes(robot, 9, 2, bending_rad=1.0):
        found = np.tensordot(functions.interpolation(places), functions(c, rate).jacobians, axes=1)
        for place, jacobian in zip(places, found, strict=True):
            np.testing.assert_allclose(jacobian, model.body_jacobian(c, place).full(), atol=2e-4 * robot.length_m)


def test_places_off_the_robot_and_absurd_accuracy_are_refused(segment):
    model, functions = segment
    with pytest.raises(ParameterError, match="s_m"):
        functions.interpolation([0.1, 1.0])
    with pytest.raises(ParameterError, match="nodes"):
        ContactFunctions(model, nodes=0)


def test_friction_terms_are_the_friction_and_its_derivatives():
    friction = TendonFriction(load_robot("vanderbilt_segment"), compile="never")
    terms = FrictionTerms(friction, compile="never")
    torque = np.array([0.7, -1.1])
    for c, rate in shapes(friction.robot, 11, 2, bending_rad=1.0):
        slow = rate / 200  # where tanh is not saturated
        force, by_c, by_rate = terms(c, slow, friction.wires_of_torque(torque))
        np.testing.assert_allclose(force, friction.generalized_force(c, slow, torque), rtol=1e-12)
        close(by_c, directional(lambda x, v=slow: friction.generalized_force(x, v, torque), c), 1e-5)
        close(by_rate, directional(lambda v, x=c: friction.generalized_force(x, v, torque), slow), 1e-5)
