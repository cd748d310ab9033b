# SPDX-License-Identifier: Apache-2.0
"""Which program writes ``clarke_reference``, and where the last one left the reference."""

from __future__ import annotations

import numpy as np
from std_msgs.msg import String

from continuum_robot.control.references import ClarkeReference
from continuum_robot.msg import ClarkeState
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

BROKEN_OFF_S = 1.0
"""After so long without another program's next reference of a motion that motion is called broken off, s."""


class ReferenceWriter:
    """Shows on ``reference_writer`` who writes, and listens to what others write."""

    def __init__(self, node: ManagedNode, own: str) -> None:
        self.name = self._own = own
        self._clock = node.clock
        self._foreign: tuple[ClarkeState, float] | None = None
        self._writers = node.create_publisher(String, "reference_writer", qos.latched())
        node.flow.create_subscription(
            ClarkeState, "clarke_reference", self._on_reference, qos.newest_state(), raw=True, lazy=True
        )

    @property
    def ours(self) -> bool:
        """Whether the reference source writes."""
        return self.name == self._own

    def hand_to(self, name: str, *, tell: bool) -> None:
        """From now on this program writes."""
        if tell or name != self.name:
            self._writers.publish(String(data=name))
        self.name, self._foreign = name, None

    def followed(self, current: ClarkeReference | None, count: int) -> ClarkeReference | None:
        """What the controller follows now: the source's reference or another program's, and where that stopped."""
        if self.ours:
            return current
        if self._foreign is None:
            return None if current is None else ClarkeReference.at_rest(current.position)
        message, heard_s = self._foreign
        position = np.array(conversions.vector(message.position))
        velocity = np.array(conversions.vector(message.velocity))
        if position.size != count or not np.all(np.isfinite(position)):
            return current
        if velocity.size != position.size or not np.all(np.isfinite(velocity)):
            return ClarkeReference.at_rest(position)
        controller = ReferenceInput(count)
        controller.start(position)
        controller.receive(ClarkeReference(position, velocity, np.zeros_like(position)), heard_s)
        controller.step(heard_s)
        return controller.at(self._clock.monotonic_s())

    def broken_off_s(self) -> float:
        """How long ago another program's references ended in the middle of a motion, s; 0 where they did not."""
        if self.ours or self._foreign is None:
            return 0.0
        message, heard_s = self._foreign
        silent_s = self._clock.monotonic_s() - heard_s
        if silent_s < BROKEN_OFF_S or not np.any(conversions.vector(message.velocity)):
            return 0.0
        return silent_s

    def _on_reference(self, data: bytes) -> None:
        message = None if self.ours else conversions.message_of(data, ClarkeState)
        if message is not None:
            self._foreign = message, self._clock.monotonic_s()
