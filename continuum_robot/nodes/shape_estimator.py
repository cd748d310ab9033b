# SPDX-License-Identifier: Apache-2.0
"""The node that estimates the backbone's shape from tendons, strings and a fibre, and publishes ``shape``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, PoseStamped, PoseWithCovarianceStamped
from numpy.typing import NDArray
from std_srvs.srv import Trigger

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.estimation.sensor_watch import STACK_WATCH
from continuum_robot.estimation.shape import AnyShapeEstimator
from continuum_robot.estimation.shape_estimate import ShapeEstimate
from continuum_robot.estimation.tracked_tip import TRACKED_WEIGHT, TrackedTip, TrackerSettings
from continuum_robot.geometry.so3 import matrix_from_quaternion
from continuum_robot.models.making import robot_model
from continuum_robot.msg import FiberCurvature, Shape, StringLengths, TendonStates
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import of_stream
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import SHAPE_ESTIMATORS, made
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.fiber import curvature_matrix
from continuum_robot.rod.tendons import limiting_manifold
from continuum_robot.runtime.timing import Histogram

Vector = NDArray[np.float64]

POSE_PROBLEM_S = 2.0
"""Time for which a refused pose of the tracker is reported, s: others may be accepted at the same time."""

CLOCK_SET_BACK_NS = 1_000_000_000
"""Strings that are older than the last shape by more than this come from a clock that was set back."""


@dataclass(frozen=True, kw_only=True)
class ShapeParameters:
    """Of the shape estimator."""

    rate_hz: float = quantity("how often the shape is estimated", "Hz", default=100.0, ge=1, le=1000, live=True)
    string_timeout_s: float = quantity(
        "age at which a string's reading is not used any more", "s", default=0.05, ge=0.001, le=5, live=True
    )
    fiber_timeout_s: float = quantity(
        "age at which the curvatures of a fibre are not used any more", "s", default=0.05, ge=0.001, le=5, live=True
    )
    residual_warn_m: float = quantity("residual at which to warn", "m", default=0.001, gt=0, le=1, live=True)
    settle_s: float = quantity(
        "time from power on until sensors are judged: the tendons are slack before, and are stretched",
        "s",
        default=0.5,
        ge=0,
        le=60,
        live=True,
    )
    base_frame: str = quantity("frame_id of the shape", default="base")
    estimator: str = quantity("of another package, by its name; empty: that of the robot", default="")


def _foreign_poses(host: node.ComponentNode, kind: Any, topic: str, callback: node.Call) -> None:
    """Poses of other programs, which take no part in lock-step."""
    host.subscribe_with_publisher(kind, topic, of_stream(host, topic, callback), qos.newest_state())


class ShapeFromSensors(node.Component):
    """Event-driven on ``tendon_states_decimated``; strings are used while they are fresh and finite.

    So are the curvatures of a fibre, ``fiber_curvature``, moved by the estimated rates to the instant of the shape.
    Poses of a tracker, on ``tracked_pose`` or ``tracked_pose_with_covariance``, correct the tip: they are compared with
    the shape of their instant. The coefficients stay those of tendons and strings.
    """

    name, about = "shape_estimator", "estimator"
    parameters = ShapeParameters()
    shapes = node.output(Shape, "shape")
    # Before the states: in lock-step those of the same instant are used.
    strings = node.heard(StringLengths, "string_lengths", lazy=True)
    curvatures = node.heard(FiberCurvature, "fiber_curvature", lazy=True)
    states = node.heard(TendonStates, "tendon_states_decimated", active=True)
    foreign_poses = node.heard(PoseStamped, "tracked_pose", _foreign_poses, active=True)
    poses = node.heard(PoseWithCovarianceStamped, "tracked_pose_with_covariance", active=True, lazy=True)
    believe_again = node.service(Trigger, "~/reset")
    gravity = node.Line(TurnedGravity)

    pose_problem, pose_problem_s, tracker_fault = "", 0.0, ""
    newest_string: tuple[Vector, int] | None = None
    newest_curvature: tuple[Vector, int] | None = None
    estimate: ShapeEstimate | None = None
    last_stamp_ns = 0
    estimated = without_strings = without_curvature = not_finite = 0

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        self.estimator = self._estimator()
        self.gravity.follow(robot)
        self.tracked = TrackedTip(robot, host.own_settings("tracker", TrackerSettings()))
        self.clarke_matrix = np.asarray(limiting_manifold(robot).clarke_matrix)
        self.curvature_matrix = curvature_matrix(robot)
        self.tendon_count = robot.tendon_count
        self.power = conversions.PowerOn()
        self.last_displacement: Vector = np.zeros(0)
        # Half a period of grace: states come with the driver's jitter.
        self.thinning = Thinning(grace=0.5)
        self.execution = Histogram()
        self.message = Shape(simulated=host.simulated)
        self.message.header.frame_id = self.parameters.base_frame
        count = robot.coefficient_count
        self.coefficients = conversions.preallocate(self.message, "coefficients", count)
        self.rates = conversions.preallocate(self.message, "coefficient_rates", count)
        self.covariance = conversions.preallocate(self.message, "covariance", count * count)
        self.parameters_changed()

    def _estimator(self) -> AnyShapeEstimator:
        """That of the robot, or one of another package, whose settings are parameters under its name."""
        name, robot = self.parameters.estimator, self.robot
        if not name:
            return robot_model(robot).shape_estimator(STACK_WATCH)
        own: AnyShapeEstimator = made(SHAPE_ESTIMATORS, name, "estimator", robot, settings=self.host.own_settings)
        return own

    def parameters_changed(self, _names: Collection[str] = ()) -> None:
        self.thinning.period_ns = round(1e9 / self.parameters.rate_hz)

    @gravity
    def turn(self, gravity: Vector) -> None:
        """Hand gravity on to the estimator, which may be another package's."""
        self._hand_on("set_gravity", "gravity_m_per_s2", gravity, "gravity along the stage's axis")

    def carry(self, payload_kg: float) -> None:
        self._hand_on("set_payload", "payload_kg", payload_kg, "no change")

    def _hand_on(self, method: str, name: str, value: Any, allowed: str) -> None:
        take, kind = getattr(self.estimator, method, None), type(self.estimator).__name__
        if take is None:
            shown = value if isinstance(value, float) else value.tolist()
            raise ParameterError(
                name, shown, f"{allowed} while {kind} estimates the shape, which has no method {method}"
            )
        take(value)

    def activate(self) -> None:
        """Estimate from the next state on; sensors that were found broken are believed again."""
        self._believe_sensors()
        self.pose_problem = ""
        self.last_stamp_ns = 0

    def _believe_sensors(self) -> None:
        self.estimator.reset()
        self.tracked.reset()

    @believe_again
    def reset(self, _request: Trigger.Request) -> str:
        self._believe_sensors()
        return "all sensors are believed again; what is still broken is found again"

    @strings
    def see_strings(self, message: StringLengths) -> None:
        extension = np.array(conversions.vector(message.extension))
        age, oldest_s = conversions.vector(message.age), math.inf
        if age.size == extension.size and extension.size and math.isfinite(extension.dot(extension)):
            oldest_s = float(age.max())
        elif age.size == extension.size and (known := np.isfinite(extension)).any():
            oldest_s = float(np.max(age[known]))
        if math.isfinite(oldest_s):
            self.newest_string = (extension, conversions.stamp_ns(message.header.stamp) - round(oldest_s * 1e9))
        else:
            self.newest_string = None

    @curvatures
    def see_curvature(self, message: FiberCurvature) -> None:
        curvature = np.array(conversions.vector(message.curvature))
        expected = len(self.curvature_matrix)
        if curvature.size != expected:
            raise ContinuumRobotError(
                f"fiber_curvature has {curvature.size} values, the robot file's gratings {expected}"
            )
        self.newest_curvature = curvature, conversions.stamp_ns(message.header.stamp)

    @states
    def see_states(self, message: TendonStates) -> object:
        if not self.thinning.due(self.host.clock.monotonic_ns()):
            return node.SKIPPED
        start_ns = time.monotonic_ns()
        found = self._estimate(message)
        if found is not None:
            self._publish(*found, message)
        self.execution.add(time.monotonic_ns() - start_ns)
        return None if found is not None else node.SKIPPED

    def _estimate(self, states: TendonStates) -> tuple[ShapeEstimate, Vector, int] | None:
        """The shape, with the displacements and the stamp, ns, that it is of; None: there is nothing new."""
        estimator, count = self.estimator, self.tendon_count
        displacement, velocity = conversions.vector(states.displacement), conversions.vector(states.velocity)
        tension = conversions.vector(states.tension)
        for values in (displacement, velocity, tension):
            if values.size != count:
                raise ContinuumRobotError(f"tendon_states has {values.size} tendons, the robot file {count}")
        if not math.isfinite(displacement.sum()):
            self.not_finite += 1
            if estimator.watch is None:
                return None
        self.power.update(states)
        if estimator.watch is not None and self.power.lasts_s(states) < self.parameters.settle_s:
            estimator.watch.reset()
        stamp_ns = conversions.stamp_ns(states.header.stamp)
        strings = self._strings(stamp_ns)
        if strings is not None and self.newest_string is not None:
            # Both together make a shape, and are read at different times: it is that of the strings' instant, with
            # their clock. With the tendons' stamps the time steps would be wrong by up to a period of the strings.
            acquired_ns = self.newest_string[1]
            if 0 <= self.last_stamp_ns - acquired_ns < CLOCK_SET_BACK_NS:
                return None  # nothing new of the strings since the last shape
            displacement = self._at_strings(displacement, velocity, (acquired_ns - stamp_ns) * 1e-9)
            stamp_ns = acquired_ns
        step_s = (stamp_ns - self.last_stamp_ns) * 1e-9
        if not 0 < step_s < 1:
            step_s = self.thinning.period_ns * 1e-9
        self.last_stamp_ns = stamp_ns
        estimate = estimator.update(displacement, velocity, strings, step_s, tension, self._curvature(stamp_ns))
        return estimate, displacement, stamp_ns

    def _publish(self, estimate: ShapeEstimate, displacement: Vector, stamp_ns: int, states: TendonStates) -> None:
        self.estimate, message, tracked = estimate, self.message, self.tracked
        self.estimated += 1
        conversions.set_stamp(message.header.stamp, stamp_ns)
        message.sequence = states.sequence
        message.simulated = states.simulated
        self.coefficients[:] = estimate.coefficients
        self.rates[:] = estimate.coefficient_rates
        self.covariance[:] = estimate.covariance.ravel()
        if estimate.motion is not None:
            rates = slice(estimate.coefficients.size, 2 * estimate.coefficients.size)
            message.rate_covariance = conversions.float_array(estimate.motion.covariance[rates, rates])
        message.residual = float(estimate.residual_m)
        # A reading that is missing for a moment makes NaN; a sensor that is broken is named, and stays so.
        message.problem = "; ".join((*estimate.broken, *estimate.unobservable)) if estimate.broken else ""
        if estimate.is_unobservable:
            message.tip = Pose(position=Point(x=math.nan, y=math.nan, z=math.nan))
        else:
            conversions.set_pose(message.tip, self._corrected(estimate.tip, displacement, stamp_ns))
        seen = {TRACKED_WEIGHT: tracked.weight} if tracked.accepted else {}
        conversions.set_named_values(message, {**estimate.named_values, **seen})
        self.shapes.publish(message)

    @foreign_poses
    @poses
    def see_pose(self, message: PoseStamped | PoseWithCovarianceStamped) -> None:
        frame, own = message.header.frame_id, self.parameters.base_frame
        if frame not in ("", own):
            self._complain_of_pose(f"a tracked pose is in frame {frame!r}, not in {own!r}")
            return
        with_covariance = isinstance(message, PoseWithCovarianceStamped)
        pose = message.pose.pose if with_covariance else message.pose
        turn = pose.orientation
        # A tracker of places alone leaves the quaternion as it is made, or zero.
        oriented = (turn.x, turn.y, turn.z) != (0.0, 0.0, 0.0)
        self.tracked.see_pose(
            conversions.stamp_ns(message.header.stamp) * 1e-9,
            conversions.position(pose.position),
            matrix_from_quaternion([turn.w, turn.x, turn.y, turn.z]) if oriented else None,
            np.reshape(message.pose.covariance, (6, 6)) if with_covariance else None,
        )

    def _corrected(self, tip: Vector, displacement: Vector, stamp_ns: int) -> Vector:
        """The tip as the tracker would see it."""
        tracked = self.tracked
        if self.clarke_matrix.shape[1] != displacement.size:
            return tip
        corrected = tracked.see_shape(stamp_ns * 1e-9, tip, self.clarke_matrix @ displacement)
        self._complain_of_pose(tracked.problem)
        if tracked.fault and not self.tracker_fault:
            self.host.get_logger().error(f"tracker: {tracked.fault}")
        self.tracker_fault = tracked.fault
        return corrected

    def _complain_of_pose(self, problem: str) -> None:
        now_s = self.host.clock.monotonic_s()
        if problem:
            if problem != self.pose_problem:
                self.host.get_logger().warning(f"tracker: {problem}", throttle_duration_sec=5.0)
            self.pose_problem, self.pose_problem_s = problem, now_s
        elif now_s - self.pose_problem_s > POSE_PROBLEM_S:
            self.pose_problem = ""

    def _strings(self, stamp_ns: int) -> Vector | None:
        if self.newest_string is None or not self.robot.strings:
            return None
        extension, acquired_ns = self.newest_string
        fresh = abs(stamp_ns - acquired_ns) <= round(1e9 * self.parameters.string_timeout_s)
        sound = math.isfinite(extension.dot(extension)) or bool(np.isfinite(extension).any())
        if not fresh or extension.size != len(self.robot.strings) or not sound:
            self.without_strings += 1
            return None
        return extension

    def _curvature(self, stamp_ns: int) -> Vector | None:
        """Curvatures of the fibre at the instant of the shape; None where there are none that are new enough."""
        if self.newest_curvature is None:
            return None
        curvature, read_ns = self.newest_curvature
        fresh = abs(stamp_ns - read_ns) <= round(1e9 * self.parameters.fiber_timeout_s)
        if not fresh or not np.isfinite(curvature).any():
            self.without_curvature += 1
            return None
        if self.estimate is None or not np.isfinite(self.estimate.coefficient_rates).all():
            return curvature
        return curvature + self.curvature_matrix @ self.estimate.coefficient_rates * ((stamp_ns - read_ns) * 1e-9)

    def _at_strings(self, displacement: Vector, velocity: Vector, lag_s: float) -> Vector:
        """Displacements ``lag_s`` later; a tendon that repeats itself stays as it is, or no freeze would be found."""
        last, self.last_displacement = self.last_displacement, displacement
        if last.size != displacement.size or velocity.size != displacement.size:
            return displacement
        moved = displacement + velocity * lag_s
        return np.where((displacement != last) & np.isfinite(moved), moved, displacement)

    def health(self, status: StatusBuilder) -> None:
        estimate = self.estimate
        if estimate is not None:
            if estimate.residual_m > self.parameters.residual_warn_m:
                status.summary(Level.WARN, f"residual {estimate.residual_m * 1e3:.2f} mm")
            for sentence in (*estimate.unobservable, *estimate.broken):
                status.summary(Level.ERROR, sentence)
            status.add("residual_m", float(estimate.residual_m))
        tracked = self.tracked
        if tracked.accepted or tracked.refused:
            if tracked.fault:
                status.summary(Level.ERROR, f"tracker: {tracked.fault}")
            elif self.pose_problem:
                status.summary(Level.WARN, f"tracker: {self.pose_problem}")
            status.add("tracker_latency_s", tracked.delay.delay_s)
            status.add("tracker_latency_deviation_s", tracked.delay.deviation_s)
            status.add("tracker_jitter_s", tracked.jitter_s)
            status.add("tracker_correction_weight", tracked.weight)
            status.add("tracker_age_s", tracked.age_s(self.last_stamp_ns * 1e-9))
            status.add("tracker_deviation_m", tracked.deviation_m())
            status.add("tracker_poses_used", tracked.accepted)
            status.add("tracker_poses_refused", tracked.refused)
            status.add("tracker_poses_set_aside", tracked.superseded)
        status.add("estimates", self.estimated)
        status.add("estimates_without_strings", self.without_strings)
        if self.curvature_matrix.size:
            status.add("estimates_without_curvature", self.without_curvature)
        status.add("states_not_finite", self.not_finite)
        status.add("execution_mean_us", self.execution.mean_us)
        status.add("execution_p99_us", self.execution.quantile_us(0.99))


ShapeEstimatorNode = node.as_node(ShapeFromSensors)
main = partial(node.run, ShapeFromSensors)


if __name__ == "__main__":
    sys.exit(main())
