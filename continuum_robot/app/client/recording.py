# SPDX-License-Identifier: Apache-2.0
"""A recorder beside a stack, for as long as a block runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.robot.description import Robot as RobotDescription


@contextlib.contextmanager
def recorded(link: StackLink, robot: RobotDescription, path: Path) -> Iterator[Path]:
    """Record all topics of the stack. Arguments as of :meth:`continuum_robot.app.client.robot.Robot.record`.

    Raises
    ------
    DeviceError : it cannot be written
    """
    overrides = {
        "robot": str(robot.file_name or robot.name),
        "use_fake_hardware": link.state().simulated,
        "directory": str(path.parent),
        "name": path.name,
    }
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
