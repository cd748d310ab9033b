# SPDX-License-Identifier: Apache-2.0
"""Fewer controlled modes than tendons have coordinates, against Clarke's closed form, SciPy and random bases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import with_modes
from scipy.linalg import eigh
from scipy.optimize import linprog, minimize

from continuum_robot.control.tendon_forces import distribute
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.geometry.tendon_modes import TendonModes
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import clarke_from_modes, coefficients_from_clarke, controlled_manifold

SOME = [("two_segment", 1), ("two_segment", 2), ("two_segment", 3), ("three_segment_servo", 4), ("rucker", 3)]
FULL = ["opencr_five_tendon", "two_segment", "three_segment_servo"]


def compliance(robot):
    """From tensions to displacements, and to the tip along x and y, at the straight rod."""
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    J = rod.displacement_gradient(straight)
    compliant = np.linalg.solve(rod.arrays.stiffness, J.T)
    return J @ compliant, rod.jacobian(straight, rod.length_m)[:2] @ compliant


def all_modes(robot):
    """The general path, for all coordinates that there are."""
    return TendonModes(*compliance(robot), robot.coordinate_count, in_pairs=False, within=clarke_manifold(robot))


@pytest.mark.parametrize(("name", "modes"), SOME)
def test_they_are_the_softest_displacements_and_bend_nothing_of_the_others(name, modes):
    robot = with_modes(name, modes)
    manifold, Q = controlled_manifold(robot), compliance(robot)[0]
    D = manifold.displacement_matrix
    assert D.shape == (robot.tendon_count, modes)
    assert robot.coordinate_count == manifold.coordinate_count == modes == len(robot.part_names)
    # Orthogonal in displacement and in compliance; a unit of a coordinate moves the tendon that it moves most by 1.
    for product in (D.T @ D, D.T @ Q @ D):
        np.testing.assert_allclose(product, np.diag(np.diag(product)), atol=1e-9 * np.abs(product).max())
    assert np.abs(D).max() <= 1 + 1e-12
    # Of all subspaces none is softer (Ky Fan).
    basis = D / np.linalg.norm(D, axis=0)
    if name != "rucker":  # there modes are passed over that are pulled one way only
        assert np.trace(basis.T @ Q @ basis) == pytest.approx(eigh(Q, eigvals_only=True)[-modes:].sum(), rel=1e-9)
    assert manifold.shift_direction.min() > 0
    for rows in manifold.tendon_slices:
        shifted = np.zeros(robot.tendon_count)
        shifted[rows] = manifold.shift_direction[rows]
        np.testing.assert_allclose(D.T @ shifted, 0, atol=1e-12)


@pytest.mark.parametrize(("name", "modes"), SOME)
def test_tensions_are_the_least_that_force_them_and_force_no_other(name, modes):
    robot, rng = with_modes(name, modes), np.random.default_rng(3)
    manifold, Q = controlled_manifold(robot), compliance(robot)[0]
    D = manifold.displacement_matrix
    force = rng.normal(size=modes)
    least = np.linalg.lstsq(D.T, force, rcond=None)[0]
    np.testing.assert_allclose(distribute("preload", force, manifold, 0.0), least, atol=1e-12)
    # What is left of the displacements they make has no part of the other modes: these are not forced.
    moved = Q @ least
    np.testing.assert_allclose(moved, D @ manifold.clarke(moved), atol=1e-9 * np.abs(moved).max())
    tension = distribute("shift", force, manifold, 2.0)
    assert tension.min() == pytest.approx(2.0)
    np.testing.assert_allclose(manifold.generalized_force(tension), force, atol=1e-9)
    count = robot.tendon_count
    program = linprog(np.ones(count), A_eq=D.T, b_eq=force, bounds=[(2.0, None)] * count)
    pulled = distribute("least_sum", force, manifold, 2.0)
    assert pulled.sum() == pytest.approx(program.fun, rel=1e-9)
    np.testing.assert_allclose(manifold.generalized_force(pulled), force, atol=1e-9)


@pytest.mark.parametrize("name", FULL)
def test_of_even_parallel_tendons_all_modes_are_what_clarke_says_in_closed_form(name):
    robot, rng = load_robot(name), np.random.default_rng(5)
    general, closed = all_modes(robot), clarke_manifold(robot)
    into = closed.clarke_matrix @ general.displacement_matrix
    np.testing.assert_allclose(closed.displacement_matrix @ into, general.displacement_matrix, atol=1e-12)
    place = rng.normal(size=robot.coordinate_count)
    # muhmann (4) with (13), and (2)
    np.testing.assert_allclose(general.displacement(place), closed.displacement(into @ place), atol=1e-12)
    tendons = rng.normal(size=robot.tendon_count)
    np.testing.assert_allclose(into @ general.clarke(tendons), closed.clarke(tendons), atol=1e-12)
    # (26) and (28): the same force in either coordinates is the same tensions.
    force = rng.normal(size=robot.coordinate_count)
    for strategy in ("preload", "shift", "least_sum"):
        found = distribute(strategy, into.T @ force, general, 3.0)
        np.testing.assert_allclose(found, distribute(strategy, force, closed, 3.0), atol=1e-10)
    if len(robot.segments) == 1:
        np.testing.assert_allclose(general.displacement_matrix, closed.displacement_matrix, atol=1e-12)


@pytest.mark.parametrize("name", ["two_segment", "vanderbilt_two_segment"])
def test_the_shape_of_some_modes_has_least_energy_and_nothing_of_the_others(name):
    robot = with_modes(name, 2)
    rod, manifold = Rod(robot), controlled_manifold(robot)
    desired = np.array([2e-3, -1e-3])
    shape = coefficients_from_clarke(robot) @ desired
    J = rod.displacement_gradient(np.zeros(rod.n))
    np.testing.assert_allclose(J @ shape, manifold.displacement(desired), atol=1e-12)
    np.testing.assert_allclose(clarke_manifold(robot).clarke(J @ shape), clarke_from_modes(robot) @ desired, atol=1e-12)
    onto, scale = manifold.clarke_matrix @ J, 1 / rod.scale
    found = minimize(
        lambda y: 0.5 * (scale * y) @ rod.arrays.stiffness @ (scale * y),
        scale * 0,
        jac=lambda y: scale * (rod.arrays.stiffness @ (scale * y)),
        constraints={"type": "eq", "fun": lambda y: 1e3 * (onto @ (scale * y) - desired)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-16},
    )
    assert found.fun == pytest.approx(0.5 * shape @ rod.arrays.stiffness @ shape, rel=1e-4)


def test_equal_modes_are_turned_to_the_axes_of_the_tip():
    """Where the cut lies between two that are equally soft, the one that moves the tip along x stays."""
    two, three = (controlled_manifold(with_modes("two_segment", k)) for k in (2, 3))
    np.testing.assert_allclose(three.displacement_matrix[:, :2], two.displacement_matrix, atol=1e-12)
    tip = compliance(load_robot("two_segment"))[1]
    for manifold in (two, three):
        moved = (
            tip @ np.linalg.lstsq(compliance(load_robot("two_segment"))[0], manifold.displacement_matrix, rcond=None)[0]
        )
        np.testing.assert_allclose(moved[1, ::2], 0, atol=1e-9)
        assert (moved[0, ::2] > 0).all()


def test_feedforward_is_the_force_of_the_whole_robot_on_the_modes():
    robot = with_modes("two_segment", 2)
    into, place = clarke_from_modes(robot), np.array([3e-3, -2e-3])
    elastic, gravity = clarke_feedforward(robot)(place)
    whole = clarke_feedforward(load_robot("two_segment"))(into @ place)
    np.testing.assert_allclose(elastic, into.T @ whole[0], atol=1e-9)
    np.testing.assert_allclose(gravity, into.T @ whole[1], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "modes", "reason"),
    [
        ("two_segment", 4, "fewer than 4"),
        ("two_segment", 7, "fewer than 4"),
        ("rucker", 2, "fewer than 2"),
        ("rucker", 6, "which only pull"),
        ("rolling_five_link", 2, "its own"),
    ],
)
def test_a_number_of_modes_without_effect_or_too_large_is_refused(name, modes, reason):
    with pytest.raises(RobotFileError, match=r"control\.modes") as refused:
        with_modes(name, modes)
    assert reason in str(refused.value)


def test_gains_are_one_entry_a_mode():
    robot = load_robot("two_segment")
    with pytest.raises(RobotFileError, match="3 entries, one a mode"):
        robot.changed(control=replace(robot.control, modes=3), reference=None)


def test_modes_that_tendons_cannot_force_both_ways_are_refused_with_what_is_left_over():
    with pytest.raises(ParameterError, match=r"one way only|too stiff"):
        controlled_manifold(with_modes("rucker", load_robot("rucker").tendon_count - 1))
