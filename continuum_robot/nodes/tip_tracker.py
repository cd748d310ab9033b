# SPDX-License-Identifier: Apache-2.0
"""The node that reads a tracker of the tip, or stands in for one at a simulated robot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseWithCovarianceStamped

from continuum_robot.drivers import backends
from continuum_robot.drivers.protocols import CountsFrames, TrackedPose, Tracker
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.simulated.device import Sight
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.sensors import SimulatedTracker, TrackerErrors, true_tip

PROGRAM = "the tracker's program, or a tracker in the robot file's hardware section,"


@dataclass(frozen=True, kw_only=True)
class TipTrackerParameters(TrackerErrors):
    """Of the tip tracker."""

    rate_hz: float = quantity("poses a second; wang's camera makes 30", "Hz", default=30.0, ge=1, le=500)
    noise_m: float = quantity(
        "standard deviation of the tip's place in each axis", "m", default=2e-6, ge=0, le=1e-2, live=True
    )
    noise_rad: float = quantity(
        "standard deviation of the tip's turn about each axis", "rad", default=2e-3, ge=0, le=1, live=True
    )
    delay_s: float = quantity(
        "age of a pose when it is published; its stamp is when it was seen", "s", default=0.0, ge=0, le=0.4, live=True
    )
    lost: float = quantity("fraction of the poses that are lost; 1: an outage", default=0.0, ge=0, le=1, live=True)
    model_error_percent: float = quantity(
        "by which the true lambda of equilibrium modulation differs from the one in the robot's file",
        "%",
        default=-3.0,
        ge=-50,
        le=50,
    )
    base_frame: str = quantity("frame_id of the tip's pose", default="base")


class TrackerOfTip(node.Component):
    """Sees the true tip of the simulated robot, as a tracker does: late, with noise, and not always.

    With equilibrium modulation it stands for wang's camera: it publishes places, ``tracked_tip``, and the true lambda
    is not quite that of the robot's file. Of other robots it publishes poses, ``tracked_pose_with_covariance``. On
    hardware it reads the tracker of the robot's file; where that names none, the tracker's own program publishes one of
    them, or ``tracked_pose``.
    """

    name, about = "tip_tracker", "tracker"
    parameters = TipTrackerParameters()
    points = node.output(PointStamped, "tracked_tip")
    poses = node.output(PoseWithCovarianceStamped, "tracked_pose_with_covariance")
    read = node.Loop("rate_hz")

    newest: TrackedPose | None = None
    driver: Tracker | None = None
    simulated: SimulatedTracker | None = None

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        self.settings: Any = None if robot.hardware is None else robot.hardware.tracker
        self.new = self._reader()

    def _reader(self) -> Callable[[float], TrackedPose | None]:
        robot, host, parameters = self.robot, self.host, self.parameters
        if not host.simulated and self.settings is not None:
            self.driver = backends.tracker(robot)
            self.driver.open()
            host.closing.callback(self.driver.close)
            return self.driver.read
        self.simulated = SimulatedTracker(parameters, np.random.default_rng([robot.simulation.seed, 2]))
        what = true_tip(robot, parameters.model_error_percent / 100)
        return Sight(host, robot, self.simulated, what, device="tip tracker", program=PROGRAM).new

    def parameters_changed(self, _names: Collection[str] = ()) -> None:
        if self.simulated is not None:
            self.simulated.errors = self.parameters

    @read
    def publish_new(self, now_s: float, _elapsed_s: float) -> None:
        """A place or a pose, each once."""
        report, places_only = self.new(now_s), self.robot.traits.tip_nodes
        if report is None or (self.newest is not None and report.time_s == self.newest.time_s):
            return
        self.newest = report
        place = conversions.point_message(report.tip[:3, 3])
        message = PointStamped(point=place) if places_only else self._pose(report)
        message.header.frame_id = self.parameters.base_frame
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(report.time_s))
        (self.points if places_only else self.poses).publish(message)

    def _pose(self, report: TrackedPose) -> PoseWithCovarianceStamped:
        message, errors = PoseWithCovarianceStamped(), self.parameters
        conversions.set_pose(message.pose.pose, report.tip)
        sigma_m, sigma_rad = errors.noise_m, errors.noise_rad
        if self.driver is not None:
            sigma_m, sigma_rad = self.settings.sigma_m, self.settings.sigma_rad
        message.pose.covariance = np.diag([sigma_m**2] * 3 + [sigma_rad**2] * 3).ravel()
        return message

    def health(self, status: StatusBuilder) -> None:
        status.summary(Level.OK, self.host.state)
        if self.newest is not None:
            status.add("tip_m", self.newest.tip[:3, 3])
        if isinstance(self.driver, CountsFrames):
            status.add_all(self.driver.statistics())


TipTracker = node.as_node(TrackerOfTip)
main = partial(node.run, TrackerOfTip)


if __name__ == "__main__":
    sys.exit(main())
