# SPDX-License-Identifier: Apache-2.0
"""Which servo drives which tendon, how the segments are turned, and where the marker sits, from one recording.

In a tendon_pull recording one tendon at a time is pulled while all others are paid out. A pulled tendon of segment k
bends the robot uniformly from the base to the end of segment k, towards the tendon's angle, so the direction of the
tip shows the angle and the size of its motion shows how far the tendon reaches. The fit goes in three steps:

1. for every column: the samples in which it alone is pulled, its sign, direction and sensitivity;
2. every distribution of the columns over the segments is scored by how well the directions stand 2 pi / n apart and
   how well the sensitivities suit the segments' lengths;
3. the best few are fitted as a whole by robust nonlinear least squares on the marker's positions.

The model is plain constant curvature. Friction and stretch make a real tendon bend the robot less than its
displacement predicts, and pretension makes it pull before its zero: a response and a zero for each are estimated beside
the geometry so that they do not bend it, and are reported, but the fitted robot contains geometry alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError
from continuum_robot.geometry import se3, so3
from continuum_robot.geometry.arcs import arc_pose
from continuum_robot.identification.column_distributions import distribution_count, likeliest_distributions
from continuum_robot.identification.fit import Fit, Parameter, Parameters, by_differences, fit
from continuum_robot.identification.found_values import today
from continuum_robot.identification.recordings import TendonRecording, read_recording
from continuum_robot.identification.replay import rmse_m
from continuum_robot.identification.tendon_pulls import Pulls, find_pulls, labels_agree
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.provenance import FitError, FoundValue, Provenance
from continuum_robot.robot.segments.tendons import Tendons

Array = NDArray[np.float64]
Progress = Callable[[str], None]

_FRAME_ELSEWHERE = 0.25  # of the robot's length: a straight tip further off means a tracker frame not at the base


_POINT_SCALE_M = 0.005  # an error that counts as ordinary; larger ones weigh less and less
# Standard deviations before the data. Marker from the tip, and base from the origin of the tracker's frame: across and
# along the axis. A marker on the axis and a base on it can hardly be told apart: the marker takes what is shown.
_MARKER_M, _BASE_M = (0.01, 0.01, 0.03), (0.002, 0.002, 0.001)
_TILT_RAD = 0.03  # of the base's axis from the tracker's z axis; a turn about z is in the segments' angles
_ZERO_M = 0.0015  # displacement at which a tendon begins to bend the robot, about its first estimate
_RESPONSE_SPREAD = 0.07  # logarithm of a segment's response against that of the whole robot
# Direction and logarithm of the sensitivity of one tendon, and how many distributions go on from step 2 to step 3.
_DIRECTION_RAD, _SENSITIVITY_SPREAD, _CANDIDATES = math.radians(8), 0.15, 6
_DEFLECTED_FRACTION = 0.1  # of the largest deflection in a pull, from which samples are used


@dataclass(frozen=True)
class GeometryFit:
    """Result of :func:`identify_geometry`; m segments, N tendons."""

    recording: Recording
    provenance: Provenance
    angle_offsets_rad: Array
    angle_offset_deviations_rad: Array
    marker_deviation_m: Array
    base_deviation_m: Array
    tilt_deviation_rad: Array
    covariance: Array
    responses: Array
    zeros_m: Array
    rmse_m: float
    second_rmse_m: float
    second_columns: tuple[str, ...]
    confidence: float
    labels_agree: bool | None
    used_samples: int
    samples: int

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        place = self.recording
        return {
            "rmse_mm": 1e3 * self.rmse_m,
            "second_best_rmse_mm": 1e3 * self.second_rmse_m if math.isfinite(self.second_rmse_m) else None,
            "confidence_log10": self.confidence if math.isfinite(self.confidence) else None,
            "labels_agree": self.labels_agree,
            "displacement_columns": list(place.displacement_columns),
            "displacement_signs": list(place.displacement_signs),
            "second_best_columns": list(self.second_columns),
            "angle_offsets_rad": self.angle_offsets_rad.tolist(),
            "angle_offset_deviations_rad": self.angle_offset_deviations_rad.tolist(),
            "marker_in_tip_m": list(place.marker_in_tip_m),
            "marker_deviation_m": self.marker_deviation_m.tolist(),
            "base_in_tracker_m": list(place.base_in_tracker_m),
            "base_deviation_m": self.base_deviation_m.tolist(),
            "base_rotation_in_tracker_rad": list(place.base_rotation_in_tracker_rad),
            "tilt_deviation_rad": self.tilt_deviation_rad.tolist(),
            "responses": self.responses.tolist(),
            "tendon_zeros_m": self.zeros_m.tolist(),
            "used_samples": self.used_samples,
            "samples": self.samples,
        }


def identify_geometry(
    robot: Robot,
    data: Path | str | TendonRecording,
    progress: Progress | None = None,
) -> GeometryFit:
    """Find the servo-to-tendon map, the segments' angles, the marker and the base pose from a tendon_pull recording."""
    say = progress or (lambda _: None)
    recording = data if isinstance(data, TendonRecording) else read_recording(data)
    if len(recording.columns) != robot.tendon_count:
        raise RecordingError(
            recording.file,
            f"{len(recording.columns)} columns servo_<id>_mm where {robot.name} has {robot.tendon_count} tendons",
            "Give the recording of this robot",
        )
    for segment in robot.segments:
        if not segment.tendons.even:
            expected = f"tendons at equal angles in {segment.name}: this finds how far all are turned"
            raise ParameterError("uneven_angles_rad", segment.tendons.uneven_angles_rad, expected)
    pulls = find_pulls(recording, _DEFLECTED_FRACTION)
    say(f"{len(pulls.marker_m)} of {len(recording)} samples show one tendon pulled")
    candidates = likeliest_distributions(
        robot, pulls, _CANDIDATES, direction_rad=_DIRECTION_RAD, sensitivity_spread=_SENSITIVITY_SPREAD
    )
    say(
        f"fitting the {len(candidates)} likeliest of {distribution_count(robot)} distributions of columns over segments"
    )
    fits = sorted((_fit(robot, pulls, order) for order in candidates), key=lambda one: (one.fit.cost, one.columns))
    best = fits[0]
    say(f"best fit {1e3 * best.rmse_m:.2f} mm" + (f", next {1e3 * fits[1].rmse_m:.2f} mm" if len(fits) > 1 else ""))
    return _result(robot, recording, pulls, fits)


class _Model:
    """Marker positions of pulled tendons as a function of the geometry, and of what a real tendon does beside it.

    That is the logarithm of each segment's response against the robot's and of the robot's, and each tendon's zero.
    """

    def __init__(self, robot: Robot, pulls: Pulls, order: tuple[int, ...]) -> None:
        segments = robot.segments
        m, count = len(segments), len(order)
        self._lengths_m = np.array([segment.length_m for segment in segments])
        segment_of = np.repeat(np.arange(m), [segment.tendons.count for segment in segments])
        within = np.concatenate([_spacing(segment.tendons) for segment in segments])
        self._tendon = np.argsort(order)[pulls.column]
        self._segment = segment_of[self._tendon]
        self._angle_in_segment = within[self._tendon]
        self._radius_m = np.array([segment.tendons.pitch_radius_m for segment in segments])[self._segment]
        # One taut tendon of segment k: the same moment on the segments 1 to k, so theta_i ~ l_i / (E I)_i, and
        # r_k sum theta_i = q whatever the fraction: muhmann (7) with (13).
        flexibility = self._lengths_m / [segment.backbone.bending_stiffness_nm2 for segment in segments]
        fraction = np.tril(np.ones((m, m))) * flexibility
        self._fraction = (fraction / fraction.sum(axis=1, keepdims=True))[self._segment]
        self._pulled_m = pulls.displacement_m
        self._measured_m = pulls.marker_m
        turned = np.exp(1j * (pulls.direction_rad[list(order)] - within))
        psi = [np.angle(turned[segment_of == index].mean()) for index in range(m)]
        base, straight = np.zeros(3), np.array([0.0, 0.0, robot.length_m])
        if np.linalg.norm(pulls.rest_m - straight) > _FRAME_ELSEWHERE * robot.length_m:
            base = pulls.rest_m - straight

        def of(name: str, size: int, expected: ArrayLike, deviation: ArrayLike = np.inf) -> Parameter:
            return Parameter(tuple(f"{name} {k + 1}" for k in range(size)), expected, deviation)

        self.parameters = Parameters(
            {
                "psi": of("angle_offset_rad", m, psi),
                "marker": of("recording.marker_in_tip_m", 3, 0.0, _MARKER_M),
                "base": of("recording.base_in_tracker_m", 3, base, _BASE_M),
                "tilt": of("recording.base_rotation_in_tracker_rad", 2, 0.0, _TILT_RAD),
                "spread": of("response", m, 0.0, _RESPONSE_SPREAD),
                "response": of("response of the robot", 1, math.log(0.85), 0.5),
                "zero": of("zero", count, pulls.zero_m[list(order)], _ZERO_M),
            }
        )
        self.at = self.parameters.at

    def marker_m(self, x: Array) -> Array:
        """Predicted marker in the tracker's frame, shape (T, 3), m."""
        response = np.exp(x[self.at["response"]] + x[self.at["spread"]])[self._segment]
        angle = response * np.maximum(self._pulled_m - x[self.at["zero"]][self._tendon], 0.0) / self._radius_m
        phi = x[self.at["psi"]][self._segment] + self._angle_in_segment
        pose = np.eye(4)
        for index, length in enumerate(self._lengths_m):
            pose = pose @ arc_pose(phi, angle * self._fraction[:, index], length, length)
        in_base = se3.apply(pose, x[self.at["marker"]])
        return np.asarray(in_base @ so3.exp([*x[self.at["tilt"]], 0.0]).T + x[self.at["base"]])

    def error_m(self, x: Array) -> Array:
        """Predicted minus measured marker, shape (T, 3), m."""
        return self.marker_m(x) - self._measured_m

    def rows(self, x: Array) -> Array:
        """Errors of the samples over their scale, large ones weighing less."""
        error = self.error_m(x) / _POINT_SCALE_M
        # Pseudo-Huber in the distance d: rho = 2 (sqrt(1 + d^2) - 1) = d^2 2 / (sqrt(1 + d^2) + 1).
        weight = np.sqrt(2 / (np.sqrt(1 + np.sum(error**2, axis=1)) + 1))
        return np.asarray((error * weight[:, None]).ravel())


def _spacing(tendons: Tendons) -> Array:
    return np.asarray(2 * np.pi * np.arange(tendons.count) / tendons.count)


@dataclass(frozen=True)
class _Candidate:
    """One distribution of columns, fitted."""

    columns: tuple[int, ...]
    fit: Fit
    rmse_m: float


def _fit(robot: Robot, pulls: Pulls, order: tuple[int, ...]) -> _Candidate:
    model = _Model(robot, pulls, order)
    found = fit(model.parameters, by_differences(model.rows))
    if not np.isfinite(found.cost):
        raise ConvergenceError("geometry fit", math.inf, 0.0, found.evaluations)
    return _Candidate(order, found, rmse_m(model.error_m(found.x)))


def _result(robot: Robot, recording: TendonRecording, pulls: Pulls, fits: list[_Candidate]) -> GeometryFit:
    best = fits[0]
    at, x, covariance = best.fit.parameters.at, best.fit.x, best.fit.covariance(variance=1.0)
    geometry = at["tilt"].stop
    deviation = np.sqrt(np.diag(covariance))
    offsets = np.mod(x[at["psi"]] + np.pi, 2 * np.pi) - np.pi
    section = Recording(
        displacement_columns=tuple(pulls.columns[index] for index in best.columns),
        displacement_signs=tuple(float(pulls.sign[index]) for index in best.columns),
        marker_in_tip_m=_rounded(x[at["marker"]]),
        base_in_tracker_m=_rounded(x[at["base"]]),
        base_rotation_in_tracker_rad=_rounded([*x[at["tilt"]], 0.0]),
    )
    second = fits[1] if len(fits) > 1 else None
    angles = zip(_rounded(offsets), deviation[at["psi"]].tolist(), strict=True)
    provenance = Provenance(
        command="continuum-robot identify-geometry",
        date=today(),
        data=recording.file.name,
        sha256=recording.sha256,
        values=tuple(
            FoundValue(key=f"segments[{index}].tendons.angle_offset_rad", value=value, deviation=sigma)
            for index, (value, sigma) in enumerate(angles)
        ),
        errors=(FitError(of="tip", rmse=best.rmse_m),),
    )
    return GeometryFit(
        recording=section,
        provenance=provenance,
        angle_offsets_rad=np.array(_rounded(offsets)),
        angle_offset_deviations_rad=deviation[at["psi"]],
        marker_deviation_m=deviation[at["marker"]],
        base_deviation_m=deviation[at["base"]],
        tilt_deviation_rad=deviation[at["tilt"]],
        covariance=covariance[:geometry, :geometry],
        responses=np.exp(x[at["response"]] + x[at["spread"]]),
        zeros_m=x[at["zero"]],
        rmse_m=best.rmse_m,
        second_rmse_m=second.rmse_m if second else math.inf,
        second_columns=tuple(pulls.columns[index] for index in second.columns) if second else (),
        labels_agree=labels_agree(robot, recording, section.displacement_columns),
        confidence=(second.fit.cost - best.fit.cost) / math.log(10) if second else math.inf,
        used_samples=len(pulls.marker_m),
        samples=len(recording),
    )


def _rounded(values: Array | list[float]) -> tuple[float, ...]:
    """Values as they go into a file: a micrometre or microradian is far below what the fit can resolve."""
    return tuple(round(float(value), 6) for value in values)
