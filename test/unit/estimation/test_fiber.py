# SPDX-License-Identifier: Apache-2.0
"""Curvatures of a fibre among the sensors of the shape: against the shapes that they come from."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import ShapeEstimator, sensor_accuracy
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import Fiber
from continuum_robot.rod.fiber import curvature_lever_m2, curvature_matrix, segment_at
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod

GRATINGS = 6


def with_fiber(name: str, *, basis: Basis | None = None, count: int = GRATINGS) -> Robot:
    robot = load_robot(name)
    places = tuple(np.linspace(0.02 * robot.length_m, 0.98 * robot.length_m, count).tolist())
    segments = robot.segments
    if basis is not None:
        segments = tuple(dataclasses.replace(segment, basis=basis) for segment in segments)
    return robot.changed(segments=segments, fiber=Fiber(gratings_m=places))


@pytest.fixture(scope="module")
def bent() -> Robot:
    """A robot whose tendons alone do not see how its bending is spread."""
    return with_fiber("opencr_five_tendon", basis=Basis(kind="chebyshev_bending", order=2)).changed(strings=())


@pytest.mark.parametrize("name", ["two_segment", "rucker_helical", "mixed_routing"])
def test_its_curvatures_are_those_of_the_rods_frames(name):
    """Turn from shortly before a grating to shortly behind it, over that length; bending alone: nothing twists."""
    robot = with_fiber(name)
    rod, h = Rod(robot), 1e-4
    rows = np.concatenate([segment.basis.rows for segment in robot.segments])
    c = np.where(rows < 2, np.random.default_rng(3).normal(size=rod.n), 0.0)
    found = (curvature_matrix(robot) @ c).reshape(-1, 2)
    for (about_x, about_y), s_m in zip(found, robot.fiber.gratings_m, strict=True):
        before, behind = rod.poses(c, [s_m - h, s_m + h])[:, :3, :3]
        turn = before.T @ behind
        assert turn[2, 1] - turn[1, 2] == pytest.approx(4 * h * about_x, abs=1e-7)
        assert turn[0, 2] - turn[2, 0] == pytest.approx(4 * h * about_y, abs=1e-7)


def test_a_grating_where_segments_meet_is_on_the_first():
    robot = load_robot("two_segment")
    first_m = robot.segments[0].length_m
    assert [segment_at(robot, s_m) for s_m in (0.0, first_m, first_m + 1e-6, robot.length_m)] == [0, 0, 1, 1]


def test_they_see_coefficients_that_tendons_do_not(bent):
    with pytest.raises(ParameterError, match="kappa_x1"):
        ShapeEstimator(bent.changed(fiber=None))
    estimator, rod = ShapeEstimator(bent), Rod(bent)
    c = np.random.default_rng(5).normal(size=rod.n)
    curvature = curvature_matrix(bent) @ c
    found = estimator.update(rod.displacement(c), None, None, 0.0, None, curvature)
    np.testing.assert_allclose(found.coefficients, c, atol=1e-9)
    assert found.sensor_count == bent.tendon_count + 2 * GRATINGS
    np.testing.assert_allclose(found.tip, rod.poses(c, [rod.length_m])[0], atol=1e-9)


def test_gratings_that_are_lost_leave_the_rest(bent):
    estimator, rod = ShapeEstimator(bent), Rod(bent)
    c = np.random.default_rng(6).normal(size=rod.n)
    curvature = curvature_matrix(bent) @ c
    curvature[:6] = np.nan
    found = estimator.update(rod.displacement(c), None, None, 0.0, None, curvature)
    np.testing.assert_allclose(found.coefficients, c, atol=1e-8)
    unobservable = estimator.update(rod.displacement(c), None)
    assert unobservable.is_unobservable
    assert "fiber/grating_1.kappa_x" in unobservable.unobservable[0]


def test_noise_and_errors_are_as_large_as_is_reported(bent):
    """Many draws of the sensors' errors against the covariance of the estimate, and against their accuracy."""
    estimator, rod = ShapeEstimator(bent), Rod(bent)
    rng, c = np.random.default_rng(7), np.zeros(rod.n)
    errors = []
    for _ in range(400):
        pulled = estimator.settings.tendon_sigma_m * rng.standard_normal(bent.tendon_count)
        curvature = bent.fiber.sigma_per_m * rng.standard_normal(2 * GRATINGS)
        found = estimator.update(pulled, None, None, 0.0, None, curvature)
        errors.append(found.coefficients - c)
    spread = np.sqrt(np.mean(np.square(errors), axis=0))
    np.testing.assert_allclose(spread, np.sqrt(np.diag(found.covariance)), rtol=0.15)
    np.testing.assert_allclose(spread, sensor_accuracy(bent).coefficient_error_per_m, rtol=0.15)


def test_tendons_and_strings_are_watched_without_it():
    """What a touch does between them is no reason to call one broken; a string that snaps is."""
    robot = with_fiber("vanderbilt_segment")
    estimator, rod = ShapeEstimator(robot, watch=WatchSettings()), Rod(robot)
    assert estimator.watch is not None
    assert ShapeEstimator(robot.changed(strings=(), fiber=robot.fiber), watch=WatchSettings()).watch is None
    c, broken = np.zeros(rod.n), ()
    for k in range(100):
        c[:2] = 0.5 * np.sin(0.05 * k), 0.4 * np.cos(0.04 * k)
        curvature = curvature_matrix(robot) @ c + (5.0 if k > 30 else 0.0)
        strings = rod.strings.displacement(c)
        if k > 60:
            strings[0] += 0.02
        broken = estimator.update(rod.displacement(c), None, strings, 0.01, None, curvature).broken
        assert k > 60 or not broken
    assert any(robot.strings[0].name in sentence for sentence in broken)


@pytest.mark.parametrize("name", ["rucker_helical", "mixed_routing"])
def test_a_load_that_nobody_told_shows_in_the_curvatures(name):
    """On rods of any strain: with the fibre the tip is closer to where a load at half the length bends it."""
    robot = with_fiber(name, count=12)
    rod = Rod(robot)
    tension = np.full(robot.tendon_count, 1.0)
    load = PointWrench(s_m=0.5 * rod.length_m, force_n=(0.15, 0.1, 0.0))
    loaded = rod.loaded([load]).equilibrium(tension).c
    true_m = rod.poses(loaded, [rod.length_m])[0, :3, 3]
    spools = rod.displacement(loaded) + tension / robot.tendon_stiffness_n_per_m
    strings = rod.strings.displacement(loaded)
    missed_m = []
    for curvature in (None, curvature_matrix(robot) @ loaded):
        estimator = ShapeEstimator(robot)
        for _ in range(3):
            found = estimator.update(spools, np.zeros(robot.tendon_count), strings, 0.01, tension, curvature)
        missed_m.append(float(np.linalg.norm(found.tip[:3, 3] - true_m)))
    assert missed_m[1] < 0.5 * missed_m[0]
    assert missed_m[1] < 1e-3


def test_what_cannot_be_is_refused(bent):
    with pytest.raises(RobotFileError, match="gratings_m"):
        Fiber(gratings_m=(0.1, 0.05))
    with pytest.raises(RobotFileError, match="at most the robot's length"):
        bent.changed(fiber=Fiber(gratings_m=(10.0,)))
    with pytest.raises(RobotFileError, match="no backbone"):
        load_robot("rolling_five_link").changed(fiber=Fiber(gratings_m=(0.01,)))
    with pytest.raises(ParameterError, match="two a grating"):
        ShapeEstimator(bent).update(np.zeros(5), None, None, 0.0, None, np.zeros(3))
    assert curvature_lever_m2(bent.changed(fiber=None)).size == 0
