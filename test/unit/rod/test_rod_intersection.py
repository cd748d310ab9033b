# SPDX-License-Identifier: Apache-2.0
"""Shapes that run through themselves: circles and helices, whose distances are known."""

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.intersection import self_intersection, tube_intersection


def coil(radius_m, pitch_m, turns):
    """A helix, by its arc length."""
    rise = pitch_m / (2 * np.pi)
    length_m = 2 * np.pi * turns * np.hypot(radius_m, rise)
    s = np.linspace(0.0, length_m, 1200)
    angle = s / np.hypot(radius_m, rise)
    return s, np.column_stack([radius_m * np.cos(angle), radius_m * np.sin(angle), rise * angle])


def test_a_coil_touches_its_next_turn_where_the_tube_is_as_thick_as_its_pitch():
    s, places = coil(0.05, 0.02, 2.0)
    assert tube_intersection(places, s, 0.0095) is None
    found = tube_intersection(places, s, 0.0105)
    one_turn = s[-1] / 2
    assert found.second_m - found.first_m == pytest.approx(one_turn, rel=0.02)
    assert found.depth_m == pytest.approx(0.021 - 0.02, abs=2e-4)
    assert "through itself" in str(found)


def test_a_bend_more_tight_than_the_tube_is_named_and_a_lesser_one_is_not():
    s, places = coil(0.01, 0.2, 0.3)
    bend = 0.01 / (0.01**2 + (0.2 / (2 * np.pi)) ** 2)
    assert tube_intersection(places, s, 0.98 / bend) is None
    found = tube_intersection(places, s, 1.02 / bend)
    assert found.first_m == found.second_m
    assert "more tightly" in str(found)


def test_a_robot_that_closes_its_circle_is_found():
    robot = load_robot("opencr_five_tendon")
    assert self_intersection(robot, np.zeros(2)) is None
    turn = 2 * np.pi / robot.length_m
    assert self_intersection(robot, [0.5 * turn, 0.0]) is None
    found = self_intersection(robot, [1.0 * turn, 0.0])
    assert found.first_m < 0.1 * robot.length_m
    assert found.second_m > 0.9 * robot.length_m
    with pytest.raises(ParameterError):
        self_intersection(robot, np.zeros(3))
    with pytest.raises(ParameterError):
        tube_intersection(np.zeros((4, 2)), np.arange(4), 0.1)
