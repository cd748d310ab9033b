# SPDX-License-Identifier: Apache-2.0
"""Sensitivities and workspaces of the general rod."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from strain_rods import BENDING_NM2, EXTENSION_N, LENGTH_M, SHEAR_N, TORSION_NM2, basis, cantilever, crooked_rod, rest

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.design import antagonistic_tensions, sensitivity, workspace, workspace_tensions
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod


def test_compliance_of_a_straight_cantilever():
    found = sensitivity(rest(cantilever(basis(2))))
    bend, slope = LENGTH_M**3 / (3 * BENDING_NM2) + LENGTH_M / SHEAR_N, LENGTH_M**2 / (2 * BENDING_NM2)
    expected = np.diag([bend, bend, LENGTH_M / EXTENSION_N, *[LENGTH_M / BENDING_NM2] * 2, LENGTH_M / TORSION_NM2])
    expected[0, 4] = expected[4, 0] = slope
    expected[1, 3] = expected[3, 1] = -slope
    np.testing.assert_allclose(found.compliance, expected, atol=1e-12)
    stiffness, axes = found.ellipsoid
    np.testing.assert_allclose(stiffness, [EXTENSION_N / LENGTH_M, 1 / bend, 1 / bend], rtol=1e-9)
    np.testing.assert_allclose(np.abs(axes[:, 0]), [0, 0, 1], atol=1e-9)


def test_sensitivities_are_differences_of_equilibria():
    rod, tension = crooked_rod(), np.array([1.0, 0.5, 0.3, 0.7])
    load = PointWrench(s_m=0.3, force_n=(0.05, 0.0, 0.02))
    state = rest(rod, tension, [load])
    place, step = 0.42, 1e-5
    found = sensitivity(state, place)
    pose = rod.poses(state.c, place)[0]

    def twist(other):
        moved = rod.poses(other.c, place)[0]
        own = se3.log(se3.inverse(pose) @ moved) / step
        return np.concatenate([pose[:3, :3] @ own[:3], pose[:3, :3] @ own[3:]])

    for j, unit in enumerate(np.eye(4)):
        other = rest(rod, tension + step * unit, [load], start=state.c)
        np.testing.assert_allclose(
            found.twist_per_tension[:, j], twist(other), atol=1e-3 * abs(found.twist_per_tension).max()
        )
        drawn = (rod.displacement(other.c) - rod.displacement(state.c)) / step
        np.testing.assert_allclose(found.displacement_per_tension[:, j], drawn, atol=1e-6)
    for k, unit in enumerate(np.eye(6)):
        extra = PointWrench(s_m=place, force_n=tuple(step * unit[:3]), moment_nm=tuple(step * unit[3:]))
        other = rest(rod, tension, [load, extra], start=state.c)
        np.testing.assert_allclose(found.compliance[:, k], twist(other), atol=2e-3 * abs(found.compliance).max())
    np.testing.assert_allclose(found.compliance, found.compliance.T, atol=1e-10)
    np.testing.assert_allclose(found.displacement_per_tension, found.displacement_per_tension.T, atol=1e-10)


def test_helical_tendons_keep_the_tip_upright():
    """rucker fig. 2: the two designs differ significantly in tip orientation capability."""
    spaces = {}
    for name in ("rucker", "rucker_helical"):
        robot = load_robot(name)
        rod = Rod(robot).with_gravity((0.0, 0.0, 0.0))
        spaces[name] = workspace(rod, workspace_tensions(robot, 5.0, 64))
    straight, helical = spaces["rucker"], spaces["rucker_helical"]
    assert straight.failed == helical.failed == straight.unstable == helical.unstable == 0
    assert straight.not_represented == helical.not_represented == straight.snapped == 0
    assert straight.tilt_rad.max() > math.radians(140)
    assert helical.tilt_rad.max() < math.radians(20)
    # Without gravity four tendons give four-fold symmetry.
    reach = np.linalg.norm(helical.tip[1:, :2, 3], axis=1).reshape(4, -1)
    np.testing.assert_allclose(reach, np.tile(reach[:1], (4, 1)), rtol=1e-5)


def test_tensions_reach_around_and_stay_in_their_range():
    tensions = antagonistic_tensions(3, 7.0, 4, 12)
    assert tensions.shape == (49, 3)
    assert tensions.min() >= 0
    assert np.isclose(tensions.max(axis=1)[1:].reshape(12, 4), 7.0 * np.arange(1, 5) / 4).all()
    assert ((tensions > 0).sum(axis=1) <= 2).all()
    for name, count in (("two_segment", 10), ("rucker", 6)):
        robot = load_robot(name)
        for routed in (False, True):
            several = workspace_tensions(robot, 3.0, 50, routed=routed)
            assert several.shape[1] == count
            assert 0 <= several.min() <= several.max() <= 3.0
            assert several[:, 4:6].any() == (routed or name == "two_segment")


def test_a_robot_of_routed_tendons_alone_has_a_workspace():
    """It was refused: there are no rays around a segment without tendons."""
    robot = load_robot("rucker")
    segment = replace(robot.segments[0], tendons=replace(robot.segments[0].tendons, count=0))
    alone = replace(robot, segments=(segment,))
    tensions = workspace_tensions(alone, 2.0, 20)
    assert tensions.shape == (20, 2)
    assert (tensions > 0).any(axis=0).all()
    assert workspace(Rod(alone), tensions).failed == 0


@pytest.mark.parametrize("wrong", [(0, 1.0, 1, 1), (3, 0.0, 1, 1), (3, 1.0, 0, 1), (3, 1.0, 1, 0), (3, math.nan, 1, 1)])
def test_wrong_ranges_are_refused(wrong):
    with pytest.raises(ParameterError):
        antagonistic_tensions(*wrong)


def test_a_workspace_counts_what_it_could_not_find():
    rod = cantilever(basis(2))
    space = workspace(rod.loaded([PointWrench(s_m=LENGTH_M, force_n=(0, 0, -1e15))]), np.zeros((3, 0)))
    assert space.failed + space.unstable + space.not_represented >= 3
