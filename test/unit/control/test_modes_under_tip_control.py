# SPDX-License-Identifier: Apache-2.0
"""What follows the number of controlled modes: tip control, limits, reactions, weighing, the page, joints and files."""

from __future__ import annotations

import numpy as np
import pytest
from changed_robots import with_modes

from continuum_robot.app.view.steering_range import reach_of
from continuum_robot.control.contact_reaction import ContactReaction
from continuum_robot.control.joint_trajectory import TrajectoryPoint, clarke_joints, joint_trajectory
from continuum_robot.control.references import reference_columns
from continuum_robot.control.teleoperation import clarke_range
from continuum_robot.control.tip.control import TipControl
from continuum_robot.estimation.tracked_tip import TrackedTip
from continuum_robot.identification.weighing_motion import WeighingMotion
from continuum_robot.rod.tendons import clarke_from_modes, controlled_manifold


@pytest.mark.parametrize(("name", "modes"), [("two_segment", 2), ("two_segment", 3), ("three_segment_servo", 4)])
def test_the_tip_is_brought_to_a_target_by_the_modes_that_there_are(name, modes):
    robot = with_modes(name, modes)
    control = TipControl(robot)
    place = control.kinematics.place(0.4 * np.resize([0.01, -0.006], modes))[0]
    solution = control.solve(place)
    assert solution.clarke.shape == (modes,)
    assert solution.reachable
    np.testing.assert_allclose(control.kinematics.place(solution.clarke)[0], place, atol=1e-4)
    # The same shape by all coordinates has the tip there too.
    whole = TipControl(robot.with_all_coordinates)
    there = clarke_from_modes(robot) @ solution.clarke
    np.testing.assert_allclose(whole.kinematics.place(there)[0], place, atol=1e-4)
    tension = control.tension(solution.clarke)
    np.testing.assert_allclose(controlled_manifold(robot).generalized_force(tension), robot_force(whole, robot, there))


def robot_force(whole, robot, there):
    """Of the modes, by the tensions of all coordinates."""
    return controlled_manifold(robot).generalized_force(whole.tension(there))


def test_what_steers_and_shows_them_has_one_of_each():
    robot = with_modes("two_segment", 3)
    reach = reach_of(robot)
    assert reach.names == reach.short_names == ("mode_1", "mode_2", "mode_3") == robot.part_names
    assert reach.modes
    assert (reach.high_m > 0).all()
    assert reference_columns(3) == ("q_re_1_m", "q_im_1_m", "q_re_2_m")
    assert clarke_range(robot).slopes.shape == (20, 3)
    motion = WeighingMotion(0.005, 3)
    assert motion.at(20.0).position.shape == (3,)
    reaction = ContactReaction(robot)
    assert reaction.force_of(np.ones(robot.coefficient_count)).shape == (3,)
    points = [TrajectoryPoint(2.0, [0.002, 0.0, 0.001])]
    trajectory = joint_trajectory(robot, clarke_joints(robot), points, np.zeros(3))
    np.testing.assert_allclose(trajectory.at(2.0).position, [0.002, 0.0, 0.001])
    assert TrackedTip(robot).see_shape(0.0, np.eye(4), np.zeros(3)).shape == (4, 4)


def test_a_segment_cannot_be_bent_alone():
    assert "control.modes" in with_modes("two_segment", 2).traits.without_bending_command
    assert not with_modes("two_segment", 2).with_all_coordinates.traits.without_bending_command
