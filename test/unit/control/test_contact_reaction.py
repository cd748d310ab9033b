# SPDX-License-Identifier: Apache-2.0
"""What touches the robot is answered as asked for; without a contact, and without feeling, nothing moves by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuum_robot.control.contact_reaction import ContactReaction, ContactSense
from continuum_robot.control.motion import motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import REACTIONS, ReactionSettings
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
DT = 0.01
NOTHING = ContactSense(False, np.zeros(2))
INVALID = ContactSense(False, np.full(2, np.nan), "the shape is not known")
ANSWERS = [name for name in REACTIONS if name != "ignore"]


def touch(*force):
    return ContactSense(True, np.array(force, dtype=float))


def moving(time_s, speed=0.005):
    """Along the first coordinate."""
    return ClarkeReference(np.array([speed * time_s, 0.0]), np.array([speed, 0.0]), np.zeros(2))


def reaction_of(strategy, **more):
    return ContactReaction(ROBOT, ReactionSettings(strategy=strategy, **more))


def come(reaction, until_s=1.0):
    """Move freely until a time; the reference there."""
    for k in range(1, round(until_s / DT) + 1):
        answer = reaction.update(moving(k * DT), NOTHING, None, DT)
    return answer.reference.position


@given(st.sampled_from(REACTIONS), st.lists(st.floats(-0.01, 0.01), min_size=4, max_size=40))
def test_without_a_contact_it_is_the_reference(strategy, values):
    reaction = reaction_of(strategy)
    for first, second in zip(values[::2], values[1::2], strict=False):
        reference = ClarkeReference(np.array([first, second]), np.array([second, first]), np.zeros(2))
        answer = reaction.update(reference, NOTHING, None, DT)
        assert answer.reference is reference
        assert (answer.state, answer.reason) == ("following", "")


def test_ignored_contacts_and_invalid_estimates_change_nothing():
    reaction = reaction_of("ignore")
    for sense in (touch(50, 0), INVALID):
        assert reaction.update(moving(1.0), sense, None, DT).state == "following"


@pytest.mark.parametrize("strategy", ANSWERS)
def test_who_cannot_feel_holds(strategy):
    reaction = reaction_of(strategy)
    held = come(reaction)
    for k in range(100):
        answer = reaction.update(moving(1.0 + k * DT), INVALID, None, DT)
        np.testing.assert_array_equal(answer.reference.position, held)
        np.testing.assert_array_equal(answer.reference.velocity, 0.0)
    assert answer.state == "holding"
    assert "the shape is not known" in answer.reason
    for _ in range(100):  # nor does it go on by itself when it can feel again
        answer = reaction.update(moving(2.0), NOTHING, None, DT)
        np.testing.assert_array_equal(answer.reference.position, held)


@pytest.mark.parametrize("strategy", ["comply", "guide", "press", "retract"])
def test_who_loses_the_feeling_while_it_answers_holds_too(strategy):
    reaction = reaction_of(strategy)
    come(reaction)
    for k in range(20):
        reaction.update(moving(1.0 + k * DT), touch(-1, 0), None, DT)
    held = reaction.update(moving(1.2), INVALID, None, DT).reference.position
    for k in range(50):
        answer = reaction.update(moving(1.2 + k * DT), touch(-100, 0), None, DT)
        np.testing.assert_array_equal(answer.reference.position, held)
    assert answer.state == "holding"


def test_hold_stops_where_the_robot_is_and_not_where_its_reference_presses():
    reaction = reaction_of("hold")
    come(reaction)
    measured = np.array([0.0042, 1e-4])
    for k in range(50):
        answer = reaction.update(moving(1.0 + k * DT), touch(-1, 0) if k < 10 else NOTHING, measured, DT)
        np.testing.assert_array_equal(answer.reference.position, measured)


@pytest.mark.parametrize("strategy", ["comply", "guide"])
def test_a_false_alarm_without_a_force_moves_nothing(strategy):
    reaction = reaction_of(strategy)
    held = come(reaction)
    resting = ClarkeReference.at_rest(held)
    for k in range(200):
        answer = reaction.update(resting, touch(0, 0) if k < 50 else NOTHING, held, DT)
        np.testing.assert_allclose(answer.reference.position, held, atol=1e-12)


def test_retract_goes_back_the_way_it_came_until_the_force_has_gone():
    reaction = reaction_of("retract")
    way = []
    for k in range(400):  # round a corner
        along, across = min(k, 200) * 2e-5, max(0, k - 200) * 2e-5
        reference = ClarkeReference(np.array([along, across]), np.zeros(2), np.zeros(2))
        way.append(reaction.update(reference, NOTHING, None, DT).reference.position)
    wall = 3.5e-3
    here, states = way[-1], []
    for _ in range(600):
        answer = reaction.update(reference, touch(0, -1e3 * (here[1] - wall)) if here[1] > wall else NOTHING, here, DT)
        here = answer.reference.position
        states.append(answer.state)
        assert np.linalg.norm(np.array(way) - here, axis=1).min() < 1e-4
        assert np.linalg.norm(answer.reference.velocity) <= motion_limits(ROBOT).speed_m_per_s * (1 + 1e-9)
    assert states[0] == "retracting"
    assert states[-1] == "retracted"
    assert wall - 2e-3 < here[1] < wall


@pytest.mark.parametrize("rebound_m", [0.0, 4e-4])
def test_retract_never_goes_nearer_to_what_stopped_the_robot(rebound_m):
    """An obstacle at 10 mm holds the robot, or throws it back a little; its reference has gone on to 13 mm."""
    reaction = reaction_of("retract")
    speed, wall = 0.01, 0.010
    for k in range(1, 131):
        along = speed * k * DT
        place = min(along, wall) if along < 0.0128 else wall - rebound_m
        reaction.update(moving(k * DT, speed), NOTHING, np.array([place, 0.0]), DT)
    held, reached = wall - rebound_m, []
    for k in range(300):
        answer = reaction.update(moving(1.3 + k * DT, speed), touch(-5, 0), np.array([held, 0.0]), DT)
        reached.append(answer.reference.position[0])
    assert answer.state in ("retracting", "holding")
    assert np.all(np.diff([held, *reached]) <= 1e-12)
    assert reached[-1] < held - 3e-3


def test_retract_goes_back_from_ahead_of_its_reference_too():
    """After an overshoot the robot stands beyond its reference: the way behind it is still the way back."""
    reaction = reaction_of("retract")
    for k in range(1, 101):
        reaction.update(moving(k * DT, 0.01), NOTHING, np.array([0.01 * k * DT + 3e-4, 0.0]), DT)
    for _ in range(300):
        answer = reaction.update(moving(1.0, 0.0), touch(-5, 0), np.array([0.0103, 0.0]), DT)
    assert answer.reference.position[0] < 2e-3


def test_retract_ends_at_the_beginning_of_the_way():
    reaction = reaction_of("retract")
    come(reaction)
    for _ in range(1000):
        answer = reaction.update(moving(1.0), touch(-1, 0), None, DT)
    np.testing.assert_allclose(answer.reference.position, 0.0, atol=1e-4)
    assert answer.state == "holding"
    assert "at its beginning" in answer.reason


def test_retract_stops_where_the_force_grows_on_the_way_back():
    reaction = reaction_of("retract")
    come(reaction, 4.0)
    for k in range(400):
        answer = reaction.update(moving(4.0), touch(-1 if k < 70 else -5, 0), None, DT)
    assert answer.state == "holding"
    assert "grows" in answer.reason
    assert answer.reference.position[0] > 1e-3


@settings(max_examples=3)  # half a second each
@given(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_comply_comes_to_rest_where_its_spring_holds_the_force(first, second):
    stiffness = 20.0
    reaction = reaction_of("comply", stiffness_n_per_m=stiffness, damping_ns_per_m=20.0, largest_m=0.02)
    resting, force = ClarkeReference.at_rest(np.zeros(2)), np.array([first, second]) * 1e-1
    for _ in range(3000):
        answer = reaction.update(resting, touch(*force), None, DT)
    jacobian = reaction._kinematics.place(answer.reference.position)[1]
    onto = jacobian.T @ jacobian
    onto += 0.025 * np.trace(onto) * np.eye(2)
    np.testing.assert_allclose(stiffness * onto @ answer.reference.position, force, atol=1e-3)
    for _ in range(6000):
        answer = reaction.update(resting, NOTHING, None, DT)
    assert answer.state == "following"


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.booleans()), min_size=1, max_size=60))
@example([(0.0, 0.0, True)])
@example([(1e-320, 0.0, True), (1e-300, 1e-310, True), (3.0, 0.0, True)])
def test_whatever_is_detected_speed_acceleration_and_the_largest_way_hold(detected):
    for strategy in ("comply", "guide", "press"):
        reaction = reaction_of(strategy, largest_m=0.004)
        limits, before = motion_limits(ROBOT), np.zeros(2)
        resting = ClarkeReference.at_rest(np.zeros(2))
        for first, second, touching in detected:
            sense = ContactSense(touching, np.array([first, second]))
            position = reaction.update(resting, sense, None, DT).reference.position
            assert np.linalg.norm(position) <= 0.004 * (1 + 1e-9)
            # A quintic back is within its own limits in the mean; 15/8 of it in its middle.
            assert np.linalg.norm(position - before) <= 2 * limits.speed_m_per_s * DT
            before = position


def test_a_largest_way_is_said():
    reaction = reaction_of("comply", largest_m=1e-3)
    for _ in range(500):
        answer = reaction.update(ClarkeReference.at_rest(np.zeros(2)), touch(50, 0), None, DT)
    assert answer.limited
    assert np.linalg.norm(answer.reference.position) == pytest.approx(1e-3, rel=0.1)


@pytest.mark.parametrize("strategy", ["comply", "press"])
def test_who_may_give_way_no_further_does_not_go_on_into_what_touches(strategy):
    reaction = reaction_of(strategy, largest_m=1e-3, press_n=0.01)
    come(reaction)
    positions = []
    for k in range(400):
        answer = reaction.update(moving(1.0 + k * DT), touch(-3, 0), None, DT)
        positions.append(answer.reference.position[0])
    assert answer.limited
    assert np.ptp(positions[-200:]) == 0.0
    assert positions[-1] <= 0.005
    for _ in range(1000):
        answer = reaction.update(moving(5.0, 0.0), NOTHING, None, DT)
        if strategy == "comply" and answer.state == "following":
            break
    assert strategy == "press" or answer.state == "following"


def test_guide_is_led_and_stays_where_it_is_let_go():
    reaction = reaction_of("guide")
    start = come(reaction)
    for _ in range(100):
        reaction.update(moving(1.0), touch(0, 2), None, DT)
    for _ in range(300):
        led = reaction.update(moving(1.0), NOTHING, None, DT).reference.position
    assert led[1] - start[1] > 1e-4
    for k in range(300):
        answer = reaction.update(moving(1.0 + k * DT), NOTHING, None, DT)
    np.testing.assert_allclose(answer.reference.position, led, atol=1e-5)
    assert answer.state == "guided"


def test_press_comes_to_its_force_on_a_wall_that_gives():
    desired_n, wall_n_per_m = 0.3, 2000.0
    reaction = reaction_of("press", press_n=desired_n)
    position, forces = np.array([2e-3, 0.0]), []
    for _ in range(3000):
        force = np.array([-wall_n_per_m * max(position[0] - 1e-3, 0.0), 0.0])
        sense = ContactSense(bool(force.any()), force)
        position = reaction.update(ClarkeReference.at_rest(np.array([2e-3, 0.0])), sense, None, DT).reference.position
        jacobian = reaction._kinematics.place(position)[1]
        forces.append(np.linalg.norm(np.linalg.pinv(jacobian.T) @ force))
    assert np.mean(forces[-100:]) == pytest.approx(desired_n, rel=0.02)


def test_resume_goes_back_within_the_limits_and_one_can_leave_a_contact_that_is_there():
    reaction = reaction_of("hold")
    before = come(reaction)
    for k in range(200):
        answer = reaction.update(moving(1.0 + k * DT), touch(-1, 0), None, DT)
    reaction.resume()
    limits = motion_limits(ROBOT)
    for _ in range(1000):
        answer = reaction.update(moving(3.0, 0.0), touch(-1.2, 0), None, DT)
        step = np.linalg.norm(answer.reference.position - before)
        assert step <= (limits.speed_m_per_s + 0.005) * DT * (1 + 1e-6)
        before = answer.reference.position
        assert answer.state in ("returning", "following"), answer.reason
    assert answer.state == "following"
    assert reaction.update(moving(3.0, 0.0), touch(-2.0, 0), None, DT).state == "holding", "it grew"


def test_a_new_contact_after_the_old_one_has_gone_counts():
    reaction = reaction_of("hold")
    come(reaction)
    reaction.update(moving(1.0), touch(-1, 0), None, DT)
    reaction.resume()
    reaction.update(moving(1.0), touch(-1, 0), None, DT)
    reaction.update(moving(1.0), NOTHING, None, DT)
    assert reaction.update(moving(1.0), touch(-0.5, 0), None, DT).state == "holding"


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="limits and control"):
        ContactReaction(ROBOT.changed(limits=None))
    with pytest.raises(ParameterError, match="mechanism"):
        ContactReaction(load_robot("rolling_five_link"))
    with pytest.raises(ParameterError, match="positive time step"):
        reaction_of("hold").update(moving(0.0), NOTHING, None, 0.0)


@pytest.mark.parametrize("name", ["two_segment", "vanderbilt_two_segment", "rucker_helical"])
def test_it_works_on_every_rod(name):
    robot = load_robot(name)
    reaction, size = ContactReaction(robot, ReactionSettings(strategy="comply")), robot.coordinate_count
    force = np.ones(size)
    for _ in range(200):
        answer = reaction.update(ClarkeReference.at_rest(np.zeros(size)), ContactSense(True, force), None, DT)
    assert answer.reference.position @ force > 0
