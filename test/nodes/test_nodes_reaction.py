# SPDX-License-Identifier: Apache-2.0
"""Reactions to contacts over DDS, in lock-step: hold, retract, comply, and what the robot does when it cannot feel."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState
from ros_contact import touched_stack
from std_msgs.msg import String

from continuum_robot.nodes.topics import conversions, qos

pytestmark = [pytest.mark.ros]

ROBOT = "vanderbilt_segment"
STARTS_S, FORCE_N = (2.5, 7.0, 12.0), 40.0
PUSH = "{{name: push_{k}, kind: push, disk: 6, force_n: [{force}, 0, 0], ramp_s: 0.2, start_s: {start}, end_s: {end}}}"
SCHEDULE = "contacts:\n" + "".join(
    f"  - {PUSH.format(k=k, force=-FORCE_N, start=start, end=start + 2)}\n" for k, start in enumerate(STARTS_S)
)


@pytest.fixture(scope="module")
def probe(domain, tmp_path_factory):
    parameters = {
        "tendon_driver": {"rate_hz": 500.0},
        "contact_monitor": {"input_timeout_s": 3.0},
        "reference_source": {"reaction.strategy": "hold"},
    }
    with touched_stack(ROBOT, SCHEDULE, tmp_path_factory.mktemp("contacts"), parameters) as (_stack, probe):
        probe.listen(ClarkeState, "clarke_reference")
        probe.listen(String, "reaction_state", qos.latched())
        yield probe


def references(probe):
    return np.array([conversions.vector(m.position) for m in probe.received["clarke_reference"]])


def state(probe):
    return probe.newest("reaction_state").data


def wait_for_push(probe, begins=True):
    truth = probe.received["simulated_contact"]
    probe.wait(lambda: truth and truth[-1].in_contact == begins, 20.0, "no push")


def test_it_holds_while_and_after_something_touches(probe):
    probe.wait(lambda: len(probe.received["clarke_reference"]) > 50)
    assert state(probe) == "following"
    wait_for_push(probe)
    probe.wait(lambda: state(probe).startswith("holding"), 2.0, "it did not hold")
    assert "something touches" in state(probe)
    probe.received["clarke_reference"].clear()
    wait_for_push(probe, begins=False)
    probe.pause(0.5)
    assert np.ptp(references(probe), axis=0).max() == 0.0
    assert probe.trigger("reference_source/resume").success
    probe.wait(lambda: state(probe) == "following", 10.0, "it did not go back")
    assert not probe.trigger("reference_source/resume").success, "it follows"
    assert probe.faults() == []


def test_it_retracts_along_the_way_it_came(probe):
    assert probe.set_parameter("reference_source", "reaction.strategy", "retract")
    probe.received["clarke_reference"].clear()
    wait_for_push(probe)
    probe.wait(lambda: state(probe).startswith("retracting"), 2.0, "it did not retract")
    way = references(probe)
    probe.received["clarke_reference"].clear()
    # A push does not end because the robot moves away: it goes back to where it came from, or until the push ends.
    wait_for_push(probe, begins=False)
    probe.wait(lambda: state(probe).startswith(("retracted", "holding")), 20.0, "it goes on")
    back = references(probe)
    moved = np.linalg.norm(back[-1] - back[0])
    assert moved > 1e-3
    distance = np.linalg.norm(back[:, None, :] - way[None, :, :], axis=2).min(axis=1)
    assert distance[:20].max() < 2e-3, "it left the way it came"
    probe.trigger("reference_source/resume")
    probe.wait(lambda: state(probe) == "following", 20.0, "it did not go back")
    assert probe.faults() == []


@pytest.mark.long
def test_it_gives_way_and_comes_back(probe):
    assert probe.set_parameter("reference_source", "reaction.strategy", "comply")
    wait_for_push(probe)
    probe.wait(lambda: state(probe).startswith("complying"), 2.0, "it did not give way")
    wait_for_push(probe, begins=False)
    probe.wait(lambda: state(probe) == "following", 60.0, "it did not come back")
    assert probe.faults() == []


def test_without_a_monitor_it_holds_and_a_motion_of_the_operator_goes_on_only_with_one(probe):
    assert probe.trigger("reference_source/restart").success
    probe.pause(1.0)
    assert probe.transition("contact_monitor", "deactivate")
    probe.wait(lambda: "the contact monitor is silent" in state(probe), 3.0, "it went on blindly")
    probe.received["clarke_reference"].clear()
    probe.pause(0.5)
    assert np.ptp(references(probe), axis=0).max() == 0.0
    assert probe.set_parameter("reference_source", "reaction.strategy", "ignore")
    assert probe.trigger("reference_source/resume").success
    probe.wait(lambda: state(probe) == "following", 10.0, "it did not go on")
    assert probe.faults() == []
