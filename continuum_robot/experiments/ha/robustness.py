# SPDX-License-Identifier: Apache-2.0
"""Random cases of the five-link mechanism: solved, or none found from many starts; and the cost per link."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.ha import mechanism as ha
from continuum_robot.experiments.ha.paper_newton import PUBLISHED_STEPS, published_solver
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics, link_loads
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError
from continuum_robot.robot.schema import Quantity

_PUBLISHED_RESIDUAL = 1e-8
_LINKS = (5, 10, 20, 50, 100, 200)
_RATIOS = (1.2, 1.22)


def time_solutions(link_counts: Sequence[int], repeats: int) -> dict[int, tuple[float, float]]:
    """Time of a solution that starts at a pose near by: the ratio of the tensions jumps by 2 %.

    The mechanisms have the links of the five-link mechanism over and over.
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


@experiment(
    "ha.robustness",
    "ha, section IV; tension ratios log-uniform in [0.1, 10], side loads on the last link",
    paper={"full_newton_steps": PUBLISHED_STEPS},
    tolerances={"*residual": Tolerance(absolute=1e-9)},
)
def robustness(
    progress: Progress,
    cases: Annotated[int, Quantity("number of unloaded cases, and of loaded ones", ge=1, le=10000)] = 100,
    largest_fraction: Annotated[
        float, Quantity("largest side load relative to the sum of the tensions", ge=0, le=5)
    ] = 0.4,
    seed: Annotated[int, Quantity("seed of the random cases", ge=0, le=2**31)] = 1,
    count_all: Annotated[bool, Quantity("search each solved loaded case for further equilibria")] = True,
) -> Any:
    """Random unloaded and side-loaded cases: solved, or no equilibrium found from many starts."""
    statics = ha.make_statics()
    generator = np.random.default_rng(seed)
    ratios, fractions, outcomes = [], [], []
    numbers: dict[str, object] = {}
    for kind in ("unloaded", "loaded"):
        counts = dict.fromkeys(("solved", "none_found", "undecided", "published", "published_only"), 0)
        largest, several = 0.0, 0
        for number in range(cases):
            ratio = 10.0 ** generator.uniform(-1.0, 1.0)
            fraction = generator.uniform(-1.0, 1.0) * largest_fraction if kind == "loaded" else 0.0
            tension = np.array([ratio, 1.0])
            loads = ha.pull_to_the_right(fraction * float(tension.sum())) if fraction else []
            outcome = "solved"
            try:
                found = statics.solve_tension(tension, loads)
                largest = max(largest, found.residual)
                if fraction and count_all:
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
                progress(f"{kind} case {number} of {cases}")
        numbers |= {f"{kind}_{key}": value for key, value in counts.items()}
        numbers[f"{kind}_largest_residual"] = largest
        if kind == "loaded" and count_all:
            numbers["loaded_with_several_equilibria"] = several

    def draw(figure: Figures) -> None:
        looks = {
            "solved": (COLOURS[0], "o", "solved"),
            "none_found": (COLOURS[1], "x", "none found: a contact leaves its surface"),
            "undecided": (REFERENCE, "s", "undecided"),
        }
        ratio, fraction, outcome = map(np.array, (ratios, fractions, outcomes))
        with figure("Random cases of the five-link mechanism", size=(6.5, 4.0)) as (_, axis):
            for name, (color, marker, label) in looks.items():
                if np.any(chosen := outcome == name):
                    look = {"s": 16, "color": color, "marker": marker, "alpha": 0.8}
                    axis.scatter(ratio[chosen], fraction[chosen], label=label, **look)
            axis.set(xscale="log", xlabel="left over right tension", ylabel="side load over sum of tensions")
            # Beside the cases, which fill the axes.
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=3)

    return numbers, draw


@experiment(
    "ha.scaling",
    "ha, section IV: one 3 x 3 inverse a link",
    paper={"cost": "linear in the number of links"},
    not_stored="its numbers are times of the machine",
)
def scaling(
    progress: Progress, repeats: Annotated[int, Quantity("solutions timed of each length", ge=3, le=10000)] = 40
) -> Any:
    """Time of a solution over the number of links, which grows linearly."""
    progress("chains of 5 to 200 links")
    times = time_solutions(_LINKS, repeats)
    links = np.array(list(times))
    least = np.array([value[1] for value in times.values()]) * 1e6
    slope, offset = np.polyfit(links, least, 1)
    straight = offset + slope * links
    numbers: dict[str, object] = {f"links_{count}_median_us": 1e6 * value[0] for count, value in times.items()}
    numbers |= {f"links_{count}_least_us": 1e6 * value[1] for count, value in times.items()}
    numbers["slope_us_per_link"] = float(slope)
    numbers["largest_deviation_from_line_fraction"] = float(np.abs(least / straight - 1).max())

    def draw(figure: Figures) -> None:
        with figure("Time of a solution from a pose near by", size=(5.5, 3.5)) as (_, axis):
            axis.plot(links, least, "o", color=COLOURS[0], label="least of all repeats")
            axis.plot(links, straight, color=REFERENCE, linewidth=0.9, label="straight line")
            axis.set(xlabel="links", ylabel="time in µs")
            axis.set_ylim(0)
            axis.legend()

    return numbers, draw
