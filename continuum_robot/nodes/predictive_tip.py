# SPDX-License-Identifier: Apache-2.0
"""The node that brings the tip to ``predictive_target`` round obstacles, by a plan made again 50 times a second."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped
from nav_msgs.msg import Path
from numpy.typing import NDArray

from continuum_robot.control.tip.predictive import PlannedTarget, PredictiveOutput, PredictiveSettings, PredictiveTip
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.obstacles import ConvexObstacle
from continuum_robot.msg import ClarkeState, Shape, TipState
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.lockstep.flow import FlowLoop
from continuum_robot.nodes.reference.turn import ReferenceTurn
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.mujoco.world import load_world

Vector = NDArray[np.float64]

PLANNING, MOVING, REACHED, HOLDING, STOPPED, REFUSED = "planning", "moving", "reached", "holding", "stopped", "refused"
_STATE_TIMEOUT_S = 0.5
_REFERENCE_AGE_S = 0.05
_STANDS_M_PER_S = 1e-5
_LATE_PLANS = 3
_LONGEST_STEP_S = 0.2
_PATH_PERIOD_S = 0.1
_UNKNOWN = np.full(3, np.nan)


class PredictiveTipNode(ManagedNode):
    """Silent until a target comes; then it takes the reference and writes ``clarke_reference``.

    A target is planned for in a thread while the reference rests; a target that is not finite, in another frame or
    without a plan is refused. The reference brakes and holds where no plan is found, where the plan comes too near to
    an obstacle, where planning takes too long, and where the driver does not obey. Another program that takes the
    reference ends the motion.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("predictive_tip", **node_options)
        declare = self.parameters.declare
        declare(
            "plan_hz",
            50.0,
            "how often it plans; less often where a plan takes longer",
            rules=Quantity("", "Hz", ge=5, le=200),
            read_only=True,
        )
        declare(
            "rate_hz",
            100.0,
            "how often clarke_reference is published, along the newest plan",
            rules=Quantity("", "Hz", ge=20, le=500),
            read_only=True,
        )
        declare("world", "", "file of obstacles in the base frame; empty: none", read_only=True)
        declare(
            "tolerance_m",
            0.002,
            "distance from the target within which the tip has reached it",
            rules=Quantity("", "m", gt=0, le=1),
        )
        declare("base_frame", "base", "frame of predictive_target and of the obstacles", read_only=True)
        self._control: PredictiveTip | None = None
        self._searcher: PredictiveTip | None = None
        self._loops: list[FlowLoop] = []
        self._desired: PointStamped | None = None
        self._search: tuple[threading.Thread, list[PlannedTarget]] | None = None
        self._shape: tuple[Vector, float] | None = None
        self._clarke: tuple[bytes, float] | None = None
        self._followed: tuple[bytes, float] | None = None
        self._taking = self._began = False
        self._pending = _UNKNOWN
        self._late, self._updated_s = 0, 0.0
        self._output: PredictiveOutput | None = None
        self._state = self._message = ""
        self._shown_s = -math.inf
        self._sequence = self._accepted = self._refused = 0
        self._slowest_s = 0.0
        flow = self.flow
        self._references = flow.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        self._states = flow.create_publisher(TipState, "tip_state", qos.state_publisher())
        self._paths = self.create_publisher(Path, "predicted_path", qos.state_publisher())
        self.create_subscription(PointStamped, "predictive_target", self._on_target, qos.command_subscription())
        subscribe_to_stream(self, Shape, "shape", self._on_shape, lazy=True)
        # Raw: it is needed once a cycle, and comes more often.
        subscribe_to_stream(self, ClarkeState, "clarke_state", self._on_clarke_state, raw=True, lazy=True)
        flow.create_subscription(
            ClarkeState, "clarke_reference", self._on_reference, qos.newest_state(), raw=True, lazy=True
        )
        self._turn = ReferenceTurn(self)
        self.diagnostics.add_task("plan", self._diagnose)

    def configure(self) -> None:
        """Read the obstacles and compile the robot's model."""
        robot, file = self.load_robot(), str(self.parameters.get("world"))
        if robot.gravity_turns:
            expected = "gravity along the stage's axis: plans know one direction of it. Use the controller tip"
            raise ParameterError("gravity_m_per_s2", robot.gravity_m_per_s2, expected)
        obstacles: list[ConvexObstacle] = load_world(file).convex() if file else []
        settings = self.parameters.declare_settings("plan", PredictiveSettings()).value
        self._control = PredictiveTip(robot, obstacles, settings)
        # Compiled functions serve one thread.
        self._searcher = PredictiveTip(robot, obstacles, settings)
        self._reference = ClarkeState(simulated=self.simulated, writer=self.get_name())
        count = robot.coordinate_count
        self._position = conversions.preallocate(self._reference, "position", count)
        self._velocity = conversions.preallocate(self._reference, "velocity", count)
        self._acceleration = conversions.preallocate(self._reference, "acceleration", count)

    def activate(self) -> None:
        """Wait for a target."""
        self._desired = self._search = self._output = self._shape = None
        self._taking, self._began, self._state, self._message = False, False, "", ""
        self._turn.forget()
        for name, rate, work in (("plan", "plan_hz", self._cycle), ("reference", "rate_hz", self._publish)):
            period_s = 1.0 / self.parameters.get(rate)
            loop = self.flow.create_loop(f"predictive_{name}", period_s, work, self._on_loop_failure)
            self._loops.append(loop)
            loop.start()

    def deactivate(self) -> None:
        """Forget the target and fall silent: the joint-space controller brakes and holds."""
        self._began = False
        while self._loops:
            self._loops.pop().stop()
        search, self._search = self._search, None
        if search is not None:
            search[0].join()

    def cleanup(self) -> None:
        """Forget the model."""
        self._control = self._searcher = None

    # Callbacks: they only keep what the loop takes.

    def _on_target(self, message: PointStamped) -> None:
        self._desired = message

    def _on_shape(self, message: Shape) -> None:
        self._shape = conversions.position(message.tip.position), self.clock.monotonic_s()

    def _on_clarke_state(self, data: bytes) -> None:
        self._clarke = data, self.clock.monotonic_s()

    def _on_reference(self, data: bytes) -> None:
        if not self._began:
            self._followed = data, self.clock.monotonic_s()

    # The loop

    def _cycle(self, now_s: float, _elapsed_s: float) -> None:
        control = self._control
        if control is None:
            return
        drop = self._turn.ended_by()
        if drop and (self._began or self._taking):
            self._end(control, f"the target was dropped: {drop}", now_s)
        desired, self._desired = self._desired, None
        if desired is not None:
            self._accept(control, desired, now_s)
        if self._taking and self._turn.given(now_s):
            self._taking = False
            self._begin_search(control)
        self._take_plan(control, now_s)
        if self._began:
            self._go_on(control, now_s)

    def _end(self, control: PredictiveTip, why: str, now_s: float) -> None:
        control.drop()
        self._began = self._taking = False
        self._turn.forget()
        self._show(STOPPED, why, now_s)

    def _accept(self, control: PredictiveTip, desired: PointStamped, now_s: float) -> None:
        point = conversions.position(desired.point)
        frame, own = desired.header.frame_id, self.parameters.get("base_frame")
        try:
            if frame not in ("", own):
                raise ParameterError("predictive_target.header.frame_id", frame, f"{own}, or empty for it")
            if not np.all(np.isfinite(point)):
                raise ParameterError("predictive_target", point.tolist(), "three finite coordinates in m")
            if self._turn.driver != "active":
                found = self._turn.driver or "away"
                raise ParameterError("predictive_target", "given", f"an active driver, it is {found}")
            if self._search is not None:
                raise ParameterError("predictive_target", "given", "one after the plan for the target before is found")
            start = self._start(now_s)
            if start is None:
                raise ParameterError("clarke_state", "old or unknown", f"one of the last {_STATE_TIMEOUT_S:g} s")
        except ParameterError as error:
            self._refused += 1
            self.get_logger().error(f"refused: {error}")
            self._show(REFUSED, str(error), now_s, point)
            return
        if not self._began:
            control.reset(*start)
        control.drop()
        self._pending = point
        self._output = None
        if self._began:
            self._begin_search(control)
        else:
            self._taking = True
            self._turn.ask(now_s)
        self._show(PLANNING, "", now_s)

    def _begin_search(self, control: PredictiveTip) -> None:
        """Plan in a thread, from where the reference comes to rest; in lock-step time waits for it."""
        self._updated_s, self._began = self.clock.monotonic_s(), True
        searcher, found = self._searcher, list[PlannedTarget]()
        if searcher is None:
            return
        start, bias, target = control.resting_m, control.bias_m, self._pending
        thread = threading.Thread(
            target=lambda: found.append(searcher.search(target, start, bias)), name="predictive_search", daemon=True
        )
        thread.start()
        if self.clock.stepped:
            thread.join()
        self._search = thread, found

    def _take_plan(self, control: PredictiveTip, now_s: float) -> None:
        if self._search is None or self._search[0].is_alive():
            return
        found, self._search = self._search[1], None
        if not self._began:
            return
        if not found or found[0].plan is None:
            self._refused += 1
            self._show(REFUSED, "no plan to the target was found: the reference holds", now_s, self._pending)
            return
        self._accepted += 1
        control.adopt(found[0])

    def _go_on(self, control: PredictiveTip, now_s: float) -> None:
        began_s = time.perf_counter()
        tip = None if self._shape is None or now_s - self._shape[1] > _STATE_TIMEOUT_S else self._shape[0]
        step_s = min(max(now_s - self._updated_s, 1e-4), _LONGEST_STEP_S)
        output = self._output = control.update(tip, self._measured(now_s), step_s)
        self._updated_s = now_s
        spent_s = time.perf_counter() - began_s
        self._slowest_s = max(self._slowest_s, spent_s)
        self._late = self._late + 1 if spent_s > _LONGEST_STEP_S and not self.clock.stepped else 0
        if self._late >= _LATE_PLANS:
            self._late = 0
            problem = f"a plan takes {1e3 * spent_s:.0f} ms, at most {1e3 * _LONGEST_STEP_S:.0f} ms"
            self._end(control, f"the target was dropped: {problem}", now_s)
        elif self._search is None:
            self._show(*self._progress(output), now_s)

    def _start(self, now_s: float) -> tuple[Vector, Vector] | None:
        """Coordinates, m, and rates, m/s, to begin with: of the reference that the robot follows, else where it is."""
        followed = self._fresh(self._followed, now_s, _REFERENCE_AGE_S)
        velocity = None if followed is None else np.array(conversions.vector(followed.velocity))
        if followed is not None and velocity is not None and velocity.size == self._position.size:
            if np.isfinite(velocity).all():
                return np.array(conversions.vector(followed.position)), velocity
        measured = self._measured(now_s)
        return None if measured is None else (measured, np.zeros_like(measured))

    def _measured(self, now_s: float) -> Vector | None:
        """Clarke coordinates, shape (2m,), m; None where they are not known or old."""
        state = self._fresh(self._clarke, now_s, _STATE_TIMEOUT_S)
        return None if state is None else np.array(conversions.vector(state.position))

    def _fresh(self, heard: tuple[bytes, float] | None, now_s: float, age_s: float) -> ClarkeState | None:
        """A message with finite coordinates of this robot that is not older than ``age_s``."""
        if heard is None or now_s - heard[1] > age_s:
            return None
        message: ClarkeState | None = conversions.message_of(heard[0], ClarkeState)
        if message is None:
            return None
        position = conversions.vector(message.position)
        return message if position.size == self._position.size and np.isfinite(position).all() else None

    def _progress(self, output: PredictiveOutput) -> tuple[str, str]:
        """State, and what is in the way."""
        if output.holding:
            return HOLDING, output.reason
        if output.error_m <= self.parameters.get("tolerance_m"):
            return REACHED, ""
        if float(np.linalg.norm(output.reference.velocity)) < _STANDS_M_PER_S:
            return MOVING, f"the plan ends here, {1e3 * output.error_m:.1f} mm from the target"
        return MOVING, ""

    def _publish(self, now_s: float, _elapsed_s: float) -> None:
        """The reference along the newest plan, also while the next one is made."""
        control = self._control
        if not self._began or control is None:
            return
        # Where planning stands still, the plan ends at rest by itself.
        reference = control.ahead(max(now_s - self._updated_s, 0.0))
        message = self._reference
        self._sequence += 1
        message.sequence = self._sequence
        conversions.set_stamp(message.header.stamp, self.clock.stamp_ns(now_s))
        self._position[:] = reference.position
        self._velocity[:] = reference.velocity
        self._acceleration[:] = reference.acceleration
        self._references.publish(message)

    def _show(self, state: str, text: str, now_s: float, refused: Vector | None = None) -> None:
        changed = (state, text) != (self._state, self._message)
        if changed and state != self._state:
            self.get_logger().info(f"predictive target: {state}{': ' if text else ''}{text}")
        self._state, self._message = state, text
        if not changed and now_s - self._shown_s < _PATH_PERIOD_S:
            return
        self._shown_s = now_s
        control, output = self._control, self._output
        message = TipState(simulated=self.simulated, state=state, message=text)
        conversions.set_stamp(message.header.stamp, self.clock.stamp_ns(now_s))
        message.header.frame_id = str(self.parameters.get("base_frame"))
        target = self._pending if refused is None else refused
        message.target = conversions.point_message(target)
        message.tip = conversions.point_message(_UNKNOWN if self._shape is None else self._shape[0])
        tips = control.plan_tips_m if control is not None and self._began and refused is None else np.empty((0, 3))
        message.goal = conversions.point_message(tips[-1] if len(tips) else _UNKNOWN)
        away = math.nan
        if control is not None and len(tips):
            away = float(np.linalg.norm(target - tips[-1] - control.bias_m))
        message.distance = away
        message.error = math.nan if output is None or refused is not None else output.error_m
        message.reachable = bool(away <= self.parameters.get("tolerance_m"))
        position = np.full(self._position.size, math.nan) if output is None else output.reference.position
        message.clarke = conversions.float_array(position)
        self._states.publish(message)
        if len(tips):
            path = Path(header=message.header)
            for place in tips:
                pose = PoseStamped(header=message.header)
                pose.pose.position = conversions.point_message(place)
                path.poses.append(pose)
            self._paths.publish(path)

    def _on_loop_failure(self, error: BaseException) -> None:
        self.defect = repr(error)
        self.report_error("predictive control failed", error)

    def _diagnose(self, status: StatusBuilder) -> None:
        output = self._output
        if self._state in (HOLDING, STOPPED):
            status.summary(Level.WARN, self._message or self._state)
        status.summary(Level.OK, self._state or self.state)
        status.add("clearance_m", np.nan if output is None else output.clearance_m)
        status.add("limit_use", np.nan if output is None else output.limit_use)
        if self._loops:
            report = self._loops[0].statistics.report()
            status.add("plan_rate_hz", report.rate_hz)
            status.add("missed_plans_percent", report.missed_percent)
            status.add("plan_mean_ms", 1e-3 * report.execution_mean_us)
            status.add("plan_p99_ms", 1e-3 * report.execution_p99_us)
        status.add("slowest_cycle_ms", 1e3 * self._slowest_s)
        status.add("targets_accepted", self._accepted)
        status.add("targets_refused", self._refused)
        status.add("references_published", self._sequence)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(PredictiveTipNode)


if __name__ == "__main__":
    sys.exit(main())
