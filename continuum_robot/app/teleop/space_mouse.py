# SPDX-License-Identifier: Apache-2.0
"""A SpaceMouse through pyspacemouse: six axes, a button that is the dead man's switch, and one that stops."""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from continuum_robot.app.teleop.devices import REOPEN_S, Command, DeviceReading, Help, Keyboard, at_rest
from continuum_robot.errors import DeviceError

STALE_S = 0.3
"""A deflected cap reports all the time: where nothing came for so long its radio is lost, and it counts as let go."""
_BUTTONS = (("LEFT", "RIGHT"), ("MENU", "FIT"), ("SHIFT", "ESC"))
"""The switch and the e-stop, by pyspacemouse's names: the first pair that a device has."""
_MOST_REPORTS = 64


class SpaceMouse:
    """The cap pushed to x, y, z, and tilted to x and y; other commands come from the keyboard, where there is one.

    Where it is unplugged nothing is held; when it is back, the switch has to be pressed again.
    """

    def __init__(
        self,
        device: Any,
        reopen: Callable[[], Any],
        keyboard: Keyboard | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reopen, self._keyboard, self._clock = reopen, keyboard, clock
        self._name = str(device.name)
        self._device: Any = None
        self._lost_s = self._came_s = -math.inf
        self._taken_s = math.nan
        self._stopped = False
        self._use(device)

    @property
    def help(self) -> Help:
        """What is where, and what it does."""
        hold, stop = self._names
        keys = [] if self._keyboard is None else [row for row in self._keyboard.help if not row[0].startswith("hold")]
        return (
            (f"hold the button {hold}", "dead man's switch"),
            (f"button {stop}", Command.ESTOP),
            ("push the cap", "to x, y, z (tip)"),
            ("tilt the cap", "the next segment to x, y (Clarke)"),
            *(keys or [("Ctrl-C", Command.QUIT)]),
        )

    def read(self) -> DeviceReading:
        """Reports and keys since the last reading."""
        commands = [] if self._keyboard is None else list(self._keyboard.read().commands)
        if self._device is None and not self._back():
            return at_rest(f"{self._name} is unplugged", commands)
        try:
            state = self._newest(commands)
        except Exception as error:  # of easyhid, plain; it cannot be imported without its library
            self._lose()
            return at_rest(f"{self._name} is unplugged ({error})", commands)
        axes = np.array([state.x, state.y, state.z, state.pitch, -state.roll, state.yaw])
        if axes.any() and self._clock() - self._came_s > STALE_S:
            return at_rest(f"{self._name} has not reported for {STALE_S:g} s", commands)
        return DeviceReading(axes, bool(state.buttons[self._hold]), tuple(commands))

    def close(self) -> None:
        """Close the device, and set the terminal as it was."""
        if self._device is not None:
            self._device.close()
        if self._keyboard is not None:
            self._keyboard.close()

    def _newest(self, commands: list[Command]) -> Any:
        """The state after all reports that wait: a read takes one, and they come faster than steps."""
        for _ in range(_MOST_REPORTS):
            state = self._device.read()
            stopped = bool(state.buttons[self._stop])
            if stopped and not self._stopped:
                commands.append(Command.ESTOP)
            self._stopped = stopped
            if state.t == self._taken_s:
                break
            self._taken_s, self._came_s = state.t, self._clock()
        return state

    def _use(self, device: Any) -> None:
        names = list(device.info.button_names)
        pair = next((pair for pair in _BUTTONS if set(pair) <= set(names)), None)
        if pair is None:
            device.close()
            has = f"has no buttons {' or '.join(' and '.join(pair) for pair in _BUTTONS)} (it has: {', '.join(names)})"
            raise DeviceError(f"--spacemouse ({device.name})", has, "Use one with two buttons: one is held, one stops")
        self._names = pair
        self._hold, self._stop = names.index(pair[0]), names.index(pair[1])
        self._device, self._taken_s = device, math.nan

    def _lose(self) -> None:
        with contextlib.suppress(Exception):
            self._device.close()
        self._device, self._lost_s, self._stopped = None, self._clock(), False

    def _back(self) -> bool:
        if self._clock() - self._lost_s < REOPEN_S:
            return False
        self._lost_s = self._clock()
        with contextlib.suppress(Exception):
            self._use(self._reopen())
        return self._device is not None


def open_space_mouse() -> SpaceMouse:
    """Open the first SpaceMouse, and the keyboard beside it where there is a terminal."""
    try:
        import pyspacemouse  # noqa: PLC0415 - an extra, needed for a SpaceMouse alone
    except ImportError:
        remedy = "pip install 'continuum-robot[spacemouse]', and the system's hidapi (libhidapi-hidraw0)"
        raise DeviceError("--spacemouse", "pyspacemouse is not installed", remedy) from None

    def reopen() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):  # it reports what it found
            return pyspacemouse.open(axis_convention=pyspacemouse.AxisConvention.ROS)

    try:
        device = reopen()
    except (RuntimeError, ValueError) as error:
        remedy = (
            "Plug it in; see that hidapi is installed (libhidapi-hidraw0), and that /dev/hidraw* may be read: "
            "docs/how-to/teleoperation.md"
        )
        raise DeviceError("--spacemouse", str(error).strip().rstrip("."), remedy) from None
    keyboard = None
    with contextlib.suppress(DeviceError):  # no terminal
        keyboard = Keyboard()
    return SpaceMouse(device, reopen, keyboard)
