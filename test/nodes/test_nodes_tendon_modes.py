# SPDX-License-Identifier: Apache-2.0
"""The stack of a robot with parallel tendons on one segment and helical ones on the other: control by tendon modes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from geometry_msgs.msg import PointStamped

from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = "mixed_routing"
TIP_M = 3e-3


def test_it_tracks_the_trajectory_of_its_file(stack, probe):
    assert {"clarke_controller", "reference_source"} <= stack.nodes.keys()
    probe.bring_up()
    probe.trigger("reference_source/restart")
    probe.pause(1.2)  # the blend into the trajectory
    for topic in ("clarke_state", "clarke_reference"):
        probe.received[topic].clear()
    probe.pause(2.0)
    states, references = list(probe.received["clarke_state"]), list(probe.received["clarke_reference"])
    desired_s, measured_s = (
        np.array([conversions.stamp_ns(m.header.stamp) * 1e-9 for m in messages]) for messages in (references, states)
    )
    desired = np.array([m.position for m in references])
    measured = np.array([m.position for m in states])
    assert measured.shape[1] == load_robot(ROBOT).coordinate_count == 4
    inside = (measured_s > desired_s[0]) & (measured_s < desired_s[-1])
    assert np.count_nonzero(inside) > 100
    for axis in range(4):
        error = measured[inside, axis] - np.interp(measured_s[inside], desired_s, desired[:, axis])
        assert np.sqrt(np.mean(error**2)) < 2e-4  # m, of amplitudes of 1 to 3 mm
    assert np.ptp(measured[:, 0]) > 1e-3
    states = list(probe.received["tendon_states"])
    assert len(states[-1].tension) == 8
    lowest = np.array([m.commanded_tension for m in states]).min(axis=1)
    assert np.median(lowest) == pytest.approx(load_robot(ROBOT).control.pretension_n)
    # After a late cycle the rate limit takes from the pretension, and slackens no tendon.
    assert lowest.min() >= load_robot(ROBOT).limits.minimum_n


def test_its_tip_is_brought_to_a_target(probe):
    probe.bring_up()
    here = probe.wait_for_message("shape").tip.position
    target = np.array([here.x + 0.02, here.y - 0.01, here.z - 0.002])
    message = PointStamped()
    message.header.frame_id = "base"
    message.point.x, message.point.y, message.point.z = target.tolist()

    def there() -> bool:
        probe.publish(PointStamped, "tip_target", message, qos.command_publisher())
        place = probe.newest("shape").tip.position
        return bool(np.linalg.norm(np.array([place.x, place.y, place.z]) - target) < TIP_M)

    probe.wait(there, 20.0, "the tip does not come to its target")
