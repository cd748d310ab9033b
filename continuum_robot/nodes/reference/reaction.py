# SPDX-License-Identifier: Apache-2.0
"""What the reference source makes of its reference when something touches the robot, and how it shows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import String
from std_srvs.srv import Trigger

from continuum_robot.control.contact_reaction import FOLLOWING, ContactReaction, ContactSense
from continuum_robot.control.references import ClarkeReference
from continuum_robot.estimation.contact.states import INVALID
from continuum_robot.msg import Contact
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.control_settings import IGNORE, ReactionSettings
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

CONTACT_AGE_S = 0.5
"""A contact message that is older reports nothing about now: nothing can be detected then."""
BEGIN_S = 2.0
"""Time after the start in which the contact monitor need not have spoken yet, s."""


class NodeReaction:
    """Parameters ``reaction.*``, the service ``~/resume`` and the topic ``reaction_state`` of the reference source."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        self._settings: Settings | None = None
        self._reaction: ContactReaction | None = None
        self._contact: tuple[bytes, float] | None = None
        self._size = 0
        self._reported, self._reason = "", ""
        self._limited, self._begun_s = False, 0.0
        self._states = node.create_publisher(String, "reaction_state", qos.latched())
        subscribe_to_stream(node, Contact, "contact", self._on_contact, raw=True, lazy=True)
        node.create_service(Trigger, "~/resume", self._serve_resume)

    def configure(self, robot: Robot) -> None:
        """Make the reaction of a robot, where it can have one."""
        self._settings = self._node.parameters.declare_settings("reaction", robot.reaction or ReactionSettings())
        self._reaction, self._contact = None, None
        if robot.traits.without_tip_control or robot.limits is None or robot.control is None:
            return
        self._reaction, self._size = ContactReaction(robot, self._settings.value), robot.coordinate_count

    @property
    def active(self) -> bool:
        """Whether a contact changes the reference, or did."""
        if self._reaction is None or self._settings is None:
            return False
        return self._settings.value.strategy != IGNORE or self._reaction.state != FOLLOWING

    def reset(self) -> None:
        """Follow the reference as it is."""
        self._begun_s = self._node.clock.monotonic_s()
        if self._reaction is not None:
            self._reaction.reset()
        self._tell(FOLLOWING, "")

    def resume(self) -> None:
        """Go on with the reference; a contact that is there is not answered again unless it grows."""
        if self._reaction is not None:
            self._reaction.resume()

    def answer(self, reference: ClarkeReference, measured: Vector | None, dt: float) -> ClarkeReference:
        """What the robot is to follow instead."""
        reaction, settings = self._reaction, self._settings
        if reaction is None or settings is None:
            return reference
        reaction.with_settings(settings.value)
        answer = reaction.update(reference, self._sense(reaction), measured, dt)
        self._limited = answer.limited
        self._tell(answer.state, answer.reason)
        return answer.reference

    def diagnose(self, status: StatusBuilder) -> None:
        """Say in ``status`` what it does."""
        if self._reported and self._reported != FOLLOWING:
            status.summary(Level.WARN, f"{self._reported}: {self._reason}" if self._reason else self._reported)
        if self._limited:
            status.summary(Level.WARN, "the reaction has gone as far from the reference as it may")
        status.add("reaction", self._reported)
        status.add("reaction_strategy", "" if self._settings is None else self._settings.value.strategy)

    def _sense(self, reaction: ContactReaction) -> ContactSense:
        now_s = self._node.clock.monotonic_s()
        if self._contact is None:
            begins = now_s - self._begun_s < BEGIN_S
            return ContactSense.nothing(self._size, "" if begins else "there is no contact monitor")
        data, heard_s = self._contact
        if now_s - heard_s > CONTACT_AGE_S:
            return ContactSense.nothing(self._size, "the contact monitor is silent")
        message = conversions.message_of(data, Contact)
        if message is None:
            return ContactSense.nothing(self._size, "a message on contact cannot be read")
        if message.state == INVALID:
            return ContactSense.nothing(self._size, message.invalid_reason)
        return ContactSense(bool(message.in_contact), reaction.force_of(conversions.vector(message.residual)))

    def _on_contact(self, data: bytes) -> None:
        self._contact = data, self._node.clock.monotonic_s()

    def _tell(self, state: str, reason: str) -> None:
        if (state, reason) == (self._reported, self._reason):
            return
        if state != self._reported and reason:
            self._node.get_logger().warning(f"{state}: {reason}")
        self._reported, self._reason = state, reason
        self._states.publish(String(data=f"{state}: {reason}" if reason else state))

    def _serve_resume(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._reaction is None:
            response.message = "refused: this robot has no reaction to contacts, or is not configured"
        elif self._reaction.state == FOLLOWING:
            response.message = "refused: it follows its reference"
        else:
            self._reaction.resume()
            response.success, response.message = True, "goes back to its reference"
        return response
