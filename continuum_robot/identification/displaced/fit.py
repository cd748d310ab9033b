# SPDX-License-Identifier: Apache-2.0
"""A real robot's model from one recording of its servos and a tracked marker, in steps that are each physics.

1. ``constant_curvature``: servo map, tendon angles, marker and base; tendons do not stretch, and those paid out too far
   are slack.
2. ``statics``: bending stiffness against the robot's weight, stretch and zeros of the tendons, direction of gravity.
3. ``friction``: Coulomb friction of the tendons in the robot, with its memory.
4. ``tendons``: stiffness of each segment's tendons, zero and spool of each tendon, about what they have in common.

Every step is judged on blocks of the recording that were left out of its fit, and kept where this error falls.
Parameters have weak priors, so that one which the data do not identify stays where it was and is named. Forces are
known through the weight alone: stiffnesses and friction are as good as the masses of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError, RecordingError, RobotFileError
from continuum_robot.identification.displaced.inverse import MissingPull, missing_pull, together
from continuum_robot.identification.displaced.least_squares import Samples, solve
from continuum_robot.identification.displaced.model import DisplacedModel
from continuum_robot.identification.displaced.parameters import STEPS, Values, free, values_of, vector_of
from continuum_robot.identification.displaced.result import DisplacedFit, FitStep, TakenStep, last_kept, result_of
from continuum_robot.identification.fit import Parameters
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.left_out_blocks import Blocks, blocks_of, leave_out
from continuum_robot.identification.recordings import TendonRecording
from continuum_robot.identification.replay import marker_errors, rmse_m
from continuum_robot.robot.description import Robot
from continuum_robot.workers import IN_TURN, Tasks, counted

Array = NDArray[np.float64]
Progress = Callable[[str], None]

_LEAST_SAMPLES = 60
_LEAST_TRAVEL_M = 2e-4
_LEAST_GAIN = 0.01  # of the cross-validated error, for a step to be kept
_EVALUATIONS = 30  # most; a fit without a block starts from that of all, and is to forget it
# Without friction samples are independent; with it they are a way, which has to be followed more closely.
_SAMPLES = {False: 500, True: 1000}


def identify_displaced(
    robot: Robot,
    recording: TendonRecording,
    progress: Progress | None = None,
    *,
    steps: Sequence[str] = STEPS,
    blocks: int = 5,
    runner: Tasks = IN_TURN,
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
    runner : does the fits without a block

    Returns
    -------
    the fitted robot, what each step was worth on blocks left out, and what the data did not identify

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
        # A base off its axis and a turned base are what the marker shows at rest: sought again with elastic tendons.
        place = replace(geometry.recording, base_in_tracker_m=(0.0,) * 3, base_rotation_in_tracker_rad=(0.0,) * 3)
        robot = robot.changed(segments=segments, recording=place)
    start = DisplacedModel(robot, place)
    samples, block = Samples.of(robot, recording), blocks_of(recording.labels, blocks)
    taken: list[TakenStep] = []
    for name in steps:
        kept = [one for one in taken if one.worth.kept]
        taken.append(_take(name, kept, start, samples, block, say=say, runner=runner))
    pulls = _pulls(last_kept(taken), samples, block, say=say, runner=runner)
    return result_of(taken, recording, block, pulls)


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


@dataclass(frozen=True, slots=True)
class _Without:
    """A task: the fit of a step to the recording without a block."""

    model: DisplacedModel
    parameters: Parameters
    first: Values
    rest: Samples
    samples: Samples


def _without(item: _Without) -> tuple[Array, Array]:
    own, _ = solve(item.model, item.parameters, item.first, item.rest, evaluations=_EVALUATIONS)
    return vector_of(item.parameters, own), item.samples.error_m(item.model, own)


@dataclass(frozen=True, slots=True)
class _Pulls:
    """A task: the pulls that are missing in a block that was left out of a fit."""

    model: DisplacedModel
    values: Values
    samples: Samples


def _missing(item: _Pulls) -> MissingPull:
    samples = item.samples
    return missing_pull(item.model.robot(item.values), samples.displacement_m, samples.marker_m, samples.counted)


def _pulls(step: TakenStep, samples: Samples, block: Blocks, *, say: Progress, runner: Tasks) -> MissingPull:
    """The inverse of a step, on the blocks left out of its fits."""
    items = []
    for number, vector in enumerate(step.left_out.vectors):
        inside = samples.without(block != number)
        if inside.counted.any():
            items.append(_Pulls(step.model, step.values | values_of(step.parameters, vector), inside))
    return together(runner.run(_missing, items, counted(say, len(items), "blocks the other way round")))


def _take(
    name: str,
    kept: Sequence[TakenStep],
    start: DisplacedModel,
    samples: Samples,
    block: Blocks,
    *,
    say: Progress,
    runner: Tasks,
) -> TakenStep:
    """Fit what a step adds beside all that was kept before it, and judge it on blocks left out."""
    before = kept[-1] if kept else None
    model, values = (before.model, before.values) if before else (start, {})
    parameters = free(start.start, [*(one.worth.name for one in kept), name])
    every = max(1, len(block) // _SAMPLES["log_friction" in parameters.at])
    thin = samples.thinned(every)

    def report(text: str) -> None:
        say(f"{name}: {text}")

    report(f"fitting {len(parameters)} parameters to {len(thin.counted)} samples")
    if name == "statics" and "gravity_turn_rad" in parameters.at:
        # Whether the robot stands or hangs: the file's gravity, or the opposite, whichever fits better.
        ways = []
        for way in (model, model.turned_over()):
            report("standing or hanging")
            found, _ = solve(way, parameters, values, thin, evaluations=_EVALUATIONS, progress=report)
            ways.append((thin.robust_cost(way, found), way, found))
        _, model, values = min(ways, key=lambda one: one[0])
    values, deviation = solve(model, parameters, values, thin, evaluations=_EVALUATIONS, progress=report)
    train_m = rmse_m(marker_errors(samples.error_m(model, values), np.zeros(3)))

    items = []
    for number in range(int(block.max()) + 1):
        first = values | (values_of(before.parameters, before.left_out.vectors[number]) if before else {})
        items.append(_Without(model, parameters, first, thin.without((block == number)[::every]), samples))
    judged = leave_out(block, runner.run(_without, items, counted(report, len(items), "blocks left out")))
    gains = before is None or judged.rmse_m < (1 - _LEAST_GAIN) * before.worth.held_out_rmse_m
    worth = FitStep(name, train_m, judged.rmse_m, judged.block_rmse_m, gains)
    report(f"{1e3 * train_m:.2f} mm, {1e3 * judged.rmse_m:.2f} mm on blocks left out" + ("" if gains else ": not kept"))
    return TakenStep(worth, model, parameters, values, deviation, judged)
