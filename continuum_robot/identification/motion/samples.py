# SPDX-License-Identifier: Apache-2.0
"""What the motors of a moving robot measured, and the file it is kept in.

A CSV file with the header ``time_s``, ``tendon_displacement_<j>_m`` and ``motor_force_<j>_n`` for each tendon, counted
from 1, in any order of columns. The force is the measured current times the motor's constant, on the tendon.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.csv_table import read_csv_table, write_csv_table
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

TIME_COLUMN = "time_s"
LEAST_SAMPLES = 2000
_UNEVEN = 0.2


@dataclass(frozen=True, slots=True)
class DriveSamples:
    """T samples of N motors.

    Attributes
    ----------
    time_s : of the readings' acquisition, shape (T,), s
    displacement_m : pulled in positive, from any zero, shape (T, N), m
    force_n : measured current times the motor's constant, shape (T, N), N on the tendon
    """

    time_s: Vector
    displacement_m: Vector
    force_n: Vector

    def even(self) -> DriveSamples:
        """The same at even times: gaps of lost readings are bridged by straight lines.

        Raises
        ------
        ParameterError : too few samples, or gaps at more than a fiftieth of them
        """
        if len(self.time_s) < LEAST_SAMPLES:
            raise ParameterError("samples", len(self.time_s), f"at least {LEAST_SAMPLES}")
        steps = np.diff(self.time_s)
        period_s = float(np.median(steps))
        gaps = int((np.abs(steps - period_s) > _UNEVEN * period_s).sum())
        if gaps > len(steps) / 50:
            raise ParameterError("time_s", gaps, f"at most {len(steps) // 50} gaps: the readings came too unevenly")
        time_s = np.arange(self.time_s[0], self.time_s[-1], period_s)
        columns = [
            np.stack([np.interp(time_s, self.time_s, column) for column in values.T], axis=1)
            for values in (self.displacement_m, self.force_n)
        ]
        return DriveSamples(time_s, *columns)


def columns_of(robot: Robot) -> tuple[str, ...]:
    """The columns that a file of samples of this robot has, in the order in which they are written."""
    numbers = range(1, robot.tendon_count + 1)
    return (
        TIME_COLUMN,
        *(f"tendon_displacement_{j}_m" for j in numbers),
        *(f"motor_force_{j}_n" for j in numbers),
    )


def read_drive_samples(robot: Robot, file: Path | str) -> tuple[DriveSamples, str]:
    """Read the samples of a robot, and the SHA-256 of the file.

    Parameters
    ----------
    robot : whose tendons are counted
    file : path of a CSV file in the format of this module

    Raises
    ------
    RecordingError : no such file, not text, a missing, unknown or doubled column, a cell that is not a finite number, a
        time that does not increase, or too few rows; names file, line and column
    """
    table = read_csv_table(file, columns_of(robot))
    table.check_length(LEAST_SAMPLES)
    table.check_increasing(TIME_COLUMN)
    values = table.numbers(columns_of(robot))
    time_s, displacement, force = np.split(values, [1, 1 + robot.tendon_count], axis=1)
    return DriveSamples(time_s[:, 0], displacement, force), table.sha256


def write_drive_samples(robot: Robot, samples: DriveSamples, file: Path | str) -> None:
    """Write samples in the format of this module.

    Parameters
    ----------
    robot : whose samples they are
    samples : of it
    file : path to write

    Raises
    ------
    RecordingError : it cannot be written
    """
    rows = np.column_stack([samples.time_s, samples.displacement_m, samples.force_n])
    write_csv_table(file, columns_of(robot), rows)
