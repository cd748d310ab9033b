# SPDX-License-Identifier: Apache-2.0
"""On which segment a contact is by motion alone: made-up motions of two segments."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.estimation.screw_deviation import ScrewDeviations, ScrewSettings
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

ROBOT = load_robot("vanderbilt_two_segment")
SHAPES, MANIFOLD = coefficients_from_clarke(ROBOT), controlled_manifold(ROBOT)
HALF = ROBOT.coefficient_count // 2


@pytest.fixture
def screws():
    drawing = robot_model(ROBOT).drawing()
    return ScrewDeviations(ROBOT, drawing.pose, ScrewSettings(window_s=0.5, period_s=0.05))


def moved(screws, factors, *, bend_m=0.03, steps=60):
    """The last deviation of a bend in which the coefficients move by factors of their free motion, (2,)."""
    at_rest = np.array([0.01, 0.0, 0.005, 0.0])
    bend = np.array([bend_m, 0.0, bend_m, 0.0])
    rest_c = SHAPES @ at_rest
    found = None
    for step in range(steps):
        fraction = step / steps
        change = SHAPES @ (fraction * bend)
        change[:HALF] *= factors[0]
        change[HALF:] *= factors[1]
        found = screws.update(rest_c + change, MANIFOLD.displacement(at_rest + fraction * bend), 0.01)
    return found


def test_free_motion_deviates_nowhere(screws):
    found = moved(screws, (1.0, 1.0))
    assert found.segment == -1
    assert found.deviations == pytest.approx([0, 0], abs=1e-9)


@pytest.mark.parametrize(("factors", "segment"), [((0.5, 1.0), 0), ((0.7, 0.2), 1), ((1.0, 0.5), 1)])
def test_the_last_segment_that_is_held_back_is_named(screws, factors, segment):
    found = moved(screws, factors)
    assert found.segment == segment
    assert found.deviations == pytest.approx(1 - np.array(factors), abs=0.12)


def test_nothing_is_said_of_a_robot_that_hardly_moves(screws):
    found = moved(screws, (0.0, 0.0), bend_m=1e-4)
    assert found.segment == -1
    assert np.isnan(found.deviations).all()


def test_a_shape_that_is_no_number_begins_anew(screws):
    moved(screws, (0.5, 1.0))
    unknown = screws.update(np.full(2 * HALF, np.nan), np.zeros(ROBOT.tendon_count), 0.01)
    assert unknown.segment == -1
    after = screws.update(np.zeros(2 * HALF), np.zeros(ROBOT.tendon_count), 0.01)
    assert np.isnan(after.deviations).all()
