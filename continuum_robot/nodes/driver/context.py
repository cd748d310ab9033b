# SPDX-License-Identifier: Apache-2.0
"""What the parts of the driver share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.recordings.records import record_folder
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import interpreted_form


class DriverContext:
    """The driver's node, its loop while it is configured, and a loop that hangs since an earlier cleanup."""

    def __init__(self, node: ManagedNode) -> None:
        self.node = node
        self.loop: DriverLoop | None = None
        self.hung: DriverLoop | None = None
        self.form = interpreted_form("not configured yet")
        self.publish_status: Callable[[], None] = lambda: None

    @property
    def configured(self) -> DriverLoop:
        """The loop. Raises :class:`DeviceError` while there is none."""
        loop = self.loop
        if loop is None:
            raise DeviceError("tendon_driver", "is not configured", "Configure it first")
        return loop

    @property
    def hangs(self) -> bool:
        """Whether a cycle does not end; of a loop that was given up, until the next configuration."""
        loop = self.loop
        return self.hung is not None if loop is None else loop.hangs

    @property
    def folder(self) -> Path:
        """Where homing, cogging and heat of the motors are stored."""
        return record_folder(self.node)
