# SPDX-License-Identifier: Apache-2.0
"""The node that plays a trajectory of the Clarke coordinates on ``clarke_reference``."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.serialization import deserialize_message
from std_srvs.srv import Trigger

from continuum_robot.control.references import ClarkeReference, Hold, Reference, make_reference
from continuum_robot.errors import ParameterError
from continuum_robot.msg import ClarkeState
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.parameters import Settings
from continuum_robot.nodes.reference_input import blend
from continuum_robot.nodes.spinning import run_node
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity

Vector = NDArray[np.float64]


class ReferenceSource(ManagedNode):
    """Silent until activated; then it starts at the measured position and blends into the trajectory.

    A change of a ``reference.`` parameter while active, or the service ``~/restart``, starts the trajectory from its
    beginning, blended in from where the reference stands; ``~/hold`` lets it stand where it is.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("reference_source", **node_options)
        self.parameters.declare(
            "blend_s", 1.0, "time to blend into the trajectory", rules=Quantity("", "s", ge=0.0, le=60.0)
        )
        self.parameters.on_change(self._on_parameters)
        self._settings: Settings | None = None
        self._robot: Robot | None = None
        self._trajectory: Reference | None = None
        self._start_position: Vector | None = None
        self._start_ns = 0
        self._current: ClarkeReference | None = None
        self._active = False
        self._sequence = 0
        self._measured: Vector | None = None
        # One timer for good: the EventsExecutor does not take it well when a callback destroys what it listens to.
        self._timer = self.create_timer(1.0, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()
        self._references = self.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        # Made now and not at activation, when it would delay a controller in the same process. Raw: it is needed once.
        self.create_subscription(ClarkeState, "clarke_state", self._on_measurement, qos.newest_state(), raw=True)
        self.create_service(Trigger, "~/restart", self._serve_restart)
        self.create_service(Trigger, "~/hold", self._serve_hold)
        self.diagnostics.add_task("reference", self._diagnose)

    def configure(self) -> None:
        """Make the trajectory and start to listen where the robot stands."""
        robot = self.load_robot()
        self._robot = robot
        count = robot.coordinate_count
        settings = robot.reference or ReferenceSettings(kind="hold")
        if len(settings.amplitude_m) != count:
            settings = dataclasses.replace(settings, amplitude_m=(0.0,) * count)
        if not settings.frequency_hz:
            settings = dataclasses.replace(settings, frequency_hz=(0.1,))
        self.parameters.forget_settings(self._settings)
        self._settings = self.parameters.declare_settings(
            "reference", settings, check=self._check_settings, all_live=True
        )
        self._trajectory = self._make(self._settings.value)
        self._message = ClarkeState(simulated=self.simulated)
        self._position = conversions.preallocate(self._message, "position", count)
        self._velocity = conversions.preallocate(self._message, "velocity", count)
        self._acceleration = conversions.preallocate(self._message, "acceleration", count)

    def activate(self) -> None:
        """Start at the position that is measured next."""
        self._measured = self._current = self._start_position = None
        self._active = True
        self._set_timer()

    def deactivate(self) -> None:
        """Fall silent: the controller holds the position."""
        self._active = False
        self._timer.cancel()

    def cleanup(self) -> None:
        """Forget the trajectory."""
        self._trajectory = None

    def _set_timer(self) -> None:
        if self._settings is not None:
            self._timer.timer_period_ns = round(1e9 / self._settings.value.rate_hz)
            self._timer.reset()

    def _on_measurement(self, data: bytes) -> None:
        if not self._active or self._start_position is not None:
            return
        position = np.array(conversions.vector(deserialize_message(data, ClarkeState).position))
        if position.size == self._position.size and np.all(np.isfinite(position)):
            self._measured = position

    def _publish(self) -> None:
        trajectory = self._trajectory
        if not self._active or trajectory is None:
            return
        now_ns = conversions.now_ns(self.get_clock())
        if self._start_position is None:
            if self._measured is None:
                return
            self._start_position, self._start_ns = self._measured, now_ns
        time_s = (now_ns - self._start_ns) * 1e-9
        reference = trajectory.at(time_s)
        blend_s = self.parameters.get("blend_s")
        if time_s < blend_s:
            reference = blend(self._start_position, reference, max(time_s, 0.0) / blend_s, blend_s)
        self._current = reference
        self._sequence += 1
        message = self._message
        message.sequence = self._sequence
        conversions.set_stamp(message.header.stamp, now_ns)
        self._position[:] = reference.position
        self._velocity[:] = reference.velocity
        self._acceleration[:] = reference.acceleration
        self._references.publish(message)

    def _play(self, trajectory: Reference) -> None:
        self._trajectory = trajectory
        if self._current is not None:
            self._start_position = self._current.position.copy()
            self._start_ns = conversions.now_ns(self.get_clock())

    def _on_parameters(self, names: set[str]) -> None:
        if self._settings is None or not names & set(self._settings.leaves) or self._trajectory is None:
            return
        self._play(self._make(self._settings.value))
        if self._active and "reference.rate_hz" in names:
            self._set_timer()

    def _serve_restart(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._settings is None or self._trajectory is None:
            response.message = "refused: configure the node first"
            return response
        self._play(self._make(self._settings.value))
        response.success, response.message = True, f"plays {self._settings.value.kind}"
        return response

    def _serve_hold(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._current is None:
            response.message = "refused: no reference is being played"
            return response
        self._play(Hold(self._current.position.copy()))
        response.success, response.message = True, "holds the reference where it is"
        return response

    def _make(self, settings: ReferenceSettings) -> Reference:
        robot = self._robot if self._robot is not None else self.load_robot()
        folder = Path(robot.file_name).parent if robot.file_name else None
        return make_reference(settings, robot.coordinate_count, folder)

    def _check_settings(self, settings: ReferenceSettings) -> None:
        self._make(settings)
        limits = self._robot.limits if self._robot is not None else None
        if limits is not None and settings.amplitude_m:
            largest = max(abs(amplitude) for amplitude in settings.amplitude_m)
            if largest > limits.maximum_displacement_m:
                raise ParameterError(
                    "reference.amplitude_m",
                    largest,
                    f"at most limits.maximum_displacement_m = {limits.maximum_displacement_m:g} m",
                )

    def _diagnose(self, status: StatusBuilder) -> None:
        kind = self._settings.value.kind if self._settings is not None else "none"
        status.summary(Level.OK, f"plays {kind}" if self._current is not None and self._active else self.state)
        status.add("kind", kind)
        status.add("references_published", self._sequence)
        duration_s = self._trajectory.duration_s if self._trajectory is not None else math.nan
        status.add("duration_s", duration_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ReferenceSource)


if __name__ == "__main__":
    sys.exit(main())
