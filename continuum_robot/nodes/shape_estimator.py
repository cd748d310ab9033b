# SPDX-License-Identifier: Apache-2.0
"""The node that estimates the backbone's shape from tendons, strings and a fibre, and publishes ``shape``."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, PoseStamped, PoseWithCovarianceStamped
from numpy.typing import NDArray
from std_srvs.srv import Trigger

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.estimation.robot_shape import AnyShapeEstimator
from continuum_robot.estimation.sensor_watch import STACK_WATCH
from continuum_robot.estimation.shape_estimate import ShapeEstimate
from continuum_robot.estimation.tracked_tip import TRACKED_WEIGHT, TrackedTip, TrackerSettings
from continuum_robot.geometry.so3 import matrix_from_quaternion
from continuum_robot.models.making import robot_model
from continuum_robot.msg import FiberCurvature, Shape, StringLengths, TendonStates
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import of_stream, subscribe_to_stream
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import SHAPE_ESTIMATORS, made
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.fiber import curvature_matrix
from continuum_robot.rod.tendon_modes import limiting_manifold
from continuum_robot.runtime.timing import Histogram

Vector = NDArray[np.float64]

POSE_PROBLEM_S = 2.0
"""Time for which a refused pose of the tracker is reported, s: others may be accepted at the same time."""

CLOCK_SET_BACK_NS = 1_000_000_000
"""Strings that are older than the last shape by more than this come from a clock that was set back."""


class ShapeEstimatorNode(ManagedNode):
    """Event-driven on ``tendon_states_decimated``; strings are used while they are fresh and finite.

    So are the curvatures of a fibre, ``fiber_curvature``, moved by the estimated rates to the instant of the shape.
    Poses of a tracker, on ``tracked_pose`` or ``tracked_pose_with_covariance``, correct the tip: they are compared with
    the shape of their instant. The coefficients stay those of tendons and strings.
    """

    follows_payload = True

    def __init__(self, **node_options: Any) -> None:
        super().__init__("shape_estimator", **node_options)
        declare = self.parameters.declare
        declare("rate_hz", 100.0, "how often the shape is estimated", rules=Quantity("", "Hz", ge=1, le=1000))
        declare(
            "string_timeout_s",
            0.05,
            "age at which a string's reading is not used any more",
            rules=Quantity("", "s", ge=0.001, le=5),
        )
        declare(
            "fiber_timeout_s",
            0.05,
            "age at which the curvatures of a fibre are not used any more",
            rules=Quantity("", "s", ge=0.001, le=5),
        )
        declare("residual_warn_m", 0.001, "residual at which to warn", rules=Quantity("", "m", gt=0, le=1))
        declare(
            "settle_s",
            0.5,
            "time from power on until sensors are judged: the tendons are slack before, and are stretched",
            rules=Quantity("", "s", ge=0, le=60),
        )
        declare("base_frame", "base", "frame_id of the shape", read_only=True)
        declare("estimator", "", "of another package, by its name; empty: that of the robot", read_only=True)
        self.parameters.on_change(self._on_parameters)
        self._estimator: AnyShapeEstimator | None = None
        self._tracked: TrackedTip | None = None
        self._clarke_matrix: Vector = np.zeros((0, 0))
        self._pose_problem, self._pose_problem_s, self._tracker_fault = "", 0.0, ""
        self._active = False
        self._power = conversions.PowerOn()
        self._newest_string: tuple[Vector, int] | None = None
        self._newest_curvature: tuple[Vector, int] | None = None
        self._curvature_matrix: Vector = np.zeros((0, 0))
        self._last_displacement: Vector = np.zeros(0)
        self._estimate: ShapeEstimate | None = None
        # Half a period of grace: states come with the driver's jitter.
        self._thinning = Thinning(grace=0.5)
        self._last_stamp_ns = 0
        self._estimated = self._without_strings = self._without_curvature = self._not_finite = 0
        self._execution = Histogram()
        self._problem = ""
        self._on_parameters(set())
        flow = self.flow
        self._shapes = flow.create_publisher(Shape, "shape", qos.state_publisher())
        # Before the states: in lock-step those of the same instant are used.
        subscribe_to_stream(self, StringLengths, "string_lengths", self._on_strings, lazy=True)
        subscribe_to_stream(self, FiberCurvature, "fiber_curvature", self._on_curvature, lazy=True)
        subscribe_to_stream(self, TendonStates, "tendon_states_decimated", self._on_states)
        # The first is that of foreign programs alone, which take no part in lock-step.
        on_pose = of_stream(self, "tracked_pose", self._on_pose)
        self.subscribe_with_publisher(PoseStamped, "tracked_pose", on_pose, qos.newest_state())
        with_covariance = "tracked_pose_with_covariance"
        subscribe_to_stream(self, PoseWithCovarianceStamped, with_covariance, self._on_pose, lazy=True)
        self.create_service(Trigger, "~/reset", self._serve_reset)
        self._gravity = TurnedGravity(self, self._turn)
        self.diagnostics.add_task("estimator", self._diagnose)

    def configure(self) -> None:
        """Make the estimator."""
        robot = self.load_robot()
        self._estimator = self._shape_estimator(robot)
        tracker = self.parameters.declare_settings("tracker", TrackerSettings())
        self._gravity.follow(robot)
        self._tracked = TrackedTip(robot, tracker.value)
        self._clarke_matrix = np.asarray(limiting_manifold(robot).clarke_matrix)
        self._tendon_count, self._string_count = robot.tendon_count, len(robot.strings)
        self._curvature_matrix, self._newest_curvature = curvature_matrix(robot), None
        count = robot.coefficient_count
        message = Shape(simulated=self.simulated)
        message.header.frame_id = self.parameters.get("base_frame")
        self._message = message
        self._coefficients = conversions.preallocate(message, "coefficients", count)
        self._rates = conversions.preallocate(message, "coefficient_rates", count)
        self._covariance = conversions.preallocate(message, "covariance", count * count)
        self._last_stamp_ns = 0

    def _turn(self, gravity: Vector) -> None:
        take = getattr(self._estimator, "set_gravity", None)
        if take is None:
            expected = f"gravity along the stage's axis while {type(self._estimator).__name__} estimates the shape"
            raise ParameterError("gravity_m_per_s2", gravity.tolist(), f"{expected}, which has no method set_gravity")
        take(gravity)

    def carry(self, payload_kg: float) -> None:
        """Hand another payload, kg, on to the estimator, which may be another package's."""
        estimator = self._estimator
        take = getattr(estimator, "set_payload", None)
        if estimator is not None and take is None:
            kind = type(estimator).__name__
            expected = f"no change while {kind} estimates the shape, which has no method set_payload"
            raise ParameterError("payload_kg", payload_kg, expected)
        if take is not None:
            take(payload_kg)

    def _shape_estimator(self, robot: Robot) -> AnyShapeEstimator:
        """That of the robot, or one of another package, whose settings are parameters under its name."""
        name = self.parameters.get("estimator")
        if not name:
            return robot_model(robot).shape_estimator(STACK_WATCH)
        own: AnyShapeEstimator = made(SHAPE_ESTIMATORS, name, "estimator", robot, settings=self.own_settings)
        return own

    def activate(self) -> None:
        """Estimate from the next state on; sensors that were found broken are believed again."""
        if self._estimator is not None:
            self._estimator.reset()
        if self._tracked is not None:
            self._tracked.reset()
        self._pose_problem = ""
        self._last_stamp_ns = 0
        self._active = True

    def deactivate(self) -> None:
        """Fall silent."""
        self._active = False

    def cleanup(self) -> None:
        """Forget the estimator."""
        self._active = False
        self._estimator = self._estimate = self._tracked = None

    def _serve_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Believe sensors again that were found broken."""
        if self._estimator is None:
            response.message = "refused: configure the shape estimator first"
            return response
        self._estimator.reset()
        if self._tracked is not None:
            self._tracked.reset()
        response.success = True
        response.message = "all sensors are believed again; what is still broken is found again"
        return response

    def _on_strings(self, message: StringLengths) -> None:
        extension = np.array(conversions.vector(message.extension))
        known, age = np.isfinite(extension), conversions.vector(message.age)
        usable = known.any() and age.size == extension.size
        oldest_s = float(np.max(age[known])) if usable else math.inf
        if math.isfinite(oldest_s):
            self._newest_string = (extension, conversions.stamp_ns(message.header.stamp) - round(oldest_s * 1e9))
        else:
            self._newest_string = None

    def _on_curvature(self, message: FiberCurvature) -> None:
        curvature = np.array(conversions.vector(message.curvature))
        expected = len(self._curvature_matrix)
        if curvature.size != expected:
            self._complain(f"fiber_curvature has {curvature.size} values, the robot file's gratings {expected}")
            return
        self._newest_curvature = curvature, conversions.stamp_ns(message.header.stamp)

    def _on_states(self, message: TendonStates) -> None:
        if not self._active or self._estimator is None:
            return
        if not self._thinning.due(self.clock.monotonic_ns()):
            return
        start_ns = time.monotonic_ns()
        self._update(self._estimator, message)
        self._execution.add(time.monotonic_ns() - start_ns)

    def _update(self, estimator: AnyShapeEstimator, states: TendonStates) -> None:
        displacement, velocity = conversions.vector(states.displacement), conversions.vector(states.velocity)
        tension = conversions.vector(states.tension)
        for values in (displacement, velocity, tension):
            if values.size != self._tendon_count:
                self._complain(f"tendon_states has {values.size} tendons, the robot file {self._tendon_count}")
                return
        if not math.isfinite(displacement.sum()):
            self._not_finite += 1
            if estimator.watch is None:
                return
        self._power.update(states)
        if estimator.watch is not None and self._power.lasts_s(states) < self.parameters.get("settle_s"):
            estimator.watch.reset()
        stamp_ns = conversions.stamp_ns(states.header.stamp)
        strings = self._strings(stamp_ns)
        if strings is not None and self._newest_string is not None:
            # Both together make a shape, and are read at different times: it is that of the strings' instant, with
            # their clock. With the tendons' stamps the time steps would be wrong by up to a period of the strings.
            acquired_ns = self._newest_string[1]
            if 0 <= self._last_stamp_ns - acquired_ns < CLOCK_SET_BACK_NS:
                return  # nothing new of the strings since the last shape
            displacement = self._at_strings(displacement, velocity, (acquired_ns - stamp_ns) * 1e-9)
            stamp_ns = acquired_ns
        step_s = (stamp_ns - self._last_stamp_ns) * 1e-9
        if not 0 < step_s < 1:
            step_s = self._thinning.period_ns * 1e-9
        self._last_stamp_ns = stamp_ns
        try:
            estimate = estimator.update(displacement, velocity, strings, step_s, tension, self._curvature(stamp_ns))
        except ContinuumRobotError as error:
            self._complain(str(error))
            return
        self._estimate = estimate
        self._estimated += 1
        message = self._message
        conversions.set_stamp(message.header.stamp, stamp_ns)
        message.sequence = states.sequence
        message.simulated = states.simulated
        self._coefficients[:] = estimate.coefficients
        self._rates[:] = estimate.coefficient_rates
        self._covariance[:] = estimate.covariance.ravel()
        if estimate.motion is not None:
            rates = slice(estimate.coefficients.size, 2 * estimate.coefficients.size)
            message.rate_covariance = conversions.float_array(estimate.motion.covariance[rates, rates])
        message.residual = float(estimate.residual_m)
        # A reading that is missing for a moment makes NaN; a sensor that is broken is named, and stays so.
        message.problem = "; ".join((*estimate.broken, *estimate.unobservable)) if estimate.broken else ""
        if estimate.is_unobservable:
            message.tip = Pose(position=Point(x=math.nan, y=math.nan, z=math.nan))
        else:
            tip = self._corrected(estimate.tip, displacement, stamp_ns)
            message.tip = conversions.pose_message(tip)
        tracked = self._tracked
        seen = {TRACKED_WEIGHT: tracked.weight} if tracked is not None and tracked.accepted else {}
        conversions.set_named_values(message, {**estimate.named_values, **seen})
        self._shapes.publish(message)

    def _on_pose(self, message: PoseStamped | PoseWithCovarianceStamped) -> None:
        tracked, frame = self._tracked, message.header.frame_id
        if not self._active or tracked is None:
            return
        if frame not in ("", self.parameters.get("base_frame")):
            self._complain_of_pose(
                f"a tracked pose is in frame {frame!r}, not in {self.parameters.get('base_frame')!r}"
            )
            return
        with_covariance = isinstance(message, PoseWithCovarianceStamped)
        pose = message.pose.pose if with_covariance else message.pose
        turn = pose.orientation
        # A tracker of places alone leaves the quaternion as it is made, or zero.
        oriented = (turn.x, turn.y, turn.z) != (0.0, 0.0, 0.0)
        tracked.see_pose(
            conversions.stamp_ns(message.header.stamp) * 1e-9,
            conversions.position(pose.position),
            matrix_from_quaternion([turn.w, turn.x, turn.y, turn.z]) if oriented else None,
            np.reshape(message.pose.covariance, (6, 6)) if with_covariance else None,
        )

    def _corrected(self, tip: Vector, displacement: Vector, stamp_ns: int) -> Vector:
        """The tip as the tracker would see it."""
        tracked = self._tracked
        if tracked is None or self._clarke_matrix.shape[1] != displacement.size:
            return tip
        corrected = tracked.see_shape(stamp_ns * 1e-9, tip, self._clarke_matrix @ displacement)
        self._complain_of_pose(tracked.problem)
        if tracked.fault and not self._tracker_fault:
            self.get_logger().error(f"tracker: {tracked.fault}")
        self._tracker_fault = tracked.fault
        return corrected

    def _complain_of_pose(self, problem: str) -> None:
        now_s = self.clock.monotonic_s()
        if problem:
            if problem != self._pose_problem:
                self.get_logger().warning(f"tracker: {problem}", throttle_duration_sec=5.0)
            self._pose_problem, self._pose_problem_s = problem, now_s
        elif now_s - self._pose_problem_s > POSE_PROBLEM_S:
            self._pose_problem = ""

    def _strings(self, stamp_ns: int) -> Vector | None:
        if self._newest_string is None or not self._string_count:
            return None
        extension, acquired_ns = self._newest_string
        fresh = abs(stamp_ns - acquired_ns) <= self._timeout_ns
        if not fresh or extension.size != self._string_count or not np.isfinite(extension).any():
            self._without_strings += 1
            return None
        return extension

    def _curvature(self, stamp_ns: int) -> Vector | None:
        """Curvatures of the fibre at the instant of the shape; None where there are none that are new enough."""
        if self._newest_curvature is None:
            return None
        curvature, read_ns = self._newest_curvature
        if not abs(stamp_ns - read_ns) <= self._fiber_timeout_ns or not np.isfinite(curvature).any():
            self._without_curvature += 1
            return None
        if self._estimate is None or not np.isfinite(self._estimate.coefficient_rates).all():
            return curvature
        return curvature + self._curvature_matrix @ self._estimate.coefficient_rates * ((stamp_ns - read_ns) * 1e-9)

    def _at_strings(self, displacement: Vector, velocity: Vector, lag_s: float) -> Vector:
        """Displacements ``lag_s`` later; a tendon that repeats itself stays as it is, or no freeze would be found."""
        last, self._last_displacement = self._last_displacement, displacement
        if last.size != displacement.size or velocity.size != displacement.size:
            return displacement
        moved = displacement + velocity * lag_s
        return np.where((displacement != last) & np.isfinite(moved), moved, displacement)

    def _on_parameters(self, _names: set[str]) -> None:
        self._thinning.period_ns = round(1e9 / self.parameters.get("rate_hz"))
        self._timeout_ns = round(1e9 * self.parameters.get("string_timeout_s"))
        self._fiber_timeout_ns = round(1e9 * self.parameters.get("fiber_timeout_s"))

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.get_logger().error(problem)

    def _diagnose(self, status: StatusBuilder) -> None:
        if self._problem:
            status.summary(Level.WARN, self._problem)
        estimate = self._estimate
        if estimate is not None:
            if estimate.residual_m > self.parameters.get("residual_warn_m"):
                status.summary(Level.WARN, f"residual {estimate.residual_m * 1e3:.2f} mm")
            for sentence in (*estimate.unobservable, *estimate.broken):
                status.summary(Level.ERROR, sentence)
            status.add("residual_m", float(estimate.residual_m))
        tracked = self._tracked
        if tracked is not None and (tracked.accepted or tracked.refused):
            if tracked.fault:
                status.summary(Level.ERROR, f"tracker: {tracked.fault}")
            elif self._pose_problem:
                status.summary(Level.WARN, f"tracker: {self._pose_problem}")
            status.add("tracker_latency_s", tracked.delay.delay_s)
            status.add("tracker_latency_deviation_s", tracked.delay.deviation_s)
            status.add("tracker_jitter_s", tracked.jitter_s)
            status.add("tracker_correction_weight", tracked.weight)
            status.add("tracker_age_s", tracked.age_s(self._last_stamp_ns * 1e-9))
            status.add("tracker_deviation_m", tracked.deviation_m())
            status.add("tracker_poses_used", tracked.accepted)
            status.add("tracker_poses_refused", tracked.refused)
            status.add("tracker_poses_set_aside", tracked.superseded)
        status.summary(Level.OK, self.state)
        status.add("estimates", self._estimated)
        status.add("estimates_without_strings", self._without_strings)
        if self._curvature_matrix.size:
            status.add("estimates_without_curvature", self._without_curvature)
        status.add("states_not_finite", self._not_finite)
        status.add("execution_mean_us", self._execution.mean_us)
        status.add("execution_p99_us", self._execution.quantile_us(0.99))


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ShapeEstimatorNode)


if __name__ == "__main__":
    sys.exit(main())
