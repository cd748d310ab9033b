# SPDX-License-Identifier: Apache-2.0
"""Tensions from displacements with slack, and shapes from mixed data."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strain_rods import BENDING_NM2, LENGTH_M, basis, cantilever, path, rest

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.shape_fit import ShapeData, fit_shape

STRAIGHT = tuple(path(angle_rad=k * math.pi / 2, name=f"t{k}") for k in range(4))
TENDONS = (*STRAIGHT, path(HelicalRouting(turns=1.0), name="helical"))
SIDE = (PointWrench(s_m=LENGTH_M, force_n=(-0.02, 0.03, 0.0)),)
NAN = math.nan


def hold(rod, displacement, tension=0.0, stiffness=math.inf):
    return rod.equilibrium(tension, stiffness=stiffness, spooled=displacement)


def problem(**others):
    return cantilever(basis(3, shear_order=1, extension_order=1, **others), TENDONS, loads=SIDE)


@given(st.lists(st.floats(0.05, 3.0), min_size=3, max_size=3), st.permutations(range(4)))
def test_displacements_of_known_tensions_give_them_back(pulls, order):
    """Two neighbouring straight tendons and the helical one, the others slack or just taut."""
    one = problem()
    tension = np.zeros(5)
    tension[[order[0], (order[0] + 1) % 4, 4]] = pulls
    state = rest(one, tension)
    found = hold(one, one.displacement(state.c))
    np.testing.assert_allclose(one.poses(found.c, LENGTH_M), one.poses(state.c, LENGTH_M), atol=1e-5)
    np.testing.assert_allclose(found.tension, tension, atol=2e-2)
    given_out = np.where(tension > 0, one.displacement(state.c), -0.05)
    found = hold(one, given_out)
    np.testing.assert_allclose(found.tension, tension, atol=1e-6)
    np.testing.assert_array_equal(found.taut, tension > 0)
    assert found.determined


def test_rigid_tendons_beside_ones_that_are_not_held():
    """Of a tendon with a given tension nothing is spooled, and no number that is none comes about."""
    one, tension = problem(), np.array([0.0, 0.7, 0.0, 0.0, 0.0])
    desired = np.array([0.002, NAN, -0.004, NAN, 0.001])
    with np.errstate(all="raise", under="ignore"):
        found = hold(one, desired, tension)
    assert found.tension[1] == 0.7
    assert found.tension[3] == 0.0
    np.testing.assert_allclose(found.displacement[found.taut], desired[found.taut], atol=1e-9)


def test_conditions_of_complementarity_hold():
    one = problem()
    desired = np.array([0.002, 0.0, -0.004, -0.01, 0.001])
    found = hold(one, desired)
    assert (found.tension >= 0).all()
    over = found.displacement - desired  # more path drawn in than tendon: slack
    assert (over > -1e-9).all()
    assert np.all((found.tension < 1e-12) | (np.abs(over) < 1e-9))
    np.testing.assert_allclose(found.slack_m[~found.taut], over[~found.taut])
    assert found.residual < 1e-9


def test_all_slack_is_the_rod_alone():
    one = problem()
    found = hold(one, np.full(5, -0.05))
    assert not found.taut.any()
    np.testing.assert_allclose(found.c, rest(one).c, atol=1e-8)


def test_some_held_and_some_pulled():
    one = problem()
    tension = np.array([1.0, 0.4, 0.0, 0.0, 0.8])
    state = rest(one, tension)
    q = one.displacement(state.c)
    found = hold(one, [q[0], NAN, NAN, NAN, q[4]], [0.0, 0.4, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(found.tension, tension, atol=1e-6)
    np.testing.assert_allclose(found.c, state.c, atol=1e-6)


def test_elastic_tendons_stretch():
    one = problem()
    stiffness = 2000.0
    desired = np.array([0.002, 0.0, -0.002, 0.0, -0.05])
    found = hold(one, desired, stiffness=stiffness)
    stretch = desired - found.displacement
    np.testing.assert_allclose(found.tension[found.taut], stiffness * stretch[found.taut], atol=1e-6)
    stiff = hold(one, desired, stiffness=1e7)
    assert found.tension[0] < stiff.tension[0]


@pytest.mark.parametrize("stiffness", [1e5, math.inf])
def test_two_segments_under_gravity_and_side_load(stiffness):
    """Where tendons of one segment take turns in being slack, the active set alone does not settle in one of 15."""
    rod = Rod(load_robot("two_segment"))
    generator = np.random.default_rng(0)
    for _ in range(30):
        tension = generator.uniform(0, 6, 10) * (generator.random(10) < 0.4)
        force = tuple(generator.normal(size=3) * 0.1)
        loads = [
            PointWrench(s_m=generator.uniform(0.12, 0.4), force_n=force, frame=str(generator.choice(["base", "body"])))
        ]
        state = rest(rod, tension, loads)
        drawn = rod.displacement(state.c) + np.where(tension > 0, tension / stiffness, -1e-4)
        found = hold(rod.loaded(loads), drawn, stiffness=stiffness)
        np.testing.assert_allclose(found.c, state.c, atol=1e-5)
        if math.isfinite(stiffness):  # else three tendons of a segment pull against each other at any tension
            np.testing.assert_allclose(found.tension, tension, atol=1e-5)


def test_pulling_in_all_tendons_of_a_rod_that_cannot_shorten_is_impossible():
    rod = cantilever(Basis(kind="chebyshev", bending_order=2), STRAIGHT)
    with pytest.raises(ConvergenceError, match="equilibrium with these displacements"):
        hold(rod, np.full(4, 1e-3))
    shorter = hold(cantilever(basis(1), STRAIGHT), np.full(4, 1e-5))
    np.testing.assert_allclose(shorter.tension.sum(), 1e-5 / LENGTH_M * 1e5, rtol=1e-6)


def test_opposite_tendons_of_a_rod_that_cannot_shorten_leave_their_tension_open():
    rod = cantilever(Basis(kind="chebyshev", bending_order=0), STRAIGHT[:3:2])
    state = rest(rod, [2.0, 1.0])
    found = hold(rod, rod.displacement(state.c))
    np.testing.assert_allclose(found.c, state.c, atol=1e-9)
    assert not found.determined or not found.taut.all()
    np.testing.assert_allclose(found.tension @ [1, -1], 1.0, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"displacement": [0.0]},
        {"displacement": [math.inf, 0, 0, 0, 0]},
        {"displacement": [NAN] * 5, "tension": [-1.0, 0, 0, 0, 0]},
        {"displacement": [NAN] * 5, "tension": [NAN, 0, 0, 0, 0]},
        {"displacement": [0.0] * 5, "stiffness": -1.0},
        {"displacement": [0.0] * 5, "stiffness": NAN},
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ParameterError):
        hold(problem(), **wrong)


# --- mixed data


def test_a_shape_from_a_little_of_everything():
    plain = cantilever(basis(3, shear_order=1, extension_order=1), TENDONS).description
    rod = Rod(dataclasses.replace(plain, string_paths=(path(angle_rad=0.7, end_m=0.2),)), loads=SIDE)
    tension = np.array([1.0, 0.0, 0.0, 2.0, 0.5])
    state = rest(rod, tension)
    q = rod.displacement(state.c)
    data = ShapeData(
        tension=[1.0, NAN, 0.0, NAN, NAN],
        displacement=[q[0], NAN, NAN, q[3], q[4]],
        string_extension=rod.strings.displacement(state.c),
        positions=[(LENGTH_M, rod.poses(state.c, LENGTH_M)[0, :3, 3])],
    )
    found = fit_shape(rod, data)
    poses, expected = (rod.poses(c, [0.1, LENGTH_M]) for c in (found.c, state.c))
    np.testing.assert_allclose(poses, expected, atol=2e-3)
    assert np.abs(found.residuals).max() < 0.1
    assert (found.tension >= 0).all()
    assert found.unbalanced_rad < 0.02


def test_what_is_measured_counts_by_its_precision():
    """After an unknown push the shape follows the positions, and reports how much it had to assume."""
    rod = cantilever(basis(2, shear_order=None, extension_order=None), TENDONS)
    pushed = rest(rod, [1.0, 0, 0, 0, 0], [PointWrench(s_m=LENGTH_M, force_n=(0.0, 0.1, 0.0))])
    tip = rod.poses(pushed.c, LENGTH_M)[0, :3, 3]
    alone = rod.poses(rest(rod, [1.0, 0, 0, 0, 0]).c, LENGTH_M)[0, :3, 3]
    errors = {}
    for sigma in (1e-4, 1.0):
        data = ShapeData(tension=[1.0, 0, 0, 0, 0], positions=[(LENGTH_M, tip)], position_sigma_m=sigma)
        found = fit_shape(rod, data)
        errors[sigma] = np.linalg.norm(rod.poses(found.c, LENGTH_M)[0, :3, 3] - tip)
        assert np.all(np.linalg.eigvalsh(found.covariance) > -1e-9)
        assert (found.unbalanced_rad > 0.1) == (sigma < 1)
    assert errors[1e-4] < 3e-4
    np.testing.assert_allclose(errors[1.0], np.linalg.norm(alone - tip), rtol=0.05)
    assert 0.1 * LENGTH_M**3 / (3 * BENDING_NM2) > errors[1.0] > 0.01


@pytest.mark.parametrize("wrong", [{"tension": [1.0]}, {"displacement": [math.inf] * 5}, {"string_extension": [0.0]}])
def test_wrong_data_are_refused(wrong):
    with pytest.raises(ParameterError):
        fit_shape(problem(), ShapeData(**wrong))
