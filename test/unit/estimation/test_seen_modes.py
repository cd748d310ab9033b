# SPDX-License-Identifier: Apache-2.0
"""What tendons and strings see of a rod: axioms of the modes, and what is left without a sensor."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import linprog

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.seen_modes import force_balanced_at_tip_n, seen_modes
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance

ROBOTS = ("rucker", "rucker_helical", "mixed_routing")


@pytest.fixture(params=ROBOTS)
def robot(request):
    return load_robot(request.param)


def stiffness_and_sensors(robot):
    """At rest, (n, n) and (m, n)."""
    rod, rest = Rod(robot), seen_modes(robot).rest
    tension = np.full(robot.tendon_count, robot.control.pretension_n)
    stiffness = Balance(rod).hessian(rest, tension)
    return stiffness, np.vstack([rod.displacement_gradient(rest), rod.strings.displacement_gradient(rest)])


def test_coordinates_are_of_the_readings_and_the_shapes_have_them(robot):
    modes = seen_modes(robot)
    _, sensors = stiffness_and_sensors(robot)
    np.testing.assert_allclose(modes.coordinates @ modes.shapes, np.eye(modes.count), atol=1e-8)
    np.testing.assert_allclose(modes.readings, sensors @ modes.shapes, atol=1e-9 * np.abs(modes.readings).max())
    unseen = null_space(sensors)
    assert unseen.shape[1] >= robot.coefficient_count - len(sensors)
    assert np.abs(modes.coordinates @ unseen).max() < 1e-9 * np.abs(modes.coordinates).max()


def test_what_elasticity_does_to_the_modes_hangs_on_the_readings_alone(robot):
    """A shape that no sensor distinguishes from another makes the same force on the modes."""
    modes = seen_modes(robot)
    stiffness, sensors = stiffness_and_sensors(robot)
    unseen = null_space(sensors)
    force = modes.shapes.T @ stiffness
    assert np.abs(force @ unseen).max() < 1e-8 * np.abs(force).max()


def test_of_all_shapes_with_these_readings_the_modes_have_the_least_energy(robot):
    modes = seen_modes(robot)
    stiffness, sensors = stiffness_and_sensors(robot)
    rng = np.random.default_rng(2)
    shape = modes.shapes @ rng.normal(size=modes.count)
    for _ in range(10):
        other = shape + null_space(sensors) @ rng.normal(size=null_space(sensors).shape[1]) * np.linalg.norm(shape)
        assert shape @ stiffness @ shape < other @ stiffness @ other


def test_noise_of_the_sensors_makes_unit_errors_of_the_modes(robot):
    """By Monte Carlo: coordinates of least squares' shapes."""
    modes = seen_modes(robot)
    information = modes.information(np.ones(len(modes.sigma_m), dtype=bool))
    errors = modes.sigma_m * np.random.default_rng(0).normal(size=(4000, len(modes.sigma_m)))
    normal = modes.readings.T @ information @ modes.readings
    found = np.linalg.solve(normal, modes.readings.T @ information @ errors.T)
    np.testing.assert_allclose(np.cov(found), np.eye(modes.count), atol=0.1)


def test_a_sensor_that_is_missing_leaves_its_modes_out():
    modes = seen_modes(load_robot("rucker_helical"))
    known = np.ones(len(modes.sigma_m), dtype=bool)
    known[4:] = False  # the strings
    information = modes.information(known)
    assert not information[4:].any()
    assert np.linalg.matrix_rank(information) < np.linalg.matrix_rank(modes.information(np.ones_like(known)))


def test_sensors_that_see_nothing_are_refused(robot):
    stiff = tuple(
        replace(segment, backbone=replace(segment.backbone, youngs_modulus_pa=1e12, outer_diameter_m=0.02))
        for segment in robot.segments
    )
    invalid = replace(robot, segments=stiff, limits=None, control=None, reference=None, actuators=None)
    with pytest.raises(ParameterError, match="standard deviations"):
        seen_modes(invalid)


def test_the_force_that_tendons_balance_is_that_of_a_linear_program(robot):
    """The largest force in each direction, the tip held where it is, by tensions between the limits."""
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    tip = rod.jacobian(straight, rod.length_m)[:2]
    soft = np.linalg.solve(rod.arrays.stiffness, tip.T)
    held = np.linalg.solve(tip @ soft, soft.T @ rod.displacement_gradient(straight).T)
    span_n = robot.limits.maximum_n - robot.limits.minimum_n
    least = force_balanced_at_tip_n(robot)
    support = []
    for angle in np.linspace(0, 2 * np.pi, 90, endpoint=False):
        direction = np.array([np.cos(angle), np.sin(angle)])
        support.append(-linprog(-(direction @ held), bounds=[(0, span_n)] * robot.tendon_count).fun)
    assert least == pytest.approx(min(support), rel=1e-2)
    assert np.isnan(force_balanced_at_tip_n(replace(robot, limits=None)))
