# SPDX-License-Identifier: Apache-2.0
"""Programs of a stack that are stopped at the same time end in its order.

Ctrl-C in a terminal, launch, systemd and the end of a parent signal all programs at once. A simulator or a controller
that ended before the driver's ramp would be a fault, so each program waits until the supervisor has brought its nodes
down.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner

TOPIC = "stack_status"
BRING_DOWN_S = 10.0
"""The supervisor may take this long to bring all nodes down, beside the ramp."""
PATIENCE_S = 2.0
"""The driver releases its tendons by itself where the supervisor has not begun to stop after this time; the others end
as long after its ramp.
"""
_INTERVAL_S = 0.02
_STOPPING = (StackStatus.STOPPING, StackStatus.DOWN)
_DOWN = ("unconfigured", "finalized")


class StopOrder:
    """Waits until the supervisor has brought nodes down that it manages, where there is one."""

    def __init__(self, nodes: Sequence[ManagedNode]) -> None:
        self._nodes = [node for node in nodes if node.managed]
        self._status: StackStatus | None = None
        if self._nodes:
            subscribe_to_owner(self._nodes[0], StackStatus, TOPIC, self._on_status)

    def wait(self) -> None:
        """Return when the nodes are down, the supervisor has gone or does not stop, or after a bounded time."""
        if not self._nodes:
            return
        begun_s, ramp_s = time.monotonic(), max(node.longest_ramp_s for node in self._nodes)
        end_s = begun_s + BRING_DOWN_S + ramp_s
        first = any(node.ends_first for node in self._nodes)
        alone_s = begun_s + (PATIENCE_S if first else 2 * PATIENCE_S + ramp_s)
        while self._managed() and time.monotonic() < (end_s if self._stopping else alone_s):
            time.sleep(_INTERVAL_S)

    def _managed(self) -> bool:
        node, status = self._nodes[0], self._status
        if status is None or all(one.state in _DOWN for one in self._nodes):
            return False
        names = {one.get_name() for one in self._nodes}
        return not names.isdisjoint(status.node_names) and node.count_publishers(TOPIC) > 0

    @property
    def _stopping(self) -> bool:
        return self._status is not None and self._status.state in _STOPPING

    def _on_status(self, message: StackStatus) -> None:
        self._status = message
