# SPDX-License-Identifier: Apache-2.0
"""The model the other way round: from where the marker was to what the servos should have pulled.

Derived here. A marker has three coordinates and a robot more tendons, so that many pulls bring it to one place: of all,
those nearest to what was pulled are taken (Gauss and Newton, least norm, damped along what the tendons hardly move).
How far they are from what was pulled is the model's error in millimetres of pull, which is what a feed-forward errs by,
and a lower bound of it: pulls that do not move the marker are not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.geometry import so3
from continuum_robot.identification.replay import in_tracker, rmse_m
from continuum_robot.robot.description import Robot
from continuum_robot.rod.displaced_statics import DisplacedStatics

Array = NDArray[np.float64]

_ITERATIONS = 3
_HARDLY = 2.0  # m of the marker for one of pull; straight through a bent robot it is 30 and more


@dataclass(frozen=True)
class MissingPull:
    """Pulls that bring the predicted marker to the measured one."""

    pull_m: Array
    left_m: Array

    @property
    def rmse_m(self) -> float:
        """Root mean square over samples and tendons, m."""
        return float(np.sqrt(np.nanmean(self.pull_m**2)))

    @property
    def left_rmse_m(self) -> float:
        """Of the marker with these pulls, m."""
        return rmse_m(self.left_m[np.isfinite(self.left_m).all(axis=1)])


def together(parts: Sequence[MissingPull]) -> MissingPull:
    """Those of samples that each were asked for once, T samples each."""
    pull_m, left_m = parts[0].pull_m.copy(), parts[0].left_m.copy()
    for part in parts[1:]:
        asked = np.isfinite(part.pull_m).all(axis=1)
        pull_m[asked], left_m[asked] = part.pull_m[asked], part.left_m[asked]
    return MissingPull(pull_m, left_m)


def missing_pull(robot: Robot, displacement_m: Array, marker_m: Array, counted: NDArray[np.bool_]) -> MissingPull:
    """What the tendons should have been pulled by for the marker to be where it was seen."""
    place, tendons = robot.recording, robot.displaced_tendons
    if place is None or tendons is None:
        raise RobotFileError(robot.file_name or None, "displaced_tendons", None, "a robot file written by `identify`")
    if not counted.any():
        raise ParameterError("counted", int(counted.sum()), "at least one sample")
    statics, gain = DisplacedStatics(robot), np.array(tendons.gain)
    turn = so3.exp(place.base_rotation_in_tracker_rad)
    pull, offset = np.zeros_like(displacement_m), np.zeros(3)
    for iteration in range(_ITERATIONS + 1):
        last = iteration == _ITERATIONS
        shown = statics.replay(displacement_m + pull, point_m=place.marker_in_tip_m, sensitivities=not last)
        error = in_tracker(place, shown.point) - marker_m
        if iteration == 0:
            offset = error[counted].mean(axis=0)
        error = error - offset
        if last:
            break
        by_zero = np.asarray(shown.sensitivity)[:, :, statics.parameters["zero_m"]]
        slope = turn @ (by_zero * gain)
        across = slope @ slope.transpose(0, 2, 1) + _HARDLY**2 * np.eye(3)
        step = -(slope.transpose(0, 2, 1) @ np.linalg.solve(across, error[..., None]))[..., 0]
        pull[counted] += step[counted]
    unseen = np.where(counted[:, None], 0.0, np.nan)
    return MissingPull(pull + unseen, error + unseen)
