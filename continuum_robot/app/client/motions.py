# SPDX-License-Identifier: Apache-2.0
"""Motions of the reference, of the tip and of the base stage: each is asked for, and watched until it is there."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import POLL_S, REFERENCE_PERIOD_S, STAGE_STATE, TIP_TARGET, StackLink
from continuum_robot.app.client.task import Task
from continuum_robot.app.client.trajectories import ReferenceFunction, checked
from continuum_robot.control.motion import LONGEST_STEP_S, motion_limits
from continuum_robot.control.references import ClarkeReference, RestToRest
from continuum_robot.errors import ContinuumRobotError, RobotFaultError, RobotTimeoutError
from continuum_robot.msg import TipState
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot as RobotDescription

Vector = NDArray[np.float64]

ARRIVED_FRACTION = 0.02
"""A motion has arrived where the measured coordinates are within this fraction of the largest displacement."""
SETTLE_S = 10.0
STAGE_PERIOD_S = 0.05
STAGE_THERE = np.array([1e-4, 1e-3])
"""How near a stage counts as arrived, m and rad."""

_ENDS = (TipState.REACHED, TipState.REFUSED, TipState.STOPPED)


@dataclass(frozen=True, slots=True)
class MotionResult:
    """How a motion ended.

    Attributes
    ----------
    clarke_m : measured Clarke coordinates at its end, shape (2m,), m
    error_m : norm of desired less measured coordinates, m
    duration_s : it took, s
    """

    clarke_m: Vector
    error_m: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class TipResult:
    """How a motion of the tip ended.

    Attributes
    ----------
    tip_m : estimated, shape (3,), base frame, m
    goal_m : the reachable point next to the target, shape (3,), base frame, m
    distance_m : from target to goal: how much of it is out of reach, m
    error_m : from goal to tip, m
    reachable : whether goal and target are the same point
    message : what kept it from the target, empty for nothing
    duration_s : it took, s
    """

    tip_m: Vector
    goal_m: Vector
    distance_m: float
    error_m: float
    reachable: bool
    message: str
    duration_s: float


class Motions:
    """Moves the reference of a robot, in turn with others that write it."""

    def __init__(self, link: StackLink, robot: RobotDescription) -> None:
        self._link, self._robot = link, robot

    def desired(self) -> Vector:
        """Where the reference stands, shape (2m,), m: what is desired last, or else where the robot is."""
        state = self._link.state(self._robot)
        start = state.reference_m if np.all(np.isfinite(state.reference_m)) else state.clarke_m
        if not np.all(np.isfinite(start)):
            raise RobotFaultError("robot", "its Clarke coordinates are unknown", "Bring the stack up first")
        return np.array(start)

    def take_turn(self) -> Vector:
        """See :meth:`continuum_robot.app.client.robot.Robot.take_turn`; shape (2m,), m."""
        self._link.hold()
        wait_for(self._stands, SETTLE_S, POLL_S)
        self._link.take_reference()
        return self.desired()

    def move(
        self, task: Task, goal: Vector, duration_s: float | None = None, tolerance_m: float | None = None
    ) -> MotionResult:
        """From rest to rest, by a quintic polynomial."""
        begun_s = time.monotonic()
        with self._turn():
            self._approach(task, goal, duration_s)
        return self._arrived(task, goal, tolerance_m, begun_s)

    def follow(self, task: Task, at: ReferenceFunction, duration_s: float) -> MotionResult:
        """Move to where a trajectory begins, then follow it."""
        begun_s = time.monotonic()
        with self._turn():
            self._approach(task, checked(self._robot, at(0.0).position))
            last = self._write(task, at, duration_s)
        return self._arrived(task, last, None, begun_s)

    def _stands(self) -> bool:
        message = self._link.messages["clarke_reference"]
        return message is not None and not np.any(np.asarray(message.velocity))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """The reference is this program's while the block runs; afterwards the reference source holds."""
        self.take_turn()
        try:
            yield
        except BaseException:
            with contextlib.suppress(ContinuumRobotError):  # what ended the motion reports more
                self._link.end_turn()
            raise
        self._link.end_turn()

    def _approach(self, task: Task, goal: Vector, duration_s: float | None = None) -> None:
        start = self.desired()
        move_s = duration_s or max(motion_limits(self._robot).move_s(start, goal), REFERENCE_PERIOD_S)
        self._write(task, RestToRest(start, goal, move_s).at, move_s)

    def _write(self, task: Task, at: ReferenceFunction, duration_s: float) -> Vector:
        """Publish references until the time is over; the last position. The motion waits while this program stalls."""
        begun_s = time.monotonic()
        time_s = 0.0
        while True:
            self._check_going(task)
            self._link.check_turn()
            reference = at(min(time_s, duration_s))
            position = checked(self._robot, reference.position)
            if time_s >= duration_s:
                self._link.publish_reference(ClarkeReference.at_rest(position))
                return position
            self._link.publish_reference(reference)
            now_s = time.monotonic() - begun_s
            lost_s = max(0.0, now_s + REFERENCE_PERIOD_S - time_s - LONGEST_STEP_S)
            begun_s, now_s = begun_s + lost_s, now_s - lost_s
            time_s = (math.floor(now_s / REFERENCE_PERIOD_S) + 1) * REFERENCE_PERIOD_S
            time.sleep(max(0.0, time_s - now_s))

    def _arrived(self, task: Task, goal: Vector, tolerance_m: float | None, begun_s: float) -> MotionResult:
        limits, largest_m = self._robot.limits, math.inf
        if limits is not None:
            largest_m = limits.smallest("maximum_displacement_m", self._robot.tendon_count)
        tolerance = tolerance_m or ARRIVED_FRACTION * largest_m
        end_s = time.monotonic() + SETTLE_S
        while True:
            measured = self._link.state(self._robot).clarke_m
            error_m = float(np.linalg.norm(goal - measured))
            if error_m <= tolerance:
                return MotionResult(measured, error_m, time.monotonic() - begun_s)
            self._check_going(task)
            if time.monotonic() > end_s:
                raise RobotTimeoutError(
                    task.name,
                    f"the coordinates are still {1e3 * error_m:.3g} mm from their goal, more than"
                    f" {1e3 * tolerance:.3g} mm",
                    "See whether tensions are limited or something holds the robot",
                )
            time.sleep(POLL_S)

    def _check_going(self, task: Task) -> None:
        task.check()
        self._link.check_up()
        self._link.check_heard()


def move_tip(link: StackLink, task: Task, target_m: Vector, timeout_s: float, topic: str = TIP_TARGET) -> TipResult:
    """Publish a target of the tip, and wait for the outcome, or ``task`` is cancelled."""
    begun_s = time.monotonic()
    link.messages.forget("tip_state")
    link.publish_tip_target(target_m, topic=topic)
    while True:
        message = link.messages["tip_state"]
        mine = message is not None and np.allclose(conversions.position(message.target), target_m, atol=1e-9)
        if mine and message.state in _ENDS:
            break
        task.check()
        link.check_up()
        link.check_heard()
        if time.monotonic() - begun_s > timeout_s:
            found = f"{1e3 * message.error:.2f} mm from it ({message.message})" if mine else "no answer"
            raise RobotTimeoutError(
                "tip", f"did not reach the goal within {timeout_s:g} s: {found}", "Allow more time or tolerance"
            )
        time.sleep(POLL_S)
    if message.state != TipState.REACHED:
        raise RobotFaultError("tip_target", f"{message.state}: {message.message}", "See tip_state")
    return TipResult(
        conversions.position(message.tip),
        conversions.position(message.goal),
        message.distance,
        message.error,
        message.reachable,
        message.message,
        time.monotonic() - begun_s,
    )


def move_stage(link: StackLink, task: Task, goal: Vector, timeout_s: float) -> Vector:
    """Bring the stage to a place, or until ``task`` is cancelled; where it stands then, (2,), m and rad."""
    end_s = time.monotonic() + timeout_s
    link.messages.forget(STAGE_STATE)
    while True:
        state = link.state()
        if state.stage_problem:
            raise RobotFaultError("base_stage", state.stage_problem, "Remove the cause, then call reset()")
        if state.stage.size == goal.size and (np.abs(state.stage - goal) < STAGE_THERE).all():
            return state.stage
        task.check()
        link.check_up()
        link.check_heard()
        if time.monotonic() > end_s:
            found = f"stands at {state.stage.tolist()}" if state.stage.size else "is not heard"
            raise RobotTimeoutError("base_stage", f"{found} after {timeout_s:g} s", "Allow more time; see its log")
        link.publish_stage(goal)
        time.sleep(STAGE_PERIOD_S)
