# SPDX-License-Identifier: Apache-2.0
"""How long solutions of rolling-joint mechanisms take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.robot.loading import load_robot

_RATIOS = (1.2, 1.22)


def chain_of(count: int) -> Linkage:
    """A mechanism of ``count`` links, those of the shipped ``rolling_five_link`` over and over."""
    links = make_linkage(rolling_joint_of(load_robot("rolling_five_link"))).links
    return Linkage([links[index % len(links)] for index in range(count)])


def time_solutions(link_counts: Sequence[int], repeats: int) -> dict[int, tuple[float, float]]:
    """Time of a solution that starts at a pose near by: the ratio of the tensions jumps by 2 %.

    Parameters
    ----------
    link_counts : numbers of links
    repeats : solutions of each

    Returns
    -------
    for each number of links the median and the least time, s
    """
    times = {}
    for count in link_counts:
        statics = RollingStatics(chain_of(count))
        start = statics.solve_tension([_RATIOS[0], 1.0]).contact_m
        taken = []
        for index in range(repeats):
            begin = time.perf_counter()
            start = statics.solve_tension([_RATIOS[(index + 1) % 2], 1.0], start_m=start).contact_m
            taken.append(time.perf_counter() - begin)
        times[count] = (statistics.median(taken), min(taken))
    return times


def measure_rolling_joints(repeats: int = 1000) -> dict[str, float]:
    """Time of a warm solution of the five-link mechanism, Python's part included.

    Parameters
    ----------
    repeats : number of solutions

    Returns
    -------
    flat: ``rolling_joint_5_links_median_us``, ``rolling_joint_5_links_least_us``
    """
    median_s, least_s = time_solutions((5,), repeats)[5]
    return {"rolling_joint_5_links_median_us": 1e6 * median_s, "rolling_joint_5_links_least_us": 1e6 * least_s}
