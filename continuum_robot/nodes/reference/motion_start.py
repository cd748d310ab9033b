# SPDX-License-Identifier: Apache-2.0
"""Whether a motion was started: after every activation, and after the driver stopped, the robot holds until one is."""

from __future__ import annotations

from collections.abc import Callable

from std_msgs.msg import Bool

from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.stack.choices import HOLD_TENSION, TIP
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.driver_status import controller_name, state_name
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner

HOLDING = "holding, not started"
"""What every tool shows while the robot holds and no motion has been started."""


class MotionStart:
    """Shows on ``reference_holding`` whether the robot holds until somebody starts a motion."""

    def __init__(self, node: ManagedNode, on_driver: Callable[[], None], on_controller: Callable[[], None]) -> None:
        self.holding = True
        self.driver = self.controller = ""
        self.stopped = False
        self._obeyed = False
        self._on_driver, self._on_controller = on_driver, on_controller
        self._holding_topic = node.create_publisher(Bool, "reference_holding", qos.latched())
        subscribe_to_owner(node, DriverStatus, "driver_status", self._on_driver_status)
        self._holding_topic.publish(Bool(data=True))

    def activate(self) -> None:
        """Hold; the driver counts as obeying until it is heard to stop."""
        self.stopped, self._obeyed = self.controller == HOLD_TENSION, self._obeys
        self.set_holding(True)

    @property
    def obstacle(self) -> str:
        """Why the driver does not follow, and what to do, a phrase; "" where it may."""
        if not self.stopped:
            return ""
        if self.driver == "active" and self.controller == HOLD_TENSION:
            return "the driver holds the tensions: switch to another controller first"
        return f"the driver is {self.driver}: reset the stack first"

    @property
    def leads_tip(self) -> bool:
        """Whether the controller ``tip`` commands: the reference is only for the tip."""
        return self.controller == TIP

    def set_holding(self, holding: bool) -> None:
        """Say whether it holds, where that is new."""
        if holding != self.holding:
            self.holding = holding
            self._holding_topic.publish(Bool(data=holding))

    def _on_driver_status(self, message: DriverStatus) -> None:
        led_tip = self.leads_tip
        self.driver, self.controller = state_name(message), controller_name(message)
        obeys = self._obeys
        # Only a change counts: at a bring-up the driver's word on itself may come later than the activation.
        held = self.driver == "active" and self.controller == HOLD_TENSION
        if obeys == self._obeyed and (self.stopped or not held):
            if obeys and self.leads_tip != led_tip:
                self._on_controller()
            return
        before, self._obeyed = self.stopped, obeys
        self.stopped = not obeys
        if self.stopped != before:
            self._on_driver()

    @property
    def _obeys(self) -> bool:
        return self.driver == "active" and self.controller != HOLD_TENSION
