# SPDX-License-Identifier: Apache-2.0
"""Another supervisor in the same namespace: its requests and ours would reach the nodes of both stacks."""

from __future__ import annotations

import math
import time
from collections import deque

from rclpy.node import Node

from continuum_robot.errors import DeviceError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.topics import qos

RIVAL_S = 3.0


class SecondSupervisor:
    """Detects ``stack_status`` of another supervisor among this supervisor's."""

    def __init__(self, node: Node, waiting: Waiting, listen_s: float) -> None:
        self._namespace, self._waiting = node.get_namespace(), waiting
        self._listen_s = listen_s
        self._own_stamps: deque[tuple[int, int]] = deque(maxlen=50)
        self._heard_s = -math.inf
        self._listened = False
        node.create_subscription(StackStatus, "stack_status", self._on_status, qos.latched())

    @property
    def present(self) -> bool:
        """Whether another supervisor speaks in this namespace: its nodes have the same names as ours."""
        return time.monotonic() - self._heard_s < RIVAL_S

    def own(self, message: StackStatus) -> None:
        """A status of this supervisor, before it is published."""
        self._own_stamps.append((message.header.stamp.sec, message.header.stamp.nanosec))

    async def refuse_after_discovery(self) -> None:
        """As :meth:`refuse`, once there was time to hear of another one."""
        if not self._listened:
            # The status of another supervisor is latched: it comes as soon as it is discovered.
            await self._waiting.sleep(self._listen_s)
            self._listened = True
        self.refuse()

    def refuse(self) -> None:
        """Raise :class:`DeviceError` where there is one."""
        if self.present:
            raise DeviceError(
                "supervisor",
                f"another one manages the namespace {self._namespace} in this DDS domain",
                "Stop that stack, or give this one another namespace or ROS_DOMAIN_ID",
            )

    def _on_status(self, message: StackStatus) -> None:
        stamp = message.header.stamp
        if (stamp.sec, stamp.nanosec) not in self._own_stamps:
            self._heard_s = time.monotonic()
