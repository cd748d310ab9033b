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
def running(request: pytest.FixtureRequest, domain):
    """The stack of the robot that the file calls ``ROBOT``, in this process and in lock-step, on its trajectory, and a
    probe that hears all that it reports of the robot's state and shape. Simulated time passes only while that waits.

    ``OPTIONS`` of the file are further options of the stack.
    """
    from ros_probe import lockstep_stack  # noqa: PLC0415 - needs rclpy, which not all tests have

    robot, options = request.module.ROBOT, getattr(request.module, "OPTIONS", {})
    name = robot if isinstance(robot, str) else robot.name
    with lockstep_stack(name, **{"visualize": True, "start_motion": True, **options}) as (stack, probe):
        probe.listen_to_shape()
        yield stack, probe


@pytest.fixture(scope="module")
def stack(running):
    return running[0]


@pytest.fixture(scope="module")
def probe(running):
    return running[1]
