# SPDX-License-Identifier: Apache-2.0
"""Tip targets of a segment with equilibrium modulation: what is in reach, what is met, what is reported."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.control.tip.approach import (
    LOST,
    MOVING,
    REACHED,
    STOPPED,
    ApproachSettings,
    TipApproach,
    approach_parameters,
    largest_bend_rad,
)
from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce, jacobians
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

FRAME_S = 0.02
ROBOT = load_robot("crem_segment")
SEGMENT, ERROR = make_segment(ROBOT.mechanism), make_moment_error(ROBOT.mechanism)
QUICK = dataclasses.replace(approach_parameters(ROBOT), rest_samples=4, trim_steps=4, micro_gain_per_s=2.0)


@pytest.fixture
def approach():
    return TipApproach(ROBOT, QUICK, ApproachSettings(average_s=0.5, settle_s=1.0))


def tip(theta, delta, depth):
    return jacobians(SEGMENT, theta, delta, depth, ERROR).pose[:3, 3]


def run(approach, steps, *, until=None):
    """Ideal drives with steps of their own, a camera without noise."""
    manifold, step = clarke_manifold(ROBOT), ROBOT.mechanism.macro_resolution_m
    coordinate, all_progress = np.zeros(3), []
    for _ in range(steps):
        displacement = np.round(manifold.displacement(coordinate)[:3] / step) * step
        theta, delta = SEGMENT.configuration(displacement)
        progress = approach.update(tip(theta, delta, coordinate[2]), FRAME_S)
        coordinate = progress.coordinate_m
        all_progress.append(progress)
        if progress.state == until:
            break
    return all_progress


@pytest.mark.parametrize("target", [(np.pi / 4, 0.3, 0.012), (1.4, 2.0, 0.01), (0.4, -2.5, 0.005)])
def test_the_nearest_place_to_one_in_reach_is_that_place(approach, target):
    place = tip(*target)
    reach = approach.nearest(place)
    assert reach.miss_m < 1e-9
    np.testing.assert_allclose(reach.displacement_m, SEGMENT.backbone_displacement_m(*target[:2]), atol=2e-6)


def test_from_straight_to_a_micrometre(approach):
    target = tip(np.deg2rad(50), 0.7, 0.012)
    approach.begin(target, np.zeros(3))
    progress = run(approach, 1500, until=REACHED)
    assert progress[-1].state == REACHED
    assert progress[-1].distance_m < 1e-6
    assert {one.phase for one in progress} == {"macro", "trim", "micro"}
    depths = np.array([one.coordinate_m[2] for one in progress])
    assert depths.max() <= QUICK.insertion_high_m
    assert not any(one.message for one in progress)


def test_a_target_off_the_surface_is_approached_and_the_rest_is_said(approach):
    inside = tip(np.deg2rad(50), 0.7, 0.012)
    # Radially, almost along the normal of the surface of tips.
    approach.begin(inside * (1 - 3e-4 / np.linalg.norm(inside)), np.zeros(3))
    progress = run(approach, 3000, until=STOPPED)
    assert progress[-1].state == STOPPED
    assert 1e-5 < progress[-1].distance_m < 3e-4
    assert "um short" in progress[-1].message


def test_the_bend_ends_where_the_limits_do():
    robot = ROBOT.changed(limits=dataclasses.replace(ROBOT.limits, maximum_n=30.0))
    parameters = dataclasses.replace(QUICK, displacement_high_m=0.003 * largest_bend_rad(robot))
    # The middle backbones of both sides share what the direction asks for; the worst direction holds.
    force = ModulationForce(robot).stiffness_n_per_m * parameters.displacement_high_m
    assert force * np.sqrt(3) * 2 / 3 <= 0.9 * 30.0 - robot.control.pretension_n + 1e-9
    approach = TipApproach(robot, parameters, ApproachSettings(reach_tolerance_m=1.0))
    approach.begin(tip(np.deg2rad(20), 0.7, 0.012), np.zeros(3))
    progress = run(approach, 400)
    largest = max(np.abs(clarke_manifold(ROBOT).displacement(one.coordinate_m)[:3]).max() for one in progress)
    assert largest <= parameters.displacement_high_m * (1 + 1e-9) + ROBOT.mechanism.macro_resolution_m
    assert any("largest displacement" in one.message for one in progress)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ((0, 0, 0.06), "on its surface, is 15.700 mm away"),
        ((0.045, 0, 0.02), "at the largest bend"),
        ((0, np.inf, 0), "finite"),
        ((0, 0), "finite"),
    ],
)
def test_targets_out_of_reach_are_refused_by_where_the_reach_ends(approach, target, words):
    with pytest.raises(ParameterError, match=words):
        approach.begin(target, np.zeros(3))
    assert approach.target_m is None
    with pytest.raises(ParameterError, match="tip_target"):
        approach.update(np.zeros(3), FRAME_S)


def test_a_tip_that_is_not_seen_lets_all_stand(approach):
    approach.begin(tip(np.deg2rad(50), 0.7, 0.012), np.zeros(3))
    moving = run(approach, 20)[-1]
    lost = approach.update(np.full(3, np.nan), FRAME_S)
    assert (moving.state, lost.state) == (MOVING, LOST)
    np.testing.assert_array_equal(lost.coordinate_m, moving.coordinate_m)
    with pytest.raises(ParameterError, match="coordinate_m"):
        approach.begin(tip(np.deg2rad(50), 0.7, 0.012), [0.0, np.nan, 0.0])
