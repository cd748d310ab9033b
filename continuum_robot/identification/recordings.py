# SPDX-License-Identifier: Apache-2.0
"""Strict reading of recorded tendon displacements and marker positions.

The format is a CSV file with a header: ``timestamp`` (s), ``pattern_label``, one ``servo_<id>_mm`` for each tendon's
displacement, and ``tip_x``, ``tip_y``, ``tip_z`` (mm) of a tracked marker, in any order of columns. A marker that the
tracker lost is an empty cell or ``nan``; any other cell has to be a finite number. Loads, ``load_<id>_n`` (N), may
stand beside them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.csv_table import read_csv_table
from continuum_robot.errors import RecordingError, RobotFileError
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

TIME_COLUMN = "timestamp"
LABEL_COLUMN = "pattern_label"
MARKER_COLUMNS = ("tip_x", "tip_y", "tip_z")
SERVO_COLUMN = re.compile(r"servo_(\w+)_mm")
LOAD_COLUMN = re.compile(r"load_(\w+)_n")


@dataclass(frozen=True)
class TendonRecording:
    """Recorded displacements and marker positions; K columns of displacements, T samples."""

    file: Path
    sha256: str
    time_s: Array
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    displacement_m: Array
    marker_m: Array
    load_n: Array | None = None

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Where the marker was seen, shape (T,)."""
        return np.asarray(np.isfinite(self.marker_m).all(axis=1))


def read_recording(file: Path | str) -> TendonRecording:
    """Read a recording."""
    table = read_csv_table(
        file,
        (TIME_COLUMN, LABEL_COLUMN, *MARKER_COLUMNS),
        further=lambda name: any(one.fullmatch(name) for one in (SERVO_COLUMN, LOAD_COLUMN)),
    )
    columns = tuple(name for name in table.header if SERVO_COLUMN.fullmatch(name))
    if not columns:
        raise RecordingError(table.file, "line 1: no column servo_<id>_mm", "Expected one for each tendon")
    table.check_length(1)
    load_n = None
    loads = [_load_column(name) for name in columns]
    if loaded := [k for k, name in enumerate(loads) if name in table.header]:
        load_n = np.full((len(table.numbers([TIME_COLUMN])), len(columns)), np.nan)
        load_n[:, loaded] = table.numbers([loads[k] for k in loaded], lost=True)
    return TendonRecording(
        table.file,
        table.sha256,
        table.numbers([TIME_COLUMN])[:, 0],
        tuple(table.column(LABEL_COLUMN)),
        columns,
        1e-3 * table.numbers(columns),
        1e-3 * table.numbers(MARKER_COLUMNS, lost=True),
        load_n,
    )


def _load_column(servo_column: str) -> str:
    return f"load_{servo_column.removeprefix('servo_').removesuffix('_mm')}_n"


def write_recording(recording: TendonRecording) -> TendonRecording:
    """Write a recording with loads to its file, and read it back."""
    assert recording.load_n is not None
    loads = map(_load_column, recording.columns)
    head = ",".join([TIME_COLUMN, LABEL_COLUMN, *recording.columns, *MARKER_COLUMNS, *loads])
    numbers = np.hstack([1e3 * recording.displacement_m, 1e3 * recording.marker_m, recording.load_n])
    lines = [
        f"{time_s:.9g},{label}," + ",".join(f"{value:.9g}" for value in row)
        for time_s, label, row in zip(recording.time_s, recording.labels, numbers, strict=True)
    ]
    try:
        recording.file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    except OSError as error:
        raise RecordingError(
            recording.file, f"cannot be written: {error}", "Give a path that can be written"
        ) from error
    return read_recording(recording.file)


def tendon_displacements(robot: Robot, recording: TendonRecording) -> Array:
    """Recorded displacements as the robot's tendons: its numbering, pulled in positive."""
    mapping = robot.recording
    if mapping is None:
        raise RobotFileError(
            robot.file_name or None,
            "recording",
            None,
            "the map of columns to tendons: `continuum-robot identify-geometry` and `continuum-robot identify` find it"
            " from a recording in which one tendon at a time is pulled",
        )
    missing = [name for name in mapping.displacement_columns if name not in recording.columns]
    if missing:
        fitted = ", ".join(fit.data for fit in robot.provenance)
        raise RecordingError(
            recording.file,
            f"no column {', '.join(missing)}; it has {', '.join(recording.columns)}",
            f"Was it recorded on another robot? {robot.name} is fitted to {fitted or 'other columns'}",
        )
    order = _order(robot, recording)
    return np.asarray(recording.displacement_m[:, order] * np.array(mapping.displacement_signs))


def tendon_loads(robot: Robot, recording: TendonRecording) -> Array:
    """Recorded loads in the order of the robot's tendons, as :func:`tendon_displacements`, shape (T, tendons), N."""
    if recording.load_n is None:
        return np.full((len(recording), robot.tendon_count), np.nan)
    return recording.load_n[:, _order(robot, recording)]


def _order(robot: Robot, recording: TendonRecording) -> list[int]:
    assert robot.recording is not None
    return [recording.columns.index(name) for name in robot.recording.displacement_columns]
