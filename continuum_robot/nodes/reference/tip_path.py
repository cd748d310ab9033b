# SPDX-License-Identifier: Apache-2.0
"""The path of the tip to its target, corrected by the measured shape; its progress is published on ``tip_state``.

Targets are solved for in a thread.
"""

from __future__ import annotations

import math
import threading

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray

from continuum_robot.control.motion import MotionLimits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.control import TipControl, TipOutput
from continuum_robot.control.tip.inverse import TipSolution
from continuum_robot.geometry import se3
from continuum_robot.msg import Shape, TipState
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.reference.lines import StageLine
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.clock import Clock

Vector = NDArray[np.float64]


class TipSolver:
    """Solves for targets in a thread of its own: a target out of reach takes longer than the controller may wait.

    A target that comes while another is solved for waits, the newest only.
    """

    def __init__(self, control: TipControl, *, beside: bool = True) -> None:
        self._control, self._beside = control, beside
        self._lock = threading.Condition()
        self._asked: tuple[Vector, Vector, bool] | None = None
        self._found: TipSolution | None = None
        self._epoch = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tip_solver", daemon=True)
        if beside:
            self._thread.start()

    def ask(self, target: Vector, start: Vector, *, search: bool) -> None:
        """Solve for a target next."""
        with self._lock:
            self._asked = target.copy(), start.copy(), search
            self._lock.notify()

    def answer(self) -> TipSolution | None:
        """The newest solution that was not given yet."""
        if not self._beside and self._asked is not None:
            (target, start, search), self._asked = self._asked, None
            return self._control.solve(target, start, search=search)
        with self._lock:
            found, self._found = self._found, None
            return found

    def forget(self) -> None:
        """Whatever is being solved for is not desired any more."""
        with self._lock:
            self._asked = self._found = None
            self._epoch += 1

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        if self._beside:
            self._thread.join(5.0)

    def _run(self) -> None:
        while True:
            with self._lock:
                while self._asked is None and not self._closed:
                    self._lock.wait()
                if self._closed or self._asked is None:
                    return
                (target, start, search), self._asked = self._asked, None
                epoch = self._epoch
            found = self._control.solve(target, start, search=search)
            with self._lock:
                # A target that moved on meanwhile is followed as far as it was; one that was dropped is not.
                if epoch == self._epoch:
                    self._found = found


SHAPE_AGE_S = 0.25
"""A shape that is older reports nothing about where the tip is now."""


class TipStates:
    """Publishes ``tip_state``."""

    def __init__(self, node: ManagedNode, frame: str, *, simulated: bool) -> None:
        self._node, self._frame, self._simulated = node, frame, simulated
        self._publisher = node.flow.create_publisher(TipState, "tip_state", qos.state_publisher())

    def prepare(self, count: int) -> None:
        """Make the message of a robot with ``count`` = 2m coordinates, before :meth:`publish`."""
        self._message = TipState(simulated=self._simulated)
        self._message.header.frame_id = self._frame
        self._clarke = conversions.preallocate(self._message, "clarke", count)

    def publish(self, control: TipControl, output: TipOutput, tip: Vector | None, now_ns: int) -> None:
        """How far the tip has come; nothing before a target is solved."""
        solution, message = control.solution, self._message
        if solution is None:
            return
        conversions.set_stamp(message.header.stamp, now_ns)
        message.state = TipState.REACHED if output.arrived else TipState.MOVING
        message.message = _obstacles(control, output)
        message.target = conversions.point_message(solution.target)
        message.goal = conversions.point_message(solution.goal)
        message.tip = conversions.point_message(np.full(3, math.nan) if tip is None else tip)
        message.distance, message.error = solution.distance_m, output.error_m
        message.reachable = solution.reachable
        self._clarke[:] = output.reference.position[: self._clarke.size]
        self._publisher.publish(message)

    def refuse(self, target: Point, problem: str) -> None:
        """A target is not for this robot."""
        nothing = Point(x=math.nan, y=math.nan, z=math.nan)
        message = TipState(simulated=self._simulated, state=TipState.REFUSED, message=problem)
        message.header.frame_id = self._frame
        conversions.set_stamp(message.header.stamp, self._node.clock.now_ns())
        message.target, message.goal, message.tip = target, nothing, nothing
        message.distance = message.error = math.nan
        self._publisher.publish(message)
        self._node.get_logger().warning(f"tip target refused: {problem}", throttle_duration_sec=1.0)


class TipPath:
    """Leads the reference to the newest target: solved for beside, corrected with the tip of fresh shapes.

    Places are in the base frame, or that of the stage which carries the robot and takes part.
    """

    def __init__(
        self, robot: Robot, control: TipControl, states: TipStates, clock: Clock, stage: StageLine | None
    ) -> None:
        self._control, self._states, self._clock, self._stage = control, states, clock, stage
        self._solver = TipSolver(TipControl(robot, control.settings), beside=not clock.stepped)
        self._count = robot.coordinate_count
        self._tip: Vector | None = None
        self._heard_s = 0.0
        self._tick_ns = 0
        self._held: Vector | None = None

    def limit(self, limits: MotionLimits) -> None:
        """Move within these limits from now on."""
        self._control.motion.limits = limits

    def start(self, here: ClarkeReference, limits: MotionLimits) -> None:
        """Begin where the reference is, without a target yet."""
        self._solver.forget()
        here = self._with_stage(here)
        self._control.reset(here.position, here.velocity)
        self.limit(limits)
        self._tip = self._held = None
        self._tick_ns = 0

    def hold(self, here: ClarkeReference, limits: MotionLimits) -> bool:
        """Keep the tip where it is, without a step of the reference; False where the tip is not known."""
        tip, seen = self._fresh_tip(), self._tip
        if tip is None:
            return False
        self.start(here, limits)
        here = self._with_stage(here)
        self._tip, self._held = seen, here.position
        self._solver.ask(tip, here.position, search=False)
        return True

    def aim(self, place: Vector, here: ClarkeReference) -> None:
        """Go to a target, after :meth:`start`."""
        before, self._held = self._control.solution, None
        here = self._with_stage(here)
        start = here.position if before is None else before.clarke
        self._solver.ask(place, start, search=before is None or not self._control.near(before.target, place))

    def hear_shape(self, data: bytes) -> None:
        """Take the tip of a shape."""
        shape = conversions.message_of(data, Shape)
        if shape is not None:
            self._tip, self._heard_s = conversions.position(shape.tip.position), self._clock.monotonic_s()

    def at(self, period_s: float, measured: Vector | None) -> ClarkeReference:
        """The reference of this period."""
        control, now_ns = self._control, self._clock.monotonic_ns()
        step_s = (now_ns - self._tick_ns) * 1e-9 if self._tick_ns else period_s
        self._tick_ns = now_ns
        # After a stall the reference goes on from where it stood, it does not make up for it.
        step_s = step_s if 0 < step_s < 5 * period_s else period_s
        solution = self._solver.answer()
        if solution is not None and self._held is not None:
            control.keep(solution, self._held)
        elif solution is not None:
            control.adopt(solution)
        if control.solution is None:
            return control.motion.along(np.zeros(self._count), step_s)
        tip, stage = self._fresh_tip(), self._stage
        if stage is not None:
            place = stage.position
            measured = None if measured is None or place is None else np.append(measured, place)
        output = control.update(tip, measured, step_s)
        self._states.publish(control, output, tip, self._clock.now_ns())
        reference = output.reference
        if stage is None:
            return reference
        stage.command(reference.position[self._count :])
        parts = (reference.position, reference.velocity, reference.acceleration)
        return ClarkeReference(*(part[: self._count] for part in parts))

    def _fresh_tip(self) -> Vector | None:
        if self._tip is None or self._clock.monotonic_s() - self._heard_s >= SHAPE_AGE_S:
            return None
        if self._stage is None:
            return self._tip
        place = self._stage.position
        return None if place is None else se3.apply(self._stage.stage.pose(place), self._tip)

    def _with_stage(self, here: ClarkeReference) -> ClarkeReference:
        """The reference with the stage at rest where it is."""
        place = None if self._stage is None else self._stage.position
        if place is None:
            return here
        rest = np.zeros(2)
        return ClarkeReference(
            np.append(here.position, place), np.append(here.velocity, rest), np.append(here.acceleration, rest)
        )

    def close(self) -> None:
        """End the thread that solves."""
        self._solver.close()


def _obstacles(control: TipControl, output: TipOutput) -> str:
    """What keeps the tip from its target, a phrase each."""
    solution, tolerance_m = control.solution, control.tolerance_m
    phrases = []
    if solution is not None and not solution.reachable:
        by = f" within the limits of {' and '.join(solution.limited_by)}" if solution.limited_by else ""
        phrases.append(f"the target is {1e3 * solution.distance_m:.1f} mm out of reach{by}")
    if math.isnan(output.error_m):
        phrases.append("the tip is not known: no fresh shape")
    elif output.off_m > tolerance_m and not output.moving:
        phrases.append(f"the tip is {1e3 * output.off_m:.1f} mm off where no tendon moves it")
    if output.limited:
        phrases.append("the correction of the tip's error is at a limit")
    return "; ".join(phrases)
