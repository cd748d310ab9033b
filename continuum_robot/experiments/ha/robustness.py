# SPDX-License-Identifier: Apache-2.0
"""Random cases of the five-link mechanism: solved, or none found from many starts; and the cost per link."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.experiment import Experiment, Progress, Result, Tolerance
from continuum_robot.experiments.ha import mechanism as ha
from continuum_robot.experiments.ha.paper_newton import PUBLISHED_STEPS, published_solver
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.loads import link_loads
from continuum_robot.mechanisms.rolling_joint.problems import NoEquilibriumError
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

_PUBLISHED_RESIDUAL = 1e-8
_LINKS = (5, 10, 20, 50, 100, 200)
_RATIOS = (1.2, 1.22)


@dataclass(frozen=True, kw_only=True)
class RobustnessSettings:
    """Options of ha.robustness."""

    cases: int = quantity("number of unloaded cases, and of loaded ones", default=100, ge=1, le=10000)
    largest_fraction: float = quantity("largest side load relative to the sum of the tensions", default=0.4, ge=0, le=5)
    seed: int = quantity("seed of the random cases", default=1, ge=0, le=2**31)
    count_all: bool = quantity("search each solved loaded case for further equilibria", default=True)


@dataclass(frozen=True, kw_only=True)
class ScalingSettings:
    """Options of ha.scaling."""

    repeats: int = quantity("solutions timed of each length", default=40, ge=3, le=10000)


@dataclass(frozen=True, slots=True)
class CaseSeries:
    """Cases by what became of them: ratio of the tensions, and side load relative to their sum.

    Attributes
    ----------
    ratio : tension of the left tendon over that of the right one, shape (cases,)
    fraction : side load relative to the sum of the tensions, shape (cases,)
    outcome : what became of each case
    """

    ratio: Array
    fraction: Array
    outcome: list[str]


def time_solutions(link_counts: Sequence[int], repeats: int) -> dict[int, tuple[float, float]]:
    """Time of a solution that starts at a pose near by: the ratio of the tensions jumps by 2 %.

    The mechanisms have the links of the five-link mechanism over and over.

    Parameters
    ----------
    link_counts : numbers of links
    repeats : solutions of each

    Returns
    -------
    for each number of links the median and the least time, s
    """
    links, times = ha.make_statics().linkage.links, {}
    for count in link_counts:
        statics = RollingStatics(Linkage([links[index % len(links)] for index in range(count)]))
        start = statics.solve_tension([_RATIOS[0], 1.0]).contact_m
        taken = []
        for index in range(repeats):
            begin = time.perf_counter()
            start = statics.solve_tension([_RATIOS[(index + 1) % 2], 1.0], start_m=start).contact_m
            taken.append(time.perf_counter() - begin)
        times[count] = (statistics.median(taken), min(taken))
    return times


def _run(settings: RobustnessSettings, progress: Progress) -> Result:
    statics = ha.make_statics()
    generator = np.random.default_rng(settings.seed)
    ratios, fractions, outcomes = [], [], []
    numbers: dict[str, object] = {}
    for kind in ("unloaded", "loaded"):
        counts = dict.fromkeys(("solved", "none_found", "undecided", "published", "published_only"), 0)
        largest, several = 0.0, 0
        for number in range(settings.cases):
            ratio = 10.0 ** generator.uniform(-1.0, 1.0)
            fraction = generator.uniform(-1.0, 1.0) * settings.largest_fraction if kind == "loaded" else 0.0
            tension = np.array([ratio, 1.0])
            loads = ha.pull_to_the_right(fraction * float(tension.sum())) if fraction else []
            outcome = "solved"
            try:
                found = statics.solve_tension(tension, loads)
                largest = max(largest, found.residual)
                if fraction and settings.count_all:
                    several += len(statics.all_equilibria(tension, loads)) > 1
            except NoEquilibriumError:
                outcome = "none_found"
            except ConvergenceError:
                outcome = "undecided"
            counts[outcome] += 1
            on_links = link_loads(loads, len(statics.linkage.links))
            with np.errstate(all="ignore"):
                _, _, left = published_solver(statics.linkage, tension, on_links)
            by_published = left < _PUBLISHED_RESIDUAL * float(tension.sum())
            counts["published"] += by_published
            counts["published_only"] += by_published and outcome != "solved"
            ratios.append(ratio)
            fractions.append(fraction)
            outcomes.append(outcome)
            if number % 10 == 0:
                progress(f"{kind} case {number} of {settings.cases}")
        numbers |= {f"{kind}_{key}": value for key, value in counts.items()}
        numbers[f"{kind}_largest_residual"] = largest
        if kind == "loaded" and settings.count_all:
            numbers["loaded_with_several_equilibria"] = several
    return Result(numbers, CaseSeries(np.array(ratios), np.array(fractions), outcomes))


def _draw(result: Result, folder: Path) -> list[Path]:
    series: CaseSeries = result.series
    file = folder / "ha_robustness.png"
    looks = {
        "solved": (COLOURS[0], "o", "solved"),
        "none_found": (COLOURS[1], "x", "none found: a contact leaves its surface"),
        "undecided": (REFERENCE, "s", "undecided"),
    }
    with figure(file, "Random cases of the five-link mechanism", size=(6.5, 4.0)) as (_, axis):
        outcome = np.array(series.outcome)
        for name, (color, marker, label) in looks.items():
            chosen = outcome == name
            if chosen.any():
                axis.scatter(
                    series.ratio[chosen],
                    series.fraction[chosen],
                    s=16,
                    color=color,
                    marker=marker,
                    label=label,
                    alpha=0.8,
                )
        axis.set_xscale("log")
        axis.set_xlabel("left over right tension")
        axis.set_ylabel("side load over sum of tensions")
        # Beside the cases, which fill the axes.
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=3)
    return [file]


def _run_scaling(settings: ScalingSettings, progress: Progress) -> Result:
    progress("chains of 5 to 200 links")
    times = time_solutions(_LINKS, settings.repeats)
    links = np.array(list(times))
    least = np.array([value[1] for value in times.values()]) * 1e6
    slope, offset = np.polyfit(links, least, 1)
    straight = offset + slope * links
    numbers: dict[str, object] = {f"links_{count}_median_us": 1e6 * value[0] for count, value in times.items()}
    numbers |= {f"links_{count}_least_us": 1e6 * value[1] for count, value in times.items()}
    numbers["slope_us_per_link"] = float(slope)
    numbers["largest_deviation_from_line_fraction"] = float(np.abs(least / straight - 1).max())
    return Result(numbers, (links, least, straight))


def _draw_scaling(result: Result, folder: Path) -> list[Path]:
    links, least, straight = result.series
    file = folder / "ha_scaling.png"
    with figure(file, "Time of a solution from a pose near by", size=(5.5, 3.5)) as (_, axis):
        axis.plot(links, least, "o", color=COLOURS[0], label="least of all repeats")
        axis.plot(links, straight, color=REFERENCE, linewidth=0.9, label="straight line")
        axis.set_xlabel("links")
        axis.set_ylabel("time in µs")
        axis.set_ylim(0)
        axis.legend()
    return [file]


ROBUSTNESS = Experiment(
    name="ha.robustness",
    summary="Random unloaded and side-loaded cases: solved, or no equilibrium found from many starts.",
    source="ha, section IV; tension ratios log-uniform in [0.1, 10], side loads on the last link",
    paper={"full_newton_steps": PUBLISHED_STEPS},
    settings=RobustnessSettings,
    compute=_run,
    plot=_draw,
    tolerances={"*residual": Tolerance(absolute=1e-9)},
)
SCALING = Experiment(
    name="ha.scaling",
    summary="Time of a solution over the number of links, which grows linearly.",
    source="ha, section IV: one 3 x 3 inverse a link",
    paper={"cost": "linear in the number of links"},
    settings=ScalingSettings,
    compute=_run_scaling,
    plot=_draw_scaling,
    not_stored="its numbers are times of the machine",
)
