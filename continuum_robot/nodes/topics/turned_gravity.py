# SPDX-License-Identifier: Apache-2.0
"""Gravity in the base frame of a robot that a stage turns, by where the stage measures that it stands.

Quasi-static: what the turning itself accelerates is in no model. With a state of the stage every T s that comes t s
late, and a rotation at w rad/s, gravity is off by at most w (T + t) times its part across the axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.owned_topic import of_stream
from continuum_robot.robot.base_stage import AXES
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_LEAST_CHANGE = 1e-4  # of gravity: noise of the stage's encoders is not handed on


class TurnedGravity:
    """Hears ``base_stage/state`` where gravity turns with the stage, and hands gravity on as it changes."""

    def __init__(self, node: ManagedNode, take: Callable[[Vector], None]) -> None:
        self._node, self._take = node, take
        self._robot: Robot | None = None
        self._listens = False
        self._gravity = np.zeros(3)

    def turned(self, robot: Robot) -> Robot:
        """The robot in the newest gravity, as a model that is made now shall have it."""
        return robot.changed(gravity_m_per_s2=tuple(self._gravity.tolist())) if robot.gravity_turns else robot

    def follow(self, robot: Robot) -> None:
        """From now on, when the node is configured."""
        self._robot, self._gravity = robot, np.array(robot.gravity_m_per_s2)
        if robot.gravity_turns and not self._listens:
            self._listens, topic = True, "base_stage/state"
            take = of_stream(self._node, topic, self._on_state)
            self._node.flow.create_subscription(JointState, topic, take, qos.newest_state(), with_gid=True)

    def _on_state(self, message: JointState) -> None:
        robot = self._robot
        if robot is None or robot.base_stage is None or not robot.gravity_turns or len(message.position) != len(AXES):
            return
        if not np.isfinite(message.position).all():
            return
        gravity = robot.base_stage.gravity(message.position, robot.gravity_m_per_s2)
        if np.abs(gravity - self._gravity).max() > _LEAST_CHANGE * np.linalg.norm(gravity):
            self._gravity = gravity
            self._take(gravity)
