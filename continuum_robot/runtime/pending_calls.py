# SPDX-License-Identifier: Apache-2.0
"""Functions that other threads want called between two cycles, in the loop's thread."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from continuum_robot.errors import DeviceError

Result = TypeVar("Result")


class PendingCalls:
    """Functions that wait for the loop; true while there are some."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[tuple[Callable[[], Any], concurrent.futures.Future[Any]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, function: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Have ``function`` called by the loop; its result, or what it raised, is the future's."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        self._waiting.append((function, future))
        return future

    def answer(self) -> None:
        """Call all that wait. In the loop's thread."""
        while self._waiting:
            function, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    def refuse(self) -> None:
        """The loop has ended: all that wait get a :class:`DeviceError`. Safe to call from any thread."""
        while self._waiting:
            try:
                _, future = self._waiting.popleft()
            except IndexError:  # another thread refused it
                return
            if future.set_running_or_notify_cancel():
                future.set_exception(DeviceError(self._name, "the loop has ended", "Configure the node again"))
