# SPDX-License-Identifier: Apache-2.0
"""Frames of the general rod: exact derivatives, known curves, order of convergence."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from strain_rods import basis, cantilever, crooked_rod, derivative, some_coefficients, rest

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod import step
from continuum_robot.rod.code.batches import compile_batches
from continuum_robot.rod.strain.kinematics import MagnusChain, Stretch, hat, lobatto
from continuum_robot.rod.rod import Rod


def ad(twist):
    """Matrix of the bracket with a twist, angular part first."""
    matrix = np.zeros((6, 6))
    matrix[:3, :3] = matrix[3:, 3:] = hat(twist[:3])
    matrix[3:, :3] = hat(twist[3:])
    return matrix


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
    np.testing.assert_allclose(frames.jacobian[:, :3], angular, atol=1e-10)
    carried = np.cross(angular, frames.position[:, :, None], axis=1)
    np.testing.assert_allclose(frames.jacobian[:, 3:], velocity - carried, atol=1e-10)


def test_contraction_is_the_derivative_of_the_jacobian(case):
    _, chain, c = case
    wrench = np.random.default_rng(2).normal(size=(len(chain.s_m), 6))
    exact = derivative(lambda x: np.tensordot(wrench, chain.frames(x).jacobian, axes=([0, 1], [0, 1])), c)
    np.testing.assert_allclose(chain.contraction(chain.frames(c), wrench), exact, atol=1e-9 * np.abs(exact).max())


def test_compiled_code_and_virtual_machine_agree(case, monkeypatch):
    _, chain, c = case
    wrench = np.random.default_rng(3).normal(size=(len(chain.s_m), 6))
    monkeypatch.setattr(step, "compile_batches", lambda functions, _: compile_batches(functions, "", compile="never"))
    plain = MagnusChain.__new__(MagnusChain)
    plain.__dict__.update(chain.__dict__)
    functions = step.step_functions.__wrapped__()
    assert not functions["rod_spread"].compiled
    plain._spread, plain._curvature = functions["rod_spread"], functions["rod_curvature"]
    native, slow = chain.frames(c), plain.frames(c)
    for field in dataclasses.fields(native):
        np.testing.assert_allclose(getattr(native, field.name), getattr(slow, field.name), atol=1e-13)
    np.testing.assert_allclose(chain.contraction(native, wrench), plain.contraction(slow, wrench), atol=1e-12)


def test_a_step_is_the_closed_form_of_the_exponential_and_its_derivative():
    """exp' exp^-1 = T Omega' with T = 1 + a_1 ad + .. + a_4 ad^4, entire functions a_k of the angle."""
    strain = np.random.default_rng(9).normal(size=step.NODAL)
    frame = np.concatenate([np.eye(3).reshape(-1), np.zeros(3)])
    after, moved, own = (
        value[-1] for value in step.step_functions()["rod_spread"].chained(frame, strain[None], np.full((1, 1), 0.4))
    )
    mean = [strain[:6], strain[6:12], strain[12:]]
    first, slope, curve = (
        0.4 * mean[1],
        math.sqrt(15) / 3 * 0.4 * (mean[2] - mean[0]),
        10 / 3 * 0.4 * (mean[2] - 2 * mean[1] + mean[0]),
    )
    inner = -ad(first) @ slope
    omega = first + curve / 12 - ad(inner - 20 * first - curve) @ (slope + ad(first) @ (2 * curve + inner) / 60) / 240
    pose = se3.exp(np.roll(omega, 3))
    np.testing.assert_allclose(after[:9].reshape(3, 3).T, pose[:3, :3], atol=1e-13)
    np.testing.assert_allclose(after[9:], pose[:3, 3], atol=1e-13)
    angle, one = float(np.linalg.norm(omega[:3])), ad(omega)
    sine, cosine = math.sin(angle), math.cos(angle)
    a = [
        (4 - 4 * cosine - angle * sine) / (2 * angle**2),
        (4 * angle - 5 * sine + angle * cosine) / (2 * angle**3),
        (2 - 2 * cosine - angle * sine) / (2 * angle**4),
        (2 * angle - 3 * sine + angle * cosine) / (2 * angle**5),
    ]
    tangent = np.eye(6) + sum(
        (factor * np.linalg.matrix_power(one, k + 1) for k, factor in enumerate(a)), np.zeros((6, 6))
    )
    np.testing.assert_allclose(moved, tangent @ own, atol=1e-12)


def test_constant_strain_gives_one_exponential():
    rod = cantilever(basis(0))
    c = np.array([5.0, -3.0, 8.0, 0.05, -0.02, 0.1])
    twist = np.array([0.05, -0.02, 1.1, 5.0, -3.0, 8.0])
    for s in (0.0, 0.1, rod.length_m):
        np.testing.assert_allclose(rod.poses(c, s)[0], se3.exp(s * twist), atol=1e-14)


def test_error_falls_with_the_sixth_power_of_the_step():
    chosen = basis(4, shear_order=None, extension_order=None)
    c = some_coefficients(cantilever(chosen), 4, 2.0)
    exact = cantilever(chosen, nodes=200).poses(c, 0.25)[0]
    errors = [np.abs(cantilever(chosen, nodes=k).poses(c, 0.25)[0] - exact).max() for k in (8, 16, 32)]
    assert errors[0] / errors[1] > 45
    assert errors[1] / errors[2] > 45
    assert errors[2] < 1e-7


def test_more_stations_hardly_move_the_frames():
    rod = crooked_rod()
    c = some_coefficients(rod, 5, 0.5)
    alone = rod.poses(c, [rod.length_m])[0]
    among = rod.poses(c, [*np.linspace(0, rod.length_m, 37), rod.length_m])[-1]
    np.testing.assert_allclose(alone, among, atol=1e-6)
    assert 1e-11 < rod.kinematic_error_m(c) < 1e-6


def test_body_jacobian_moves_the_pose():
    rod = crooked_rod()
    c, step = some_coefficients(rod, 6), 1e-6
    jacobian = rod.jacobian(c, 0.33)
    pose = rod.poses(c, 0.33)[0]
    for index, unit in enumerate(np.eye(rod.n)):
        moved = rod.poses(c + step * unit, 0.33)[0]
        twist = se3.log(se3.inverse(pose) @ moved) / step
        np.testing.assert_allclose(twist, jacobian[:, index], atol=2e-6)


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
        rod.poses(np.zeros(rod.n), s)


@pytest.mark.parametrize("wrong", [[0.0], np.full(15, np.nan)])
def test_wrong_coefficients_are_refused(wrong):
    with pytest.raises(ParameterError, match="finite coefficients"):
        crooked_rod().poses(wrong, 0.1)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_segment", "rucker"])
def test_bending_beyond_the_reach_of_the_frames_is_refused(name):
    rod = Rod(load_robot(name))
    length_m, straight = rod.segments[0].length_m, np.zeros(rod.n)
    for angle_rad in np.linspace(2.0, 60.0, 30):
        c = straight.copy()
        c[1] = angle_rad / length_m
        try:
            pose = rod.poses(c, [length_m])[0]
        except ParameterError:
            break
        np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-10)
        turned = [1 - np.cos(angle_rad), 0.0, np.sin(angle_rad)]
        np.testing.assert_allclose(pose[:3, 3], length_m / angle_rad * np.array(turned), atol=1e-10)
    else:
        pytest.fail("nothing was refused")
    assert angle_rad > 15
    for refuse in (lambda: rod.poses(c, [length_m]), lambda: rod.moved(c, length_m), lambda: rod.mass_matrix(c)):
        with pytest.raises(ParameterError, match="bending and torsion of segment 1"):
            refuse()


def test_statics_that_bend_beyond_the_reach_are_refused():
    robot = load_robot("opencr_five_tendon")
    rod = Rod(robot).with_gravity([0.0, 0.0, 0.0])
    with pytest.raises(ParameterError, match="at most"):
        rest(rod, [45.0, 0.0, 0.0, 0.0, 0.0], start=[0.0, 110.0])
