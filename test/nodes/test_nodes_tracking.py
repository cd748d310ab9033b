# SPDX-License-Identifier: Apache-2.0
"""The composed stack on DDS in lock-step: it tracks, answers every state, estimates its shape."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import PidState
from continuum_robot.srv import ManageStack

from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.clock import START_NS

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
OPTIONS = {"visualize": False}
PERIOD_NS = 1_000_000
STANDS_M = 3e-4


def test_it_tracks_the_trajectory_of_the_robot_file(stack, probe):
    probe.bring_up()
    probe.trigger("reference_source/restart")
    probe.pause(1.2)  # the blend into the trajectory
    for topic in ("clarke_state", "clarke_reference"):
        probe.received[topic].clear()
    probe.pause(3.0)
    states, references = list(probe.received["clarke_state"]), list(probe.received["clarke_reference"])
    desired_s = np.array([conversions.stamp_ns(m.header.stamp) * 1e-9 for m in references])
    desired = np.array([m.position for m in references])
    measured_s = np.array([conversions.stamp_ns(m.header.stamp) * 1e-9 for m in states])
    measured = np.array([m.position for m in states])
    inside = (measured_s > desired_s[0]) & (measured_s < desired_s[-1])
    assert np.count_nonzero(inside) > 100
    for axis in range(2):
        error = measured[inside, axis] - np.interp(measured_s[inside], desired_s, desired[:, axis])
        assert math.sqrt(np.mean(error**2)) < 3e-4  # m, of an amplitude of 10 mm
    assert np.ptp(measured[:, 0]) > 5e-3  # and it moved


def check_it_stands(probe, duration_s):
    """The reference does not change at all, and the robot stays where it is."""
    for topic in ("clarke_state", "clarke_reference"):
        probe.received[topic].clear()
    probe.pause(duration_s)
    references = np.array([m.position for m in probe.received["clarke_reference"]])
    assert len(references) > 50 * duration_s
    assert not np.any(np.ptp(references, axis=0))
    assert not np.any([m.velocity for m in probe.received["clarke_reference"]])
    states = np.array([m.position for m in probe.received["clarke_state"]])
    assert np.ptp(states, axis=0).max() < STANDS_M
    assert np.abs(states[-1] - references[-1]).max() < STANDS_M
    return references[-1]


def test_after_an_estop_and_a_reset_it_holds_until_a_motion_is_started(stack, probe):
    probe.bring_up()
    assert probe.trigger("reference_source/restart").success
    probe.pause(2.0)
    probe.wait_real(lambda: not probe.newest("stack_status").holding)
    moved = np.array([m.position for m in probe.received["clarke_state"]])
    assert np.ptp(moved, axis=0).max() > 5e-3
    probe.trigger("estop")
    probe.wait_for_fault("estop")
    # The source hears of the stop by a topic of its own, a little after the probe or before.
    answers = []
    probe.wait_real(lambda: not answers.append(probe.trigger("reference_source/restart")) and not answers[-1].success)
    assert "reset" in answers[-1].message
    response = probe.manage(ManageStack.Request.RESET)
    assert response.success, response.message
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.newest("stack_status").holding)
    place = check_it_stands(probe, 2.0)
    # A parameter states what would be played, and starts nothing.
    speed = probe.get_parameter("reference_source", "reference.frequency_hz")
    assert probe.set_parameter("reference_source", "reference.frequency_hz", speed).successful
    np.testing.assert_array_equal(check_it_stands(probe, 0.2), place)
    assert probe.trigger("reference_source/restart").success
    probe.wait_real(lambda: not probe.newest("stack_status").holding)
    probe.received["clarke_state"].clear()
    probe.pause(2.0)
    assert np.ptp([m.position for m in probe.received["clarke_state"]], axis=0).max() > 5e-3


def test_a_driver_that_is_reset_past_the_supervisor_moves_nothing_either(stack, probe):
    probe.bring_up()
    assert probe.trigger("reference_source/restart").success
    probe.pause(0.5)
    probe.trigger("estop")
    probe.wait_for_fault("estop")
    assert probe.trigger("reset_estop").success
    assert probe.transition("tendon_driver", "deactivate")
    assert probe.transition("tendon_driver", "activate")
    probe.wait_real(lambda: probe.driver_state() == "active")
    probe.wait_for_message("clarke_reference")
    check_it_stands(probe, 0.5)
    assert probe.trigger("reference_source/restart").success
    probe.pause(0.5)
    assert np.ptp([m.position for m in probe.received["clarke_reference"]], axis=0).max() > 1e-4
    assert probe.manage(ManageStack.Request.RESET).success
    probe.wait_real(lambda: probe.stack_state() == "up")
    probe.pause(0.1)


def test_states_carry_sequence_stamp_age_and_what_was_commanded(stack, probe):
    probe.bring_up()
    probe.received["tendon_states"].clear()
    probe.pause(0.5)
    states = list(probe.received["tendon_states"])
    assert len(states) == 500
    assert np.all(np.diff([m.sequence for m in states]) == 1)
    assert np.all(np.diff([conversions.stamp_ns(m.header.stamp) for m in states]) == PERIOD_NS)
    assert conversions.stamp_ns(states[0].header.stamp) > START_NS
    for message in states:
        assert len(message.displacement) == len(message.age) == len(message.limited) == ROBOT.tendon_count
        commanded = np.array(message.commanded_tension)
        assert np.all(commanded >= ROBOT.limits.minimum_n - 1e-9)
        assert np.all(commanded <= ROBOT.limits.maximum_n + 1e-9)


def test_every_state_is_answered(stack, probe):
    probe.bring_up()
    for topic in ("tendon_commands", "tendon_states"):
        probe.received[topic].clear()
    probe.pause(0.3)
    states = [m.sequence for m in probe.received["tendon_states"]]
    answered = [m.sequence for m in probe.received["tendon_commands"]]
    assert answered == states
    assert len(answered) == 300


def test_the_estimated_shape_agrees_with_the_tendons(stack, probe):
    probe.bring_up()
    shape = probe.wait_for_message("shape")
    assert len(shape.coefficients) == ROBOT.coefficient_count
    assert len(shape.covariance) == ROBOT.coefficient_count**2
    assert shape.residual < 1e-3
    clarke = min(probe.received["clarke_state"], key=lambda m: abs(int(m.sequence) - int(shape.sequence)))
    segment = ROBOT.segments[0]
    scale = segment.tendons.pitch_radius_m * segment.length_m
    # q_Re = r l kappa_y, q_Im = -r l kappa_x
    np.testing.assert_allclose(
        [scale * shape.coefficients[1], -scale * shape.coefficients[0]], clarke.position, atol=3e-4
    )
    quaternion = shape.tip.orientation
    assert math.isclose(math.hypot(quaternion.x, quaternion.y, quaternion.z, quaternion.w), 1.0, rel_tol=1e-6)


def test_gains_change_live_and_bumpless(stack, probe):
    probe.bring_up()
    before = probe.get_parameter("clarke_controller", "gains.segment_1.p")
    assert probe.set_parameter("clarke_controller", "gains.segment_1.p", before * 0.8).successful
    probe.pause(0.2)
    controller = stack.nodes["clarke_controller"]._controller
    assert controller.settings.gains[0].p == pytest.approx(before * 0.8)
    assert probe.set_parameter("clarke_controller", "gains.segment_1.p", before).successful
    assert stack.driver.faults == ()


def test_pid_state_is_published_when_asked_for(stack, probe):
    probe.bring_up()
    probe.listen(PidState, "pid_state")
    probe.pause(0.3)
    assert not probe.received["pid_state"]
    assert probe.set_parameter("clarke_controller", "publish_pid_state", True).successful
    message = probe.wait_for_message("pid_state")
    total = np.array(message.p_term) + message.i_term + message.d_term + message.feedforward
    free = ~np.array(message.saturated)
    np.testing.assert_allclose(total[free], np.array(message.output)[free], atol=1e-9)
    np.testing.assert_allclose(np.array(message.reference) - message.measurement, message.error, atol=1e-12)
    assert probe.set_parameter("clarke_controller", "publish_pid_state", False).successful


def test_a_hot_motor_is_a_fault_until_it_is_measured_as_cool(stack, probe):
    """250 degC on one motor, nothing known of the others' boards."""
    probe.bring_up()
    third = ROBOT.tendon_names[2]
    for name, value in (("temperature_error_c", 150.0), ("temperature_warn_c", 84.0)):
        result = probe.set_parameter("tendon_driver", name, value)
        assert not result.successful
        assert "the robot file's" in result.reason
    assert probe.inject("hot_motor", tendon=2, magnitude=250.0).success
    probe.wait_for_fault("motor_hot")
    probe.wait(lambda: np.allclose(probe.newest("tendon_states").commanded_tension, ROBOT.limits.safe_n, atol=1e-9))
    bus = "/tendon_driver: bus"
    probe.wait(lambda: f"too hot: the motor of {third}; the motor of {third} is at 250 degC" in probe.health(bus))
    assert probe.inject("").success
    probe.pause(0.1)
    response = probe.trigger("reset_estop")
    assert not response.success
    assert "temperature" in response.message
    probe.wait(lambda: f"too hot: the motor of {third}; temperature unknown: {third}" in probe.health(bus))
    assert probe.inject("hot_motor", tendon=2, magnitude=40.0).success
    probe.pause(0.1)
    response = probe.manage(ManageStack.Request.RESET)
    assert response.success, response.message
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    assert probe.inject("").success
