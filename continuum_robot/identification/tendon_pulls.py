# SPDX-License-Identifier: Apache-2.0
"""The samples of a recording in which one tendon alone is pulled, and what each column does to the marker."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RecordingError
from continuum_robot.identification.recordings import SERVO_COLUMN, TendonRecording
from continuum_robot.robot.description import Robot

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
