# SPDX-License-Identifier: Apache-2.0
"""The node that brings the tip to ``predictive_target`` round obstacles, by a plan made again 50 times a second."""

from __future__ import annotations

import math
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped
from nav_msgs.msg import Path
from numpy.typing import NDArray

from continuum_robot.control.tip.predictive import PlannedTarget, PredictiveOutput, PredictiveSettings, PredictiveTip
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.obstacles import ConvexObstacle
from continuum_robot.msg import ClarkeState, Shape, TipState
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import StatusBuilder
from continuum_robot.nodes.reference.tip_task import STATE_TIMEOUT_S, UNKNOWN, TipTask, not_known
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.mujoco.world import load_world

Vector = NDArray[np.float64]

_REFERENCE_AGE_S = 0.05
_STANDS_M_PER_S = 1e-5
_LATE_PLANS = 3
_LONGEST_STEP_S = 0.2


@dataclass(frozen=True, kw_only=True)
class PlanParameters:
    """Of the plan."""

    plan_hz: float = quantity(
        "how often it plans; less often where a plan takes longer", "Hz", default=50.0, ge=5, le=200
    )
    rate_hz: float = quantity(
        "how often clarke_reference is published, along the newest plan", "Hz", default=100.0, ge=20, le=500
    )
    world: str = quantity("file of obstacles in the base frame; empty: none", default="")
    tolerance_m: float = quantity(
        "distance from the target within which the tip has reached it", "m", default=0.002, gt=0, le=1, live=True
    )
    base_frame: str = quantity("frame of predictive_target and of the obstacles", default="base")


class Plans(TipTask):
    """Silent until a target comes; then it takes the reference and writes ``clarke_reference``.

    A target is planned for in a thread while the reference rests; a target that is not finite, in another frame or
    without a plan is refused. The reference brakes and holds where no plan is found, where the plan comes too near to
    an obstacle, where planning takes too long, and where the driver does not obey. Another program that takes the
    reference ends the motion.
    """

    name, about = "predictive_tip", "plan"
    what, troubled, tell_s = "predictive_target", (TipState.HOLDING, TipState.STOPPED), 0.1
    parameters = PlanParameters()
    paths = node.output(Path, "predicted_path", of_flow=False)
    target = node.heard(PointStamped, "predictive_target", node.plain, profile=qos.command_subscription())
    shapes = node.heard(Shape, "shape", lazy=True)
    others = node.heard(ClarkeState, "clarke_reference", node.in_flow, profile=qos.newest_state(), raw=True, lazy=True)
    plan = node.Loop("plan_hz", while_active=True)
    write = node.Loop("rate_hz", while_active=True)

    search: tuple[threading.Thread, list[PlannedTarget]] | None = None
    shape: tuple[Vector, float] | None = None
    followed: tuple[bytes, float] | None = None
    output: PredictiveOutput | None = None
    taking = began = False
    pending = UNKNOWN
    late = 0
    updated_s = slowest_s = 0.0

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        file = self.parameters.world
        if robot.gravity_turns:
            expected = "gravity along the stage's axis: plans know one direction of it. Use the controller tip"
            raise ParameterError("gravity_m_per_s2", robot.gravity_m_per_s2, expected)
        obstacles: list[ConvexObstacle] = load_world(file).convex() if file else []
        settings = host.own_settings("plan", PredictiveSettings())
        self.control = PredictiveTip(robot, obstacles, settings)
        # Compiled functions serve one thread.
        self.searcher = PredictiveTip(robot, obstacles, settings)

    def activate(self) -> None:
        super().activate()
        self.search = self.output = self.shape = None
        self.taking = self.began = False

    def deactivate(self) -> None:
        """Forget the target and fall silent: the joint-space controller brakes and holds."""
        self.began = False
        search, self.search = self.search, None
        if search is not None:
            search[0].join()

    # Callbacks: they only keep what the loop takes.

    @target
    def keep_target(self, message: PointStamped) -> None:
        self.desired = message

    @shapes
    def keep_tip(self, message: Shape) -> None:
        self.shape = conversions.position(message.tip.position), self.host.clock.monotonic_s()

    @others
    def keep_reference(self, data: bytes) -> None:
        """What the robot follows before this node writes."""
        if not self.began:
            self.followed = data, self.host.clock.monotonic_s()

    # The loop

    @plan
    def cycle(self, now_s: float, _elapsed_s: float) -> None:
        drop = self.turn.ended_by()
        if drop and (self.began or self.taking):
            self._end(f"the target was dropped: {drop}", now_s)
        self.accept(now_s)
        if self.taking and self.turn.given(now_s):
            self.taking = False
            self._begin_search()
        self._take_plan(now_s)
        if self.began:
            self._go_on(now_s)

    def _end(self, why: str, now_s: float) -> None:
        self.control.drop()
        self.began = self.taking = False
        self.turn.forget()
        self.tell(TipState.STOPPED, why, now_s)

    def begin(self, point_m: Vector, now_s: float) -> None:
        if not np.all(np.isfinite(point_m)):
            raise ParameterError(self.what, point_m.tolist(), "three finite coordinates in m")
        if self.search is not None:
            raise ParameterError(self.what, "given", "one after the plan for the target before is found")
        start = self._start(now_s)
        if start is None:
            raise not_known()
        if not self.began:
            self.control.reset(*start)
        self.control.drop()
        self.pending, self.output = point_m, None
        if self.began:
            self._begin_search()
        else:
            self.taking = True
            self.turn.ask(now_s)
        self.tell(TipState.PLANNING, "", now_s)

    def refuse(self, why: str, now_s: float, point_m: Vector) -> None:
        """The state shows it until there is something else."""
        self.refused += 1
        self.tell(TipState.REFUSED, why, now_s, point_m)

    def _begin_search(self) -> None:
        """Plan in a thread, from where the reference comes to rest; in lock-step time waits for it."""
        self.updated_s, self.began = self.host.clock.monotonic_s(), True
        found: list[PlannedTarget] = []
        start, bias, target = self.control.resting_m, self.control.bias_m, self.pending
        thread = threading.Thread(
            target=lambda: found.append(self.searcher.search(target, start, bias)),
            name="predictive_search",
            daemon=True,
        )
        thread.start()
        if self.host.clock.stepped:
            thread.join()
        self.search = thread, found

    def _take_plan(self, now_s: float) -> None:
        if self.search is None or self.search[0].is_alive():
            return
        found, self.search = self.search[1], None
        if not self.began:
            return
        if not found or found[0].plan is None:
            self.refuse("no plan to the target was found: the reference holds", now_s, self.pending)
            return
        self.accepted += 1
        self.control.adopt(found[0])

    def _go_on(self, now_s: float) -> None:
        began_s = time.perf_counter()
        tip = None if self.shape is None or now_s - self.shape[1] > STATE_TIMEOUT_S else self.shape[0]
        step_s = min(max(now_s - self.updated_s, 1e-4), _LONGEST_STEP_S)
        output = self.output = self.control.update(tip, self.measured(now_s), step_s)
        self.updated_s = now_s
        spent_s = time.perf_counter() - began_s
        self.slowest_s = max(self.slowest_s, spent_s)
        self.late = self.late + 1 if spent_s > _LONGEST_STEP_S and not self.host.clock.stepped else 0
        if self.late >= _LATE_PLANS:
            self.late = 0
            problem = f"a plan takes {1e3 * spent_s:.0f} ms, at most {1e3 * _LONGEST_STEP_S:.0f} ms"
            self._end(f"the target was dropped: {problem}", now_s)
        elif self.search is None:
            self.tell(*self._progress(output), now_s)

    def _start(self, now_s: float) -> tuple[Vector, Vector] | None:
        """Coordinates, m, and rates, m/s, to begin with: of the reference that the robot follows, else where it is."""
        followed = self.fresh(self.followed, now_s, _REFERENCE_AGE_S)
        velocity = np.zeros(0) if followed is None else np.array(conversions.vector(followed.velocity))
        if followed is not None and velocity.size == self.position.size and np.isfinite(velocity).all():
            return np.array(conversions.vector(followed.position)), velocity
        measured = self.measured(now_s)
        return None if measured is None else (measured, np.zeros_like(measured))

    def _progress(self, output: PredictiveOutput) -> tuple[str, str]:
        """State, and what is in the way."""
        if output.holding:
            return TipState.HOLDING, output.reason
        if output.error_m <= self.parameters.tolerance_m:
            return TipState.REACHED, ""
        if float(np.linalg.norm(output.reference.velocity)) < _STANDS_M_PER_S:
            return TipState.MOVING, f"the plan ends here, {1e3 * output.error_m:.1f} mm from the target"
        return TipState.MOVING, ""

    @write
    def publish(self, now_s: float, _elapsed_s: float) -> None:
        """The reference along the newest plan, also while the next one is made."""
        if self.began:
            # Where planning stands still, the plan ends at rest by itself.
            self.publish_reference(self.control.ahead(max(now_s - self.updated_s, 0.0)), now_s)

    def fill_state(self, message: TipState, refused: Vector | None) -> None:
        output, known = self.output, refused is None
        target = self.pending if refused is None else refused
        message.target = conversions.point_message(target)
        message.tip = conversions.point_message(UNKNOWN if self.shape is None else self.shape[0])
        tips = self.control.plan_tips_m if self.began and known else np.empty((0, 3))
        message.goal = conversions.point_message(tips[-1] if len(tips) else UNKNOWN)
        message.distance = math.nan
        if len(tips):
            message.distance = float(np.linalg.norm(target - tips[-1] - self.control.bias_m))
        message.error = output.error_m if output is not None and known else math.nan
        message.reachable = bool(message.distance <= self.parameters.tolerance_m)
        position = np.full(self.position.size, math.nan) if output is None else output.reference.position
        message.clarke = conversions.float_array(position)
        if len(tips):
            path = Path(header=message.header)
            for place in tips:
                pose = PoseStamped(header=message.header)
                pose.pose.position = conversions.point_message(place)
                path.poses.append(pose)
            self.paths.publish(path)

    def health(self, status: StatusBuilder) -> None:
        super().health(status)
        output = self.output
        status.add("clearance_m", np.nan if output is None else output.clearance_m)
        status.add("limit_use", np.nan if output is None else output.limit_use)
        if self.host.active:
            report = self.plan.statistics.report()
            status.add("plan_rate_hz", report.rate_hz)
            status.add("missed_plans_percent", report.missed_percent)
            status.add("plan_mean_ms", 1e-3 * report.execution_mean_us)
            status.add("plan_p99_ms", 1e-3 * report.execution_p99_us)
        status.add("slowest_cycle_ms", 1e3 * self.slowest_s)


PredictiveTipNode = node.as_node(Plans)
main = partial(node.run, Plans)


if __name__ == "__main__":
    sys.exit(main())
