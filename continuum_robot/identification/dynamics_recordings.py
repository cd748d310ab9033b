# SPDX-License-Identifier: Apache-2.0
"""Recordings of torques, tendons and strings, from which the dynamics of a capstan-driven robot are fitted.

A CSV file with the header ``time_s``, ``capstan_torque_<j>_nm`` for each capstan, ``tendon_displacement_<j>_m`` for
each tendon and ``string_extension_<j>_m`` for each string, counted from 1, in any order of columns. Every cell has to
be a finite number, and the time has to increase. A torque acts from its sample to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.csv_table import read_csv_table, write_csv_table
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.capstans import drives

Array = NDArray[np.float64]

TIME_COLUMN = "time_s"
_LEAST_SAMPLES = 20


@dataclass(frozen=True)
class DynamicsRecording:
    """T samples of k capstans, N tendons and S strings.

    Attributes
    ----------
    file : where it was read from
    sha256 : of that file, hexadecimal
    time_s : increasing, shape (T,)
    capstan_torque_nm : shape (T, k), held until the next sample
    tendon_displacement_m : shape (T, N), pulled in positive
    string_extension_m : shape (T, S), positive when the string left the body
    """

    file: Path
    sha256: str
    time_s: Array
    capstan_torque_nm: Array
    tendon_displacement_m: Array
    string_extension_m: Array

    def __len__(self) -> int:
        return len(self.time_s)


def columns_of(robot: Robot) -> tuple[str, ...]:
    """The columns that a recording of this robot has, in the order in which they are written."""
    return (
        TIME_COLUMN,
        *(f"capstan_torque_{j + 1}_nm" for j in range(len(drives(robot)))),
        *(f"tendon_displacement_{j + 1}_m" for j in range(robot.tendon_count)),
        *(f"string_extension_{j + 1}_m" for j in range(len(robot.strings))),
    )


def read_dynamics_recording(robot: Robot, file: Path | str) -> DynamicsRecording:
    """Read a recording of a robot.

    Parameters
    ----------
    robot : whose capstans, tendons and strings are counted
    file : path of a CSV file in the format of this module

    Returns
    -------
    the recording

    Raises
    ------
    RecordingError : no such file, not text, a missing, unknown or doubled column, a row of another length, a cell
        that is not a finite number, a time that does not increase, or fewer than 20 rows; names file, line and column
    """
    table = read_csv_table(file, columns_of(robot))
    table.check_length(_LEAST_SAMPLES)
    table.check_increasing(TIME_COLUMN)
    values = table.numbers(columns_of(robot))
    split = np.cumsum([1, len(drives(robot)), robot.tendon_count])
    time_s, torque, tendons, strings = np.split(values, split, axis=1)
    return DynamicsRecording(table.file, table.sha256, time_s[:, 0], torque, tendons, strings)


def write_dynamics_recording(
    robot: Robot,
    file: Path | str,
    *,
    time_s: Array,
    capstan_torque_nm: Array,
    tendon_displacement_m: Array,
    string_extension_m: Array,
) -> DynamicsRecording:
    """Write a recording in the format of this module and read it back; shapes as in :class:`DynamicsRecording`.

    Parameters
    ----------
    time_s : of the T samples, increasing, shape (T,), s
    capstan_torque_nm : of every capstan, shape (T, capstans), N.m
    tendon_displacement_m : of every tendon, shape (T, N), m
    string_extension_m : of every string, shape (T, strings), m

    Raises
    ------
    RecordingError : the file cannot be written, or what was written is no recording of this robot
    """
    table = np.column_stack([time_s, capstan_torque_nm, tendon_displacement_m, string_extension_m])
    write_csv_table(file, columns_of(robot), table)
    return read_dynamics_recording(robot, file)
