# SPDX-License-Identifier: Apache-2.0
"""A real robot's model from one recording of its servos and a tracked marker, in steps that are each physics.

1. ``constant_curvature``: servo map, tendon angles, marker and base; tendons do not stretch, and those paid out too far
   are slack.
2. ``statics``: bending stiffness against the robot's weight, stretch and zeros of the tendons, direction of gravity.
3. ``friction``: Coulomb friction of the tendons in the robot, with its memory.
4. ``tendons``: stiffness of each segment's tendons, zero and spool of each tendon, about what they have in common.

The recording is cut into contiguous blocks at changes of what the robot was doing, as neighbouring samples are alike
and a new recording does something else. Every step is fitted on all blocks but one and judged on that one; a step is
kept where this error falls. Parameters have weak priors, so that one which the data do not tell stays where it was and
is named. Forces are known through the weight alone: stiffnesses and friction are as good as the masses of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares
from scipy.spatial import cKDTree

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError, RobotFileError
from continuum_robot.geometry import so3
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.replay import marker_errors, marker_in_tracker, rmse_m
from continuum_robot.robot.description import Recording, Robot
from continuum_robot.robot.displaced_tendons import DisplacedTendons, FittedValue
from continuum_robot.rod.displaced_statics import DisplacedStatics

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Progress = Callable[[str], None]

STEPS = ("constant_curvature", "statics", "friction", "tendons")

_LEAST_SAMPLES = 60
_LEAST_TRAVEL_M = 2e-4
_POINT_SCALE_M = 0.005  # an error that counts as ordinary; larger ones weigh less and less
_BLOCKS = 5
_REFUSED = 1e3  # residual, in point scales, of parameters without an equilibrium
_LEAST_GAIN = 0.01  # of the cross-validated error, for a step to be kept
_EVALUATIONS, _EVALUATIONS_OF_A_BLOCK = 14, 5
# Without friction samples are independent; with it they are a way, which has to be followed more closely.
_SAMPLES = {False: 500, True: 1000}
_TENDON_OVER_ROD = 3.0  # first guess of tendon stiffness against that of a segment
_INEXTENSIBLE = 300.0  # times that: as good as no stretch
_FIRST_FRICTION = 0.05
_IDENTIFIED = 0.7  # largest share of the prior's deviation that may be left
_CLOSE_M, _APART_S = 1e-3, 30.0

# Standard deviations of the priors, by parameter: what a robot that fits its file may differ by.
_PRIORS = {
    "angle_rad": 0.3,
    "marker_m": 0.01,
    "base_m": 0.002,
    "tilt_rad": 0.03,
    "log_bending_stiffness": 2.0,
    "log_tendon_stiffness": 1.5,
    "zero_m": 0.002,
    "gravity_turn_rad": 1.5,
    "log_tendon_stiffness_of_segment": 0.3,
    "zero_of_tendon_m": 0.0005,
    "gain_of_tendon": 0.05,
    "log_friction": 2.0,
}
_OF_STEP = {
    "constant_curvature": ("angle_rad", "marker_m", "base_m", "tilt_rad"),
    "statics": ("log_bending_stiffness", "log_tendon_stiffness", "zero_m", "gravity_turn_rad"),
    "tendons": ("log_tendon_stiffness_of_segment", "zero_of_tendon_m", "gain_of_tendon"),
    "friction": ("log_friction",),
}


@dataclass(frozen=True)
class FitStep:
    """One step of the fit.

    Attributes
    ----------
    name : of :data:`STEPS`
    train_rmse_m : marker RMSE over the whole recording, mean offset removed, fitted on all of it
    held_out_rmse_m : the same on blocks left out of the fit, each with its own mean offset removed
    block_rmse_m : of each block left out
    kept : whether the fitted robot has it
    """

    name: str
    train_rmse_m: float
    held_out_rmse_m: float
    block_rmse_m: tuple[float, ...]
    kept: bool


@dataclass(frozen=True)
class DisplacedFit:
    """Result of :func:`identify_displaced`.

    Attributes
    ----------
    robot : the fitted robot, with ``recording`` and ``displaced_tendons``
    steps : what each step was worth
    blocks : first and last label, and number of samples, of each block
    held_out_m : error of the kept model at every sample when its block was left out, (T, 3), m; NaN without marker
    held_out_first_m : the same of constant curvature, (T, 3), m
    repeat : how well the recording repeats itself
    unidentified : names of parameters that the recording does not tell
    """

    robot: Robot
    recording: TendonRecording
    steps: tuple[FitStep, ...]
    blocks: tuple[tuple[str, str, int], ...]
    held_out_m: Array
    held_out_first_m: Array
    repeat: Repeatability
    unidentified: tuple[str, ...]

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        tendons = self.robot.displaced_tendons
        kept = [step for step in self.steps if step.kept]
        numbers: dict[str, object] = {
            "tip_rmse_held_out_mm": 1e3 * kept[-1].held_out_rmse_m,
            "tip_rmse_train_mm": 1e3 * kept[-1].train_rmse_m,
            **self.repeat.numbers(),
            "n_samples": int(self.recording.seen.sum()),
            "steps_kept": [step.name for step in kept],
            "blocks": [f"{first} .. {last}: {count} samples" for first, last, count in self.blocks],
            "unidentified": list(self.unidentified),
        }
        before = None
        for step in self.steps:
            numbers[f"tip_rmse_{step.name}_held_out_mm"] = 1e3 * step.held_out_rmse_m
            numbers[f"tip_rmse_{step.name}_train_mm"] = 1e3 * step.train_rmse_m
            numbers[f"tip_rmse_{step.name}_held_out_by_block_mm"] = [1e3 * value for value in step.block_rmse_m]
            if before is not None:
                numbers[f"gain_of_{step.name}_mm"] = 1e3 * (before.held_out_rmse_m - step.held_out_rmse_m)
            before = step if step.kept else before
        for value in tendons.fitted_values if tendons is not None else ():
            numbers[value.name] = value.value
            numbers[f"{value.name}_deviation"] = value.deviation
        return numbers


def identify_displaced(
    robot: Robot,
    recording: TendonRecording,
    progress: Progress | None = None,
    *,
    steps: Sequence[str] = STEPS,
    blocks: int = _BLOCKS,
) -> DisplacedFit:
    """Fit a robot to a recording.

    Parameters
    ----------
    robot : lengths, pitch radii, disks and tendon counts; with a ``recording`` section its map, angles and marker are
        the start, else they are sought in the parts of the recording where one tendon alone is pulled
    recording : readings of the servos and the marker, in the order of time
    progress : called with a line of text now and then
    steps : which to take, in the order of :data:`STEPS` and from its first on
    blocks : into how many the recording is cut, 2 or more

    Returns
    -------
    the fitted robot, what each step was worth on blocks left out, and what the data did not tell

    Raises
    ------
    ParameterError : no such steps or blocks
    RecordingError : too few samples, times that go back, a servo that never moves, no pulls to find the map from
    RobotFileError : a robot without segments
    ConvergenceError : no fit found
    """
    say = progress or (lambda _: None)
    if not steps or tuple(steps) != tuple(name for name in STEPS if name in steps) or steps[0] != STEPS[0]:
        raise ParameterError("steps", steps, f"some of {', '.join(STEPS)}, in this order, the first among them")
    if blocks <= 1:
        raise ParameterError("blocks", blocks, "2 or more")
    _check(robot, recording)
    place = robot.recording
    if place is None:
        say("which servo drives which tendon")
        geometry = identify_geometry(robot, recording, say)
        segments = tuple(
            replace(segment, tendons=replace(segment.tendons, angle_offset_rad=float(angle)))
            for segment, angle in zip(robot.segments, geometry.angle_offsets_rad, strict=True)
        )
        # A base off its axis and a turned base are what the marker shows at rest: sought anew with elastic tendons.
        place = replace(geometry.recording, base_in_tracker_m=(0.0,) * 3, base_rotation_in_tracker_rad=(0.0,) * 3)
        robot = robot.changed(segments=segments, recording=place)
    return _Fit(robot, place, recording, blocks, say).run(steps)


@dataclass(frozen=True)
class Repeatability:
    """How far the marker is apart when all servos read nearly the same again, some time later.

    Attributes
    ----------
    difference_m : root mean square distance of the two markers of a pair, m; NaN without a pair
    floor_m : the same after what the model says the remaining difference of the readings moves, over the square root
        of 2: the least RMSE of any model that knows the readings of the moment alone, m
    pairs : number of pairs
    """

    difference_m: float
    floor_m: float
    pairs: int

    def numbers(self) -> dict[str, float | int | None]:
        """For JSON, units in the keys."""
        known = self.pairs > 0
        return {
            "repeat_tip_difference_mm": 1e3 * self.difference_m if known else None,
            "repeatability_floor_mm": 1e3 * self.floor_m if known else None,
            "n_repeat_pairs": self.pairs,
        }


def repeatability(recording: TendonRecording, predicted_m: ArrayLike) -> Repeatability:
    """Compare moments whose readings differ by less than 1 mm and that are more than 30 s apart.

    Parameters
    ----------
    recording : T samples
    predicted_m : marker of a model without memory, (T, 3), m

    Returns
    -------
    over all such pairs; readings differ by the root of the sum of squares over the tendons
    """
    seen = recording.seen
    readings, place, when = recording.displacement_m[seen], recording.marker_m[seen], recording.time_s[seen]
    model = np.asarray(predicted_m, dtype=float)[seen]
    pairs = cKDTree(readings).query_pairs(_CLOSE_M, output_type="ndarray")
    pairs = pairs[np.abs(when[pairs[:, 0]] - when[pairs[:, 1]]) > _APART_S]
    if not len(pairs):
        return Repeatability(math.nan, math.nan, 0)
    apart = place[pairs[:, 0]] - place[pairs[:, 1]]
    told = model[pairs[:, 0]] - model[pairs[:, 1]]
    return Repeatability(rmse_m(apart), rmse_m(apart - told) / math.sqrt(2), len(pairs))


def blocks_of(labels: tuple[str, ...], count: int = _BLOCKS) -> NDArray[np.intp]:
    """Number of the contiguous block of every sample: about equal ones, cut where the label changes if it ever does.

    Parameters
    ----------
    labels : what the robot was doing; a trailing ``_hold`` is no change
    count : of blocks

    Returns
    -------
    (T,), from 0, not decreasing
    """
    plain = [label.removesuffix("_hold") for label in labels]
    changes = [i for i in range(1, len(plain)) if plain[i] != plain[i - 1]]
    block = np.zeros(len(plain), dtype=np.intp)
    for number in range(1, count):
        ideal = number * len(plain) // count
        near = min(changes, key=lambda i: abs(i - ideal)) if changes else ideal
        cut = near if abs(near - ideal) < len(plain) // (2 * count) else ideal
        block[cut:] = number
    return block


def predicted_marker(robot: Robot, recording: TendonRecording, *, friction: bool = True) -> Array:
    """Marker that a fitted robot predicts for a recording, in the tracker's frame.

    Parameters
    ----------
    robot : with ``recording`` and ``displaced_tendons``
    recording : T samples in the order of time
    friction : False: statics alone

    Returns
    -------
    (T, 3), m

    Raises
    ------
    RobotFileError, RecordingError : robot and recording do not fit together
    """
    displacement = tendon_displacements(robot, recording)
    if robot.displaced_tendons is None:
        raise RobotFileError(robot.file_name or None, "displaced_tendons", None, "a robot file written by `identify`")
    return marker_in_tracker(robot, DisplacedStatics(robot, friction=friction).replay(displacement).tip)


def _check(robot: Robot, recording: TendonRecording) -> None:
    if not robot.segments:
        raise RobotFileError(robot.file_name or None, "segments", 0, "a robot with segments")
    if int(recording.seen.sum()) < _LEAST_SAMPLES:
        raise RecordingError(
            recording.file,
            f"{int(recording.seen.sum())} samples with a marker",
            f"The fit needs {_LEAST_SAMPLES} at least, better a thousand in many directions",
        )
    back = np.flatnonzero(np.diff(recording.time_s) < 0)
    if len(back):
        raise RecordingError(
            recording.file,
            f"time goes back after sample {int(back[0]) + 1}",
            "Friction remembers the way: give the samples in the order of time",
        )
    travel = np.ptp(recording.displacement_m, axis=0)
    still = [name for name, way in zip(recording.columns, travel, strict=True) if way < _LEAST_TRAVEL_M]
    if still:
        raise RecordingError(
            recording.file,
            f"{', '.join(still)} never moves: angle, zero and stiffness of its tendon cannot be identified",
            "Give a recording in which every servo moves",
        )


@dataclass(frozen=True)
class _Free:
    """Free parameters: where each stands in the vector of the fit."""

    names: tuple[str, ...]
    slices: dict[str, slice]
    priors: Array

    @property
    def size(self) -> int:
        return len(self.priors)


class _Fit:
    """The fit of one recording; :meth:`run` does it all."""

    def __init__(self, robot: Robot, place: Recording, recording: TendonRecording, blocks: int, say: Progress) -> None:
        self.robot, self.recording, self.say = robot, recording, say
        self.displacement = tendon_displacements(robot, recording)
        self.seen = recording.seen
        self.block = blocks_of(recording.labels, blocks)
        segments = robot.segments
        self.owner = np.repeat(np.arange(len(segments)), [segment.tendons.count for segment in segments])
        self.place = place
        self.gravity = np.array(robot.gravity_m_per_s2)
        weight_n = sum(float(segment.disks.masses_kg.sum()) for segment in segments) * float(
            np.linalg.norm(self.gravity)
        )
        listed = np.array([segment.backbone.bending_stiffness_nm2 for segment in segments])
        # A rod too soft to stand upright would start the fit in a buckled shape.
        self.bending = listed * max(1.0, weight_n * robot.length_m**2 / 2 / float(listed.min()))
        self.radius_m = np.array([segment.tendons.pitch_radius_m for segment in segments])
        mean_m = robot.length_m / len(segments)
        self.stretching = float(_TENDON_OVER_ROD * self.bending.mean() / (self.radius_m.mean() ** 2 * mean_m))

    def run(self, wanted: Sequence[str]) -> DisplacedFit:
        """Take the steps one after the other, and keep those that gain on blocks left out."""
        everything: Rows = np.arange(len(self.recording))
        steps: list[FitStep] = []
        names: tuple[str, ...] = ()
        x: dict[str, Array] = {}
        kept_fold: dict[int, dict[str, Array]] = {}
        held_out: Array = np.zeros(0)
        first: Array = held_out
        fitted: tuple[_Free, dict[str, Array], Array] | None = None
        for step in wanted:
            free = self._free((*names, *_OF_STEP[step]))
            rows = everything[:: max(1, len(everything) // _SAMPLES["log_friction" in free.names])]
            self.say(f"{step}: fitting {free.size} parameters to {len(rows)} samples")
            start = x
            if step == "statics":
                start = self._upright(free, x, rows)
            found, deviation = self._solve(free, start, rows, step=step)
            train = self._error(found, free, everything)
            folds: dict[int, dict[str, Array]] = {}
            missed: Array = np.full((len(self.recording), 3), np.nan)
            for number in range(int(self.block.max()) + 1):
                self.say(f"{step}: block {number + 1} of {int(self.block.max()) + 1} left out")
                left_out = self.block == number
                own, _ = self._solve(free, {**found, **kept_fold.get(number, {})}, rows, left_out=left_out, step=step)
                folds[number] = own
                missed[left_out] = self._error(own, free, everything)[left_out]
            by_block = [
                rmse_m(marker_errors(missed[self.block == number], np.zeros(3)))
                for number in folds
                if np.isfinite(missed[self.block == number]).any()
            ]
            counts = [int((self.seen & (self.block == number)).sum()) for number in folds]
            overall = math.sqrt(float(np.average(np.square(by_block), weights=[n for n in counts if n])))
            last = next((one for one in reversed(steps) if one.kept), None)
            kept = last is None or overall < (1 - _LEAST_GAIN) * last.held_out_rmse_m
            steps.append(FitStep(step, rmse_m(marker_errors(train, np.zeros(3))), overall, tuple(by_block), kept))
            self.say(
                f"{step}: {1e3 * steps[-1].train_rmse_m:.2f} mm, {1e3 * overall:.2f} mm on blocks left out"
                + ("" if kept else ": not kept")
            )
            if step == STEPS[0]:
                first = missed
            if kept:
                names, x, kept_fold, held_out = free.names, found, folds, missed
                spread = self._jackknife(free, folds)
                fitted = (free, found, np.maximum(deviation, spread))
        if fitted is None:
            raise ConvergenceError("fit of the recording", math.nan, 0.0, 0)
        return self._result(*fitted, steps=tuple(steps), held_out=held_out, first=first)

    # --- parameters

    def _free(self, names: tuple[str, ...]) -> _Free:
        m, count = len(self.robot.segments), self.robot.tendon_count
        sizes = {
            "angle_rad": m,
            "marker_m": 3,
            "base_m": 3,
            "tilt_rad": 2,
            "log_bending_stiffness": 1,
            "log_tendon_stiffness": 1,
            "zero_m": m,
            "gravity_turn_rad": 2,
            "log_tendon_stiffness_of_segment": m,
            "zero_of_tendon_m": count,
            "gain_of_tendon": count,
            "log_friction": 1,
        }
        if not self.gravity.any():
            names = tuple(name for name in names if name not in ("gravity_turn_rad", "log_bending_stiffness"))
        slices, end = {}, 0
        for name in names:
            slices[name] = slice(end, end + sizes[name])
            end += sizes[name]
        return _Free(names, slices, np.concatenate([np.full(sizes[name], _PRIORS[name]) for name in names]))

    def _vector(self, free: _Free, values: dict[str, Array]) -> Array:
        x = np.zeros(free.size)
        for name, place in free.slices.items():
            if name in values:
                x[place] = values[name]
        return x

    def _robot(self, values: dict[str, Array]) -> Robot:
        """The robot with parameters, each counted from the start: zeros are the start."""

        def of(name: str, size: int) -> Array:
            return values.get(name, np.zeros(size))

        m, count = len(self.robot.segments), self.robot.tendon_count
        elastic = "log_tendon_stiffness" in values
        softer = float(of("log_bending_stiffness", 1)[0])
        angles = of("angle_rad", m)
        segments = tuple(
            replace(
                segment,
                tendons=replace(segment.tendons, angle_offset_rad=_wrapped(segment.tendons.angle_offset_rad + angle)),
                backbone=replace(
                    segment.backbone,
                    bending_stiffness_x_nm2=float(stiffness * math.exp(softer)),
                    bending_stiffness_y_nm2=float(stiffness * math.exp(softer)),
                ),
            )
            for segment, angle, stiffness in zip(self.robot.segments, angles, self.bending, strict=True)
        )
        # Counted from the rod's: what a displacement bends depends on the ratio alone.
        log_stiffness = softer + of("log_tendon_stiffness", 1)[0] + of("log_tendon_stiffness_of_segment", m)[self.owner]
        stiffness = self.stretching * np.exp(log_stiffness) * (1.0 if elastic else _INEXTENSIBLE)
        zero = of("zero_m", m)[self.owner] + of("zero_of_tendon_m", count)
        friction = _FIRST_FRICTION * np.exp(of("log_friction", 1)) * np.ones(count) * float("log_friction" in values)
        gravity = so3.exp(np.append(of("gravity_turn_rad", 2), 0.0)) @ self.gravity if elastic else 0 * self.gravity
        place = replace(
            self.place,
            marker_in_tip_m=_triple(np.array(self.place.marker_in_tip_m) + of("marker_m", 3)),
            base_in_tracker_m=_triple(np.array(self.place.base_in_tracker_m) + of("base_m", 3)),
            base_rotation_in_tracker_rad=_triple(self._tilt(of("tilt_rad", 2))),
        )
        return self.robot.changed(
            segments=segments,
            gravity_m_per_s2=_triple(gravity),
            recording=place,
            displaced_tendons=DisplacedTendons(
                stiffness_n_per_m=tuple(map(float, stiffness)),
                zero_m=tuple(map(float, zero)),
                gain=tuple(map(float, 1 + of("gain_of_tendon", count))),
                friction_share=tuple(map(float, friction)),
            ),
        )

    def _tilt(self, turn: Array) -> Array:
        """Rotation vector of the base: about x and y beside that of the start; a turn about z is in the angles."""
        start = np.array(self.place.base_rotation_in_tracker_rad)
        return start + np.append(turn, 0.0)

    def _predict(self, values: dict[str, Array], free: _Free, rows: Rows, slopes: bool) -> tuple[Array, Array]:
        """Marker at some rows, (T, 3), and its derivative, (T, 3, size)."""
        robot = self._robot(values)
        model, place = DisplacedStatics(robot), robot.recording or self.place
        shown = model.replay(self.displacement[rows], point_m=place.marker_in_tip_m, sensitivities=slopes)
        vector = np.array(place.base_rotation_in_tracker_rad)
        turn = so3.exp(vector)
        marker = shown.point @ turn.T + np.array(place.base_in_tracker_m)
        if shown.sensitivity is None:
            return marker, np.zeros(0)
        raw = {name: turn @ shown.sensitivity[:, :, part] for name, part in model.parameters.items()}
        by_segment = np.eye(len(robot.segments))[self.owner]
        tendons = robot.displaced_tendons
        friction = np.array(tendons.friction_share) if tendons is not None else np.zeros(0)
        gravity_slope = np.zeros((3, 2))
        angles = values.get("gravity_turn_rad", np.zeros(2))
        for axis, step in enumerate(1e-6 * np.eye(2)):
            ahead, behind = (so3.exp(np.append(angles + sign * step, 0.0)) @ self.gravity for sign in (1, -1))
            gravity_slope[:, axis] = (ahead - behind) / 2e-6
        tilt = []
        for step in 1e-6 * np.eye(3)[:2]:
            ahead, behind = so3.exp(vector + step), so3.exp(vector - step)
            tilt.append(shown.point @ (ahead - behind).T / 2e-6)
        everywhere = np.ones(len(self.owner))
        parts = {
            "angle_rad": lambda: raw["angle_rad"],
            "marker_m": lambda: np.einsum("ab,tbc->tac", turn, shown.tip[:, :3, :3]),
            "base_m": lambda: np.broadcast_to(np.eye(3), (len(marker), 3, 3)),
            "tilt_rad": lambda: np.stack(tilt, axis=-1),
            "log_bending_stiffness": lambda: (
                raw["log_bending_stiffness"].sum(-1) + raw["log_tendon_stiffness"].sum(-1)
            )[..., None],
            "log_tendon_stiffness": lambda: raw["log_tendon_stiffness"] @ everywhere[:, None],
            "zero_m": lambda: raw["zero_m"] @ by_segment,
            "gravity_turn_rad": lambda: raw["gravity_m_per_s2"] @ gravity_slope,
            "log_tendon_stiffness_of_segment": lambda: raw["log_tendon_stiffness"] @ by_segment,
            "zero_of_tendon_m": lambda: raw["zero_m"],
            "gain_of_tendon": lambda: raw["gain"],
            "log_friction": lambda: (raw["friction_share"] @ friction)[..., None],
        }
        return marker, np.concatenate([parts[name]() for name in free.names], axis=-1)

    # --- least squares

    def _solve(
        self,
        free: _Free,
        start: dict[str, Array],
        rows: Rows,
        *,
        step: str,
        left_out: NDArray[np.bool_] | None = None,
    ) -> tuple[dict[str, Array], Array]:
        """Robust least squares with priors; parameters, and their standard deviations from curvature and scatter."""
        use = self.seen[rows] if left_out is None else self.seen[rows] & ~left_out[rows]
        measured = self.recording.marker_m[rows][use]
        latest: dict[bytes, tuple[Array, Array]] = {}
        scale = 1 / _POINT_SCALE_M

        def evaluate(x: Array) -> tuple[Array, Array]:
            key = x.tobytes()
            if key not in latest:
                try:
                    marker, slope = self._predict(self._values(free, x), free, rows, True)
                except ConvergenceError:
                    if not latest:
                        raise
                    # A trial too far: worse than anything, so that the search goes back.
                    size = 3 * len(measured) + free.size
                    return np.full(size, _REFUSED), np.zeros((size, free.size))
                latest.clear()
                error = (marker[use] - measured) * scale
                self.say(f"{step}: {1e3 * rmse_m(error / scale):.2f} mm")
                latest[key] = (
                    np.concatenate([error.ravel(), x / free.priors]),
                    np.concatenate([slope[use].reshape(-1, free.size) * scale, np.diag(1 / free.priors)]),
                )
            return latest[key]

        found = least_squares(
            lambda x: evaluate(x)[0],
            self._vector(free, start),
            lambda x: evaluate(x)[1],
            loss="soft_l1",
            x_scale="jac",
            max_nfev=_EVALUATIONS if left_out is None else _EVALUATIONS_OF_A_BLOCK,
            xtol=1e-4,
            ftol=1e-4,
        )
        residual, slope = evaluate(found.x)
        # Neighbouring samples err alike: as many independent ones as their correlation allows.
        error = residual[: 3 * len(measured)].reshape(-1, 3)
        weight = 1 / np.sqrt(1 + residual**2)
        spread = float(np.sum(weight[: error.size] * error.ravel() ** 2) / error.size)
        lag = float(np.clip(np.sum(error[1:] * error[:-1]) / max(np.sum(error**2), 1e-300), 0.0, 0.98))
        inflation = spread * (1 + lag) / (1 - lag)
        data = slope[: error.size] * np.sqrt(weight[: error.size, None] / max(inflation, 1e-12))
        covariance = np.linalg.inv(data.T @ data + np.diag(1 / free.priors**2))
        return self._values(free, found.x), np.sqrt(np.diag(covariance))

    def _values(self, free: _Free, x: Array) -> dict[str, Array]:
        return {name: x[place].copy() for name, place in free.slices.items()}

    def _upright(self, free: _Free, start: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Whether the robot stands or hangs: the file's gravity, or the opposite, whichever fits better."""
        if "gravity_turn_rad" not in free.names:
            return start
        costs = []
        given = self.gravity
        for sign in (1.0, -1.0):
            self.gravity = sign * given
            self.say("statics: standing or hanging")
            found, _ = self._solve(free, start, rows, step="statics")
            error = self._error(found, free, rows)[self.seen[rows]] / _POINT_SCALE_M
            costs.append((float(np.sum(np.sqrt(1 + error**2) - 1)), sign, found))
        _, sign, found = min(costs, key=lambda item: item[0])
        self.gravity = sign * given
        return found

    def _error(self, values: dict[str, Array], free: _Free, rows: Rows) -> Array:
        marker, _ = self._predict(values, free, rows, False)
        return marker - self.recording.marker_m[rows]

    def _jackknife(self, free: _Free, folds: dict[int, dict[str, Array]]) -> Array:
        """Standard deviations from the fits without one block each."""
        found = np.array([self._vector(free, values) for values in folds.values()])
        return np.asarray(np.sqrt((len(found) - 1) / len(found) * np.sum((found - found.mean(axis=0)) ** 2, axis=0)))

    # --- result

    def _result(
        self,
        free: _Free,
        values: dict[str, Array],
        deviation: Array,
        *,
        steps: tuple[FitStep, ...],
        held_out: Array,
        first: Array,
    ) -> DisplacedFit:
        robot = self._robot(values)
        kept = [step for step in steps if step.kept][-1]
        listed, unidentified = self._listed(free, values, deviation, robot)
        lost = [name for name in unidentified if name.startswith("angle_offset")]
        if lost:
            raise RecordingError(
                self.recording.file,
                f"{', '.join(lost)} cannot be identified from this recording",
                "Give one in which every segment bends in several directions",
            )
        tendons, place = robot.displaced_tendons, robot.recording or self.place
        if tendons is None:
            raise ConvergenceError("fit of the recording", math.nan, 0.0, 0)
        final = robot.changed(
            recording=replace(
                place,
                fitted_from=self.recording.file.name,
                fitted_sha256=self.recording.sha256,
                fitted_rmse_mm=1e3 * kept.train_rmse_m,
            ),
            displaced_tendons=replace(
                tendons,
                fitted_from=self.recording.file.name,
                fitted_sha256=self.recording.sha256,
                cross_validated_rmse_mm=1e3 * kept.held_out_rmse_m,
                fitted_values=listed,
            ),
        )
        repeat = repeatability(self.recording, predicted_marker(final, self.recording, friction=False))
        blocks = []
        for number in range(int(self.block.max()) + 1):
            inside = np.flatnonzero(self.block == number)
            labels = self.recording.labels
            blocks.append((labels[inside[0]], labels[inside[-1]], len(inside)))
        return DisplacedFit(final, self.recording, steps, tuple(blocks), held_out, first, repeat, unidentified)

    def _listed(
        self, free: _Free, values: dict[str, Array], deviation: Array, robot: Robot
    ) -> tuple[tuple[FittedValue, ...], tuple[str, ...]]:
        """Every parameter by name with its deviation, and which of them the data do not tell."""
        segments, tendons = [segment.name for segment in robot.segments], robot.tendon_names
        place = robot.recording or self.place
        angles = [segment.tendons.angle_offset_rad for segment in robot.segments]
        stiffness = [segment.backbone.bending_stiffnesses_nm2[0] for segment in robot.segments]
        held = robot.displaced_tendons
        pull = np.array(held.stiffness_n_per_m) if held is not None else np.zeros(len(tendons))
        ratio = float(np.mean(pull)) * float(self.radius_m.mean()) ** 2 * robot.length_m / len(segments) / stiffness[0]
        own = {
            "angle_rad": [(f"angle_offset_{name}_rad", angle) for name, angle in zip(segments, angles, strict=True)],
            "marker_m": [(f"marker_in_tip_{axis}_m", v) for axis, v in zip("xyz", place.marker_in_tip_m, strict=True)],
            "base_m": [
                (f"base_in_tracker_{axis}_m", v) for axis, v in zip("xyz", place.base_in_tracker_m, strict=True)
            ],
            "tilt_rad": [
                (f"base_rotation_in_tracker_{axis}_rad", v)
                for axis, v in zip("xy", place.base_rotation_in_tracker_rad, strict=False)
            ],
            "log_bending_stiffness": [("log_bending_stiffness_segment_1", math.log(stiffness[0]))],
            "log_tendon_stiffness": [("log_tendon_over_bending_stiffness", math.log(ratio))],
            "zero_m": [
                (f"tendon_zero_{name}_m", v) for name, v in zip(segments, values.get("zero_m", ()), strict=False)
            ],
            "gravity_turn_rad": [
                (f"gravity_turn_{axis}_rad", v)
                for axis, v in zip("xy", values.get("gravity_turn_rad", ()), strict=False)
            ],
            "log_tendon_stiffness_of_segment": [
                (f"log_tendon_stiffness_{name}", v)
                for name, v in zip(segments, values.get("log_tendon_stiffness_of_segment", ()), strict=False)
            ],
            "zero_of_tendon_m": [
                (f"tendon_zero_{name}_m", v)
                for name, v in zip(tendons, values.get("zero_of_tendon_m", ()), strict=False)
            ],
            "gain_of_tendon": [
                (f"gain_{name}", 1 + v) for name, v in zip(tendons, values.get("gain_of_tendon", ()), strict=False)
            ],
            "log_friction": [("log_friction_share", math.log(held.friction_share[0]))]
            if "log_friction" in values and held
            else [],
        }
        listed, lost = [], []
        for name, slot in free.slices.items():
            for (title, value), sigma, prior in zip(own[name], deviation[slot], free.priors[slot], strict=True):
                listed.append(
                    FittedValue(name=title, value=float(value), deviation=float(sigma), prior_deviation=float(prior))
                )
                if sigma > _IDENTIFIED * prior:
                    lost.append(title)
        return tuple(listed), tuple(lost)


def _wrapped(angle_rad: float) -> float:
    return float((angle_rad + math.pi) % (2 * math.pi) - math.pi)


def _triple(vector: ArrayLike) -> tuple[float, float, float]:
    x, y, z = np.asarray(vector, dtype=float)
    return float(x), float(y), float(z)
