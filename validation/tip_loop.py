# SPDX-License-Identifier: Apache-2.0
"""The tip led along a path by the shipped tip control, with and without a tracker of it, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.tracked_tip import TrackedTip
from continuum_robot.geometry import so3
from continuum_robot.models.making import robot_model
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.devices.sensors import SimulatedTracker
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import SlowReference, VirtualStack

Array = NDArray[np.float64]

ENTRY_S = 3.0
"""In which a path is entered from the straight robot."""
_STEP_S = 0.01
_REST_S = 1.5


class TipPath(Protocol):
    """A path of the tip over time."""

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Place and velocity at a time, s, in the frame of the tracker, shape (3,), m and m/s."""


@dataclass(frozen=True)
class Tracking:
    """A tracker of the tip."""

    tracker: SimulatedTracker
    rate_hz: float
    outage_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class TipRun:
    """A run along a path."""

    time_s: Array
    path_m: Array
    tip_m: Array

    @property
    def error_m(self) -> Array:
        """Distance of the tip from the path, shape (T,), m."""
        return np.linalg.norm(self.tip_m - self.path_m, axis=1)

    @property
    def rmse_m(self) -> float:
        """Root mean square of that, m."""
        return float(np.sqrt(np.mean(self.error_m**2)))


def entry(time_s: float) -> tuple[float, float]:
    """How far a path is entered at a time, s, 0 to 1, and the rate of that, 1/s."""
    part = min(max(time_s / ENTRY_S, 0.0), 1.0)
    return part**2 * (3 - 2 * part), 6 * part * (1 - part) / ENTRY_S


def lead_tip(
    stack: VirtualStack, plant: Plant, path: TipPath, tracking: Tracking | None, duration_s: float, from_s: float
) -> TipRun:
    """Lead the tip along a path from the straight robot at rest."""
    loop, resting = TipLoop(stack, path, tracking), ClarkeReference.at_rest(np.zeros(stack.robot.coordinate_count))
    stack.follow(lambda _time_s: resting, _REST_S)
    rows: list[tuple[float, Array, Array]] = []
    began_s, next_pose_s = stack.now_s, 0.0

    def look(running: VirtualStack) -> None:
        nonlocal next_pose_s
        time_s, tip = running.now_s - began_s, plant.pose(plant.robot.length_m)
        if tracking is not None and time_s >= next_pose_s:
            next_pose_s += 1 / tracking.rate_hz
            if not tracking.outage_s[0] <= time_s < tracking.outage_s[1]:
                tracking.tracker.look(running.now_s, tip)
        if time_s >= from_s:
            rows.append((time_s, path.at(time_s)[0], tip[:3, 3].copy()))

    stack.follow(SlowReference(loop.step, _STEP_S, resting).at, duration_s, look)
    return TipRun(*(np.array(column) for column in zip(*rows, strict=True)))


class TipLoop:
    """What the stack does with the tip, a hundred times a second: shape, tracker, tip control."""

    def __init__(self, stack: VirtualStack, path: TipPath, tracking: Tracking | None) -> None:
        robot = stack.robot
        self._stack, self._path, self._tracking = stack, path, tracking
        self._estimator = robot_model(robot).shape_estimator(WatchSettings())
        self._manifold = clarke_manifold(robot)
        self._fused, self._control = TrackedTip(robot), TipControl(robot)
        self._turn, self._origin_m = _base_in_tracker(robot)

    def step(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, since the path began."""
        reading = self._stack.loop.reading
        tip = clarke = None
        if reading is not None:
            clarke = self._manifold.clarke_matrix @ reading.displacement_m
            tip = None if self._tracking is None else self._tip(self._tracking, reading, clarke)
        place, velocity = self._path.at(time_s)
        here = self._turn.T @ (place - self._origin_m), self._turn.T @ velocity
        return self._control.follow(*here, tip, clarke, _STEP_S).reference

    def _tip(self, tracking: Tracking, reading: Any, clarke: Array) -> Array | None:
        """The tip in the base frame, (3,), m, once the tracker has seen it."""
        for pose in tracking.tracker.reported(self._stack.now_s):
            place, turn = self._turn.T @ (pose.tip[:3, 3] - self._origin_m), self._turn.T @ pose.tip[:3, :3]
            self._fused.see_pose(pose.time_s, place, turn)
        shape = self._estimator.update(
            reading.displacement_m, reading.velocity_m_per_s, None, _STEP_S, reading.tension_n
        )
        fused = self._fused.see_shape(reading.stamp_s, shape.tip, clarke)[:3, 3]
        return fused if self._fused.accepted else None


def _base_in_tracker(robot: Robot) -> tuple[Array, Array]:
    """Turn, (3, 3), and origin, (3,), m, of the base in the tracker's frame, by what a fit found."""
    found = robot.recording
    if found is None:
        return np.eye(3), np.zeros(3)
    return so3.exp(np.array(found.base_rotation_in_tracker_rad)), np.array(found.base_in_tracker_m)
