# SPDX-License-Identifier: Apache-2.0
"""What a person steers with: axes, a dead man's switch and commands, of keys, gamepads and Joy topics."""

from __future__ import annotations

import contextlib
import errno
import grp
import math
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError


class Command(Enum):
    """What a person may ask for, by what the help states of it."""

    ESTOP = "E-STOP"
    RESET = "reset: clear faults, bring up"
    HOLD = "let the reference source hold"
    TAKE = "take the reference again"
    STRAIGHT = "straighten"
    SEGMENT = "next segment"
    MODE = "Clarke or tip"
    EPISODE = "begin an episode, or keep it"
    DISCARD = "discard the episode"
    FASTER = "faster"
    SLOWER = "slower"
    QUIT = "quit"


Help = Sequence[tuple[str, Command | str]]
"""What is where, and what it does."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What a person wants now; three axes, or six of a cap: pushed to x, y, z, tilted to x and y, twisted."""

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
    Button(Command.EPISODE, "BTN_THUMBR", 10, "press right stick"),
    Button(Command.DISCARD, "BTN_MODE", 8, "logo in the middle"),
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


REPEAT_S = 0.15
"""A key that repeats counts as held for so long after it came; terminals repeat a held key every 30 to 50 ms."""
FIRST_REPEAT_S = 0.8
"""Terminals wait 0.25 to 0.66 s before the first repeat. The motion begins with that: begun with the key itself, it
would stop and begin again.
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
    "\n": Command.EPISODE,
    "\x7f": Command.DISCARD,
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
        ("enter", Command.EPISODE),
        ("backspace", Command.DISCARD),
        ("q", Command.QUIT),
    )

    def __init__(self, descriptor: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if descriptor is None:
            try:
                descriptor = sys.stdin.fileno()
            except (OSError, ValueError, AttributeError):
                descriptor = -1
        if descriptor < 0 or not os.isatty(descriptor):
            remedy = "Run it in one, or use --gamepad, --spacemouse or --joy"
            raise DeviceError("keyboard", "standard input is no terminal", remedy)
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
            held: Held | None = _KEY_AXES.get(key)
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


REOPEN_S = 1.0


class Gamepad:
    """A gamepad through evdev: left stick x and y, right stick z, the left shoulder button is the dead man's switch.

    Where it is unplugged nothing is held; when it is back, the switch has to be pressed again.
    """

    help: Help = (*PAD_HELP[:-1], ("cross up down", "faster, slower"), PAD_HELP[-1])

    def __init__(self, device: Any, reopen: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        from evdev import ecodes  # noqa: PLC0415 - an extra, needed for gamepads alone

        self._codes, self._reopen, self._clock = ecodes, reopen, clock
        self._commands = {getattr(ecodes, button.code): button.command for button in BUTTONS}
        self._name = str(device.name)
        self._device: Any = None
        self._lost_s = 0.0
        self._values: dict[int, float] = {}
        self._ranges: dict[int, tuple[float, float]] = {}
        self._held = False
        self._use(device)

    def read(self) -> DeviceReading:
        """Events since the last reading."""
        if self._device is None and not self._back():
            return at_rest(f"{self._name} is unplugged")
        commands: list[Command] = []
        try:
            while select.select([self._device.fd], [], [], 0)[0]:
                for event in self._device.read():
                    self._take(event, commands)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
                self._lose()
                return at_rest(f"{self._name} is unplugged", commands)
        # Sticks count down from the front and up to the right; +x is to the front, +y to the left, +z to the front.
        codes = (self._codes.ABS_Y, self._codes.ABS_X, self._codes.ABS_RY)
        axes = np.array([-self._values.get(code, 0.0) for code in codes])
        return DeviceReading(axes, self._held, tuple(commands))

    def close(self) -> None:
        """Close the device."""
        if self._device is not None:
            self._device.close()

    def _use(self, device: Any) -> None:
        capabilities = device.capabilities(absinfo=True)
        axes = dict(capabilities.get(self._codes.EV_ABS, []))
        buttons = capabilities.get(self._codes.EV_KEY, [])
        if not {self._codes.ABS_X, self._codes.ABS_Y} <= axes.keys() or self._codes.BTN_TL not in buttons:
            device.close()
            raise DeviceError(
                f"{device.path} ({device.name})",
                "is no gamepad: it has no left stick, or no left shoulder button",
                "Name another with --gamepad",
            )
        self._ranges = {code: (float(info.min), float(info.max)) for code, info in axes.items()}
        self._values, self._held, self._device = {}, False, device
        for code, info in axes.items():
            self._set(code, info.value)

    def _take(self, event: Any, commands: list[Command]) -> None:
        if event.type == self._codes.EV_ABS and event.code in self._ranges:
            if event.code == self._codes.ABS_HAT0Y and event.value:
                commands.append(Command.FASTER if event.value < 0 else Command.SLOWER)
            self._set(event.code, event.value)
        elif event.type == self._codes.EV_KEY:
            if event.code == self._codes.BTN_TL:
                self._held = event.value != 0
            elif event.value == 1 and event.code in self._commands:
                commands.append(self._commands[event.code])
        elif event.type == self._codes.EV_SYN and event.code == self._codes.SYN_DROPPED:
            # Events were lost: what is held is not known any more.
            self._held = False

    def _set(self, code: int, value: float) -> None:
        low, high = self._ranges[code]
        self._values[code] = 2 * (value - low) / (high - low) - 1 if high > low else math.nan

    def _lose(self) -> None:
        with contextlib.suppress(OSError):
            self._device.close()
        self._device, self._lost_s, self._held = None, self._clock(), False

    def _back(self) -> bool:
        if self._clock() - self._lost_s < REOPEN_S:
            return False
        self._lost_s = self._clock()
        try:
            self._use(self._reopen())
        except (OSError, DeviceError):
            return False
        return True


def open_gamepad(path: str) -> Gamepad:
    """Open a gamepad."""
    try:
        import evdev  # noqa: PLC0415 - an extra, needed for gamepads alone
    except ImportError:
        raise DeviceError(
            "--gamepad", "evdev is not installed", "pip install 'continuum-robot[gamepad]' (Linux only)"
        ) from None
    if path == "auto":
        return _first_gamepad(evdev)

    def reopen() -> Any:
        return evdev.InputDevice(path)

    try:
        return Gamepad(reopen(), reopen)
    except DeviceError:
        raise
    except PermissionError:
        raise _not_allowed(Path(path)) from None
    except OSError as error:
        problem = f"is no input device ({error.strerror or error})"
        raise DeviceError(path, problem, "Name a file /dev/input/event*, or --gamepad auto") from None


def _first_gamepad(evdev: Any) -> Gamepad:
    files = sorted(Path("/dev/input").glob("event*"), key=lambda file: (len(file.name), file.name))
    forbidden = [file for file in files if not os.access(file, os.R_OK)]
    for file in files:
        if file in forbidden:
            continue
        with contextlib.suppress(OSError):  # DeviceError too: no gamepad
            return Gamepad(evdev.InputDevice(str(file)), partial(evdev.InputDevice, str(file)))
    if forbidden:
        raise _not_allowed(forbidden[0])
    raise DeviceError("--gamepad", f"none found among {len(files)} input devices", "Plug one in, or name its file")


def _not_allowed(file: Path) -> DeviceError:
    try:
        group = grp.getgrgid(file.stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "input"
    return DeviceError(
        str(file),
        "may not be read",
        f"Join its group and log in again: sudo usermod -aG {group} $USER",
    )
