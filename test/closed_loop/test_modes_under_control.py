# SPDX-License-Identifier: Apache-2.0
"""Shipped robots of which a task steers fewer modes than there are, under the shipped cycle in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import coupled_segments, with_modes
from virtual_loop import VirtualLoop, rmse

from continuum_robot.control.tuning import tune
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import clarke_from_modes


def followed(robot, duration_s, taut_n=None):
    """A run, and what of the Clarke coordinates of the rod is not in the controlled modes, m."""
    loop = VirtualLoop(robot)
    loop.activate(taut_n)
    rest, closed = [], clarke_manifold(robot)
    into = clarke_from_modes(robot)
    across = np.eye(len(into)) - into @ np.linalg.pinv(into)
    record = loop.run(duration_s, lambda one: rest.append(across @ closed.clarke(one.body.plant.rod_displacement)))
    loop.close()
    assert loop.faults == []
    return loop, record, np.array(rest)[record["time_s"] > 1.0]


@pytest.mark.parametrize("modes", [2, 3])
def test_tensions_follow_some_modes_of_two_segments(modes):
    robot = with_modes("two_segment", modes)
    tuned = tune(robot)
    assert len(tuned.control.gains) == modes == len(tuned.mass_kg)
    robot = robot.changed(control=replace(tuned.control, feedforward_stiffness=1.0, feedforward_gravity=1.0))
    _, record, rest = followed(robot, 4.0, 2 * robot.limits.safe_n)
    assert rmse(record, after_s=1.0).max() < 1e-4
    # Their own stiffness alone keeps the others: gravity and friction move them.
    assert np.abs(rest).max() < 3e-3
    assert record["tension"][record["time_s"] > 1.0].min() > 0


def test_servos_follow_four_modes_of_three_segments_and_hold_the_others_at_zero():
    robot = with_modes("three_segment_servo", 4).changed(simulation=load_robot("two_segment").simulation)
    loop, record, rest = followed(robot, 4.0)
    assert rmse(record, after_s=1.0).max() < 3e-4
    assert np.abs(rest).max() < 5e-4
    assert loop.controller.unsolved == 0


def test_two_servos_bend_two_segments():
    _, record, rest = followed(coupled_segments(), 4.0)
    assert rmse(record, after_s=1.0).max() < 3e-4
    assert np.abs(rest).max() < 5e-4
