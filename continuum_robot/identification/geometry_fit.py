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

import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError
from continuum_robot.geometry import se3, so3
from continuum_robot.geometry.arcs import arc_pose
from continuum_robot.identification.fit import Fit, Parameter, Parameters, by_differences, fit, today
from continuum_robot.identification.recordings import SERVO_COLUMN, TendonRecording, read_recording
from continuum_robot.identification.replay import rmse_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.provenance import FitError, FoundValue, Provenance
from continuum_robot.robot.segments.tendons import Tendons

Array = NDArray[np.float64]

PULL_LABEL = re.compile(r"tendon(\d+)_id(\w+?)_pull")


@dataclass(frozen=True)
class Pulls:
    """The used samples, then features of each column; T samples, K columns."""

    columns: tuple[str, ...]
    column: NDArray[np.intp]
    displacement_m: Array
    marker_m: Array
    sign: Array
    direction_rad: Array
    sensitivity: Array
    zero_m: Array
    rest_m: Array


def find_pulls(recording: TendonRecording, deflected_fraction: float) -> Pulls:
    """Find the pulls of a recording."""
    use = recording.seen.copy()
    named = [PULL_LABEL.search(label) for label in recording.labels]
    if any(named):
        use &= np.array([match is not None for match in named])
    raw = recording.displacement_m
    released = np.median(raw[use], axis=0) if use.any() else np.zeros(raw.shape[1])
    activity = np.abs(raw - released)
    column = activity.argmax(axis=1)
    runner_up = np.partition(activity, -2, axis=1)[:, -2]
    alone = use & (runner_up < 0.25 * activity.max(axis=1))
    _agree_with_labels(recording, named, column, alone)
    count = len(recording.columns)
    chosen: list[Array] = []
    sign, direction, sensitivity, zero = (np.zeros(count) for _ in range(4))
    rests = []
    for index, name in enumerate(recording.columns):
        rows = np.flatnonzero(alone & (column == index))
        if len(rows) < 4:
            raise RecordingError(
                recording.file,
                f"column {name} is pulled alone in {len(rows)} samples",
                "Give a tendon_pull recording: one tendon after the other pulled, the others paid out",
            )
        sign[index] = np.sign(np.median(raw[rows, index]) - released[index])
        pulled = sign[index] * raw[rows, index]
        rest = recording.marker_m[rows[pulled.argmin()]]
        deflection = np.linalg.norm(recording.marker_m[rows] - rest, axis=1)
        rows = rows[deflection > deflected_fraction * deflection.max()]
        if len(rows) < 3:
            raise RecordingError(
                recording.file, f"pulling {name} does not move the marker", "Is this tendon slack, or the marker lost?"
            )
        pulled = sign[index] * raw[rows, index]
        slope, start = np.polynomial.polynomial.polyfit(pulled, recording.marker_m[rows, :2], 1)[::-1]
        direction[index] = math.atan2(slope[1], slope[0])
        sensitivity[index] = max(float(np.hypot(*slope)), 1e-3)
        zero[index] = np.clip((rest[:2] - start) @ slope / (slope @ slope), pulled.min() - 0.002, pulled.max())
        rests.append(rest)
        chosen.append(rows)
    rows = np.concatenate(chosen)
    return Pulls(
        recording.columns,
        column[rows],
        sign[column[rows]] * raw[rows, column[rows]],
        recording.marker_m[rows],
        sign,
        direction,
        sensitivity,
        zero,
        np.median(rests, axis=0),
    )


def _agree_with_labels(
    recording: TendonRecording, named: list[re.Match[str] | None], column: NDArray[np.intp], alone: NDArray[np.bool_]
) -> None:
    ids = [getattr(SERVO_COLUMN.fullmatch(name), "group", lambda _: "")(1) for name in recording.columns]
    rows = [row for row in np.flatnonzero(alone) if named[row]]
    wrong = [row for row in rows if (match := named[row]) and ids[column[row]] != match.group(2)]
    if len(wrong) > 0.25 * len(rows):
        row = wrong[0]
        raise RecordingError(
            recording.file,
            f"labels and displacements disagree in {len(wrong)} samples: {recording.labels[row]!r} while "
            f"{recording.columns[column[row]]} is the one that moved",
            "Are the columns named after the right servos?",
        )


def labels_agree(robot: Robot, recording: TendonRecording, columns: tuple[str, ...]) -> bool | None:
    """Whether the numbers that labels give the tendons run in the same order, None without such labels."""
    matches = (PULL_LABEL.search(label) for label in recording.labels)
    number = {f"servo_{match.group(2)}_mm": int(match.group(1)) for match in matches if match}
    if not set(columns) <= set(number):
        return None
    order: list[int] = []
    for rows in robot.tendon_slices:
        group = [number[name] for name in columns[rows]]
        first = group.index(min(group))
        order += group[first:] + group[:first]
    return order == sorted(order)


def distribution_count(robot: Robot) -> int:
    """Number of ways to give a robot's columns to its segments."""
    counts = [segment.tendons.count for segment in robot.segments]
    return math.factorial(sum(counts)) // math.prod(math.factorial(count) for count in counts)


def likeliest_distributions(
    robot: Robot, pulls: Pulls, count: int, *, direction_rad: float, sensitivity_spread: float
) -> list[tuple[int, ...]]:
    """The likeliest distributions of columns over the segments; each as the columns in tendon order."""
    ends = np.cumsum([segment.length_m for segment in robot.segments])
    # Small uniform bending of arc length e by q / r_d moves the tip by q / r_d (L - e / 2).
    ideal = [
        (ends[-1] - end / 2) / segment.tendons.pitch_radius_m for end, segment in zip(ends, robot.segments, strict=True)
    ]
    responses = np.log(np.linspace(0.35, 1.4, 22))  # of the whole robot, unknown
    scores: list[dict[tuple[int, ...], tuple[tuple[int, ...], Array]]] = []
    everything = tuple(range(len(pulls.columns)))
    for segment, sensitivity in zip(robot.segments, ideal, strict=True):
        table = {}
        for group in itertools.combinations(everything, segment.tendons.count):
            order, miss = _around(pulls.direction_rad, group)
            response = np.log(pulls.sensitivity[list(group)] / sensitivity)[:, None] - responses
            cost = np.sum((miss / direction_rad) ** 2)
            table[group] = (order, cost + np.sum((response / sensitivity_spread) ** 2, axis=0))
        scores.append(table)
    ranked = heapq.nsmallest(count, _all_distributions(scores, everything), key=lambda item: item[0])
    return [order for _, order in ranked]


def _all_distributions(
    scores: list[dict[tuple[int, ...], tuple[tuple[int, ...], Array]]], left: tuple[int, ...]
) -> Iterator[tuple[float, tuple[int, ...]]]:
    def extend(segment: int, left: tuple[int, ...], cost: Array, chosen: tuple[int, ...]) -> Iterator:
        if segment == len(scores):
            yield float(cost.min()), chosen
            return
        size = len(next(iter(scores[segment])))
        for group in itertools.combinations(left, size):
            order, more = scores[segment][group]
            rest = tuple(item for item in left if item not in group)
            yield from extend(segment + 1, rest, cost + more, chosen + order)

    yield from extend(0, left, np.zeros(1), ())


def _around(direction_rad: Array, group: tuple[int, ...]) -> tuple[tuple[int, ...], Array]:
    """A group's columns counter-clockwise from its first in the file, and how far each misses equal spacing."""
    spacing = 2 * np.pi / len(group)
    relative = np.mod(direction_rad[list(group)] - direction_rad[group[0]], 2 * np.pi)
    # The first stays first: a relative angle of just under 2 pi is noise only for a tendon that is equal to it.
    order = sorted(range(len(group)), key=lambda index: relative[index])
    turned = direction_rad[[group[index] for index in order]] - spacing * np.arange(len(group))
    centre = np.angle(np.exp(1j * turned).mean())
    miss = np.angle(np.exp(1j * (turned - centre)))
    return tuple(group[index] for index in order), miss


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
