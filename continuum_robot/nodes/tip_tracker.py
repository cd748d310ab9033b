# SPDX-License-Identifier: Apache-2.0
"""The node that stands in for a tracker of the tip at a simulated robot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseWithCovarianceStamped
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.sensor_node import SensorNode
from continuum_robot.nodes.spinning import run_node
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.plant_link import PlantLink, PlantLinkReader
from continuum_robot.simulation.tip_tracker import SimulatedTracker, TrackedPose, TrackerErrors, true_tip

Vector = NDArray[np.float64]

PATIENCE_S = 0.5
_NOTHING_YET = TrackedPose(-np.inf, np.full((4, 4), np.nan))


class TipTracker(SensorNode[TrackedPose]):
    """Sees the true tip of the simulated robot, as a tracker does: late, with noise, and not always.

    With equilibrium modulation it stands for wang's camera: it publishes places, ``tracked_tip``, and the true lambda
    is not quite that of the robot's file. Of other robots it publishes poses, ``tracked_pose_with_covariance``. On
    hardware there is no such node: the tracker's own program publishes one of them, or ``tracked_pose``.
    """

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
        self._link: PlantLinkReader | None = None
        self._tracker: SimulatedTracker | None = None
        self._true_tip: Callable[[Vector], Vector | None] | None = None
        self._places_only = False
        self._points = self.flow.create_publisher(PointStamped, "tracked_tip", qos.state_publisher())
        self._poses = self.flow.create_publisher(
            PoseWithCovarianceStamped, "tracked_pose_with_covariance", qos.state_publisher()
        )
        self.diagnostics.add_task("tracker", self._diagnose)

    def configure(self) -> None:
        """Look at the simulated robot.

        Raises
        ------
        ParameterError : not simulated: on hardware the tracker's program publishes the tip
        """
        robot = self.load_robot()
        if not self.simulated:
            raise ParameterError(
                "use_fake_hardware", False, "true: on hardware the tracker's program publishes the tip"
            )
        self._places_only = bool(robot.traits.tip_nodes)
        self._true_tip = true_tip(robot, self.parameters.get("model_error_percent") / 100)
        self._tracker = SimulatedTracker(self._errors(), np.random.default_rng([robot.simulation.seed, 2]))
        link = PlantLink.reader(self.get_namespace(), robot=robot.name)
        link.open()
        self._link = link
        self.start_reading(self._see)

    def cleanup(self) -> None:
        """Look away."""
        self.stop_reading()
        if self._link is not None:
            self._link.close()
        self._link = self._tracker = None

    def publish(self, reading: TrackedPose, before: TrackedPose | None) -> None:
        """Each pose once."""
        if reading is _NOTHING_YET or (before is not None and reading.time_s == before.time_s):
            return
        frame = str(self.parameters.get("base_frame"))
        if self._places_only:
            point = PointStamped(point=conversions.point_message(reading.tip[:3, 3]))
            point.header.frame_id = frame
            self.stamp(point.header.stamp, reading.time_s)
            self._points.publish(point)
            return
        message, errors = PoseWithCovarianceStamped(), self._errors()
        message.pose.pose = conversions.pose_message(reading.tip)
        variances = [errors.noise_m**2] * 3 + [errors.noise_rad**2] * 3
        message.pose.covariance = np.diag(variances).ravel()
        message.header.frame_id = frame
        self.stamp(message.header.stamp, reading.time_s)
        self._poses.publish(message)

    def _errors(self) -> TrackerErrors:
        get = self.parameters.get
        return TrackerErrors(
            noise_m=get("noise_m"), noise_rad=get("noise_rad"), delay_s=get("delay_s"), lost=get("lost")
        )

    def _on_parameters(self, _names: set[str]) -> None:
        if self._tracker is not None:
            self._tracker.errors = self._errors()

    def _see(self, now_s: float) -> TrackedPose:
        """The pose that comes now, or the last one."""
        tracker, last = self._tracker, self.reading
        sample = self._link.read() if self._link is not None else None
        tip = None if sample is None or self._true_tip is None else self._true_tip(sample.extension_m)
        if tracker is not None and sample is not None and tip is not None:
            tracker.look(sample.time_s, tip)
        reported = tracker.reported(now_s) if tracker is not None else []
        if reported:
            return reported[-1]
        # The driver may be at work on the link just now, and a pose takes its time or is lost.
        if tip is not None or (last is not None and now_s - last.time_s < PATIENCE_S):
            return last or _NOTHING_YET
        raise DeviceError(
            "tip tracker", "sees no tip of a simulated robot", "Bring the node simulator up, not as mirror"
        )

    def _diagnose(self, status: StatusBuilder) -> None:
        if self.read_problem:
            status.summary(Level.WARN, self.read_problem)
        status.summary(Level.OK, self.state)
        if self.reading is not None:
            status.add("tip_m", self.reading.tip[:3, 3])
        if self.loop is not None:
            self.thresholds.diagnose(status, self.loop.statistics.report(), self.loop.period_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TipTracker)


if __name__ == "__main__":
    sys.exit(main())
