# SPDX-License-Identifier: Apache-2.0
"""A gamepad through Linux' evdev."""

from __future__ import annotations

import contextlib
import errno
import grp
import math
import os
import select
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.app.teleop.device import BUTTONS, PAD_HELP, Command, DeviceReading, Help, at_rest
from continuum_robot.errors import DeviceError

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
