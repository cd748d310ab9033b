# SPDX-License-Identifier: Apache-2.0
"""Motions of the reference, of the tip and of the base stage: each is asked for, and watched until it is there."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.app.client.stack_link import POLL_S, REFERENCE_PERIOD_S, STAGE_STATE, TIP_TARGET, StackLink
from continuum_robot.control.motion import LONGEST_STEP_S, motion_limits
from continuum_robot.control.references import ClarkeReference, Reference, RestToRest, read_csv_reference
from continuum_robot.errors import ContinuumRobotError, ParameterError, RobotFaultError, RobotTimeoutError
from continuum_robot.msg import TipState
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.rod.tendons import controlled_manifold

END_TIMEOUT_S = 120.0
_JOIN_S = 0.1
"""Waits are short, so that Ctrl-C is heard."""


class Task:
    """Work that has begun."""

    def __init__(self, name: str, work: Callable[[Task], Any]) -> None:
        self.name = name
        self._work = work
        self._cancelled = threading.Event()
        self._result: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises RobotFaultError where it was cancelled; for the work."""
        if self._cancelled.is_set():
            raise RobotFaultError(self.name, "was cancelled", "Begin it again")

    def cancel(self) -> None:
        """Ask it to end; does not wait."""
        self._cancelled.set()

    def end(self) -> None:
        """Have it end, and wait for that."""
        self.cancel()
        self._thread.join(END_TIMEOUT_S)

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for what the work returns, or raise what it raised."""
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._thread.join(_JOIN_S)
        while not self.done:
            if time.monotonic() > end_s:
                raise RobotTimeoutError(self.name, f"is not over after {timeout_s:g} s", "Wait longer, or cancel()")
            self._thread.join(_JOIN_S)
        if self._error is not None:
            raise self._error
        return self._result

    def _main(self) -> None:
        try:
            self._result = self._work(self)
        except Exception as error:  # reported where the result is asked for
            self._error = error


Vector = NDArray[np.float64]
ReferenceFunction = Callable[[float], ClarkeReference]
Trajectory = str | Path | Reference | Callable[[float], "ArrayLike | ClarkeReference"]


def checked(robot: RobotDescription, clarke: ArrayLike) -> Vector:
    """Clarke coordinates as an array of their own, shape (2m,), m."""
    desired = np.array(clarke, dtype=float)
    if desired.shape != (robot.coordinate_count,) or not np.all(np.isfinite(desired)):
        raise ParameterError("clarke", clarke, f"{robot.coordinate_count} finite values in m")
    if robot.limits is not None:
        pulled_m = np.abs(controlled_manifold(robot).displacement(desired))
        most_m = robot.limits.each("maximum_displacement_m", robot.tendon_count)
        worst = int(np.argmax(pulled_m / most_m))
        if pulled_m[worst] > most_m[worst]:
            raise ParameterError(
                "clarke",
                clarke,
                "tendon displacements of at most limits.maximum_displacement_m ="
                f" {most_m[worst]:g} m, not {pulled_m[worst]:.3g} m of tendon {worst + 1}",
            )
    return desired


def as_function(robot: RobotDescription, trajectory: Trajectory) -> tuple[ReferenceFunction, float]:
    """A trajectory as a function of the time, and how long it lasts, s; inf without end."""
    if isinstance(trajectory, (str, Path)):
        trajectory = read_csv_reference(Path(trajectory).expanduser(), robot.coordinate_count)
    at = getattr(trajectory, "at", None)
    if at is not None:
        return at, float(getattr(trajectory, "duration_s", math.inf))
    if not callable(trajectory):
        raise ParameterError("trajectory", trajectory, "a CSV file, a reference with at(t_s), or a function of t_s")
    return _Differentiated(robot, trajectory), math.inf


class _Differentiated:
    """A user's function as a reference: called once an instant, its velocity from one to the next."""

    def __init__(self, robot: RobotDescription, function: Callable[[float], ArrayLike | ClarkeReference]) -> None:
        self._robot, self._function = robot, function
        self._before: tuple[float, Vector] | None = None

    def __call__(self, t_s: float) -> ClarkeReference:
        value = self._function(t_s)
        if isinstance(value, ClarkeReference):
            return value
        position = checked(self._robot, value)
        velocity = np.zeros_like(position)
        if self._before is not None and t_s > self._before[0]:
            velocity = (position - self._before[1]) / (t_s - self._before[0])
        self._before = t_s, position
        return ClarkeReference(position, velocity, np.zeros_like(position))


def source_parameters(robot: RobotDescription, kind: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """ROS parameters with which the reference source plays a trajectory."""
    values: dict[str, Any] = {}
    if kind is None and robot.reference is not None:
        values = {name: getattr(robot.reference, name) for name in ReferenceSettings.__dataclass_fields__}
    values |= settings if kind is None else {**settings, "kind": kind}
    parameters = {
        f"reference.{name}": [float(one) for one in value] if isinstance(value, (tuple, list, np.ndarray)) else value
        for name, value in values.items()
    }
    # An empty list has no type over ROS; the reference source has a default for it.
    return {name: value for name, value in parameters.items() if value != []}


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
