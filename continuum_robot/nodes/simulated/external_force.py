# SPDX-License-Identifier: Apache-2.0
"""An external force on the simulated robot at an arc length of the backbone, as long as it is published."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.msg import Contact
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.simulation.plant import Plant

EXTERNAL_FORCE_TOPIC = "simulated_external_force"
LONGEST_SILENCE_S = 0.3
_CHECK_PERIOD_S = 0.1


def external_force_message(arc_length_m: float, force_in_base_n: NDArray[np.float64]) -> Contact:
    """An external force for the topic."""
    message = Contact(in_contact=bool(np.any(force_in_base_n)), method="push", wrench_arc_length=float(arc_length_m))
    message.wrench = conversions.float_array([*force_in_base_n, 0.0, 0.0, 0.0])
    return message


class SimulatedExternalForce:
    """Takes pushes from the topic and hands them to the plant; a push ends when nobody asks for it any more."""

    def __init__(self, node: Node, plant: Callable[[], Plant]) -> None:
        self._node, self._plant = node, plant
        self._heard_s = -math.inf
        self._pushing = False
        self._complaint = ""
        self._subscription = node.create_subscription(Contact, EXTERNAL_FORCE_TOPIC, self._on_push, qos.newest_state())
        self._timer = node.create_timer(_CHECK_PERIOD_S, self._check, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _on_push(self, message: Contact) -> None:
        force = conversions.vector(message.wrench)[:3]
        try:
            plant = self._plant()
            if not message.in_contact:
                plant.release()
            else:
                plant.push(message.wrench_arc_length, force)
        except ContinuumRobotError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._node.get_logger().error(f"{EXTERNAL_FORCE_TOPIC}: {error}")
            return
        self._pushing = message.in_contact
        self._heard_s = time.monotonic()

    def _check(self) -> None:
        if not self._pushing or time.monotonic() - self._heard_s < LONGEST_SILENCE_S:
            return
        self._pushing = False
        try:
            self._plant().release()
        except ContinuumRobotError:
            return  # the robot is gone, and the push with it
