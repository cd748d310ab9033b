# SPDX-License-Identifier: Apache-2.0
"""A reference source that is stalled goes on from where it stood; in lock-step, where a stall is made exactly."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState
from ros_probe import lockstep_stack

from continuum_robot.control.motion import LONGEST_STEP_S
from continuum_robot.nodes.topics import conversions, qos

pytestmark = [pytest.mark.ros]

STALL_S = 0.45


def test_the_reference_goes_on_from_where_it_stood(domain, monkeypatch):
    with lockstep_stack("opencr_five_tendon", start_motion=True) as (stack, probe):
        probe.listen(ClarkeState, "clarke_reference", qos.every_state())
        probe.pause(2.0)
        # A source that is not active has no tick: as if its program had stood still.
        monkeypatch.setattr(stack.nodes["reference_source"], "active", False)
        probe.pause(STALL_S)
        monkeypatch.setattr(stack.nodes["reference_source"], "active", True)
        probe.pause(1.0)
        references = [message for message in probe.received["clarke_reference"] if message.sequence > 0]
        assert probe.faults() == []
    times_s = 1e-9 * np.array([conversions.stamp_ns(message.header.stamp) for message in references])
    steps_m = np.abs(np.diff([message.position for message in references], axis=0)).max(axis=1)
    stalled = int(np.argmax(np.diff(times_s)))
    assert np.diff(times_s)[stalled] > 0.9 * STALL_S
    speed_m_per_s = np.abs(references[stalled].velocity).max()
    assert speed_m_per_s > 1e-3
    assert 0 < steps_m[stalled] < 1.2 * speed_m_per_s * LONGEST_STEP_S
    assert np.delete(steps_m, stalled)[-50:].max() < 1.2 * speed_m_per_s * 0.01 + 1e-4
