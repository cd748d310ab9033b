# SPDX-License-Identifier: Apache-2.0
"""``tip_pose``, ``contact_wrench`` and the frames of both and of the tendons' ends: what other programs know."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from geometry_msgs.msg import PoseStamped, TransformStamped, WrenchStamped
from numpy.typing import NDArray
from rclpy.node import Node

from continuum_robot.geometry import se3
from continuum_robot.models.urdf import TENDON_DIRECTION
from continuum_robot.msg import Contact, Shape, TendonStates
from continuum_robot.nodes.topics import conversions, qos

Array = NDArray[np.float64]


class CommonTopics:
    """Publishes them where somebody listens."""

    def __init__(self, node: Node) -> None:
        self._tip = node.create_publisher(PoseStamped, "tip_pose", qos.visualization())
        self._wrench = node.create_publisher(WrenchStamped, "contact_wrench", qos.visualization())
        self.prepare({}, "")

    @property
    def desired(self) -> bool:
        """Whether anybody listens to one of them."""
        return any(topic.get_subscription_count() for topic in (self._tip, self._wrench))

    def prepare(self, tendons: Mapping[str, Array], prefix: str) -> None:
        """Restart with a robot."""
        self._names = [f"{prefix}{name}" for name in tendons]
        self._guides = np.reshape(list(tendons.values()), (-1, 3))
        self._base, self._tip_frame, self._contact_frame = (f"{prefix}{name}" for name in ("base", "tip", "contact"))
        self._states_sequence = self._shape_sequence = self._contact_sequence = -1

    def tendon_frames(self, states: TendonStates) -> list[TransformStamped]:
        """The driven ends of the tendons, as ``robot_description`` and ``joint_states`` have them, once each state."""
        if states.sequence == self._states_sequence or len(states.displacement) != len(self._names):
            return []
        self._states_sequence = states.sequence
        ends = self._guides + np.outer(conversions.vector(states.displacement), TENDON_DIRECTION)
        if not np.isfinite(ends).all():
            return []
        stamp, upright = states.header.stamp, np.eye(3)
        named = zip(self._names, ends, strict=True)
        return [
            conversions.stamped_transform(se3.transform(upright, end), name, self._base, stamp) for name, end in named
        ]

    def publish_tip(self, shape: Shape) -> None:
        """The tip's frame in the base frame, once for each shape."""
        if shape.sequence == self._shape_sequence:
            return
        self._shape_sequence = shape.sequence
        message = PoseStamped(pose=shape.tip)
        message.header.stamp, message.header.frame_id = shape.header.stamp, self._base
        self._tip.publish(message)

    def publish_contact(self, contact: Contact) -> list[TransformStamped]:
        """The wrench on the robot where it touches; without a contact zero at the tip, and NaN where that is
        unknown.
        """
        if contact.sequence == self._contact_sequence:
            return []
        self._contact_sequence = contact.sequence
        message = WrenchStamped()
        message.header.stamp, message.header.frame_id = contact.header.stamp, self._tip_frame
        place = conversions.pose_matrix(contact.pose)
        known = contact.in_contact and len(contact.wrench) == 6 and bool(np.isfinite(place).all())
        values = (
            list(contact.wrench) if known else [np.nan if contact.in_contact or contact.invalid_reason else 0.0] * 6
        )
        if known:
            message.header.frame_id = self._contact_frame
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = map(float, values)
        self._wrench.publish(message)
        if not known:
            return []
        return [conversions.stamped_transform(place, self._contact_frame, self._base, contact.header.stamp)]
