# SPDX-License-Identifier: Apache-2.0
"""Motions of the reference: this program takes its turn to write it, and waits until the robot has followed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.results import MotionResult
from continuum_robot.app.client.stack_link import POLL_S, REFERENCE_PERIOD_S, StackLink
from continuum_robot.app.client.task import Task
from continuum_robot.app.client.trajectories import ReferenceFunction, checked
from continuum_robot.control.motion import LONGEST_STEP_S, motion_limits
from continuum_robot.control.references import ClarkeReference, RestToRest
from continuum_robot.errors import ContinuumRobotError, RobotFaultError, RobotTimeoutError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.description import Robot as RobotDescription

Vector = NDArray[np.float64]

ARRIVED_FRACTION = 0.02
"""A motion has arrived where the measured coordinates are within this fraction of the largest displacement."""
SETTLE_S = 10.0


class Motions:
    """Moves the reference of a robot, in turn with others that write it.

    Parameters
    ----------
    link : to the stack
    robot : of the stack
    """

    def __init__(self, link: StackLink, robot: RobotDescription) -> None:
        self._link, self._robot = link, robot

    def desired(self) -> Vector:
        """Where the reference stands, shape (2m,), m: what is desired last, or else where the robot is.

        Raises
        ------
        RobotFaultError : neither is known
        """
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
        """From rest to rest, by a quintic polynomial.

        Parameters
        ----------
        task : that this is the work of
        goal : checked coordinates, shape (2m,), m
        duration_s, tolerance_m : as of :meth:`continuum_robot.app.client.robot.Robot.move_to`
        """
        begun_s = time.monotonic()
        with self._turn():
            self._approach(task, goal, duration_s)
        return self._arrived(task, goal, tolerance_m, begun_s)

    def follow(self, task: Task, at: ReferenceFunction, duration_s: float) -> MotionResult:
        """Move to where a trajectory begins, then follow it.

        Parameters
        ----------
        task : that this is the work of
        at : the trajectory
        """
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
