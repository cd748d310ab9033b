# SPDX-License-Identifier: Apache-2.0
"""What the limits leave of the force that a controller wants, in the diagnostics of a robot on tendon modes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import SIMULATED_STEP_S, Probe

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.long]

ROBOT = load_robot("rucker_helical")
MAXIMUM_N = 2.5


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
