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
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.base_stage import AXES
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_LEAST_CHANGE = 1e-4  # of gravity: noise of the stage's encoders is not handed on


class TurnedGravity:
    """Hears ``base_stage/state`` where gravity turns with the stage, and hands gravity on as it changes.

    Parameters
    ----------
    node : with a model that has weight
    take : gets gravity in the base frame, (3,), m/s^2
    """

    def __init__(self, node: ManagedNode, take: Callable[[Vector], None]) -> None:
        self._node, self._take = node, take
        self._robot: Robot | None = None
        self._listens = False
        self._gravity = np.zeros(3)

    def turned(self, robot: Robot) -> Robot:
        """The robot in the newest gravity, as a model that is made now shall have it."""
        return robot.changed(gravity_m_per_s2=tuple(self._gravity.tolist())) if robot.gravity_turns else robot

    def follow(self, robot: Robot) -> None:
        """From now on, for a robot whose file states the gravity where its stage is at zero; when it is configured."""
        self._robot, self._gravity = robot, np.array(robot.gravity_m_per_s2)
        if robot.gravity_turns and not self._listens:
            self._listens = True
            subscribe_to_stream(self._node, JointState, "base_stage/state", self._on_state)

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
