# SPDX-License-Identifier: Apache-2.0
"""Asks a node of the stack for parameters, again and again until it answers.

Names
-----
snapshot : newest state of the stack
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described

_PERIOD_S = 1.0


class Question:
    """Asked once a second while the stack is up, answered once."""

    def __init__(
        self,
        commander: Commander,
        node: str,
        names: Sequence[str],
        answered: Callable[[dict[str, Described]], None],
    ) -> None:
        self._commander, self._node, self._names, self._answered = commander, node, list(names), answered
        self._asked_s = -math.inf
        self._done = False

    def update(self, snapshot: RobotState) -> None:
        """Ask where it is time to."""
        now_s = time.monotonic()
        if self._done or snapshot.stack != "up" or now_s - self._asked_s < _PERIOD_S:
            return
        self._asked_s = now_s
        self._commander.describe(self._node, self._names, self._take)

    def _take(self, found: dict[str, Described]) -> None:
        if not self._done and self._names[0] in found:
            self._done = True
            self._answered(found)
