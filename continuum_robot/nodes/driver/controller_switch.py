# SPDX-License-Identifier: Apache-2.0
"""Which controller commands the tendons, and the service that switches to another while the torque stays on."""

from __future__ import annotations

from typing import Any

from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.driver.commands import JOINTS
from continuum_robot.nodes.driver.commands import TOPIC as COMMANDS
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.slot import ControllerSlot
from continuum_robot.nodes.stack.choices import CLARKE, HOLD_TENSION, TIP, TOPIC
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.srv import SwitchController


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
