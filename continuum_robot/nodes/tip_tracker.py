# SPDX-License-Identifier: Apache-2.0
"""The node that stands in for a tracker of the tip at a simulated robot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseWithCovarianceStamped
from numpy.typing import NDArray

from continuum_robot.drivers import backends
from continuum_robot.drivers.protocols import CountsFrames, TrackedPose, Tracker
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.simulated_sensor import SimulatedSensorNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.devices.tip_tracker import SimulatedTracker, TrackerErrors, true_tip

Vector = NDArray[np.float64]


class TipTracker(SimulatedSensorNode[TrackedPose]):
    """Sees the true tip of the simulated robot, as a tracker does: late, with noise, and not always.

    With equilibrium modulation it stands for wang's camera: it publishes places, ``tracked_tip``, and the true lambda
    is not quite that of the robot's file. Of other robots it publishes poses, ``tracked_pose_with_covariance``. On
    hardware it reads the tracker of the robot's file; where that names none, the tracker's own program publishes one of
    them, or ``tracked_pose``.
    """

    device, program = "tip tracker", "the tracker's program, or a tracker in the robot file's hardware section,"
    nothing_yet = TrackedPose(-np.inf, np.full((4, 4), np.nan))

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "tip_tracker",
            sensor="tracker's",
            rate_hz=30.0,
            rate_meaning="poses a second; wang's camera makes 30",
            fastest_hz=500,
            **node_options,
        )
        declare, errors = self.parameters.declare, TrackerErrors(noise_m=2e-6, delay_s=0.0)
        declare(
            "noise_m",
            errors.noise_m,
            "standard deviation of the tip's place in each axis",
            rules=Quantity("", "m", ge=0, le=1e-2),
        )
        declare(
            "noise_rad",
            errors.noise_rad,
            "standard deviation of the tip's turn about each axis",
            rules=Quantity("", "rad", ge=0, le=1),
        )
        declare(
            "delay_s",
            errors.delay_s,
            "age of a pose when it is published; its stamp is when it was seen",
            rules=Quantity("", "s", ge=0, le=0.4),
        )
        declare(
            "lost", errors.lost, "fraction of the poses that are lost; 1: an outage", rules=Quantity("", ge=0, le=1)
        )
        declare(
            "model_error_percent",
            -3.0,
            "by which the true lambda of equilibrium modulation differs from the one in the robot's file",
            rules=Quantity("", "%", ge=-50, le=50),
            read_only=True,
        )
        declare("base_frame", "base", "frame_id of the tip's pose", read_only=True)
        self.parameters.on_change(self._on_parameters)
        self._tracker: SimulatedTracker | None = None
        self._driver: Tracker | None = None
        self._sigma = (0.0, 0.0)
        self._true_tip: Callable[[Vector], Vector | None] | None = None
        self._places_only = False
        self._points = self.flow.create_publisher(PointStamped, "tracked_tip", qos.state_publisher())
        self._poses = self.flow.create_publisher(
            PoseWithCovarianceStamped, "tracked_pose_with_covariance", qos.state_publisher()
        )
        self.diagnostics.add_task("tracker", self._diagnose)

    def configure(self) -> None:
        """Look at the simulated robot, or open the tracker of the robot's file."""
        robot = self.load_robot()
        self._places_only = bool(robot.traits.tip_nodes)
        settings: Any = None if robot.hardware is None else robot.hardware.tracker
        if not self.simulated and settings is not None:
            driver = backends.tracker(robot)
            driver.open()
            self._driver, self._sigma = driver, (settings.sigma_m, settings.sigma_rad)
            self.start_reading(self._newest)
            return
        self._true_tip = true_tip(robot, self.parameters.get("model_error_percent") / 100)
        self._tracker = SimulatedTracker(self._errors(), np.random.default_rng([robot.simulation.seed, 2]))
        self.open_link(robot)

    def cleanup(self) -> None:
        """Look away."""
        super().cleanup()
        if self._driver is not None:
            self._driver.close()
        self._tracker = self._driver = None

    def publish_report(self, report: TrackedPose) -> None:
        """Publish a place or a pose; arguments as of :class:`SimulatedSensorNode`."""
        frame = str(self.parameters.get("base_frame"))
        if self._places_only:
            point = PointStamped(point=conversions.point_message(report.tip[:3, 3]))
            point.header.frame_id = frame
            self.stamp(point.header.stamp, report.time_s)
            self._points.publish(point)
            return
        message, errors = PoseWithCovarianceStamped(), self._errors()
        message.pose.pose = conversions.pose_message(report.tip)
        sigma_m, sigma_rad = self._sigma if self._driver is not None else (errors.noise_m, errors.noise_rad)
        variances = [sigma_m**2] * 3 + [sigma_rad**2] * 3
        message.pose.covariance = np.diag(variances).ravel()
        message.header.frame_id = frame
        self.stamp(message.header.stamp, report.time_s)
        self._poses.publish(message)

    def _errors(self) -> TrackerErrors:
        get = self.parameters.get
        return TrackerErrors(
            noise_m=get("noise_m"), noise_rad=get("noise_rad"), delay_s=get("delay_s"), lost=get("lost")
        )

    def _on_parameters(self, _names: set[str]) -> None:
        if self._tracker is not None:
            self._tracker.errors = self._errors()

    def _newest(self, now_s: float) -> TrackedPose:
        """The pose that the driver reads now, or the last one: the tool may be out of sight."""
        driver, last = self._driver, self.reading
        found = None if driver is None else driver.read(now_s)
        return found or last or self.nothing_yet

    def look(self, time_s: float, linked: Vector) -> bool:
        """See the tip; False where the simulator does not say where it is."""
        tip = None if self._true_tip is None else self._true_tip(linked)
        if tip is not None and self._tracker is not None:
            self._tracker.look(time_s, tip)
        return tip is not None

    def reported(self, now_s: float) -> list[TrackedPose]:
        """Poses that come until now, s."""
        return [] if self._tracker is None else self._tracker.reported(now_s)

    def _diagnose(self, status: StatusBuilder) -> None:
        if self.read_problem:
            status.summary(Level.WARN, self.read_problem)
        status.summary(Level.OK, self.state)
        if self.reading is not None:
            status.add("tip_m", self.reading.tip[:3, 3])
        if isinstance(self._driver, CountsFrames):
            for name, value in self._driver.statistics().items():
                status.add(name, value)
        if self.loop is not None:
            self.thresholds.diagnose(status, self.loop.statistics.report(), self.loop.period_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TipTracker)


if __name__ == "__main__":
    sys.exit(main())
