# SPDX-License-Identifier: Apache-2.0
"""The base stage as the tip's control sees it: where it stands, and where it is told to go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner, subscribe_to_stream
from continuum_robot.robot.base_stage import AXES, BaseStage

Vector = NDArray[np.float64]

FRESH_S = 0.25
"""After so long without a state nothing is known of the stage."""


class StageLine:
    """Hears ``base_stage/state`` and ``base_stage/status``, and writes ``base_stage/command``."""

    def __init__(self, node: ManagedNode, stage: BaseStage, on_fault: Callable[[], None]) -> None:
        self.stage, self.fault = stage, ""
        self._node, self._on_fault = node, on_fault
        self._heard: tuple[Vector, float] | None = None
        self._commands = node.flow.create_publisher(JointState, "base_stage/command", qos.command_publisher())
        subscribe_to_stream(node, JointState, "base_stage/state", self._on_state, lazy=True)
        subscribe_to_owner(node, DiagnosticStatus, "base_stage/status", self._on_status)

    @property
    def position(self) -> Vector | None:
        """Coordinates of the stage, (2,), m and rad; None where they are not known now."""
        if self._heard is None or self._node.clock.monotonic_s() - self._heard[1] > FRESH_S:
            return None
        return self._heard[0]

    @property
    def obstacle(self) -> str:
        """Why the stage does not move, a phrase; "" where it does."""
        if self.fault:
            return f"the base stage is {self.fault}"
        return "the base stage is not heard" if self.position is None else ""

    def command(self, position: Vector) -> None:
        """Go on to a place."""
        message = JointState(name=list(AXES), position=conversions.float_array(position))
        conversions.set_stamp(message.header.stamp, self._node.clock.now_ns())
        self._commands.publish(message)

    def _on_state(self, message: JointState) -> None:
        if len(message.position) == len(AXES):
            self._heard = np.array(message.position), self._node.clock.monotonic_s()

    def _on_status(self, message: DiagnosticStatus) -> None:
        before, self.fault = self.fault, "" if message.level == DiagnosticStatus.OK else message.message
        if self.fault and not before:
            self._on_fault()
