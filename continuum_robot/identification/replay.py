# SPDX-License-Identifier: Apache-2.0
"""From recorded tendon displacements to a predicted marker, by constant curvature, and how well it agrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.geometry import se3, so3
from continuum_robot.geometry.arcs import arc_pose
from continuum_robot.geometry.clarke import arc_from_clarke
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.taut_tendons import TautTendons
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording

Array = NDArray[np.float64]

SLACK_TREATMENTS = ("resolve", "project")


@dataclass(frozen=True)
class Replay:
    """A recording on a robot: T samples of N tendons."""

    recording: TendonRecording
    displacement_m: Array
    path_displacement_m: Array
    slack: NDArray[np.bool_]
    clarke: Array
    predicted_marker_m: Array


def replay(robot: Robot, recording: TendonRecording, slack: str = "resolve") -> Replay:
    """Predict the marker for every sample of a recording, by constant curvature."""
    if slack not in SLACK_TREATMENTS:
        raise ParameterError("slack", slack, f"one of {', '.join(SLACK_TREATMENTS)}")
    displacement = tendon_displacements(robot, recording)
    shape = TautTendons(robot).shape(displacement)
    if slack == "resolve":
        clarke, path = shape.clarke, shape.displacement
    else:
        manifold = clarke_manifold(robot)
        clarke = manifold.clarke(displacement)
        path = manifold.displacement(clarke)
    marker = marker_in_tracker(robot, tip_poses(robot, clarke))
    return Replay(recording, displacement, path, shape.slack, clarke, marker)


def tip_poses(robot: Robot, clarke: ArrayLike) -> Array:
    """Pose of the robot's tip for constant curvature in each segment."""
    coordinates = np.asarray(clarke, dtype=float)
    coordinates = coordinates.reshape(*coordinates.shape[:-1], len(robot.segments), 2)
    pose = np.eye(4)
    for index, segment in enumerate(robot.segments):
        phi, theta = arc_from_clarke(coordinates[..., index, :], segment.tendons.pitch_radius_m)  # muhmann (6), (7)
        pose = pose @ arc_pose(phi, theta, segment.length_m, segment.length_m)
    return np.asarray(pose)


def in_tracker(place: Recording, point: Array) -> Array:
    """Points of the base frame, shape (T, 3), m, in the tracker's frame, shape (T, 3), m."""
    turn = so3.exp(np.array(place.base_rotation_in_tracker_rad))
    return np.asarray(point @ turn.T + np.array(place.base_in_tracker_m))


def marker_in_tracker(robot: Robot, tip: ArrayLike) -> Array:
    """Where the tracker sees the marker, for poses of the tip."""
    poses = np.asarray(tip, dtype=float)
    place = robot.recording
    if place is None:
        return np.asarray(poses[..., :3, 3])
    in_base = se3.apply(poses, np.array(place.marker_in_tip_m))
    return in_tracker(place, in_base)


def marker_errors(predicted_m: ArrayLike, measured_m: ArrayLike) -> Array:
    """Pointwise error vectors, after the mean of all of them is removed."""
    error = np.asarray(predicted_m, dtype=float) - np.asarray(measured_m, dtype=float)
    error = error[np.isfinite(error).all(axis=1)]
    if not len(error):
        raise ParameterError("measured_m", "NaN in every row", "at least one sample in which the marker was seen")
    return np.asarray(error - error.mean(axis=0))


def rmse_m(error: ArrayLike) -> float:
    """Root mean square length of error vectors, shape (T, 3), m."""
    return float(np.sqrt(np.mean(np.sum(np.square(error), axis=-1))))


def agreement(result: Replay) -> dict[str, float | int]:
    """How well prediction and motion capture agree; lengths in mm, as in the key."""
    numbers = marker_agreement(result.recording, result.predicted_marker_m)
    return {**numbers, "n_with_slack": int(result.slack.any(axis=1).sum())}


def marker_agreement(recording: TendonRecording, predicted_m: Array) -> dict[str, float | int]:
    """How well predicted markers and motion capture agree; lengths in mm, as in the key."""
    measured = recording.marker_m
    seen = recording.seen
    if not seen.any():
        raise RecordingError(recording.file, "the marker was never seen", "Give a recording with a marker")
    error = marker_errors(predicted_m, measured)
    offset = (predicted_m[seen] - measured[seen]).mean(axis=0)
    length = np.linalg.norm(error, axis=1)
    spread = rmse_m(measured[seen] - measured[seen].mean(axis=0))
    numbers: dict[str, float | int] = {
        "tip_rmse_mm": 1e3 * rmse_m(error),
        "tip_median_mm": 1e3 * float(np.median(length)),
        "tip_p95_mm": 1e3 * float(np.percentile(length, 95)),
        "tip_max_mm": 1e3 * float(length.max()),
    }
    for axis, name in enumerate("xyz"):
        numbers[f"tip_rmse_{name}_mm"] = 1e3 * float(np.sqrt(np.mean(error[:, axis] ** 2)))
    for axis, name in enumerate("xyz"):
        numbers[f"mean_offset_{name}_mm"] = 1e3 * float(offset[axis])
    numbers["tip_spread_mm"] = 1e3 * spread
    numbers["n_samples"] = int(seen.sum())
    numbers["n_without_marker"] = int((~seen).sum())
    return numbers
