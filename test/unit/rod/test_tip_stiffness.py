# SPDX-License-Identifier: Apache-2.0
"""Compliance of the tip under control: against springs in series by hand, with and without stiffening tendons."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.design import tendon_stiffness, tip_compliance

ROBOT = load_robot("opencr_five_tendon")
WEIGHTLESS = dataclasses.replace(ROBOT, gravity_m_per_s2=(0.0, 0.0, 0.0))
TENSION_N = np.full(5, 4.0)


def stiffening(robot, per_n):
    return dataclasses.replace(robot, simulation=dataclasses.replace(robot.simulation, tendon_stiffening_per_n=per_n))


def by_hand(gain_n_per_m=None):
    """Straight, weightless: rod and tendons in parallel against the bending angle, on a lever of half the length."""
    segment = ROBOT.segments[0]
    rod = segment.backbone.youngs_modulus_pa * np.pi / 64 * segment.backbone.outer_diameter_m**4 / segment.length_m
    per_coordinate = 2.5 * ROBOT.tendon_stiffness_n_per_m  # n/2 of the tendons
    if gain_n_per_m is not None:
        per_coordinate = 1 / (1 / per_coordinate + 1 / gain_n_per_m)
    held = rod + segment.tendons.pitch_radius_m**2 * per_coordinate
    return (segment.length_m / 2) ** 2 / held


def test_the_straight_robot_is_springs_in_series_and_parallel():
    compliance = tip_compliance(WEIGHTLESS, np.zeros(2), TENSION_N)
    assert compliance[0, 0] == pytest.approx(by_hand(), rel=1e-3)
    assert compliance[1, 1] == pytest.approx(by_hand(), rel=1e-3)
    assert abs(compliance[2, 2]) < 1e-12
    softer = tip_compliance(WEIGHTLESS, np.zeros(2), TENSION_N, integral=False)
    assert softer[0, 0] == pytest.approx(by_hand(ROBOT.control.gains[0].p), rel=1e-3)


def test_parallel_tendons_of_constant_stiffness_are_no_stiffer_for_more_tension():
    one, other = (tip_compliance(ROBOT, [1.5, -0.5], factor * TENSION_N) for factor in (1, 3))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)


def test_ropes_that_stiffen_make_the_tip_stiffer_with_the_pretension():
    robot = stiffening(WEIGHTLESS, 0.1)
    np.testing.assert_allclose(tendon_stiffness(robot, [0.0, 10, 10, 10, 0]), [0.0, 4e4, 4e4, 4e4, 0.0])
    one, other = (tip_compliance(robot, np.zeros(2), tension * np.ones(5))[0, 0] for tension in (2.0, 10.0))
    assert other / one == pytest.approx(1.2 / 2.0, rel=0.01)


def test_a_slack_tendon_and_a_robot_without_control_are_refused():
    with pytest.raises(ParameterError, match="slack"):
        tip_compliance(ROBOT, np.zeros(2), [0.0, 4, 4, 4, 4])
    with pytest.raises(ParameterError, match="control"):
        tip_compliance(dataclasses.replace(ROBOT, control=None), np.zeros(2), TENSION_N)
