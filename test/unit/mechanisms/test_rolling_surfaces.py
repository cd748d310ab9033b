# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from rolling import arc, chain

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.mechanisms.rolling_joint.linkage import Link, Linkage
from continuum_robot.mechanisms.rolling_joint.surfaces import (
    CurvaturePiece,
    IntersectingSurfacesError,
    OffSurfaceError,
    SurfaceError,
    from_curvature,
    spline,
)

LIMITS = (-0.015, 0.015)


def clothoid():
    return from_curvature([CurvaturePiece(-0.02, 0.02, (-20.0, 900.0, 5e4))], [0.001, 0.01], 0.2)


def test_an_arc_is_a_circle():
    surface = arc(-50.0, LIMITS, [0.0, 0.01])
    s = np.linspace(*LIMITS, 101)
    x, y, heading, curvature = surface.frame(s).T
    np.testing.assert_allclose(np.hypot(x, y + 0.01), 0.02, rtol=1e-12)
    np.testing.assert_allclose(heading, -50 * s, atol=1e-12)
    np.testing.assert_allclose(curvature, -50.0, rtol=1e-9)


@pytest.mark.parametrize("make", [clothoid, lambda: arc(0.0, LIMITS, [0.0, 0.0], 0.3)])
def test_surfaces_have_unit_speed_and_their_curvature(make):
    surface = make()
    low, high = surface.limits_m
    s, h = np.linspace(low + 1e-4, high - 1e-4, 57), 1e-5
    slope = (surface.frame(s + h) - surface.frame(s - h)) / (2 * h)
    heading = surface.frame(s)[:, 2]
    np.testing.assert_allclose(slope[:, 0], np.cos(heading), atol=1e-7)
    np.testing.assert_allclose(slope[:, 1], np.sin(heading), atol=1e-7)
    np.testing.assert_allclose(slope[:, 2], surface.frame(s)[:, 3], rtol=1e-5, atol=1e-4)


def test_curvature_may_jump_and_the_right_side_counts():
    pieces = [CurvaturePiece(-0.015, 0.0, (-30.0,)), CurvaturePiece(0.0, 0.015, (50.0,))]
    surface = from_curvature(pieces, [0.0, -0.01], -0.3)
    assert surface.frame(0.0)[3] == pytest.approx(50.0)
    assert surface.frame(-1e-9)[3] == pytest.approx(-30.0)
    np.testing.assert_allclose(surface.frame(-0.01)[2], -0.3 + 0.3, atol=1e-12)
    np.testing.assert_allclose(surface.frame(0.0)[:3], [0.0, -0.01, -0.3], atol=1e-15)


def test_splines_and_sampled_points_become_the_curve_they_were_taken_from():
    curve = clothoid()
    s = np.linspace(-0.018, 0.018, 200)
    points = curve.frame(s)[:, :2]
    through = spline(points, curve.point(0.0))
    inside = np.linspace(-0.014, 0.014, 41)
    np.testing.assert_allclose(through.frame(inside)[:, :2], curve.frame(inside)[:, :2], atol=1e-9)
    np.testing.assert_allclose(through.frame(inside)[:, 3], curve.frame(inside)[:, 3], atol=0.2)
    noisy = points + np.random.default_rng(1).normal(scale=2e-6, size=points.shape)
    smooth = spline(noisy, curve.point(0.0), deviation_m=3e-6)
    np.testing.assert_allclose(smooth.frame(inside)[:, :2], curve.frame(inside)[:, :2], atol=1e-5)
    np.testing.assert_allclose(smooth.frame(inside)[:, 2], curve.frame(inside)[:, 2], atol=5e-3)


def test_beyond_the_end_of_a_surface_is_an_error():
    surface = arc(-50.0, LIMITS, [0.0, 0.01])
    for s in (-0.0151, 0.02, np.nan):
        with pytest.raises(OffSurfaceError, match="on the surface"):
            surface.frame(s)
    with pytest.raises(OffSurfaceError, match="joint 2"):
        chain(4).poses([0.0, 0.016, 0.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_curvature([], [0, 0]),
        lambda: from_curvature([CurvaturePiece(0.001, 0.01, (0.0,))], [0, 0]),
        lambda: from_curvature([CurvaturePiece(-1, 0, (0.0,)), CurvaturePiece(0.1, 1, (0.0,))], [0, 0]),
        lambda: from_curvature([CurvaturePiece(-1, 1, (np.nan,))], [0, 0]),
        lambda: from_curvature([CurvaturePiece(-1, 1, (0.0, 0.0, 0.0, 0.0, 0.0, 1.0))], [0, 0]),
        lambda: spline(np.zeros((3, 2))),
        lambda: spline(np.zeros((6, 2))),
        lambda: spline(np.full((6, 2), np.inf)),
    ],
)
def test_impossible_surfaces_are_named(make):
    with pytest.raises(SurfaceError):
        make()


def test_surfaces_that_intersect_or_lie_flat_on_each_other_are_refused():
    chain(3, lower=-50.0, upper=-49.0)
    for upper in (-51.0, -50.0):
        with pytest.raises(IntersectingSurfacesError, match="joint 1"):
            chain(3, lower=-50.0, upper=upper)
    assert issubclass(IntersectingSurfacesError, ContinuumRobotError)


def test_links_that_do_not_fit_are_refused():
    link = chain(2).links[0]
    with pytest.raises(ParameterError, match="two links"):
        Linkage([link])
    with pytest.raises(ParameterError, match="link 2"):
        Linkage([link, dataclasses.replace(link, parent_entries_m=np.zeros(2))])
    short = dataclasses.replace(link, parent=from_curvature([CurvaturePiece(-1e-9, 0.01, (30.0,))], [0, -0.01]))
    assert isinstance(short, Link)


def test_rolling_moves_the_upper_link_about_the_contact():
    """The upper surface touches the lower one at the contact, with a common tangent; nothing slips."""
    linkage = chain(3)
    contact = np.array([0.004, -0.007])
    poses = linkage.poses(contact)
    for k, s in enumerate(contact):
        for index, surface in ((k, linkage.links[k].child), (k + 1, linkage.links[k + 1].parent)):
            x, y, angle = poses[index]
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            frame = surface.frame(s)
            point, heading = turn @ frame[:2] + [x, y], frame[2] + angle
            if index == k:
                below = point, heading
            else:
                np.testing.assert_allclose(point, below[0], atol=1e-15)
                np.testing.assert_allclose(heading, below[1], atol=1e-14)
