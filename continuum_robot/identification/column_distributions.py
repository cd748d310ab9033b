# SPDX-License-Identifier: Apache-2.0
"""Which columns may drive which segment, scored by the directions and the sizes of what they do to the marker."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.tendon_pulls import Pulls
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


def distribution_count(robot: Robot) -> int:
    """Number of ways to give a robot's columns to its segments."""
    counts = [segment.tendons.count for segment in robot.segments]
    return math.factorial(sum(counts)) // math.prod(math.factorial(count) for count in counts)


def likeliest_distributions(
    robot: Robot, pulls: Pulls, count: int, *, direction_rad: float, sensitivity_spread: float
) -> list[tuple[int, ...]]:
    """The likeliest distributions of columns over the segments; each as the columns in tendon order."""
    ends = np.cumsum([segment.length_m for segment in robot.segments])
    # Small uniform bending of arc length e by q / r_d moves the tip by q / r_d (L - e / 2).
    ideal = [
        (ends[-1] - end / 2) / segment.tendons.pitch_radius_m for end, segment in zip(ends, robot.segments, strict=True)
    ]
    responses = np.log(np.linspace(0.35, 1.4, 22))  # of the whole robot, unknown
    scores: list[dict[tuple[int, ...], tuple[tuple[int, ...], Array]]] = []
    everything = tuple(range(len(pulls.columns)))
    for segment, sensitivity in zip(robot.segments, ideal, strict=True):
        table = {}
        for group in itertools.combinations(everything, segment.tendons.count):
            order, miss = _around(pulls.direction_rad, group)
            response = np.log(pulls.sensitivity[list(group)] / sensitivity)[:, None] - responses
            cost = np.sum((miss / direction_rad) ** 2)
            table[group] = (order, cost + np.sum((response / sensitivity_spread) ** 2, axis=0))
        scores.append(table)
    ranked = heapq.nsmallest(count, _all_distributions(scores, everything), key=lambda item: item[0])
    return [order for _, order in ranked]


def _all_distributions(
    scores: list[dict[tuple[int, ...], tuple[tuple[int, ...], Array]]], left: tuple[int, ...]
) -> Iterator[tuple[float, tuple[int, ...]]]:
    def extend(segment: int, left: tuple[int, ...], cost: Array, chosen: tuple[int, ...]) -> Iterator:
        if segment == len(scores):
            yield float(cost.min()), chosen
            return
        size = len(next(iter(scores[segment])))
        for group in itertools.combinations(left, size):
            order, more = scores[segment][group]
            rest = tuple(item for item in left if item not in group)
            yield from extend(segment + 1, rest, cost + more, chosen + order)

    yield from extend(0, left, np.zeros(1), ())


def _around(direction_rad: Array, group: tuple[int, ...]) -> tuple[tuple[int, ...], Array]:
    """A group's columns counter-clockwise from its first in the file, and how far each misses equal spacing."""
    spacing = 2 * np.pi / len(group)
    relative = np.mod(direction_rad[list(group)] - direction_rad[group[0]], 2 * np.pi)
    # The first stays first: a relative angle of just under 2 pi is noise only for a tendon that is equal to it.
    order = sorted(range(len(group)), key=lambda index: relative[index])
    turned = direction_rad[[group[index] for index in order]] - spacing * np.arange(len(group))
    centre = np.angle(np.exp(1j * turned).mean())
    miss = np.angle(np.exp(1j * (turned - centre)))
    return tuple(group[index] for index in order), miss
