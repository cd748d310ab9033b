# SPDX-License-Identifier: Apache-2.0
"""A picture of the motors' cogging over their angle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from continuum_robot.experiments.plotting import COLOURS, figure
from continuum_robot.identification.procedures.cogging_record import CoggingRecord


def draw_cogging(record: CoggingRecord, file: Path) -> None:
    """Draw the table of every motor with three standard deviations on either side.

    Parameters
    ----------
    record : the tables
    file : PNG to write
    """
    count = len(record.motors)
    with figure(file, f"Cogging of the motors of {record.robot}", count, 1, sharex=True) as (_, axes):
        for index, (axis, motor) in enumerate(zip(np.atleast_1d(axes), record.motors, strict=True)):
            torque, deviation = 1e3 * np.array(motor.torque_nm), 3e3 * np.array(motor.deviation_nm)
            angle = 360.0 * np.arange(torque.size) / torque.size
            colour = COLOURS[index % len(COLOURS)]
            axis.fill_between(angle, torque - deviation, torque + deviation, color=colour, alpha=0.3, linewidth=0)
            axis.plot(angle, torque, color=colour, linewidth=0.8)
            axis.set_ylabel("torque in mN.m")
            axis.set_title(f"{motor.tendon} (band: 3 standard deviations)", loc="left")
        np.atleast_1d(axes)[-1].set_xlabel("angle of the motor in degrees")
