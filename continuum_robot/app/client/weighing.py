# SPDX-License-Identifier: Apache-2.0
"""Turning a robot to weigh what its tip carries, and what was measured meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.identification.weighing import Turn
from continuum_robot.identification.weighing_motion import WeighingMotion

if TYPE_CHECKING:
    from continuum_robot.app.client.robot import Robot

Vector = NDArray[np.float64]


def turn_to_weigh(robot: Robot, motion: WeighingMotion, progress: Callable[[float], None] | None = None) -> Turn:
    """See :meth:`continuum_robot.app.client.robot.Robot.turn_to_weigh`.

    Parameters
    ----------
    progress : called with the time into the motion, s

    Raises
    ------
    ParameterError : an arc of the turns in which nothing was measured
    """
    rows: list[tuple[int, Vector, Vector]] = []

    def at(time_s: float) -> ClarkeReference:
        state = robot.state
        rows.append((motion.arc(time_s), state.displacement_m, state.tension_n))
        if progress is not None:
            progress(time_s)
        return motion.at(time_s)

    robot.follow(at, motion.duration_s)
    return Turn.of_samples(*zip(*rows, strict=True))
