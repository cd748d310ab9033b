# SPDX-License-Identifier: Apache-2.0
"""Measurements of a simulated device, held back until they are due."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar


class Dated(Protocol):
    """Something seen at a time."""

    @property
    def time_s(self) -> float:
        """When it was seen, s."""


Report = TypeVar("Report", bound=Dated)


class LateReports(Generic[Report]):
    """Reports that are under way, in the order in which they were seen."""

    def __init__(self) -> None:
        self._under_way: deque[Report] = deque()

    def add(self, report: Report) -> None:
        """Take one that was seen now."""
        self._under_way.append(report)

    def until(self, now_s: float, delay_s: float) -> list[Report]:
        """What comes until now and has not come before."""
        come = []
        while self._under_way and self._under_way[0].time_s + delay_s <= now_s + 1e-9:
            come.append(self._under_way.popleft())
        return come
