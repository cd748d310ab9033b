# SPDX-License-Identifier: Apache-2.0
"""Asks the nodes of a namespace for their parameters, one after the other, and hands them over as text."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python

from continuum_robot.nodes.base.lifecycle import ManagedNode

LIST_SERVICE, GET_SERVICE = "list_parameters", "get_parameters"


class ParameterSnapshot:
    """Collects the parameters of all nodes of a namespace, each node once.

    Nothing blocks: :meth:`look` sends at most one request, the answers come in the executor's thread.
    """

    def __init__(self, node: ManagedNode, on_parameters: Callable[[str, str], None]) -> None:
        self._node, self._on_parameters = node, on_parameters
        self.taken: set[str] = set()
        self._known: set[str] = set()
        self._waiting: deque[str] = deque()
        # Kept: the EventsExecutor does not take it well when a callback destroys what it listens to.
        self._clients: dict[str, Any] = {}

    def restart(self) -> None:
        """Ask all nodes again."""
        self.taken.clear()
        self._known.clear()
        self._waiting.clear()

    def look(self) -> None:
        """Look for nodes that were not asked yet, and ask the next one that answers."""
        namespace = self._node.get_namespace().rstrip("/") + "/"
        for name, inside in self._node.get_node_names_and_namespaces():
            full = f"{inside.rstrip('/')}/{name}"
            if full.startswith(namespace) and not name.startswith("_") and full not in self._known:
                self._known.add(full)
                self._waiting.append(full)
        for _ in range(len(self._waiting)):
            full = self._waiting.popleft()
            services = self._client(ListParameters, full, LIST_SERVICE), self._client(GetParameters, full, GET_SERVICE)
            if all(client.service_is_ready() for client in services):
                self._ask(full, *services)
                return
            if self._exists(full):
                self._waiting.append(full)  # its services are not discovered yet
            else:
                self._known.discard(full)

    def _exists(self, full: str) -> bool:
        names = {f"{inside.rstrip('/')}/{name}" for name, inside in self._node.get_node_names_and_namespaces()}
        return full in names

    def _ask(self, full: str, list_client: Any, get_client: Any) -> None:
        def take_names(future: Any) -> None:
            names = list(future.result().result.names) if future.result() is not None else []
            if names:
                asked = get_client.call_async(GetParameters.Request(names=names))
                asked.add_done_callback(self._node.guarded(lambda done: self._take(full, names, done)))

        asked = list_client.call_async(ListParameters.Request())
        asked.add_done_callback(self._node.guarded(take_names))

    def _take(self, full: str, names: list[str], future: Any) -> None:
        response = future.result()
        if response is None or len(response.values) != len(names):
            return
        values = {
            name: portable(parameter_value_to_python(value)) for name, value in zip(names, response.values, strict=True)
        }
        relative = full[len(self._node.get_namespace().rstrip("/")) + 1 :]
        self.taken.add(relative)
        self._on_parameters(relative, json.dumps(dict(sorted(values.items()))))
        self.look()

    def _client(self, kind: Any, full: str, service: str) -> Any:
        key = f"{full}/{service}"
        if key not in self._clients:
            self._clients[key] = self._node.create_client(kind, key)
        return self._clients[key]


def portable(value: Any) -> Any:
    """A parameter's value as JSON takes it, without this computer's folders: of a path only its last part stays."""
    if isinstance(value, str):
        path = Path(value)
        return path.name if path.is_absolute() and not value.startswith("/dev/") and path.exists() else value
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return [portable(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value
