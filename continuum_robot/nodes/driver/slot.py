# SPDX-License-Identifier: Apache-2.0
"""Which controller commands the tendons, how it gets into the driver's cycle, and the service that switches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.driver.commands import JOINTS
from continuum_robot.nodes.driver.commands import TOPIC as COMMANDS
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.stack.choices import CLARKE, HOLD_TENSION, TIP, TOPIC
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import Form
from continuum_robot.srv import SwitchController

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


class ControllerSwitch:
    """Serves ``switch_controller``. In the executor's thread."""

    def __init__(self, context: DriverContext, slot: ControllerSlot | None) -> None:
        self._context, self._node, self._slot = context, context.node, slot
        self._commander = TOPIC if slot is None else CLARKE
        self._to_tip = False
        self._node.create_service(SwitchController, "switch_controller", self._serve)

    @property
    def available(self) -> tuple[str, ...]:
        """Names of the controllers of the configured robot."""
        return (self._commander, *(() if self._without_tip else (TIP,)), HOLD_TENSION)

    @property
    def active(self) -> str:
        """Name of the controller that commands, or will where the driver obeys; "" while not configured."""
        loop = self._context.loop
        if loop is None:
            return ""
        if loop.cycle.holds_tensions:
            return HOLD_TENSION
        return TIP if self._to_tip else self._commander

    def begin(self, loop: DriverLoop) -> None:
        """After a configuration the controller of the start commands, whatever was switched to before."""
        name = self._node.parameters.get("start_controller")
        if name == TIP and self._without_tip:
            raise ParameterError("start_controller", name, f"another controller: {self._without_tip}")
        self._to_tip = name == TIP
        loop.hold_tensions(on=name == HOLD_TENSION)

    def switch(self, name: str) -> None:
        """Let another controller command from the next cycle on."""
        if name not in self.available:
            raise ParameterError("controller", name, f"one of {', '.join(self.available)}")
        loop = self._context.configured
        if name == self.active:
            return
        if name in (CLARKE, TIP) and (self._slot is None or not self._slot.acts):
            raise DeviceError("clarke_controller", "is not active", "Activate it first: nobody would command")
        if name == TIP and not self._node.count_publishers("tip_state"):
            raise DeviceError("reference_source", "is not running", "Start it first: it leads the tip")
        if name == TOPIC and not any(map(self._node.count_publishers, (COMMANDS, JOINTS))):
            problem = f"and {JOINTS} have no publisher"
            raise DeviceError(COMMANDS, problem, "Start the program that commands first")
        loop.hold_tensions(on=name == HOLD_TENSION)  # where that is refused nothing changes
        self._to_tip = name == TIP
        self._node.get_logger().info(f"controller {name}: it commands from now on")
        self._context.publish_status()

    @property
    def _without_tip(self) -> str:
        """Why no controller of the tip is there, "" where it is."""
        if self._slot is None:
            return "the controller in the driver's cycle, which it needs, is not there"
        loop = self._context.loop
        return "the driver is not configured" if loop is None else loop.robot.traits.without_tip_control

    def _serve(self, request: Any, response: Any) -> Any:
        try:
            name = check_request("SwitchController", request).controller.strip()
            if name:
                self.switch(name)
            response.success = True
            response.message = f"{self.active or 'none'} commands the tendons"
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
        response.active, response.available = self.active, list(self.available)
        return response
