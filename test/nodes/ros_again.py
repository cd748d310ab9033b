# SPDX-License-Identifier: Apache-2.0
"""A participant of its own that asks again what another one could not.

Where a process had a stack before, a participant that joins the next one was seen (one in ten) to miss one of its
services or topics for good, while it found all others; a new participant has another chance.
"""

from __future__ import annotations

from typing import Any

from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.nodes.spinning import Spinner, initialize

FIND_S = 10.0
"""After so long a service that has not been found is looked for by another participant, s."""


class Again:
    """A node with its participant and executor."""

    def __init__(self, namespace: str = "") -> None:
        self.context = Context()
        initialize([], self.context)
        self.node = Node("again", context=self.context, namespace=namespace or None)
        self._spinner = Spinner([self.node], self.context)
        self._spinner.start()

    def client(self, kind: Any, service: str) -> Any:
        return self._spinner.run(lambda: self.node.create_client(kind, service))

    def close(self) -> None:
        self._spinner.stop()
        self.node.destroy_node()
        self.context.try_shutdown()
