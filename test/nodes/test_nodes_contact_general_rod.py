# SPDX-License-Identifier: Apache-2.0
"""The contact monitor on DDS, in lock-step, of a robot with torsion and helical tendons: a push is located."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_contact import touched_stack

from continuum_robot.estimation.contact.settings import contact_channels
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.long]

ROBOT = load_robot("mixed_routing")
FORCE_N = 0.3
SCHEDULE = f"""
contacts:
  - name: hand
    kind: push
    arc_length_m: {ROBOT.length_m}
    force_n: [{FORCE_N}, 0.0, 0.0]
    ramp_s: 0.2
    start_s: 1.5
    end_s: 3.0
"""


@pytest.fixture(scope="module")
def probe(domain, tmp_path_factory):
    with touched_stack(ROBOT.name, SCHEDULE, tmp_path_factory.mktemp("contacts")) as (_, probe):
        yield probe


def test_a_push_is_detected_at_its_place_with_its_force_and_only_while_it_lasts(probe):
    truth, detected = probe.received["simulated_contact"], probe.received["contact"]
    probe.wait(lambda: any(m.in_contact for m in truth), 20.0, "nothing touched")
    assert not any(message.in_contact for message in detected)
    probe.wait(lambda: detected[-1].in_contact, 1.0, "not detected")
    probe.pause(0.4)
    newest = [message for message in detected if message.in_contact][-10:]
    assert len(newest[-1].residual) == contact_channels(ROBOT).count < ROBOT.coefficient_count
    assert len(probe.newest("shape").coefficients) == ROBOT.coefficient_count
    force = np.median([np.linalg.norm(message.wrench[:2]) for message in newest])
    assert force == pytest.approx(FORCE_N, rel=0.4)  # the motors' cogging is a third of it at the tip
    assert newest[-1].location_observable
    assert newest[-1].arc_length > 0.7 * ROBOT.length_m
    assert np.isfinite([newest[-1].pose.position.x, newest[-1].pose.position.z]).all()
    probe.wait(lambda: not truth[-1].in_contact, 10.0, "the push did not end")
    probe.wait(lambda: not detected[-1].in_contact, 2.0, "still detected")
    assert probe.faults() == []
