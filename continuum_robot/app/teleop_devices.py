# SPDX-License-Identifier: Apache-2.0
"""What a person steers with: keys of a terminal, a gamepad, or a Joy topic; each with a dead man's switch."""

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rclpy.context import Context
from sensor_msgs.msg import Joy

from continuum_robot.app.newest_messages import NewestMessages
from continuum_robot.errors import DeviceError
from continuum_robot.nodes import conversions

Vector = NDArray[np.float64]

ESTOP, RESET, HOLD, TAKE, STRAIGHT, SEGMENT, MODE, FASTER, SLOWER, QUIT = COMMANDS = (
    "estop",
    "reset",
    "hold",
    "take",
    "straight",
    "segment",
    "mode",
    "faster",
    "slower",
    "quit",
)
REPEAT_S = 0.15
"""A key counts as held for so long after it came; terminals repeat a held key every 30 to 50 ms."""
JOY_AGE_S = 0.3
REOPEN_S = 1.0


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What a person wants now.

    Attributes
    ----------
    axes : deflections of x, y and z in [-1, 1], shape (3,); NaN where the device gave no number
    held : whether the dead man's switch is held
    commands : those of :data:`COMMANDS` that came since the last reading, in order
    problem : why the device says nothing; empty while all is well
    """

    axes: Vector
    held: bool
    commands: tuple[str, ...] = ()
    problem: str = ""


NOTHING = DeviceReading(np.zeros(3), False)


class TeleopDevice(Protocol):
    """A device; reading it never blocks and never raises."""

    def read(self) -> DeviceReading:
        """What came since the last reading."""

    def close(self) -> None:
        """Give the device back as it was."""

    @property
    def help(self) -> Sequence[tuple[str, str]]:
        """What is where, and what it does."""


# --- Keyboard

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
    " ": ESTOP,
    "x": RESET,
    "h": HOLD,
    "t": TAKE,
    "0": STRAIGHT,
    "\t": SEGMENT,
    "m": MODE,
    "+": FASTER,
    "=": FASTER,
    "-": SLOWER,
    "q": QUIT,
}


class Keyboard:
    """Keys of a terminal. A key that is held repeats, and that is the dead man's switch: no repeat, no motion.

    Parameters
    ----------
    descriptor : of the terminal; None for standard input
    clock : gives the time, s

    Raises
    ------
    DeviceError : no terminal
    """

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
        self._pressed_s: dict[tuple[int, float], float] = {}
        self._straight_s = -math.inf
        self._rest = ""
        self._gone = False

    @property
    def help(self) -> Sequence[tuple[str, str]]:
        """What is where, and what it does."""
        return (
            ("hold w s, up down", "to +x, -x"),
            ("hold a d, left right", "to +y, -y"),
            ("hold r f", "to +z, -z (tip)"),
            ("space", "E-STOP"),
            ("x", "reset: clear faults, bring up"),
            ("tab", "next segment"),
            ("m", "Clarke or tip"),
            ("+ -", "faster, slower"),
            ("hold 0", "straighten"),
            ("h", "let the reference source hold"),
            ("t", "take the reference again"),
            ("q", "quit"),
        )

    def read(self) -> DeviceReading:
        """Keys since the last reading."""
        now_s = self._clock()
        commands = []
        for key in self._keys():
            if key in _KEY_AXES:
                self._pressed_s[_KEY_AXES[key]] = now_s
            elif key in _KEY_COMMANDS:
                commands.append(_KEY_COMMANDS[key])
                self._pressed_s.clear()
                self._straight_s = now_s if _KEY_COMMANDS[key] == STRAIGHT else -math.inf
        axes = np.zeros(3)
        held = now_s - self._straight_s < REPEAT_S
        for (axis, sign), pressed_s in self._pressed_s.items():
            if now_s - pressed_s < REPEAT_S:
                axes[axis] += sign
                held = True
        problem = "the terminal is gone" if self._gone else ""
        return DeviceReading(axes, held and not self._gone, tuple(commands), problem)

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


# --- Gamepad


@dataclass(frozen=True, slots=True)
class _Codes:
    """Event codes of Linux' gamepad interface, Documentation/input/gamepad.rst, as evdev names them."""

    x: int
    y: int
    z: int
    deadman: int
    commands: dict[int, str] = field(default_factory=dict)


class Gamepad:
    """A gamepad through evdev: left stick x and y, right stick z, the left shoulder button is the dead man's switch.

    Where it is unplugged nothing is held; when it is back, the switch has to be pressed anew.

    Parameters
    ----------
    device : an open ``evdev.InputDevice``
    reopen : opens it again after it was unplugged, raises OSError while it is away
    clock : gives the time, s

    Raises
    ------
    DeviceError : no gamepad: sticks or the shoulder button are missing
    """

    def __init__(self, device: Any, reopen: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        from evdev import ecodes  # noqa: PLC0415 - an extra, needed for gamepads alone

        self._keys, self._reopen, self._clock = ecodes, reopen, clock
        self._codes = _Codes(
            ecodes.ABS_X,
            ecodes.ABS_Y,
            ecodes.ABS_RY,
            ecodes.BTN_TL,
            {
                ecodes.BTN_EAST: ESTOP,
                ecodes.BTN_START: RESET,
                ecodes.BTN_SELECT: MODE,
                ecodes.BTN_TR: SEGMENT,
                ecodes.BTN_SOUTH: HOLD,
                ecodes.BTN_WEST: STRAIGHT,
                ecodes.BTN_NORTH: TAKE,
            },
        )
        self._name = str(device.name)
        self._device: Any = None
        self._lost_s = 0.0
        self._values: dict[int, float] = {}
        self._ranges: dict[int, tuple[float, float]] = {}
        self._held = False
        self._use(device)

    @property
    def help(self) -> Sequence[tuple[str, str]]:
        """What is where, and what it does."""
        return (
            ("hold left shoulder", "dead man's switch"),
            ("left stick", "to x and y"),
            ("right stick up down", "to z (tip)"),
            ("right button (B, circle)", "E-STOP"),
            ("start", "reset: clear faults, bring up"),
            ("right shoulder", "next segment"),
            ("select", "Clarke or tip"),
            ("cross up down", "faster, slower"),
            ("left button (X, square)", "straighten"),
            ("lower button (A, cross)", "let the reference source hold"),
            ("upper button (Y, triangle)", "take the reference again"),
            ("Ctrl-C", "quit"),
        )

    def read(self) -> DeviceReading:
        """Events since the last reading."""
        if self._device is None and not self._back():
            return DeviceReading(np.zeros(3), False, (), f"{self._name} is unplugged")
        commands: list[str] = []
        try:
            while select.select([self._device.fd], [], [], 0)[0]:
                for event in self._device.read():
                    self._take(event, commands)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
                self._lose()
                return DeviceReading(np.zeros(3), False, tuple(commands), f"{self._name} is unplugged")
        # Sticks count down from the front and up to the right; +x is to the front, +y to the left, +z to the front.
        codes = (self._codes.y, self._codes.x, self._codes.z)
        axes = np.array([-self._values.get(code, 0.0) for code in codes])
        return DeviceReading(axes, self._held, tuple(commands))

    def close(self) -> None:
        """Close the device."""
        if self._device is not None:
            self._device.close()

    def _use(self, device: Any) -> None:
        capabilities = device.capabilities(absinfo=True)
        axes = dict(capabilities.get(self._keys.EV_ABS, []))
        buttons = capabilities.get(self._keys.EV_KEY, [])
        missing = [code for code in (self._codes.x, self._codes.y) if code not in axes]
        if missing or self._codes.deadman not in buttons:
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

    def _take(self, event: Any, commands: list[str]) -> None:
        if event.type == self._keys.EV_ABS and event.code in self._ranges:
            if event.code == self._keys.ABS_HAT0Y and event.value:
                commands.append(FASTER if event.value < 0 else SLOWER)
            self._set(event.code, event.value)
        elif event.type == self._keys.EV_KEY:
            if event.code == self._codes.deadman:
                self._held = event.value != 0
            elif event.value == 1 and event.code in self._codes.commands:
                commands.append(self._codes.commands[event.code])
        elif event.type == self._keys.EV_SYN and event.code == self._keys.SYN_DROPPED:
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
    """Open a gamepad.

    Parameters
    ----------
    path : of its device file, ``/dev/input/eventN``; "auto" for the first gamepad that is found

    Returns
    -------
    the gamepad

    Raises
    ------
    DeviceError : evdev is not installed, there is no gamepad, it may not be read, or it is none; says what to do
    """
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


# --- Joy topic


class JoyTopic:
    """sensor_msgs/Joy as joy_node publishes it for an Xbox controller; what is old counts as let go.

    Parameters
    ----------
    context : rclpy context
    namespace : of the stack
    topic : name of the topic
    """

    _AXES = (1, 0, 4)
    _HELD = 4
    _COMMANDS: Mapping[int, str] = {
        0: HOLD,
        1: ESTOP,
        2: STRAIGHT,
        3: TAKE,
        5: SEGMENT,
        6: MODE,
        7: RESET,
    }

    def __init__(self, context: Context, namespace: str, topic: str = "joy") -> None:
        self._topic = topic
        self._messages = NewestMessages(context, namespace, f"teleop_joy_{os.getpid()}", {topic: Joy})
        self._buttons: tuple[int, ...] | None = None

    @property
    def help(self) -> Sequence[tuple[str, str]]:
        """What is where, and what it does."""
        return (
            ("hold button 4 (LB)", "dead man's switch"),
            ("axes 1 and 0 (left stick)", "to x and y"),
            ("axis 4 (right stick)", "to z (tip)"),
            ("button 1 (B)", "E-STOP"),
            ("button 7 (start)", "reset: clear faults, bring up"),
            ("button 5 (RB)", "next segment"),
            ("button 6 (back)", "Clarke or tip"),
            ("button 2 (X)", "straighten"),
            ("button 0 (A)", "let the reference source hold"),
            ("button 3 (Y)", "take the reference again"),
            ("Ctrl-C", "quit"),
        )

    def read(self) -> DeviceReading:
        """The newest message."""
        message = self._messages[self._topic]
        if message is None:
            return DeviceReading(np.zeros(3), False, (), f"nothing came on {self._topic}")
        age_s = abs(time.time() - conversions.stamp_ns(message.header.stamp) * 1e-9)
        buttons = tuple(message.buttons)
        # The first message says which buttons are down already: only what is pressed from now on counts.
        before = buttons if self._buttons is None else self._buttons
        self._buttons = buttons
        pressed = [index for index, value in enumerate(buttons) if value and not _at(before, index, 0)]
        commands = tuple(self._COMMANDS[index] for index in pressed if index in self._COMMANDS)
        if age_s > JOY_AGE_S:
            return DeviceReading(np.zeros(3), False, commands, f"{self._topic} is {age_s:.1f} s old")
        axes = np.array([_at(message.axes, index, 0.0) for index in self._AXES], dtype=float)
        return DeviceReading(axes, bool(_at(buttons, self._HELD, 0)), commands)

    def close(self) -> None:
        """Leave the topic."""
        self._messages.close()


def _at(values: Sequence[float], index: int, default: float) -> float:
    return values[index] if index < len(values) else default
