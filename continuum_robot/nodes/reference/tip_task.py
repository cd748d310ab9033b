# SPDX-License-Identifier: Apache-2.0
"""What nodes have in common that bring the tip to a target beside the reference source."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray
from rclpy.client import Client
from rclpy.task import Future
from std_msgs.msg import String

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.msg import ClarkeState, DriverStatus, TipState
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.driver_status import state_name
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.robot.description import Robot
from continuum_robot.srv import TakeReference

Vector = NDArray[np.float64]

STATE_TIMEOUT_S = 0.5
_TAKE_TIMEOUT_S = 2.0
UNKNOWN = np.full(3, np.nan)


class ReferenceTurn:
    """Asks the reference source for the turn, and notes what ends it: a driver that does not obey, another writer."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        self.driver = self._drop = ""
        self._is_writer = False
        self._asked: tuple[Future, float] | None = None
        subscribe_to_owner(node, DriverStatus, "driver_status", self._on_driver_status)
        subscribe_to_owner(node, String, "reference_writer", self._on_writer)
        self._take: Client = node.create_client(TakeReference, "reference_source/take")

    def forget(self) -> None:
        """Wait for nothing, and nothing has ended."""
        self._asked, self._drop = None, ""

    def ended_by(self) -> str:
        """What ended the turn since the call before, a phrase; empty for nothing."""
        drop, self._drop = self._drop, ""
        return drop

    def ask(self, now_s: float) -> None:
        """Ask the reference source to fall silent; where there is none, the turn is free."""
        self._asked = None
        if self._take.service_is_ready():
            future = self._take.call_async(TakeReference.Request(writer=self._node.get_name()))
            self._asked = future, now_s
            self._node.flow.hold(future)

    def given(self, now_s: float) -> bool:
        """Whether the turn is the node's; where it is refused, :meth:`ended_by` reports why."""
        if self._asked is None:
            return True
        answer, asked_s = self._asked
        if answer.done():
            response = answer.result()
            self._asked = None
            if response is not None and response.success:
                return True
            self._drop = f"the reference source reported {response.message if response is not None else 'nothing'}"
        elif now_s - asked_s > _TAKE_TIMEOUT_S:
            self._asked, self._drop = None, "the reference source does not answer"
        return False

    def _on_driver_status(self, message: DriverStatus) -> None:
        self.driver = state_name(message)
        holds = message.controller == DriverStatus.CONTROLLER_HOLD_TENSION
        if message.state == DriverStatus.ACTIVE and holds:
            self.driver = "holding the tensions"
        if self.driver != "active":
            self._drop = f"the driver is {self.driver}"

    def _on_writer(self, message: String) -> None:
        # Before the node is the writer, it is somebody else's word on somebody else.
        if message.data != self._node.get_name() and self._is_writer and not self._drop:
            self._drop = f"{message.data} writes clarke_reference now"
        self._is_writer = message.data == self._node.get_name()


class TipTask(node.Component):
    """Takes targets in its loop, which never delays a controller in the same process, and writes the reference.

    Subclasses have ``target``, ``parameters`` with ``base_frame``, and a loop that calls :meth:`accept`.
    """

    what: ClassVar[str]
    """Topic of the targets."""
    troubled: ClassVar[tuple[str, ...]]
    """States that are a warning."""
    tell_s: ClassVar[float]
    """Period of ``tip_state`` without a change, s."""
    references = node.output(ClarkeState, "clarke_reference", qos.command_publisher())
    states = node.output(TipState, "tip_state")
    # Raw: it is needed once a target or a plan, and comes more often.
    clarke_states = node.heard(ClarkeState, "clarke_state", raw=True, lazy=True)
    turn = node.Line(lambda host, _call: ReferenceTurn(host))

    desired: PointStamped | None = None
    clarke: tuple[bytes, float] | None = None
    state = message = ""
    told_s = -math.inf
    accepted = refused = 0

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        self.reference = ClarkeState(simulated=host.simulated, writer=host.get_name())
        count = robot.coordinate_count
        self.position = conversions.preallocate(self.reference, "position", count)
        self.velocity = conversions.preallocate(self.reference, "velocity", count)
        self.acceleration = conversions.preallocate(self.reference, "acceleration", count)

    @abstractmethod
    def begin(self, point_m: Vector, now_s: float) -> None:
        """Go to a target, (3,). Raises :class:`ParameterError` where it is refused: all stays as it was."""

    @abstractmethod
    def fill_state(self, message: TipState, refused: Vector | None) -> None:
        """Fill in what is known of the target, or of one that was ``refused``."""

    def activate(self) -> None:
        self.desired = None
        self.state = self.message = ""
        self.turn.forget()

    @clarke_states
    def keep_clarke(self, data: bytes) -> None:
        self.clarke = data, self.host.clock.monotonic_s()

    def accept(self, now_s: float) -> None:
        desired, self.desired = self.desired, None
        if desired is None:
            return
        point, frame, own = conversions.position(desired.point), desired.header.frame_id, self.parameters.base_frame
        try:
            if frame not in ("", own):
                raise ParameterError(f"{self.what}.header.frame_id", frame, f"{own}, or empty for it")
            if self.turn.driver != "active":
                raise ParameterError(self.what, "given", f"an active driver, it is {self.turn.driver or 'away'}")
            self.begin(point, now_s)
        except ParameterError as error:
            self.host.get_logger().error(f"refused: {error}")
            self.refuse(str(error), now_s, point)

    def refuse(self, why: str, now_s: float, point_m: Vector) -> None:
        self.refused += 1
        self.publish_state(TipState.REFUSED, why, now_s, point_m)

    def fresh(self, heard: tuple[bytes, float] | None, now_s: float, age_s: float) -> ClarkeState | None:
        """A message with finite coordinates of this robot that is not older than ``age_s``."""
        if heard is None or now_s - heard[1] > age_s:
            return None
        message: ClarkeState | None = conversions.message_of(heard[0], ClarkeState)
        if message is None:
            return None
        position = conversions.vector(message.position)
        return message if position.size == self.position.size and np.isfinite(position).all() else None

    def measured(self, now_s: float) -> Vector | None:
        """Where the drives are now, m; None where that is not known."""
        state = self.fresh(self.clarke, now_s, STATE_TIMEOUT_S)
        return None if state is None else np.array(conversions.vector(state.position))

    def publish_reference(self, reference: ClarkeReference, now_s: float) -> None:
        self.reference.sequence += 1
        conversions.set_stamp(self.reference.header.stamp, self.host.clock.stamp_ns(now_s))
        self.position[:], self.velocity[:] = reference.position, reference.velocity
        self.acceleration[:] = reference.acceleration
        self.references.publish(self.reference)

    def tell(self, state: str, text: str, now_s: float, refused: Vector | None = None) -> None:
        changed = (state, text) != (self.state, self.message)
        if changed and state != self.state:
            self.host.get_logger().info(f"{self.what.replace('_', ' ')}: {state}{': ' if text else ''}{text}")
        self.state, self.message = state, text
        if changed or now_s - self.told_s >= self.tell_s:
            self.publish_state(state, text, now_s, refused)

    def publish_state(self, state: str, text: str, now_s: float, refused: Vector | None = None) -> None:
        self.told_s = now_s
        message = TipState(simulated=self.host.simulated, state=state, message=text)
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(now_s))
        message.header.frame_id = self.parameters.base_frame
        self.fill_state(message, refused)
        self.states.publish(message)

    def health(self, status: StatusBuilder) -> None:
        if self.state in self.troubled:
            status.summary(Level.WARN, self.message or self.state)
        status.summary(Level.OK, self.state or self.host.state)
        status.add("targets_accepted", self.accepted)
        status.add("targets_refused", self.refused)
        status.add("references_published", self.reference.sequence)


def not_known() -> Any:
    return ParameterError("clarke_state", "old or unknown", f"one of the last {STATE_TIMEOUT_S:g} s")
