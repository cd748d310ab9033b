# SPDX-License-Identifier: Apache-2.0
"""The action ``follow_joint_trajectory`` of control_msgs, which planners and other tools send, where that is installed.

Its joints are the Clarke coordinates (q_re_1, q_im_1, ...) or all tendons, in m.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.joint_trajectory import JointTrajectory, TrajectoryPoint, joint_trajectory
from continuum_robot.control.references import ClarkeReference, Reference
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.component import Call, ComponentNode
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.clock import Clock

Vector = NDArray[np.float64]
Trajectory = TypeVar("Trajectory", bound=Reference)

FEEDBACK_PERIOD_S = 0.1
_SUCCESSFUL, _INVALID_GOAL, _GOAL_TOLERANCE_VIOLATED = 0, -1, -5
"""Codes of control_msgs/FollowJointTrajectory."""


def installed_action() -> Any:
    """The type of the action, None where control_msgs is not installed."""
    try:
        from control_msgs.action import FollowJointTrajectory  # noqa: PLC0415 - of a package that may be missing
    except ImportError:
        return None
    return FollowJointTrajectory


class Player(Protocol):
    """What plays trajectories: the reference source."""

    def begin_trajectory(self, make: Callable[[Robot, Vector], Trajectory]) -> Trajectory:
        """Play what ``make`` makes of the robot and of the reference now; raises ContinuumRobotError where
        it cannot.
        """

    def trajectory_state(self, trajectory: Reference) -> tuple[float, ClarkeReference, Vector | None] | None:
        """Time since its start, s, reference and measured coordinates (2m,), m; None: something else is played."""

    def end_trajectory(self) -> None:
        """Come to rest where the reference is."""


def serve(host: ComponentNode, _call: Call) -> None:
    """Serve the action with the component of the node, a :class:`Player`, where control_msgs is installed."""
    action = installed_action()
    if action is None:
        return
    waiting = Waiting(host, FEEDBACK_PERIOD_S)

    async def execute(goal: Any) -> Any:
        if host.component is None or host.deaf:
            goal.abort()
            return action.Result(error_code=_INVALID_GOAL, error_string=host.defect or "configure the node first")
        player: Any = host.component
        return await TrajectoryGoals(waiting, player, host.clock, action).execute(goal)

    host.create_action(action, "follow_joint_trajectory", execute)


class TrajectoryGoals:
    """Follows one trajectory after the other."""

    def __init__(self, waiting: Waiting, player: Player, clock: Clock, action: Any) -> None:
        self._waiting, self._player, self._clock, self._action = waiting, player, clock, action

    async def execute(self, goal: Any) -> Any:
        """Follow one trajectory to its end, and say how that went."""
        asked, result = goal.request, self._action.Result()
        joints = list(asked.trajectory.joint_names)

        def make(robot: Robot, here_m: Vector) -> JointTrajectory:
            return joint_trajectory(robot, joints, _points(asked.trajectory.points), here_m)

        try:
            trajectory = self._player.begin_trajectory(make)
        except ContinuumRobotError as error:
            goal.abort()
            result.error_code, result.error_string = _INVALID_GOAL, str(error)
            return result
        to_joints = trajectory.to_joints
        while True:
            await self._waiting.sleep(FEEDBACK_PERIOD_S)
            state = self._player.trajectory_state(trajectory)
            if state is None:
                goal.abort()
                result.error_code, result.error_string = _INVALID_GOAL, "another motion took the place of this one"
                return result
            time_s, reference, measured = state
            desired = to_joints @ reference.position
            actual = desired * np.nan if measured is None else to_joints @ measured
            self._report(goal, joints, desired, actual)
            if goal.is_cancel_requested:
                self._player.end_trajectory()
                goal.canceled()
                result.error_code, result.error_string = _SUCCESSFUL, "cancelled: the reference comes to rest"
                return result
            if time_s < trajectory.duration_s:
                continue
            missed = _missed(joints, desired, actual, asked.goal_tolerance)
            if not missed:
                goal.succeed()
                result.error_code = _SUCCESSFUL
                return result
            if time_s >= trajectory.duration_s + _seconds(asked.goal_time_tolerance):
                goal.abort()
                result.error_code, result.error_string = _GOAL_TOLERANCE_VIOLATED, missed
                return result

    def _report(self, goal: Any, joints: Sequence[str], desired: Vector, actual: Vector) -> None:
        feedback = self._action.Feedback()
        feedback.header.stamp.sec, feedback.header.stamp.nanosec = divmod(self._clock.now_ns(), 10**9)
        feedback.joint_names = list(joints)
        for name, values in (("desired", desired), ("actual", actual), ("error", desired - actual)):
            getattr(feedback, name).positions = values.tolist()
        goal.publish_feedback(feedback)


def _points(messages: Sequence[Any]) -> list[TrajectoryPoint]:
    return [
        TrajectoryPoint(_seconds(point.time_from_start), list(point.positions), list(point.velocities))
        for point in messages
    ]


def _seconds(duration: Any) -> float:
    return float(duration.sec) + 1e-9 * float(duration.nanosec)


def _missed(joints: Sequence[str], desired: Vector, actual: Vector, tolerances: Sequence[Any]) -> str:
    """Which joint is out of its tolerance of the goal; empty where none is, or none was asked for."""
    for tolerance in tolerances:
        if tolerance.name in joints and tolerance.position > 0:
            index = list(joints).index(tolerance.name)
            error_m = abs(float(desired[index] - actual[index]))
            if not error_m <= tolerance.position:
                return f"{tolerance.name} is {1e3 * error_m:.3g} mm off, {1e3 * tolerance.position:.3g} mm are allowed"
    return ""
