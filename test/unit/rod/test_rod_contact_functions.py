# SPDX-License-Identifier: Apache-2.0
"""The terms of the contact monitor: those of the kernel, in its coordinates, and their derivatives."""

import numpy as np
import pytest
from rod_robots import load_robot, shapes, uneven

from continuum_robot.errors import ParameterError
from continuum_robot.rod.contact.functions import ContactFunctions
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.rod import Rod


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
    return ContactFunctions(load_robot("vanderbilt_segment"))


def some_states(rod, count=3):
    """Shapes and rates of a rod that bends and twists by some tenths of a radian, and shears and stretches by 0.01."""
    rng = np.random.default_rng(11)
    size = np.where(rod.scale == 1, 0.01, 0.3) / rod.scale
    return [tuple(size * rng.normal(size=(2, rod.n))) for _ in range(count)]


@pytest.mark.parametrize("name", ["vanderbilt_segment", "opencr_five_tendon", "uneven", "mixed_routing"])
def test_terms_of_coordinates_are_those_of_the_kernel(name):
    robot = uneven() if name == "uneven" else load_robot(name)
    rod = Rod(robot, parts=WITH_CAPSTANS)
    shapes = np.random.default_rng(3).normal(size=(rod.n, 2))
    every, some = ContactFunctions(robot), ContactFunctions(robot, shapes)
    for c, _ in some_states(rod):
        rate = np.array([0.4, -0.7]) / rod.scale.max()
        found, terms, whole = some(c, rate), rod.terms(c, shapes @ rate), every(c, shapes @ rate)
        for name in ("momentum", "known_force"):
            close(getattr(found, name), shapes.T @ getattr(whole, name), 1e-12)
        for name in ("mass", "momentum_by_c", "force_by_c", "force_by_rate"):
            close(getattr(found, name), shapes.T @ getattr(whole, name) @ shapes, 1e-11)
        close(found.jacobians, whole.jacobians @ shapes, 1e-12)
        close(whole.momentum, terms.momentum, 1e-12)
        held = rod.arrays.stiffness @ c + rod.arrays.damping @ shapes @ rate
        close(whole.known_force, terms.force - held, 1e-12)


def test_what_was_returned_does_not_change_in_the_next_call(segment):
    (c, rate), (other, _) = shapes(segment.robot, 4, 2, bending_rad=1.0)
    first = segment(c, rate)
    kept = {name: np.copy(getattr(first, name)) for name in first.__slots__}
    segment(other, -rate)
    for name, value in kept.items():
        np.testing.assert_array_equal(getattr(first, name), value)


@pytest.mark.parametrize("name", ["vanderbilt_segment", "rucker_helical", "mixed_routing"])
def test_derivatives_are_those_of_the_terms_themselves(name):
    functions = ContactFunctions(load_robot(name))
    scale = functions.rod.scale
    for c, rate in some_states(functions.rod, 2):
        terms = functions(c, rate)

        def slope(function, point, step, scale=scale):
            return directional(lambda x: function(x / scale), point * scale, step) * scale

        close(terms.mass, slope(lambda v, c=c: functions(c, v).momentum, rate, 1e-3), 1e-7)
        close(terms.momentum_by_c, slope(lambda x, v=rate: functions(x, v).momentum, c, 1e-5), 3e-5)
        close(terms.force_by_c, slope(lambda x, v=rate: functions(x, v).known_force, c, 1e-5), 3e-5)
        close(terms.force_by_rate, slope(lambda v, c=c: functions(c, v).known_force, rate, 1e-2), 3e-5)


def test_mass_times_rate_is_the_momentum_and_symmetry_holds(segment):
    for c, rate in shapes(segment.robot, 7, 5):
        terms = segment(c, rate)
        close(terms.mass @ rate, terms.momentum, 1e-12)
        close(terms.mass, terms.mass.T, 1e-14)
        close(terms.force_by_c, terms.force_by_c.T, 1e-6)  # to the error of the quadrature
        assert np.linalg.eigvalsh(terms.mass).min() > 0


@pytest.mark.parametrize("name", ["vanderbilt_segment", "vanderbilt_two_segment", "two_segment"])
def test_jacobians_anywhere_on_the_backbone(name):
    robot = load_robot(name)
    functions, places = ContactFunctions(robot), np.linspace(0, robot.length_m, 17)
    rod = Rod(robot, stations_m=places[1:].tolist())
    there = [int(np.argmin(np.abs(rod.arrays.bodies_m - place))) for place in places[1:]]
    for c, rate in shapes(robot, 9, 2, bending_rad=1.0):
        found = np.tensordot(functions.interpolation(places), functions(c, rate).jacobians, axes=1)
        np.testing.assert_allclose(found[0], 0.0, atol=1e-6)
        np.testing.assert_allclose(found[1:], rod.terms(c, rate).jacobian[there], atol=2e-4 * robot.length_m)


def test_places_off_the_robot_and_absurd_accuracy_are_refused(segment):
    with pytest.raises(ParameterError, match="s_m"):
        segment.interpolation([0.1, 1.0])
    with pytest.raises(ParameterError, match="nodes"):
        ContactFunctions(segment.robot, nodes=0)
