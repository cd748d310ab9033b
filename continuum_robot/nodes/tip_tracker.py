# SPDX-License-Identifier: Apache-2.0
"""The node that stands in for a camera at a simulated segment with equilibrium modulation: ``tracked_tip``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.building import make_moment_error, make_segment, modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.sensor_node import SensorNode
from continuum_robot.nodes.spinning import run_node
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.plant_link import PlantLink, PlantLinkReader

Vector = NDArray[np.float64]

PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True)
class TipReading:
    """A place of the tip, base frame, (3,), m, and when it was there, s, monotonic.

    Attributes
    ----------
    time_s : when it was there, s, monotonic
    place_m : base frame, shape (3,), m
    """

    time_s: float
    place_m: Vector


class TipTracker(SensorNode[TipReading]):
    """Sees the true tip of the simulated robot, with white noise; its lambda is not quite that of the robot's file.

    On hardware there is no such node: a camera's own program publishes ``tracked_tip``.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "tip_tracker",
            sensor="camera's",
            rate_hz=30.0,
            rate_meaning="frames a second, as many as wang's camera makes",
            fastest_hz=500,
            **node_options,
        )
        declare = self.parameters.declare
        declare(
            "noise_m",
            2e-6,
            "standard deviation of the tip's place in each axis",
            rules=Quantity("", "m", ge=0, le=1e-2),
        )
        declare(
            "model_error_percent",
            -3.0,
            "by which the true lambda differs from the one in the robot's file",
            rules=Quantity("", "%", ge=-50, le=50),
            read_only=True,
        )
        declare("base_frame", "base", "frame_id of the tip's place", read_only=True)
        self._link: PlantLinkReader | None = None
        self._publisher = self.flow.create_publisher(PointStamped, "tracked_tip", qos.state_publisher())
        self.diagnostics.add_task("camera", self._diagnose)

    def configure(self) -> None:
        """Look at the simulated robot.

        Raises
        ------
        ParameterError : not simulated: on hardware a camera's program publishes the tip
        """
        robot = self.load_robot()
        if not self.simulated:
            raise ParameterError("use_fake_hardware", False, "true: on hardware a camera's program publishes the tip")
        self._prepare(robot)
        link = PlantLink.reader(self.get_namespace(), robot=robot.name)
        link.open()
        self._link = link
        self.start_reading(self._see)

    def cleanup(self) -> None:
        """Look away."""
        self.stop_reading()
        if self._link is not None:
            self._link.close()
        self._link = None

    def publish(self, reading: TipReading, before: TipReading | None) -> None:
        """Each place once."""
        if before is not None and reading.time_s == before.time_s:
            return
        message = PointStamped(point=conversions.point_message(reading.place_m))
        message.header.frame_id = str(self.parameters.get("base_frame"))
        self.stamp(message.header.stamp, reading.time_s)
        self._publisher.publish(message)

    def _prepare(self, robot: Robot) -> None:
        mechanism = modulation_of(robot)
        share = 1 + self.parameters.get("model_error_percent") / 100
        self._segment = make_segment(mechanism)
        self._error = LinearMomentError(*(make_moment_error(mechanism).parameters * share))
        self._spread = clarke_manifold(robot).displacement_matrix[: mechanism.backbone_count, :2]
        self._rng = np.random.default_rng(robot.simulation.seed)

    def _see(self, now_s: float) -> TipReading:
        sample, last = self._link.read() if self._link is not None else None, self.reading
        if sample is None:
            # The driver may be at work on it just now.
            if last is not None and now_s - last.time_s < PATIENCE_S:
                return last
            raise DeviceError("tip tracker", "sees no simulated robot", "Bring the node simulator up")
        theta, delta = self._segment.configuration(self._spread @ sample.extension_m[:2])
        state = modulated_equilibrium(self._segment, theta, delta, sample.extension_m[2], self._error)
        noise = self.parameters.get("noise_m") * self._rng.standard_normal(3)
        return TipReading(sample.time_s, end_pose(state, self._segment)[:3, 3] + noise)

    def _diagnose(self, status: StatusBuilder) -> None:
        if self.read_problem:
            status.summary(Level.WARN, self.read_problem)
        status.summary(Level.OK, self.state)
        if self.reading is not None:
            status.add("tip_m", self.reading.place_m)
        if self.loop is not None:
            self.thresholds.diagnose(status, self.loop.statistics.report(), self.loop.period_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TipTracker)


if __name__ == "__main__":
    sys.exit(main())
