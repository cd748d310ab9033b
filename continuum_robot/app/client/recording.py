# SPDX-License-Identifier: Apache-2.0
"""A recorder beside a stack, for as long as a block runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.topics.qos import LOCKSTEP_DEPTH
from continuum_robot.robot.description import Robot as RobotDescription


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
