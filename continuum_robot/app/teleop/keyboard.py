# SPDX-License-Identifier: Apache-2.0
"""Keys of a terminal: a key that is held repeats, and that is the dead man's switch."""

from __future__ import annotations

import contextlib
import math
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable

import numpy as np

from continuum_robot.app.teleop.device import Command, DeviceReading, Help
from continuum_robot.errors import DeviceError

REPEAT_S = 0.15
"""A key that repeats counts as held for so long after it came; terminals repeat a held key every 30 to 50 ms."""
FIRST_REPEAT_S = 0.8
"""Terminals wait 0.25 to 0.66 s before the first repeat. The motion begins with that: begun with the key itself, it would
stop and begin again.
"""
Held = tuple[int, float] | Command
"""What a held key does: an axis and its direction, or straighten."""
_KEY_AXES: dict[str, tuple[int, float]] = {
    "w": (0, 1.0),
    "s": (0, -1.0),
    "a": (1, 1.0),
    "d": (1, -1.0),
    "r": (2, 1.0),
    "f": (2, -1.0),
    "\x1b[A": (0, 1.0),
    "\x1b[B": (0, -1.0),
    "\x1b[D": (1, 1.0),
    "\x1b[C": (1, -1.0),
}
_KEY_COMMANDS = {
    " ": Command.ESTOP,
    "x": Command.RESET,
    "h": Command.HOLD,
    "t": Command.TAKE,
    "0": Command.STRAIGHT,
    "\t": Command.SEGMENT,
    "m": Command.MODE,
    "+": Command.FASTER,
    "=": Command.FASTER,
    "-": Command.SLOWER,
    "q": Command.QUIT,
}


class Keyboard:
    """Keys of a terminal. A key that is held repeats, and that is the dead man's switch: no repeat, no motion."""

    help: Help = (
        ("hold w s, up down", "to +x, -x"),
        ("hold a d, left right", "to +y, -y"),
        ("hold r f", "to +z, -z (tip)"),
        ("space", Command.ESTOP),
        ("x", Command.RESET),
        ("tab", Command.SEGMENT),
        ("m", Command.MODE),
        ("+ -", "faster, slower"),
        ("hold 0", Command.STRAIGHT),
        ("h", Command.HOLD),
        ("t", Command.TAKE),
        ("q", Command.QUIT),
    )

    def __init__(self, descriptor: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if descriptor is None:
            try:
                descriptor = sys.stdin.fileno()
            except (OSError, ValueError, AttributeError):
                descriptor = -1
        if descriptor < 0 or not os.isatty(descriptor):
            raise DeviceError("keyboard", "standard input is no terminal", "Run it in one, or use --gamepad or --joy")
        self._descriptor, self._clock = descriptor, clock
        self._before = termios.tcgetattr(descriptor)
        # Keys come one by one and are not shown; Ctrl-C stays a signal.
        tty.setcbreak(descriptor)
        self._came_s: dict[Held, float] = {}
        self._held_s: dict[Held, float] = {}
        self._rest = ""
        self._gone = False

    def read(self) -> DeviceReading:
        """Keys since the last reading."""
        now_s = self._clock()
        commands = []
        for key in self._keys():
            held = _KEY_AXES.get(key)
            if key in _KEY_COMMANDS:
                commands.append(_KEY_COMMANDS[key])
                if commands[-1] is Command.STRAIGHT:
                    held = Command.STRAIGHT
                for times in (self._came_s, self._held_s):
                    for other in times.keys() - {held}:
                        del times[other]
            if held is not None:
                if now_s - self._came_s.get(held, -math.inf) < FIRST_REPEAT_S:
                    self._held_s[held] = now_s
                self._came_s[held] = now_s
        axes = np.zeros(3)
        now_held = [one for one, at_s in self._held_s.items() if now_s - at_s < REPEAT_S]
        for one in now_held:
            if isinstance(one, tuple):
                axes[one[0]] += one[1]
        problem = "the terminal is gone" if self._gone else ""
        return DeviceReading(axes, bool(now_held) and not self._gone, tuple(commands), problem)

    def close(self) -> None:
        """Set the terminal as it was."""
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def _keys(self) -> list[str]:
        text = self._rest
        while not self._gone and select.select([self._descriptor], [], [], 0)[0]:
            try:
                data = os.read(self._descriptor, 1024)
            except OSError:
                data = b""
            if not data:
                self._gone = True
            text += data.decode("utf-8", errors="ignore")
        keys = []
        while text:
            if text in ("\x1b", "\x1b["):
                break  # the rest of an arrow key is under way
            length = 3 if text.startswith("\x1b[") else 1
            keys.append(text[:length])
            text = text[length:]
        self._rest = text
        return keys
