# SPDX-License-Identifier: Apache-2.0
"""Several devices opened at once, and when one that was lost is looked for again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from continuum_robot.errors import DeviceError

PERIOD_S = 0.5


def open_all(devices: Sequence[Any], what: str) -> None:
    """Open devices of one kind."""
    errors = []
    for device in devices:
        try:
            device.open()
        except DeviceError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        problems = "; ".join(f"{error.device}: {error.problem}" for error in errors)
        raise DeviceError(what, problems, " ".join(dict.fromkeys(error.remedy for error in errors)))


class Reconnection:
    """Keeps why a device was lost, and tries twice a second to open it again."""

    def __init__(self) -> None:
        self.found()

    def found(self) -> None:
        """The device is there."""
        self.lost: DeviceError | None = None
        self._next_attempt_s = -math.inf

    def lose(self, error: DeviceError, now_s: float) -> None:
        """The device is gone."""
        self.lost, self._next_attempt_s = error, now_s + PERIOD_S

    def attempt(self, now_s: float, open_again: Callable[[], object]) -> bool:
        """Open a lost device again, where it is time for that."""
        if self.lost is None:
            return False
        if now_s < self._next_attempt_s:
            raise self.lost
        try:
            open_again()
        except DeviceError as error:
            self.lose(error, now_s)
            raise
        self.found()
        return True
