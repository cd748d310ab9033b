# SPDX-License-Identifier: Apache-2.0
"""How a program comes to a robot: it brings a stack up itself, or joins one that runs; and a recorder beside it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.running.demo import prepare_cycle
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.stack import load_for_stack
from continuum_robot.errors import DeviceError, RobotTimeoutError
from continuum_robot.nodes.base.spinning import Spinner, wait_for
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics.qos import LOCKSTEP_DEPTH
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.robot.loading import load_robot


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """A robot that can be talked to."""

    link: StackLink
    robot: RobotDescription
    stack: ComposedStack | None
    closing: contextlib.ExitStack


def bring_up(options: StackOptions, timeout_s: float, *, processes: bool = True) -> Connection:
    """Bring a stack up; its reference source holds the robot where it is."""
    robot = load_for_stack(options)

    def prepare() -> None:
        if options.simulated:
            prepare_cycle(robot, Console(quiet=True))

    with contextlib.ExitStack() as closing:
        closing.enter_context(claimed_domain(options.namespace, meanwhile=prepare))
        stack = (ProcessStack if processes else ComposedStack)(options)
        closing.callback(stack.shutdown)
        stack.start()
        stack.wait_until_up(timeout_s)
        link = StackLink(options.namespace)
        closing.callback(link.close)
        return Connection(link, robot, stack, closing.pop_all())


def join(namespace: str, file: str | Path | None, timeout_s: float) -> Connection:
    """Join a stack that runs. Arguments and errors as of :meth:`continuum_robot.app.client.robot.Robot.connect`."""
    with contextlib.ExitStack() as closing:
        link = StackLink(namespace)
        closing.callback(link.close)
        if not wait_for(lambda: link.messages["stack_status"] is not None, timeout_s):
            raise RobotTimeoutError(
                "robot",
                f"no stack in namespace {link.namespace} after {timeout_s:g} s",
                "Bring one up (continuum-robot up ROBOT), and see that ROS_DOMAIN_ID is the same",
            )
        robot = load_robot(str(file or link.get_parameter("tendon_driver", "robot")))
        return Connection(link, robot, None, closing.pop_all())


def recorder_parameters(robot: RobotDescription, state: RobotState, folder: Path) -> dict[str, Any]:
    """Parameters of a recorder beside a running stack that does not know of it."""
    in_lockstep = {"clock": "lockstep", "looks_on": True, "qos.depth": LOCKSTEP_DEPTH}
    return {
        "robot": str(robot.file_name or robot.name),
        "use_fake_hardware": state.simulated,
        "directory": str(folder),
    } | (in_lockstep if state.in_lockstep else {})


@contextlib.contextmanager
def recorded(link: StackLink, robot: RobotDescription, path: Path) -> Iterator[Path]:
    """Record all topics of the stack. Arguments as of :meth:`continuum_robot.app.client.robot.Robot.record`."""
    overrides = recorder_parameters(robot, link.state(), path.parent) | {"name": path.name}
    node = Recorder(
        context=link.context,
        namespace=link.namespace,
        overrides=overrides,
        cli_args=["--ros-args", "-r", f"__node:={link.name}_recorder"],
    )
    spinner = Spinner([node], link.context)
    spinner.start()
    try:
        spinner.run(node.trigger_configure)
        spinner.run(node.trigger_activate)
        folder = node.folder
        if node.last_error or folder is None:
            raise DeviceError("recording", node.last_error or "was not begun", "Choose another folder")
        yield folder
    finally:
        spinner.run(node.trigger_deactivate)
        spinner.stop()
        node.destroy_node()
