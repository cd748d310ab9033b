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


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a gamepad: what it asks for, evdev's name of it, its index in a Joy message, and where it is."""

    command: Command
    code: str
    index: int
    place: str


BUTTONS = (
    Button(Command.ESTOP, "BTN_EAST", 1, "right button (B, circle)"),
    Button(Command.RESET, "BTN_START", 7, "start"),
    Button(Command.SEGMENT, "BTN_TR", 5, "right shoulder (RB)"),
    Button(Command.MODE, "BTN_SELECT", 6, "select (back)"),
    Button(Command.STRAIGHT, "BTN_WEST", 2, "left button (X, square)"),
    Button(Command.HOLD, "BTN_SOUTH", 0, "lower button (A, cross)"),
    Button(Command.TAKE, "BTN_NORTH", 3, "upper button (Y, triangle)"),
)
"""As Linux' gamepad interface (Documentation/input/gamepad.rst) and joy_node for an Xbox controller have them."""

PAD_HELP: Help = (
    ("hold left shoulder (LB)", "dead man's switch"),
    ("left stick", "to x and y"),
    ("right stick up down", "to z (tip)"),
    *((button.place, button.command) for button in BUTTONS),
    ("Ctrl-C", Command.QUIT),
)
"""Of gamepads, however they come here."""
