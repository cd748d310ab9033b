# SPDX-License-Identifier: Apache-2.0
"""Writes references of Clarke coordinates, and targets of the tip, for a program beside the stack."""

from __future__ import annotations

import time

import numpy as np
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray
from rclpy.node import Node

from continuum_robot.control.references import ClarkeReference
from continuum_robot.msg import ClarkeState
from continuum_robot.nodes import conversions, qos


class ReferenceWriter:
    """Publishes on ``clarke_reference`` and ``tip_target``, stamped now. Whose turn it is, its user has to know.

    Parameters
    ----------
    node : that publishes
    """

    def __init__(self, node: Node) -> None:
        # As lock-step wants it; who listens in real time hears it as well.
        self._references = node.create_publisher(ClarkeState, "clarke_reference", qos.latched())
        self._tip_targets = node.create_publisher(PointStamped, "tip_target", qos.command_publisher())
        self._sequence = 0

    @property
    def tip_is_listened_to(self) -> bool:
        """Whether a node of the stack brings the tip to a target."""
        return self._tip_targets.get_subscription_count() > 0

    def write(self, reference: ClarkeReference) -> None:
        """Publish a reference, arrays of shape (2m,)."""
        self._sequence += 1
        message = ClarkeState(sequence=self._sequence)
        conversions.set_stamp(message.header.stamp, time.time_ns())
        message.position = conversions.float_array(reference.position)
        message.velocity = conversions.float_array(reference.velocity)
        message.acceleration = conversions.float_array(reference.acceleration)
        self._references.publish(message)

    def write_tip_target(self, place_m: NDArray[np.float64]) -> None:
        """Ask for the tip at a place.

        Parameters
        ----------
        place_m : base frame, shape (3,), m
        """
        message = PointStamped(point=conversions.point_message(place_m))
        conversions.set_stamp(message.header.stamp, time.time_ns())
        self._tip_targets.publish(message)
