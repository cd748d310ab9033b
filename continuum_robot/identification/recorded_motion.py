# SPDX-License-Identifier: Apache-2.0
"""What was measured of a robot in motion, from which its dynamics are found, and the file it is kept in.

A CSV file with the header ``time_s``, ``tendon_displacement_<j>_m`` for each tendon, and what drives it: of a robot
with capstans ``capstan_torque_<j>_nm`` for each of them and ``string_extension_<j>_m`` for each string, of others
``motor_force_<j>_n`` for each motor. All are counted from 1, in any order of columns. Every cell has to be a finite
number, and the time has to increase.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter

from continuum_robot.csv_table import read_csv_table, write_csv_table
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.estimation.observability import unseen_coefficients
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

Vector = NDArray[np.float64]

LEAST_SAMPLES = 2000
"""Of motors; of capstans 20."""
_LEAST_OF_CAPSTANS = 20
_UNEVEN = 0.2


@dataclass(frozen=True)
class RecordedMotion:
    """T samples of N tendons, D drives and S strings."""

    time_s: Vector
    displacement_m: Vector
    effort: Vector
    string_extension_m: Vector | None = None
    file: Path = Path()
    sha256: str = ""

    def even(self) -> RecordedMotion:
        """The same at even times: gaps of lost readings are bridged by straight lines."""
        if len(self.time_s) < LEAST_SAMPLES:
            raise ParameterError("samples", len(self.time_s), f"at least {LEAST_SAMPLES}")
        steps = np.diff(self.time_s)
        period_s = float(np.median(steps))
        gaps = int((np.abs(steps - period_s) > _UNEVEN * period_s).sum())
        if gaps > len(steps) / 50:
            raise ParameterError("time_s", gaps, f"at most {len(steps) // 50} gaps: the readings came too unevenly")
        time_s = np.arange(self.time_s[0], self.time_s[-1], period_s)
        displacement_m, effort = (
            np.stack([np.interp(time_s, self.time_s, column) for column in values.T], axis=1)
            for values in (self.displacement_m, self.effort)
        )
        return replace(self, time_s=time_s, displacement_m=displacement_m, effort=effort)


def columns_of(robot: Robot) -> tuple[str, ...]:
    """The columns that a file of this robot has, in the order in which they are written."""

    def each(count: int, name: str, unit: str) -> tuple[str, ...]:
        return tuple(f"{name}_{j + 1}_{unit}" for j in range(count))

    tendons, capstans = each(robot.tendon_count, "tendon_displacement", "m"), len(drives(robot))
    if not capstans:
        return ("time_s", *each(robot.tendon_count, "motor_force", "n"), *tendons)
    strings = each(len(robot.strings), "string_extension", "m")
    return ("time_s", *each(capstans, "capstan_torque", "nm"), *tendons, *strings)


def read_recorded_motion(robot: Robot, file: Path | str) -> RecordedMotion:
    """Read the motion of a robot."""
    table, capstans = read_csv_table(file, columns_of(robot)), len(drives(robot))
    table.check_length(_LEAST_OF_CAPSTANS if capstans else LEAST_SAMPLES)
    table.check_increasing("time_s")
    values, efforts = table.numbers(columns_of(robot)), capstans or robot.tendon_count
    time_s, effort, displacement_m, strings_m = np.split(values, np.cumsum([1, efforts, robot.tendon_count]), axis=1)
    strings = strings_m if capstans else None
    return RecordedMotion(time_s[:, 0], displacement_m, effort, strings, table.file, table.sha256)


def write_recorded_motion(robot: Robot, motion: RecordedMotion, file: Path | str) -> RecordedMotion:
    """Write a motion in the format of this module, and read it back."""
    parts = (motion.time_s, motion.effort, motion.displacement_m, motion.string_extension_m)
    write_csv_table(file, columns_of(robot), np.column_stack([part for part in parts if part is not None]))
    return read_recorded_motion(robot, file)


SMOOTHING_S = 0.25

TENDON_SIGMA_M, STRING_SIGMA_M = 2e-4, 1.2e-4
"""Standard deviations of a displacement and of a string's extension."""


@dataclass(frozen=True)
class SmoothedRecord:
    """The recording as coefficients; T samples, n coefficients."""

    time_s: Vector
    torque: Vector
    c: Vector
    smooth_c: Vector
    smooth_rate: Vector
    smooth_acceleration: Vector
    whiten: Vector
    reading_errors: Vector

    @classmethod
    def of(cls, robot: Robot, recording: RecordedMotion, least_s: float) -> SmoothedRecord:
        """The record of a recording."""
        matrix = np.vstack([tendon_matrix(robot), string_matrix(robot)])
        sigma = np.repeat([TENDON_SIGMA_M, STRING_SIGMA_M], [robot.tendon_count, len(robot.strings)])
        weighted = matrix / sigma[:, None]
        if unseen_coefficients(weighted).any():
            raise ParameterError("robot.strings", len(robot.strings), "strings that show all coefficients")
        strings = recording.string_extension_m
        readings = recording.displacement_m if strings is None else np.hstack([recording.displacement_m, strings])
        inverse = np.linalg.pinv(weighted)
        c = (inverse @ (readings / sigma).T).T  # johnston (6)
        time_s = recording.time_s - recording.time_s[0]
        if time_s[-1] < least_s:
            raise RecordingError(
                recording.file,
                f"{time_s[-1]:.2f} s long",
                f"Give a record of at least {least_s:g} s, which is two windows",
            )
        if np.ptp(c, axis=0).max() < 10 / np.sqrt(np.diag(weighted.T @ weighted)).max():
            raise RecordingError(recording.file, "the robot does not move", "Record a motion in both planes")
        smooth = _smoothed(time_s, c)
        whiten = np.linalg.cholesky(weighted.T @ weighted).T
        return cls(time_s, recording.effort, c, *smooth, whiten, _in_halves(whiten @ inverse, readings))


def _in_halves(errors: Vector, readings: Vector) -> Vector:
    """Errors of readings, (n, R), where these (T, R) are in the lower, then in the upper half of their range."""
    upper = readings > (readings.min(axis=0) + readings.max(axis=0)) / 2
    return np.concatenate([errors * ~upper[:, None], errors * upper[:, None]], axis=2)


def _smoothed(time_s: Vector, c: Vector) -> tuple[Vector, Vector, Vector]:
    """Smoothed coefficients, their rates and accelerations at the samples: local cubics on a uniform grid."""
    dt = float(np.median(np.diff(time_s)))
    grid = np.arange(0, time_s[-1] + dt / 2, dt)
    uniform = np.column_stack([np.interp(grid, time_s, column) for column in c.T])
    length = max(5, 2 * round(SMOOTHING_S / dt / 2) + 1)
    length = min(length, len(grid) - 1 + len(grid) % 2)
    found = []
    for order in range(3):
        values = savgol_filter(uniform, length, 3, deriv=order, delta=dt, axis=0)
        found.append(np.column_stack([np.interp(time_s, grid, column) for column in values.T]))
    return found[0], found[1], found[2]
