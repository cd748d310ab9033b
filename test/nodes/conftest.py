# SPDX-License-Identifier: Apache-2.0
"""Every file of node tests talks on the loopback in a DDS domain of its own; what several of them start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BASE_DOMAIN = int(os.environ.get("CONTINUUM_ROBOT_TEST_DOMAIN", "41"))
DOMAINS = 18


@pytest.fixture(scope="module", autouse=True)
def domain(request: pytest.FixtureRequest):
    """The domain of this file; the environment is that of a user who did not open DDS to the network."""
    if not any(mark.name == "ros" for mark in getattr(request.module, "pytestmark", [])):
        yield None
        return
    pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
    files = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    number = BASE_DOMAIN + files.index(Path(request.module.__file__).name) % DOMAINS
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(number))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield number


@pytest.fixture(scope="module")
def context(domain):
    """The file's own context of rclpy, for nodes that the tests make themselves."""
    from rclpy.context import Context  # noqa: PLC0415 - not all tests have rclpy

    from continuum_robot.nodes.base.spinning import initialize  # noqa: PLC0415

    context = Context()
    initialize([], context)
    yield context
    context.try_shutdown()


@pytest.fixture
def make(context):
    """Makes nodes of that context: ``make(kind, *names, **overrides)``; they are destroyed at the end."""
    from continuum_robot.nodes.lockstep.bus import LockstepBus  # noqa: PLC0415 - not all tests have rclpy

    nodes, bus = [], LockstepBus()

    def made(kind, *names, **overrides):
        more = {"bus": bus} if overrides.get("clock") == "lockstep" else {}
        nodes.append(kind(*names, context=context, overrides=overrides, **more))
        return nodes[-1]

    yield made
    for node in nodes:
        node.destroy_node()


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, domain):
    """The whole stack of the robot that the file calls ``ROBOT``, in this process and in lock-step, on its trajectory.

    ``OPTIONS`` of the file are further options of the stack. Simulated time stands still; the probe lets it pass.
    """
    from ros_probe import SIMULATED_STEP_S  # noqa: PLC0415 - needs rclpy, which not all tests have

    from continuum_robot.nodes.composition import ComposedStack  # noqa: PLC0415 - needs rclpy
    from continuum_robot.nodes.stack.options import StackOptions  # noqa: PLC0415

    robot, more = request.module.ROBOT, {"start_motion": True, **getattr(request.module, "OPTIONS", {})}
    name = robot if isinstance(robot, str) else robot.name
    options = StackOptions(robot=name, clock="lockstep", seed=1, run_s=SIMULATED_STEP_S, **more)
    with ComposedStack(options) as running:
        running.wait_until_up(120.0)
        yield running


@pytest.fixture(scope="module")
def probe(stack):
    """Hears all that the stack reports of the robot's state and shape, and lets simulated time pass."""
    from ros_probe import Probe  # noqa: PLC0415

    with Probe(stack=stack) as listening:
        listening.listen_to_stack()
        listening.listen_to_shape()
        listening.wait_real(lambda: listening.stack_state() == "up" and listening.driver_state() == "active")
        yield listening
