# SPDX-License-Identifier: Apache-2.0
"""From recorded tendon displacements to a predicted marker, by constant curvature, and how well it agrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.geometry import se3, so3
from continuum_robot.geometry.arcs import arc_pose
from continuum_robot.geometry.clarke import ClarkeManifold, arc_from_clarke
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording

Array = NDArray[np.float64]

# Compliance of the tendons against that of the backbone. It makes the problem strictly convex, so that displacements
# that no inextensible tendons could have (co-contraction) give their least-squares shape.
_TENDON_COMPLIANCE = 1e-6
_ON_MANIFOLD_M = 1e-9


@dataclass(frozen=True)
class TautShape:
    """Shapes of least bending that tendons allow, for T samples of N tendons and m segments."""

    clarke: Array
    displacement: Array
    slack: NDArray[np.bool_]


class TautTendons:
    """Constant-curvature shape from displacements of tendons that only pull: one paid out too far constrains nothing.

    A tendon of displacement q_j allows every shape whose path shortens by at least q_j; it is taut where they are
    equal. Of the shapes that all tendons allow, the robot takes the one that bends its backbone least. Displacements
    that obey the tendon constraint, muhmann (1), keep every tendon taut, and this is the Clarke transform; one taut
    tendon alone makes an arc of uniform curvature down to where it ends.
    """

    def __init__(self, robot: Robot, slack_above_m: float = 2e-4) -> None:
        self.manifold: ClarkeManifold = clarke_manifold(robot)
        self._slack_above_m = slack_above_m
        stiffness = [
            segment.backbone.bending_stiffness_nm2 / (segment.length_m * segment.tendons.pitch_radius_m**2)
            for segment in robot.segments
        ]  # energy = sum stiffness / 2 |q_M,i|^2, from E I theta^2 / (2 l) and theta = |q_M| / r_d, muhmann (7), (18)
        D = self.manifold.displacement_matrix
        to_clarke = D.T / np.repeat(stiffness, 2)[:, None]
        size = np.trace(D @ to_clarke) / len(D)  # only the direction of the tensions counts
        self._to_clarke = to_clarke / size
        bent = D.T / np.sqrt(size * np.repeat(stiffness, 2))[:, None]
        # Its square is the compliance of backbone and tendons.
        self._root = np.vstack([bent, np.sqrt(_TENDON_COMPLIANCE) * np.eye(len(D))])

    def shape(self, displacement: ArrayLike) -> TautShape:
        """Shapes of least bending that the tendons allow."""
        given = np.atleast_2d(np.asarray(displacement, dtype=float))
        if given.shape[1] != self.manifold.tendon_count or not np.isfinite(given).all():
            raise ParameterError(
                "displacement", np.shape(displacement), f"finite values, shape (T, {self.manifold.tendon_count})"
            )
        clarke = self.manifold.clarke(given)
        miss = np.abs(self.manifold.displacement(clarke) - given).max(axis=1)
        for row in np.flatnonzero(miss > _ON_MANIFOLD_M):
            # Tensions t >= 0 that minimise t.C t / 2 - q.t, the dual problem; for a backbone of unit stiffness.
            size_m = np.abs(given[row]).max()
            pulled = np.append(np.zeros(clarke.shape[1]), given[row] / (size_m * np.sqrt(_TENDON_COMPLIANCE)))
            clarke[row] = size_m * self._to_clarke @ nnls(self._root, pulled)[0]
        path = self.manifold.displacement(clarke)
        return TautShape(clarke, path, path - given > self._slack_above_m)


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


_CLOSE_M, _APART_S, _LATER_S = 1e-3, 30.0, 300.0


@dataclass(frozen=True)
class Repeatability:
    """How far the marker is apart when all servos read nearly the same again, some time later."""

    difference_m: float
    floor_m: float
    later_floor_m: float
    pairs: int

    def numbers(self) -> dict[str, float | int | None]:
        """For JSON, units in the keys."""
        lengths = {
            "repeat_tip_difference_mm": self.difference_m,
            "repeatability_floor_mm": self.floor_m,
            "repeatability_floor_later_mm": self.later_floor_m,
        }
        in_mm = {name: 1e3 * length_m if math.isfinite(length_m) else None for name, length_m in lengths.items()}
        return {**in_mm, "n_repeat_pairs": self.pairs}


def repeatability(recording: TendonRecording, predicted_m: ArrayLike) -> Repeatability:
    """Compare moments whose readings differ by less than 1 mm and that are more than 30 s apart."""
    seen = recording.seen
    readings, place, when = recording.displacement_m[seen], recording.marker_m[seen], recording.time_s[seen]
    model = np.asarray(predicted_m, dtype=float)[seen]
    pairs = cKDTree(readings).query_pairs(_CLOSE_M, output_type="ndarray")
    between_s = np.abs(when[pairs[:, 0]] - when[pairs[:, 1]])
    pairs, later = pairs[between_s > _APART_S], between_s[between_s > _APART_S] > _LATER_S
    apart = place[pairs[:, 0]] - place[pairs[:, 1]]
    left = apart - (model[pairs[:, 0]] - model[pairs[:, 1]])
    size_m = [rmse_m(part) if len(part) else math.nan for part in (apart, left, left[later])]
    return Repeatability(size_m[0], size_m[1] / math.sqrt(2), size_m[2] / math.sqrt(2), len(pairs))
