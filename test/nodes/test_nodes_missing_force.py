# SPDX-License-Identifier: Apache-2.0
"""What the limits leave of the force that a controller wants: in the diagnostics, and for its integral over topics."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, TendonStates
from rclpy.serialization import serialize_message
from ros_probe import SIMULATED_STEP_S, Probe

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.clarke_controller import ClarkeControllerNode
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics.flat_messages import commands_layout
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.clock import START_NS

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("rucker_helical")
MAXIMUM_N = 2.5


def test_over_topics_the_integral_gets_what_the_driver_left_of_a_command(make):
    """A robot that something holds, and a driver that writes at most some newtons: as the driver's own cycle."""
    robot = load_robot("opencr_five_tendon")
    count, zero = robot.tendon_count, [0.0] * robot.tendon_count
    node = make(ClarkeControllerNode, robot=robot.name, clock="lockstep", seed=1)
    node.configure()
    node.activate()
    node._driver_active = True
    layout, answers = commands_layout(count, writer="clarke_controller"), []
    node._commands = SimpleNamespace(
        publish=lambda data: answers.append(np.array(layout.numbers(data)[layout.place["tension"]])),
        get_subscription_count=lambda: 1,
    )
    gains = robot.control.gains[0]
    ahead = ClarkeState(position=[0.4 * gains.u_clamp_max / gains.p, 0.0])
    pretension_n = robot.control.pretension_n
    written, largest_n = np.full(count, pretension_n), pretension_n + 1.0
    for k in range(1, 3001):
        node.clock.set_ns(START_NS + k * 1_000_000)
        limited = np.zeros(count, dtype=np.uint8)
        if answers:
            asked = answers[-2:][0]  # a command reaches the driver's next cycle, and the state after that has it
            written = np.minimum(asked, largest_n)
            limited[written < asked] = TendonStates.LIMITED_MAXIMUM
        states = TendonStates(
            sequence=k,
            displacement=zero,
            velocity=zero,
            tension=written.tolist(),
            age=zero,
            commanded_tension=written.tolist(),
            limited=limited,
        )
        states.header.stamp.sec, states.header.stamp.nanosec = divmod(node.clock.now_ns(), 1_000_000_000)
        node._on_reference(ahead)
        node._on_states(serialize_message(states))
        assert len(answers) == k
    terms = node._controller.output().terms
    assert terms.saturated[0]
    assert terms.error[0] > 0
    assert terms.p_term[0] + gains.i_clamp_max < gains.u_clamp_max  # nothing but the driver bounds the force
    # Back-calculation takes away what integration adds.
    assert terms.i_term[0] < 0.2 * gains.i_clamp_max


@pytest.mark.long
@pytest.mark.parametrize("controller", ["clarke", pytest.param("topic", marks=pytest.mark.long)])
def test_a_force_beyond_the_limits_is_told_with_what_is_reached(domain, controller):
    options = StackOptions(
        robot=ROBOT.name,
        visualize=False,
        clock="lockstep",
        seed=1,
        run_s=SIMULATED_STEP_S,
        start_motion=True,
        controller=controller,
        parameters={"tendon_driver": {"limits.maximum_n": MAXIMUM_N}},
    )
    with ComposedStack(options) as stack, Probe(stack=stack) as probe:
        probe.listen_to_stack()
        stack.wait_until_up(120.0)

        def reported() -> dict[str, str]:
            status = probe.diagnostics.get("/clarke_controller: controller")
            return {} if status is None else values_of(status)

        probe.wait(lambda: float(reported().get("force_missing_n", 0.0)) > 0.2, 10.0, "no missing force is reported")
        found = reported()
        desired, reached = (
            np.array([float(value) for value in found[key].split(", ")])
            for key in ("force_desired_n", "force_reached_n")
        )
        assert desired.shape == reached.shape == (ROBOT.coordinate_count,)
        assert np.abs(desired - reached).max() == pytest.approx(float(found["force_missing_n"]), rel=0.02)
        assert max(probe.newest("tendon_states").commanded_tension) <= MAXIMUM_N + 1e-9
