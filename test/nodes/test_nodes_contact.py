# SPDX-License-Identifier: Apache-2.0
"""The contact monitor on DDS, in lock-step: a push is detected in time, with force and location; "invalid" latches."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Contact
from continuum_robot.srv import InjectFault, SetContactThresholds
from ros_contact import touched_stack

from continuum_robot.estimation.contact.kind import ACCIDENTAL, KINDS, UNKNOWN
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("vanderbilt_segment")
START_S, END_S, FORCE_N, DISK = 2.0, 4.0, 30.0, 6
# The push needs 0.1 s to rise to the threshold and the observer 0.1 s.
LONGEST_DELAY_S = 0.3
QUIET = {"clear", "settling"}
SCHEDULE = f"""
contacts:
  - name: hand
    kind: push
    disk: {DISK}
    force_n: [{FORCE_N}, 0.0, 0.0]
    ramp_s: 0.2
    start_s: {START_S}
    end_s: {END_S}
"""


@pytest.fixture(scope="module")
def stack(domain, tmp_path_factory):
    parameters = {
        "tendon_driver": {"rate_hz": 500.0},
        # A reading that is missing counts as that for longer than the shape estimator needs to name a broken sensor.
        "contact_monitor": {"input_timeout_s": 3.0},
    }
    with touched_stack(ROBOT.name, SCHEDULE, tmp_path_factory.mktemp("contacts"), parameters) as both:
        yield both


@pytest.fixture(scope="module")
def push(stack):
    """Everything up to a second after the push: times from its true beginning, estimates and truth."""
    _, probe = stack
    truth = probe.received["simulated_contact"]
    probe.wait(lambda: any(m.in_contact for m in truth), 20.0, "nothing touched")
    probe.wait(lambda: not truth[-1].in_contact, 10.0, "the push did not end")
    probe.pause(1.0)
    begun_s = next(conversions.stamp_ns(m.header.stamp) for m in truth if m.in_contact) * 1e-9
    contacts, truth = list(probe.received["contact"]), list(truth)

    def times_s(messages):
        return np.array([conversions.stamp_ns(m.header.stamp) * 1e-9 for m in messages]) - begun_s

    return times_s(contacts), contacts, times_s(truth), truth


def test_free_motion_raises_no_contact(push):
    time_s, contacts, _, _ = push
    before = [m for at_s, m in zip(time_s, contacts, strict=True) if at_s < 0]
    assert len(before) > 50
    assert {m.state for m in before} <= QUIET, {m.invalid_reason for m in before}
    assert np.nanmax([m.ratio for m in before]) < 1.0
    after = [m for at_s, m in zip(time_s, contacts, strict=True) if at_s > END_S - START_S + 0.8]
    assert after
    assert {m.state for m in after} <= QUIET, {m.invalid_reason for m in after}
    assert {m.invalid_reason for m in after if m.state == "clear"} == {""}


def test_a_push_is_detected_in_time(push):
    time_s, contacts, _, _ = push
    detected = [at_s for at_s, m in zip(time_s, contacts, strict=True) if m.in_contact]
    assert detected
    assert 0.0 <= detected[0] < LONGEST_DELAY_S


def test_its_force_and_place_are_those_of_the_push(push):
    time_s, contacts, truth_s, truth = push
    settled = [m for at_s, m in zip(time_s, contacts, strict=True) if 1.0 < at_s < 2.2 and m.in_contact]
    true = [m for at_s, m in zip(truth_s, truth, strict=True) if 1.0 < at_s < 2.2]
    assert len(settled) > 20
    force = np.median([m.wrench[:2] for m in settled], axis=0)
    true_force = np.median([m.wrench[:2] for m in true], axis=0)
    assert np.linalg.norm(true_force) > 0.8 * FORCE_N
    assert np.linalg.norm(force - true_force) < 0.25 * FORCE_N
    located = [m for m in settled if m.location_observable]
    assert len(located) > 0.5 * len(settled)
    place_m = float(np.median([m.arc_length for m in located]))
    assert abs(place_m - ROBOT.disk_arc_lengths_m[DISK - 1]) < 0.1 * ROBOT.length_m
    newest = located[-1]
    assert newest.arc_length_deviation > 0
    assert newest.arc_length_interval[0] <= newest.arc_length <= newest.arc_length_interval[1]
    # A point contact: forces across the backbone are sensed, moments are zero by assumption, nothing is made up.
    assert list(newest.wrench_sensed) == [1, 1] + [Contact.ASSUMED_ZERO] * 4
    assert newest.method == "gmo"
    assert newest.simulated
    assert abs(newest.pose.position.z) <= ROBOT.length_m
    assert truth[-1].method == "truth"


def test_its_kind_is_told_after_its_first_moments(push):
    _, contacts, _, _ = push
    detected = [m for m in contacts if m.in_contact]
    assert detected[0].kind == UNKNOWN
    assert detected[-1].kind in set(KINDS) - {UNKNOWN, ACCIDENTAL}
    assert detected[-1].kind_reason
    assert not contacts[0].kind


def test_thresholds_are_changed_together_or_refused(stack):
    _, probe = stack
    service = "contact_monitor/set_thresholds"
    refused = probe.call(
        SetContactThresholds,
        service,
        SetContactThresholds.Request(contact_factor_steady=5.0, collision_factor_steady=2.0),
    )
    assert not refused.success
    assert "contact_factor_steady" in refused.message
    assert probe.get_parameter("contact_monitor", "contact_factor_steady") == 1.0
    before = np.array(probe.wait_for_message("contact").contact_threshold)
    request = SetContactThresholds.Request(contact_factor_steady=2.0, contact_factor_accelerating=2.0)
    assert probe.call(SetContactThresholds, service, request).success
    assert probe.get_parameter("contact_monitor", "collision_factor_steady") == 6.0
    probe.pause(0.3)
    after = np.array(probe.wait_for_message("contact").contact_threshold)
    assert np.median(after / before) == pytest.approx(2.0, rel=0.4)
    result = probe.set_parameter("contact_monitor", "gain_per_s", [-1.0])
    assert not result.successful
    assert "gain_per_s" in result.reason
    assert not probe.set_parameter("contact_monitor", "gain_per_s", [25.0, 25.0]).successful
    assert probe.set_parameter("contact_monitor", "force_walk_n_per_sqrt_s", 29.0).successful
    request = SetContactThresholds.Request(contact_factor_steady=1.0, contact_factor_accelerating=1.5)
    assert probe.call(SetContactThresholds, service, request).success


def test_a_tare_is_said_and_ends(stack):
    _, probe = stack
    probe.received["contact"].clear()
    assert probe.trigger("contact_monitor/tare").success
    probe.wait(lambda: any(m.state == "taring" for m in probe.received["contact"]), 3.0, "no tare")
    probe.wait(lambda: probe.newest("contact").state == "clear", 5.0, "the tare did not end")


def recover(probe):
    """Whatever a test before left behind: the stack is up, all sensors are believed, nothing touches."""
    for service in ("inject_fault", "string_encoder/inject_fault"):
        inject(probe, service, "")
    probe.bring_up()
    assert probe.trigger("shape_estimator/reset").success
    assert probe.trigger("contact_monitor/reset").success
    probe.wait(lambda: probe.wait_for_message("contact").state == "clear", 10.0, "not clear before")


def inject(probe, service, fault, channel=-1, magnitude=0.0):
    request = InjectFault.Request(fault=fault, tendon=channel, magnitude=magnitude)
    assert probe.call(InjectFault, service, request).success


# A string that snapped is pulled in by its reel: centimetres within a sample or two.
@pytest.mark.parametrize(
    ("service", "fault", "channel", "magnitude", "named"),
    [
        ("string_encoder/inject_fault", "nan_reading", 1, 0.0, "string_2"),
        pytest.param("string_encoder/inject_fault", "encoder_jump", 2, 0.03, "string_3 jumped", marks=pytest.mark.long),
        ("string_encoder/inject_fault", "encoder_jump", 0, -0.01, "string_1 jumped"),
        pytest.param("string_encoder/inject_fault", "freeze_sensor", 0, 0.0, "string_1 frozen", marks=pytest.mark.long),
        pytest.param("string_encoder/inject_fault", "freeze_sensor", 3, 0.0, "string_4 frozen", marks=pytest.mark.long),
        # The last: the driver goes to its safe state.
        ("inject_fault", "nan_reading", 0, 0.0, ""),
    ],
)
def test_a_broken_sensor_blinds_it_until_the_reset(stack, service, fault, channel, magnitude, named):
    """Whatever breaks is named in diagnostics and message, is no contact, latches, and is recovered by services."""
    _, probe = stack
    recover(probe)
    probe.received["contact"].clear()
    inject(probe, service, fault, channel, magnitude)
    # What is frozen is found while the robot moves.
    probe.wait(lambda: any(m.state == "invalid" for m in probe.received["contact"]), 30.0, "not invalid")
    touched = [(m.state, m.ratio) for m in probe.received["contact"] if m.in_contact]
    assert not touched
    invalid = probe.newest("contact")
    assert invalid.invalid_reason
    assert named in invalid.invalid_reason
    assert not invalid.in_contact
    assert all(math.isnan(value) for value in (*invalid.residual, *invalid.wrench, invalid.arc_length))
    assert not probe.trigger("contact_monitor/tare").success
    inject(probe, service, "")
    probe.pause(0.8)
    assert probe.wait_for_message("contact").state == "invalid"  # latched, though the readings are back
    probe.wait_real(lambda: f"invalid: {invalid.invalid_reason}" in probe.health("/contact_monitor: contact"))
    assert probe.trigger("shape_estimator/reset").success
    assert probe.trigger("contact_monitor/reset").success
    probe.received["contact"].clear()
    probe.wait(lambda: any(m.state == "clear" for m in probe.received["contact"]), 5.0, "still invalid")
    probe.pause(0.5)
    assert probe.newest("contact").state in QUIET
