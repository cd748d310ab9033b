# SPDX-License-Identifier: Apache-2.0
"""A real robot's model from one recording of its servos and a tracked marker, in steps that are each physics.

1. ``constant_curvature``: servo map, tendon angles, marker and base; tendons do not stretch, and those paid out too far
   are slack.
2. ``statics``: bending stiffness against the robot's weight, stretch and zeros of the tendons, direction of gravity.
3. ``friction``: Coulomb friction of the tendons in the robot, with its memory.
4. ``tendons``: stiffness and friction of each segment's tendons, zero and spool of each tendon, about what they have
   in common.

Loads of the servos, where they are measured, are fitted from the second step on. Every step is judged on blocks of the
recording that were left out of its fit, and kept where this error falls. Parameters have weak priors, so that one which
the data do not identify stays where it was and is named. Without loads forces are known through the weight alone:
stiffnesses are as good as the masses of the file then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError, RobotFileError
from continuum_robot.identification.displaced.model import (
    STEPS,
    DisplacedModel,
    MissingPull,
    marker_of_pulls,
    missing_pull,
    predicted_marker,
    together,
)
from continuum_robot.identification.fit import ROBUST, Fit, fit, jackknife, today
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements, tendon_loads
from continuum_robot.identification.replay import Repeatability, marker_errors, repeatability, rmse_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.provenance import FitError, FoundValue, Provenance
from continuum_robot.workers import IN_TURN, Tasks, counted

Array = NDArray[np.float64]

_OF_A_PATTERN = re.compile(r"^rep\d+_|_hold$|_(?:dir|id)\d+|(?<=^tendon)\d+|(?<=\d_tendon)\d+")


@dataclass(frozen=True)
class FitStep:
    """One step of the fit."""

    name: str
    train_rmse_m: float
    held_out_rmse_m: float
    block_rmse_m: tuple[float, ...]
    kept: bool


@dataclass(frozen=True)
class DisplacedFit:
    """Result of :func:`~continuum_robot.identification.displaced.fit.identify_displaced`."""

    robot: Robot
    recording: TendonRecording
    provenance: Provenance
    steps: tuple[FitStep, ...]
    tendon_deviations: Mapping[str, Array]
    block: NDArray[np.intp]
    held_out_m: Array
    held_out_first_m: Array
    pulls: MissingPull
    repeat: Repeatability
    unidentified: tuple[str, ...]

    def pattern_errors(self) -> dict[str, tuple[int, float]]:
        """Samples with a marker, and error on blocks left out, root mean square, m, by what the robot was doing.

        That is the label without repetition, direction and servo: ``pair12_opp`` for ``rep1_pair12_opp_dir60_hold``.
        """
        centred = self.held_out_m.copy()
        for number in np.unique(self.block):
            centred[self.block == number] -= np.nanmean(self.held_out_m[self.block == number], axis=0)
        squares = (centred**2).sum(axis=1)
        by_pattern: dict[str, list[float]] = {}
        for label, square in zip(self.recording.labels, squares, strict=True):
            if np.isfinite(square):
                by_pattern.setdefault(_OF_A_PATTERN.sub("", label), []).append(float(square))
        return {pattern: (len(own), math.sqrt(sum(own) / len(own))) for pattern, own in by_pattern.items()}

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        kept = [step for step in self.steps if step.kept]
        by_pattern = self.pattern_errors()
        numbers: dict[str, object] = {
            "tip_rmse_held_out_mm": 1e3 * kept[-1].held_out_rmse_m,
            "tip_rmse_train_mm": 1e3 * kept[-1].train_rmse_m,
            "pull_rmse_held_out_mm": 1e3 * self.pulls.rmse_m,
            "tip_rmse_after_pull_held_out_mm": 1e3 * self.pulls.left_rmse_m,
            **self.repeat.numbers(),
            "n_samples": int(self.recording.seen.sum()),
            "steps_kept": [step.name for step in kept],
            "blocks": [
                f"{self.recording.labels[own[0]]} .. {self.recording.labels[own[-1]]}: {len(own)} samples"
                for own in (np.flatnonzero(self.block == number) for number in np.unique(self.block))
            ],
            "unidentified": list(self.unidentified),
            "tip_rmse_held_out_by_pattern_mm": {name: 1e3 * rmse for name, (_, rmse) in by_pattern.items()},
            "samples_by_pattern": {name: count for name, (count, _) in by_pattern.items()},
        }
        before = None
        for step in self.steps:
            numbers[f"tip_rmse_{step.name}_held_out_mm"] = 1e3 * step.held_out_rmse_m
            numbers[f"tip_rmse_{step.name}_train_mm"] = 1e3 * step.train_rmse_m
            numbers[f"tip_rmse_{step.name}_held_out_by_block_mm"] = [1e3 * value for value in step.block_rmse_m]
            if before is not None:
                numbers[f"gain_of_{step.name}_mm"] = 1e3 * (before.held_out_rmse_m - step.held_out_rmse_m)
            before = step if step.kept else before
        for value in self.provenance.values:
            numbers[value.key] = value.value
            numbers[f"{value.key}_deviation"] = value.deviation
        return numbers


Blocks = NDArray[np.intp]
Progress = Callable[[str], None]

_LEAST_SAMPLES = 60
_LEAST_TRAVEL_M = 2e-4
_EVALUATIONS = 30  # most; a fit without a block starts from that of all, and is to forget it
# Without friction samples are independent; with it they are a way, which has to be followed more closely.
_SAMPLES = {False: 500, True: 1000}
# Errors that count as ordinary: larger ones weigh less and less. Of the marker in the first step; in others, if that is
# less, what the step before left.
_ORDINARY_M, _ORDINARY_N = 0.005, 0.5
_SLIDES = 5  # travels of a motor's friction, behind which all of it is there
_IDENTIFIED = 0.7  # largest fraction of the prior's deviation that may be left


def identify_displaced(
    robot: Robot,
    recording: TendonRecording,
    progress: Progress | None = None,
    *,
    steps: Sequence[str] = STEPS,
    blocks: int | Blocks = 5,
    deviations: Mapping[str, float] | None = None,
    runner: Tasks = IN_TURN,
) -> DisplacedFit:
    """Fit a robot to a recording."""
    say = progress or (lambda _: None)
    if not steps or tuple(steps) != tuple(name for name in STEPS if name in steps) or steps[0] != STEPS[0]:
        raise ParameterError("steps", steps, f"some of {', '.join(STEPS)}, in this order, the first among them")
    block = blocks_of(recording.labels, blocks) if isinstance(blocks, int) else blocks
    if block.max() < 1:
        raise ParameterError("blocks", blocks, "2 or more")
    _check(robot, recording)
    if robot.recording is None:
        say("which servo drives which tendon")
        geometry = identify_geometry(robot, recording, say)
        segments = tuple(
            replace(segment, tendons=replace(segment.tendons, angle_offset_rad=float(angle)))
            for segment, angle in zip(robot.segments, geometry.angle_offsets_rad, strict=True)
        )
        # A base off its axis and a turned base are what the marker shows at rest: sought again with elastic tendons.
        place = replace(geometry.recording, base_in_tracker_m=(0.0,) * 3, base_rotation_in_tracker_rad=(0.0,) * 3)
        robot = robot.changed(segments=segments, recording=place)
    displacement_m, load_n = tendon_displacements(robot, recording), tendon_loads(robot, recording)
    slid = slid_by(displacement_m, 0.0 if robot.actuators is None else robot.actuators.friction_travel_m)
    samples = _Samples(displacement_m, recording.marker_m, recording.seen, slid, load_n, _ORDINARY_M)
    taken: list[_Taken] = []
    for name in steps:
        kept = [one for one in taken if one.worth.kept]
        taken.append(_take(name, kept[-1] if kept else None, robot, samples, block, deviations, say, runner))
    return _result(taken, recording, samples, block, say, runner)


def _check(robot: Robot, recording: TendonRecording) -> None:
    if robot.traits.without_statics:
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


def blocks_of(labels: tuple[str, ...], count: int = 5) -> Blocks:
    """Number of the contiguous block of every sample: about equal ones, cut where the label changes if it ever does.

    Neighbouring samples are alike and a new recording does something else, so a model is judged on whole blocks.
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


def slid_by(displacement_m: Array, travel_m: float) -> Array:
    """Direction into which each motor slid last: 1 where it pulled in, -1; NaN where its friction is not all there."""
    slid, way_m = np.full_like(displacement_m, np.nan), np.zeros(displacement_m.shape[1])
    for t, step_m in enumerate(np.diff(displacement_m, axis=0), 1):
        way_m = np.where(way_m * step_m < 0, 0.0, way_m) + step_m
        slides = np.abs(way_m) > max(_SLIDES * travel_m, _LEAST_TRAVEL_M)
        slid[t, slides] = np.sign(way_m[slides])
    return slid


@dataclass(frozen=True, slots=True)
class _Samples:
    """In the order of time, all of which the robot goes through."""

    displacement_m: Array
    marker_m: Array
    counted: NDArray[np.bool_]
    slid: Array
    load_n: Array
    ordinary_m: float

    def thinned(self, every: int) -> _Samples:
        return replace(
            self,
            displacement_m=self.displacement_m[::every],
            marker_m=self.marker_m[::every],
            counted=self.counted[::every],
            slid=self.slid[::every],
            load_n=self.load_n[::every],
        )

    def without(self, left_out: NDArray[np.bool_]) -> _Samples:
        return replace(self, counted=self.counted & ~left_out)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A step that was taken."""

    worth: FitStep
    model: DisplacedModel
    found: Fit
    left_out: Array
    error_m: Array


def _solved(model: DisplacedModel, start: Array, samples: _Samples, say: Progress = lambda _: None) -> Fit:
    use, scale_m, elastic = samples.counted, samples.ordinary_m, "statics" in model.steps
    loaded = np.isfinite(samples.load_n + samples.slid) & use[:, None] & elastic

    def residuals(x: Array) -> tuple[Array, Array]:
        try:
            marker, slope, load, load_slope = model.shown(x, samples.displacement_m, np.nan_to_num(samples.slid))
        except ParameterError as why:  # a robot that no file may say: the search goes back
            raise ConvergenceError(f"equilibria with {why}", math.inf, 0.0, 0) from why
        error = marker[use] - samples.marker_m[use]
        rows = [error.ravel() / scale_m, (load[loaded] - samples.load_n[loaded]) / _ORDINARY_N]
        slopes = [slope[use].reshape(-1, x.size) / scale_m, load_slope[loaded] / _ORDINARY_N]
        return np.concatenate(rows), np.vstack(slopes)

    markers = 3 * int(use.sum())
    # What a step adds begins where it is expected.
    start = np.append(start, model.parameters.expected[len(start) :])
    return fit(
        model.parameters, residuals, start=start, loss=ROBUST, tolerance=1e-4, x_tolerance=1e-4,
        evaluations=_EVALUATIONS,
        progress=lambda one: say(f"{1e3 * scale_m * rmse_m(one.rows[:markers].reshape(-1, 3)):.2f} mm"),
    )  # fmt: skip


def _error_m(model: DisplacedModel, x: Array, samples: _Samples) -> Array:
    return marker_of_pulls(model.robot(x), samples.displacement_m) - samples.marker_m


@dataclass(frozen=True, slots=True)
class _Task:
    """For a worker: a model with x, samples that count, and all samples."""

    model: DisplacedModel
    x: Array
    samples: _Samples
    everything: _Samples


def _without(item: _Task) -> tuple[Array, Array]:
    own = _solved(item.model, item.x, item.samples).x
    return own, _error_m(item.model, own, item.everything)


def _missing(item: _Task) -> MissingPull:
    samples = item.samples
    return missing_pull(item.model.robot(item.x), samples.displacement_m, samples.marker_m, samples.counted)


def _take(
    name: str,
    before: _Taken | None,
    robot: Robot,
    samples: _Samples,
    block: Blocks,
    deviations: Mapping[str, float] | None,
    say: Progress,
    runner: Tasks,
) -> _Taken:
    """Fit what a step adds beside all that was kept before it, and judge it on blocks left out."""
    robot, steps = (before.model.start, before.model.steps) if before else (robot, ())
    loaded = bool(np.isfinite(samples.load_n).any())
    model = DisplacedModel(robot, (*steps, name), deviations, loaded=loaded)
    if before:
        samples = replace(samples, ordinary_m=min(_ORDINARY_M, before.worth.held_out_rmse_m / math.sqrt(3)))
    every = max(1, len(block) // _SAMPLES["friction" in model.steps])
    thin = samples.thinned(every)

    def report(text: str) -> None:
        say(f"{name}: {text}")

    report(f"fitting {len(model.parameters)} parameters to {len(thin.counted)} samples")
    start = before.found.x if before else np.zeros(0)
    models = [model]
    stands = "gravity_turn_rad" in (deviations or {})
    if "gravity_turn_rad" in model.parameters.at and name == "statics" and not stands:
        # Whether the robot stands or hangs: the file's gravity, or the opposite, whichever fits better.
        x, y, z = robot.gravity_m_per_s2
        models.append(DisplacedModel(robot.changed(gravity_m_per_s2=(-x, -y, -z)), model.steps, loaded=loaded))
    fits = [(one, _solved(one, start, thin, report)) for one in models]
    model, found = min(fits, key=lambda one: one[1].cost)
    train_m = rmse_m(marker_errors(_error_m(model, found.x, samples), np.zeros(3)))

    items = []
    for number in range(int(block.max()) + 1):
        # From the fit without the block before this step, and what the step adds from that to all.
        first = before.left_out[number] if before else start
        first = np.append(first, found.x[len(first) :])
        items.append(_Task(model, first, thin.without((block == number)[::every]), samples))
    own = runner.run(_without, items, counted(report, len(items), "blocks left out"))
    error = np.array([one for _, one in own])[block, np.arange(len(block))]
    inside = [error[block == number] for number in range(len(items))]
    seen = [one for one in inside if np.isfinite(one).all(axis=1).any()]
    by_block = [rmse_m(marker_errors(one, np.zeros(3))) for one in seen]
    counts = [int(np.isfinite(one).all(axis=1).sum()) for one in seen]
    judged_m = math.sqrt(float(np.average(np.square(by_block), weights=counts)))
    gains = before is None or judged_m < before.worth.held_out_rmse_m
    worth = FitStep(name, train_m, judged_m, tuple(by_block), gains)
    report(f"{1e3 * train_m:.2f} mm, {1e3 * judged_m:.2f} mm on blocks left out" + ("" if gains else ": not kept"))
    return _Taken(worth, model, found, np.array([x for x, _ in own]), error)


def _result(
    taken: Sequence[_Taken],
    recording: TendonRecording,
    samples: _Samples,
    block: Blocks,
    say: Progress,
    runner: Tasks,
) -> DisplacedFit:
    """Of the last step that was kept; RecordingError where the recording does not identify the angles."""
    last = [one for one in taken if one.worth.kept][-1]
    parameters, found = last.model.parameters, last.found
    # What the data leave of what was expected, and what the blocks do not agree about.
    open_ = found.covariance()
    covariance = found.covariance(variance=float(np.mean(found.rows**2))) + jackknife(last.left_out)
    deviation = np.sqrt(np.diag(covariance))
    unseen = np.sqrt(np.diag(open_)) > _IDENTIFIED * parameters.deviation
    # A robot whose segments did not bend has no angles.
    lost = [name for name in np.array(parameters.keys)[unseen] if name.startswith("angle_offset")]
    if lost:
        raise RecordingError(
            recording.file,
            f"{', '.join(lost)} cannot be identified from this recording",
            "Give one in which every segment bends in several directions",
        )
    rows = [np.flatnonzero(block == number) for number in range(int(block.max()) + 1)]
    items = [
        _Task(last.model, x, inside, inside)
        for x, own in zip(last.left_out, rows, strict=True)
        if (inside := samples.without(~np.isin(np.arange(len(block)), own))).counted.any()
    ]
    pulls = together(runner.run(_missing, items, counted(say, len(items), "blocks the other way round")))
    robot = last.model.robot(found.x)
    assert robot.recording is not None
    assert robot.displaced_tendons is not None
    values = np.where(parameters.log, found.x + np.log(parameters.scale), found.values)
    listed = tuple(
        FoundValue(key=name, value=float(value), deviation=float(sigma), prior_deviation=float(prior))
        for name, value, sigma, prior in zip(parameters.keys, values, deviation, parameters.deviation, strict=True)
    )
    provenance = Provenance(
        command="continuum-robot identify",
        date=today(),
        data=recording.file.name,
        sha256=recording.sha256,
        values=listed,
        errors=(
            FitError(of="tip", rmse=last.worth.train_rmse_m),
            FitError(of="tip, on blocks left out of the fit", rmse=last.worth.held_out_rmse_m),
        ),
    )
    return DisplacedFit(
        robot,
        recording,
        provenance,
        steps=tuple(one.worth for one in taken),
        block=block,
        tendon_deviations={
            name: np.sqrt(np.einsum("ij,jk,ik->i", slope, covariance, slope))
            for name in ("log_tendon_stiffness", "zero_m", "friction_fraction")
            for slope in (last.model.slope(name),)
        },
        held_out_m=last.error_m,
        held_out_first_m=taken[0].error_m,
        pulls=pulls,
        repeat=repeatability(recording, predicted_marker(robot, recording, friction=False)),
        unidentified=tuple(np.array(parameters.keys)[deviation > _IDENTIFIED * parameters.deviation].tolist()),
    )
