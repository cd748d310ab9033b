# SPDX-License-Identifier: Apache-2.0
"""What a person steers with, whatever it is: axes, a dead man's switch, commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Command(Enum):
    """What a person may ask for, by what the help states of it."""

    ESTOP = "E-STOP"
    RESET = "reset: clear faults, bring up"
    HOLD = "let the reference source hold"
    TAKE = "take the reference again"
    STRAIGHT = "straighten"
    SEGMENT = "next segment"
    MODE = "Clarke or tip"
    FASTER = "faster"
    SLOWER = "slower"
    QUIT = "quit"


Help = Sequence[tuple[str, Command | str]]
"""What is where, and what it does."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What a person wants now."""

    axes: NDArray[np.float64]
    held: bool
    commands: tuple[Command, ...] = ()
    problem: str = ""


def at_rest(problem: str = "", commands: Sequence[Command] = ()) -> DeviceReading:
    """No axis is deflected and nothing is held."""
    return DeviceReading(np.zeros(3), False, tuple(commands), problem)


class TeleopDevice(Protocol):
    """A device; reading it never blocks and never raises."""

    def read(self) -> DeviceReading:
        """What came since the last reading."""

    def close(self) -> None:
        """Give the device back as it was."""

    @property
    def help(self) -> Help:
        """What is where, and what it does."""
