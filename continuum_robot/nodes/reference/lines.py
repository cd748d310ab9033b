# SPDX-License-Identifier: Apache-2.0
"""What the reference source hears and says beside its reference: who writes, whether it holds, where the stage is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from continuum_robot.control.references import ClarkeReference
from continuum_robot.msg import ClarkeState, DriverStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.stack.choices import HOLD_TENSION, TIP
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.driver_status import controller_name, state_name
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner, subscribe_to_stream
from continuum_robot.robot.base_stage import AXES, BaseStage
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

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


BROKEN_OFF_S = 1.0
"""After so long without another program's next reference of a motion that motion is called broken off, s."""


class ReferenceWriter:
    """Shows on ``reference_writer`` who writes, and listens to what others write."""

    def __init__(self, node: ManagedNode, own: str) -> None:
        self.name = self._own = own
        self._clock = node.clock
        self._foreign: tuple[ClarkeState, float] | None = None
        self._writers = node.create_publisher(String, "reference_writer", qos.latched())
        node.flow.create_subscription(
            ClarkeState, "clarke_reference", self._on_reference, qos.newest_state(), raw=True, lazy=True
        )

    @property
    def ours(self) -> bool:
        """Whether the reference source writes."""
        return self.name == self._own

    def hand_to(self, name: str, *, tell: bool) -> None:
        """From now on this program writes."""
        if tell or name != self.name:
            self._writers.publish(String(data=name))
        self.name, self._foreign = name, None

    def followed(self, current: ClarkeReference | None, count: int) -> ClarkeReference | None:
        """What the controller follows now: the source's reference or another program's, and where that stopped."""
        if self.ours:
            return current
        if self._foreign is None:
            return None if current is None else ClarkeReference.at_rest(current.position)
        message, heard_s = self._foreign
        position = np.array(conversions.vector(message.position))
        velocity = np.array(conversions.vector(message.velocity))
        if position.size != count or not np.all(np.isfinite(position)):
            return current
        if velocity.size != position.size or not np.all(np.isfinite(velocity)):
            return ClarkeReference.at_rest(position)
        controller = ReferenceInput(count)
        controller.start(position)
        controller.receive(ClarkeReference(position, velocity, np.zeros_like(position)), heard_s)
        controller.step(heard_s)
        return controller.at(self._clock.monotonic_s())

    def broken_off_s(self) -> float:
        """How long ago another program's references ended in the middle of a motion, s; 0 where they did not."""
        if self.ours or self._foreign is None:
            return 0.0
        message, heard_s = self._foreign
        silent_s = self._clock.monotonic_s() - heard_s
        if silent_s < BROKEN_OFF_S or not np.any(conversions.vector(message.velocity)):
            return 0.0
        return silent_s

    def _on_reference(self, data: bytes) -> None:
        message = None if self.ours else conversions.message_of(data, ClarkeState)
        if message is not None:
            self._foreign = message, self._clock.monotonic_s()


Vector = NDArray[np.float64]

FRESH_S = 0.25
"""After so long without a state nothing is known of the stage."""


class StageLine:
    """Hears ``base_stage/state`` and ``base_stage/status``, and writes ``base_stage/command``."""

    def __init__(self, node: ManagedNode, stage: BaseStage, on_fault: Callable[[], None]) -> None:
        self.stage, self.fault = stage, ""
        self._node, self._on_fault = node, on_fault
        self._heard: tuple[Vector, float] | None = None
        self._commands = node.flow.create_publisher(JointState, "base_stage/command", qos.command_publisher())
        subscribe_to_stream(node, JointState, "base_stage/state", self._on_state, lazy=True)
        subscribe_to_owner(node, DiagnosticStatus, "base_stage/status", self._on_status)

    @property
    def position(self) -> Vector | None:
        """Coordinates of the stage, (2,), m and rad; None where they are not known now."""
        if self._heard is None or self._node.clock.monotonic_s() - self._heard[1] > FRESH_S:
            return None
        return self._heard[0]

    @property
    def obstacle(self) -> str:
        """Why the stage does not move, a phrase; "" where it does."""
        if self.fault:
            return f"the base stage is {self.fault}"
        return "the base stage is not heard" if self.position is None else ""

    def command(self, position: Vector) -> None:
        """Go on to a place."""
        message = JointState(name=list(AXES), position=conversions.float_array(position))
        conversions.set_stamp(message.header.stamp, self._node.clock.now_ns())
        self._commands.publish(message)

    def _on_state(self, message: JointState) -> None:
        if len(message.position) == len(AXES):
            self._heard = np.array(message.position), self._node.clock.monotonic_s()

    def _on_status(self, message: DiagnosticStatus) -> None:
        before, self.fault = self.fault, "" if message.level == DiagnosticStatus.OK else message.message
        if self.fault and not before:
            self._on_fault()
