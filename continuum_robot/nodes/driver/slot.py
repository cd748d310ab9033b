# SPDX-License-Identifier: Apache-2.0
"""Where the driver's node and the controller's meet in one process: the controller goes into the driver's cycle."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from continuum_robot.errors import DeviceError
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import Form

Build = Callable[[Form], ControllerCycle]
OnRow = Callable[[list[float]], None]


class ControllerSlot:
    """Holds what the controller's node offers, and puts it into the cycle of the driver while that is configured.

    The nodes may be configured in any order. Transitions of both run in the executor's thread; rows come in the
    thread that reads the cycle's log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._build: Build | None = None
        self._on_row: OnRow | None = None
        self._active = False
        self._loop: DriverLoop | None = None
        self._form: Form | None = None
        self._controller: ControllerCycle | None = None
        self._closely = False

    # The controller's side

    def offer(self, build: Build, on_row: OnRow) -> None:
        """Have a controller made in the driver's form, and put it into the cycle, inactive."""
        with self._lock:
            self._build, self._on_row, self._active = build, on_row, False
            self._attach()

    def withdraw(self) -> None:
        """Take the controller out of the cycle."""
        with self._lock:
            self._build = self._on_row = None
            self._active = False
            self._detach()

    def act(self, *, on: bool) -> None:
        """Whether the controller acts; it starts at the measured place with the tensions as they are."""
        with self._lock:
            self._active = on
            loop = self._loop
            if loop is None:
                if on:
                    raise DeviceError("tendon_driver", "is not configured", "Configure it first")
                return
            if loop.hangs and not on:
                loop.cycle.control_now(on=False)  # one number, which the cycle looks at if it goes on
            else:
                loop.call(lambda: loop.cycle.control_now(on=on))

    def give_back(self) -> None:
        """End a controller with a defect, from any thread: the driver gets no commands and holds by itself."""
        self._active = False
        loop = self._loop
        if loop is not None:
            loop.cycle.control_now(on=False)  # one number, which the cycle looks at

    def call(self, function: Callable[[ControllerCycle], Any]) -> Any:
        """Do something with the controller between two cycles; None where there is none."""
        loop, controller = self._loop, self._controller
        if loop is None or controller is None:
            return None
        return loop.call(lambda: function(controller))

    def watch_closely(self, *, on: bool) -> None:
        """Whether Python code looks into the controller after each cycle, so that the cycle waits for it."""
        with self._lock:
            self._closely = on
            if self._loop is not None:
                self._loop.python_paced = on
                with contextlib.suppress(DeviceError):  # a cycle that hangs looks at it when it goes on
                    self._loop.call(lambda: None)  # the compiled cycle leaves its C code, and only then looks

    @property
    def acts(self) -> bool:
        """Whether the controller in the cycle acts."""
        return self._active and self._controller is not None

    @property
    def controller(self) -> ControllerCycle | None:
        """The controller in the cycle, None for none."""
        return self._controller

    # The driver's side

    def join(self, loop: DriverLoop, form: Form) -> None:
        """The driver is configured."""
        with self._lock:
            self._loop, self._form = loop, form
            loop.python_paced = self._closely
            self._attach()

    def leave(self) -> None:
        """The driver's loop ends."""
        with self._lock:
            self._detach()
            self._loop = self._form = None

    def on_row(self, row: list[float]) -> None:
        """A cycle of the driver ended."""
        on_row = self._on_row
        if on_row is not None:
            on_row(row)

    def _attach(self) -> None:
        loop, form, build = self._loop, self._form, self._build
        if loop is None or form is None or build is None:
            return
        controller = self._controller = build(form)
        active = self._active

        def attach() -> None:
            loop.cycle.attach(controller)
            loop.cycle.control_now(on=active)

        loop.call(attach)

    def _detach(self) -> None:
        loop, self._controller = self._loop, None
        if loop is not None and not loop.hangs:  # a cycle that hangs may be in the controller, and is the last
            loop.call(lambda: loop.cycle.attach(None))
