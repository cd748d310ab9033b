# SPDX-License-Identifier: Apache-2.0
"""A recorded motion as coefficients of the backbone: as measured, and smoothed with rates and accelerations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.estimation.observability import unseen_coefficients
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

Array = NDArray[np.float64]

SMOOTHING_S = 0.25

TENDON_SIGMA_M, STRING_SIGMA_M = 2e-4, 1.2e-4
"""Standard deviations of a displacement and of a string's extension."""


@dataclass(frozen=True)
class SmoothedRecord:
    """The recording as coefficients; T samples, n coefficients."""

    time_s: Array
    torque: Array
    c: Array
    smooth_c: Array
    smooth_rate: Array
    smooth_acceleration: Array
    whiten: Array
    reading_errors: Array

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


def _in_halves(errors: Array, readings: Array) -> Array:
    """Errors of readings, (n, R), where these (T, R) are in the lower, then in the upper half of their range."""
    upper = readings > (readings.min(axis=0) + readings.max(axis=0)) / 2
    return np.concatenate([errors * ~upper[:, None], errors * upper[:, None]], axis=2)


def _smoothed(time_s: Array, c: Array) -> tuple[Array, Array, Array]:
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
