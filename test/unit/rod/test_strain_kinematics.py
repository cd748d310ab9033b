# SPDX-License-Identifier: Apache-2.0
"""Frames of the general rod: exact derivatives, known curves, order of convergence."""

from __future__ import annotations

import numpy as np
import pytest
from strain_rods import basis, cantilever, crooked_rod, rest, some_coefficients

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod


def test_constant_strain_gives_one_exponential():
    rod = cantilever(basis(0))
    c = np.array([5.0, -3.0, 8.0, 0.05, -0.02, 0.1])
    twist = np.array([0.05, -0.02, 1.1, 5.0, -3.0, 8.0])
    for s in (0.0, 0.1, rod.length_m):
        np.testing.assert_allclose(rod.poses(c, s)[0], se3.exp(s * twist), atol=1e-14)


def test_error_falls_with_the_sixth_power_of_the_step():
    chosen = basis(4, shear_order=None, extension_order=None)
    c = some_coefficients(cantilever(chosen), 4, 2.0)
    exact = cantilever(chosen, nodes=48).poses(c, 0.25)[0]
    errors = [np.abs(cantilever(chosen, nodes=k).poses(c, 0.25)[0] - exact).max() for k in (8, 12, 16, 24)]
    assert errors[0] / errors[2] > 45
    assert errors[1] / errors[3] > 45
    assert errors[3] < 1e-6


def test_more_stations_hardly_move_the_frames():
    rod = crooked_rod()
    c = some_coefficients(rod, 5, 0.5)
    alone = rod.poses(c, [rod.length_m])[0]
    among = rod.poses(c, [*np.linspace(0, rod.length_m, 37), rod.length_m])[-1]
    np.testing.assert_allclose(alone, among, atol=1e-6)
    assert 1e-11 < rod.error_m(c) < 1e-6


def test_body_jacobian_moves_the_pose():
    rod = crooked_rod()
    c, step = some_coefficients(rod, 6), 1e-6
    jacobian = rod.jacobian(c, 0.33)
    pose = rod.poses(c, 0.33)[0]
    for index, unit in enumerate(np.eye(rod.n)):
        moved = rod.poses(c + step * unit, 0.33)[0]
        twist = se3.log(se3.inverse(pose) @ moved) / step
        np.testing.assert_allclose(twist, jacobian[:, index], atol=2e-6)


@pytest.mark.parametrize("s", [-0.01, 0.51, np.nan])
def test_places_off_the_rod_are_refused(s):
    rod = crooked_rod()
    with pytest.raises(ParameterError, match="arc_lengths_m"):
        rod.poses(np.zeros(rod.n), s)


@pytest.mark.parametrize("wrong", [[0.0], np.full(15, np.nan)])
def test_wrong_coefficients_are_refused(wrong):
    with pytest.raises(ParameterError, match="finite numbers"):
        crooked_rod().poses(wrong, 0.1)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_segment", "rucker"])
def test_bending_beyond_the_reach_of_the_frames_is_refused(name):
    rod = Rod(load_robot(name))
    length_m, straight = rod.description.segments[0].length_m, np.zeros(rod.n)
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
    for refuse in (lambda: rod.poses(c, [length_m]), lambda: rod.moved(c), lambda: rod.jacobian(c, length_m / 3)):
        with pytest.raises(ParameterError, match="bending and torsion of segment 1"):
            refuse()


def test_statics_that_bend_beyond_the_reach_are_refused():
    robot = load_robot("opencr_five_tendon")
    rod = Rod(robot).with_gravity([0.0, 0.0, 0.0])
    with pytest.raises(ParameterError, match="at most"):
        rest(rod, [45.0, 0.0, 0.0, 0.0, 0.0], start=[0.0, 400.0])
