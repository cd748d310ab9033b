# SPDX-License-Identifier: Apache-2.0
"""Robots drawn around one: numbers of its file between two ends each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.robot_keys import value_of, with_values
from continuum_robot.robot.description import Robot

Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class _Interval:
    low: float
    high: float
    whole: bool
    count: int | None

    def between(self, rng: np.random.Generator) -> Any:
        """A value, or a list of as many as the key holds."""
        size = self.count
        if self.whole:
            found = np.asarray(rng.integers(int(self.low), int(self.high), size=size, endpoint=True)).tolist()
        else:
            found = np.asarray(rng.uniform(self.low, self.high, size=size)).tolist()
        return found if size is None else tuple(found)


class Randomisation:
    """Draws robots.

    Parameters
    ----------
    robot : around which
    intervals : of each key of the robot's file that is drawn, its least and largest value; of a key that holds a list
        each value of it by itself, and if it is empty as many as there are tendons or motors

    Raises
    ------
    ParameterError : a key that is no number of the file, or ends that the file refuses
    """

    def __init__(self, robot: Robot, intervals: Intervals) -> None:
        self._robot = robot
        self._intervals = {key: self._checked(key, ends) for key, ends in intervals.items()}

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def drawn(self, rng: np.random.Generator) -> Robot:
        """A robot with other numbers."""
        if not self._intervals:
            return self._robot
        return with_values(self._robot, {key: one.between(rng) for key, one in self._intervals.items()})

    def _checked(self, key: str, ends: tuple[float, float]) -> _Interval:
        name, robot = f"randomise[{key!r}]", self._robot
        try:
            now = value_of(robot, key)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            now = None
        kinds = {type(one) for one in now} if isinstance(now, tuple) else {type(now)}
        if not kinds <= {int, float}:
            raise ParameterError(name, now, f"the dotted key of a number, or of numbers, in the file of {robot.name}")
        try:
            low, high = (float(end) for end in ends)
        except (TypeError, ValueError):
            low = high = math.nan
        if not -math.inf < low <= high < math.inf:
            raise ParameterError(name, ends, "(low, high): two finite numbers, the first at most as large")
        count = None
        if isinstance(now, tuple):
            count = len(now) or (robot.tendon_count if key.endswith("slack_m") else robot.motor_count)
        one = _Interval(low, high, kinds == {int}, count)
        for end in (low, high):
            value: Any = int(end) if one.whole else end
            try:
                with_values(robot, {key: value if count is None else (value,) * count})
            except ContinuumRobotError as error:
                raise ParameterError(name, ends, f"ends that the robot's file allows: {error}") from error
        return one
