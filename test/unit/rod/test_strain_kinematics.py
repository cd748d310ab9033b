# SPDX-License-Identifier: Apache-2.0
"""Frames of the general rod: exact derivatives, known curves, order of convergence, machine code against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from strain_rods import basis, cantilever, crooked_rod, derivative, some_coefficients

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.rod import strain_kinematics
from continuum_robot.rod.strain_kernel import kernel
from continuum_robot.rod.strain_kinematics import MagnusChain, Stretch, ad, adjoint, co_ad, lobatto


@pytest.fixture(params=[0.01, 1.0, 3.0])
def case(request):
    rod = crooked_rod()
    return rod, rod.chain([0.1, 0.4]), some_coefficients(rod, 1, request.param)


def test_jacobian_is_the_derivative_of_the_frames(case):
    _, chain, c = case
    frames = chain.frames(c)
    turn = derivative(lambda x: chain.frames(x).rotation, c)
    spin = np.einsum("kijn,klj->kiln", turn, frames.rotation)
    velocity = derivative(lambda x: chain.frames(x).position, c)
    angular = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
    np.testing.assert_allclose(frames.jacobian[:, :3], angular, atol=1e-12)
    carried = np.cross(angular, frames.position[:, :, None], axis=1)
    np.testing.assert_allclose(frames.jacobian[:, 3:], velocity - carried, atol=1e-12)


def test_contraction_is_the_derivative_of_the_jacobian(case):
    _, chain, c = case
    wrench = np.random.default_rng(2).normal(size=(len(chain.s_m), 6))
    exact = derivative(lambda x: np.tensordot(wrench, chain.frames(x).jacobian, axes=([0, 1], [0, 1])), c)
    np.testing.assert_allclose(chain.contraction(chain.frames(c), wrench), exact, atol=1e-11 * np.abs(exact).max())


@pytest.mark.skipif(kernel() is None, reason="no C compiler")
def test_machine_code_and_numpy_agree(case):
    _, chain, c = case
    wrench = np.random.default_rng(3).normal(size=(len(chain.s_m), 6))
    native, plain = chain.frames(c), chain._frames(c)
    for field in dataclasses.fields(native):
        if field.name != "powers":
            np.testing.assert_allclose(getattr(native, field.name), getattr(plain, field.name), atol=1e-13)
    np.testing.assert_allclose(chain.contraction(native, wrench), chain.contraction(plain, wrench), atol=1e-12)


def test_frames_of_the_kernel_are_refused_where_it_is_missing(case, monkeypatch):
    _, chain, c = case
    frames = chain.frames(c)
    monkeypatch.setattr(strain_kinematics, "kernel", lambda: None)
    if frames.powers is None:
        with pytest.raises(ParameterError, match="frames"):
            chain.contraction(frames, np.zeros((len(chain.s_m), 6)))


def test_constant_strain_gives_one_exponential():
    rod = cantilever(basis(0))
    c = np.array([5.0, -3.0, 8.0, 0.05, -0.02, 0.1])
    twist = np.array([0.05, -0.02, 1.1, 5.0, -3.0, 8.0])
    for s in (0.0, 0.1, rod.length_m):
        np.testing.assert_allclose(rod.poses(c, s)[0], se3.exp(s * twist), atol=1e-14)


def test_error_falls_with_the_fourth_power_of_the_step():
    chosen = basis(4, shear_order=None, extension_order=None)
    c = some_coefficients(cantilever(chosen), 4, 2.0)
    exact = cantilever(chosen, magnus_steps=200).poses(c, 0.25)[0]
    errors = [np.abs(cantilever(chosen, magnus_steps=k).poses(c, 0.25)[0] - exact).max() for k in (10, 20, 40)]
    assert errors[0] / errors[1] > 12
    assert errors[1] / errors[2] > 12
    assert errors[2] < 1e-5


def test_more_stations_hardly_move_the_frames():
    rod = crooked_rod()
    c = some_coefficients(rod, 5, 0.5)
    alone = rod.poses(c, [rod.length_m])[0]
    among = rod.poses(c, [*np.linspace(0, rod.length_m, 37), rod.length_m])[-1]
    np.testing.assert_allclose(alone, among, atol=1e-5)
    assert 1e-8 < rod.kinematic_error_m(c) < 1e-5


def test_body_jacobian_moves_the_pose():
    rod = crooked_rod()
    c, step = some_coefficients(rod, 6), 1e-6
    jacobian = rod.body_jacobian(c, 0.33)
    pose = rod.poses(c, 0.33)[0]
    for index, unit in enumerate(np.eye(rod.size)):
        moved = rod.poses(c + step * unit, 0.33)[0]
        twist = se3.log(se3.inverse(pose) @ moved) / step
        np.testing.assert_allclose(twist, jacobian[:, index], atol=2e-6)


def test_matrices_of_twists_and_wrenches():
    x, y, wrench = np.random.default_rng(7).normal(size=(3, 6))
    np.testing.assert_allclose(ad(x) @ y, -ad(y) @ x, atol=1e-14)
    np.testing.assert_allclose(wrench @ ad(x) @ y, x @ co_ad(wrench) @ y)
    pose = se3.exp(np.random.default_rng(8).normal(size=6))
    own = adjoint(pose[:3, :3], pose[:3, 3])
    linear_first = np.roll(np.arange(6), 3)
    np.testing.assert_allclose(own[np.ix_(linear_first, linear_first)], se3.adjoint(pose))


@pytest.mark.parametrize("intervals", [1, 2, 5, 12])
def test_lobatto_is_exact_for_polynomials(intervals):
    nodes, weights = lobatto(intervals)
    assert (nodes[0], nodes[-1]) == (0.0, 1.0)
    for power in range(2 * intervals):
        np.testing.assert_allclose(weights @ nodes**power, 1 / (power + 1), rtol=1e-12)


def test_stations_are_found_where_they_were_asked_for():
    places = [0.07, 0.1, 0.3, 0.31, 0.5]
    chain = MagnusChain([Stretch(0.3, basis(2)), Stretch(0.2, basis(0))], places)
    np.testing.assert_allclose(chain.s_m[chain.indices(places)], places, atol=1e-12)
    assert (np.diff(chain.s_m) > 0).all()


@pytest.mark.parametrize("s", [-0.01, 0.51, np.nan])
def test_places_off_the_rod_are_refused(s):
    rod = crooked_rod()
    with pytest.raises(ParameterError, match="arc length"):
        rod.poses(np.zeros(rod.size), s)


@pytest.mark.parametrize("wrong", [[0.0], np.full(15, np.nan)])
def test_wrong_coefficients_are_refused(wrong):
    with pytest.raises(ParameterError, match="finite coefficients"):
        crooked_rod().poses(wrong, 0.1)
