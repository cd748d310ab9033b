# SPDX-License-Identifier: Apache-2.0
"""Values of simulated robots that a fit found: how far they are off, how often within their error bars, a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Figures, Tolerance
from continuum_robot.experiments.plotting import COLOURS, legend_below

Array = NDArray[np.float64]

COVERED = 2.0
"""Standard deviations that count as the error bar."""

# Rounding leads to other places of the cogging: errors within their deviations come out as others.
OF_VALUES = {
    "seeds_within*": Tolerance(absolute=3.0),
    "least_seeds*": Tolerance(absolute=3.0),
    "fraction_within*": Tolerance(absolute=0.15),
    "shown*": Tolerance(absolute=3.0),
    "error_percent*": Tolerance(relative=1.0, absolute=3.0),
    "deviation_percent*": Tolerance(relative=0.5, absolute=2.0),
}
"""Of what :func:`case_numbers` gives."""


@dataclass(frozen=True)
class FoundValues:
    """P values of one robot, in the units of their names."""

    plant: str
    seed: int
    names: tuple[str, ...]
    before: Array
    truth: Array
    values: Array
    deviations: Array
    shown: NDArray[np.bool_]

    @property
    def error(self) -> Array:
        """Found less simulated over simulated, shape (P,)."""
        return np.asarray(self.values / self.truth - 1)

    @property
    def score(self) -> Array:
        """The error over its own standard deviation, shape (P,)."""
        return np.asarray((self.values - self.truth) / self.deviations)


def case_numbers(cases: Sequence[FoundValues], plant: str) -> dict[str, object]:
    """How far the values of the robots on one plant are off, and how often that is within their deviations."""
    if not cases:
        return {}
    errors, scores = np.array([case.error for case in cases]), np.array([case.score for case in cases])
    within = (np.abs(scores) <= COVERED).sum(axis=0)
    shown = np.array([case.shown for case in cases])
    deviations = np.array([case.deviations / case.truth for case in cases])
    return {
        f"seeds_within_{plant}": [int(value) for value in within],
        f"least_seeds_within_{plant}": int(within.min()),
        f"fraction_within_{plant}": float(within.sum() / scores.size),
        f"shown_{plant}": [int(value) for value in shown.sum(axis=0)],
        f"error_percent_{plant}": [100 * float(value) for value in np.sqrt(np.mean(errors**2, axis=0))],
        f"deviation_percent_{plant}": [100 * float(value) for value in deviations.mean(axis=0)],
    }


def draw_values(title: str, cases: Sequence[FoundValues], figure: Figures, file_name: str = "") -> None:
    """Draw every value found, relative to the simulated one, with its error bar and what the file had."""
    names, plants = cases[0].names, list(dict.fromkeys(case.plant for case in cases))
    with figure(title, len(names), 1, name=file_name, sharex=True) as (drawing, axes):
        drawing.set_size_inches(drawing.get_figwidth(), 1.05 * len(names) + 1.5)
        for place, (axis, name) in enumerate(zip(np.atleast_1d(axes), names, strict=True)):
            axis.axhline(0, color="black", linewidth=0.8)
            for number, (plant, colour) in enumerate(zip(plants, COLOURS, strict=False)):
                own = [case for case in cases if case.plant == plant]
                before = [100 * (case.before[place] / case.truth[place] - 1) for case in own]
                seeds = [case.seed + 0.25 * number for case in own]
                axis.plot(seeds, before, "x", color="grey", label="robot file" if number == 0 else None)
                axis.errorbar(
                    seeds,
                    [100 * case.error[place] for case in own],
                    [100 * COVERED * case.deviations[place] / case.truth[place] for case in own],
                    fmt="o",
                    markersize=4,
                    capsize=3,
                    color=colour,
                    label=f"{plant}, with two standard deviations",
                )
            axis.set_title(name, loc="left", fontsize="small")
            axis.set_ylabel("%")
            axis.set_ylim(-60, 60)
        np.atleast_1d(axes)[-1].set_xticks(sorted({case.seed for case in cases}))
        np.atleast_1d(axes)[-1].set_xlabel("robot")
        legend_below(drawing, np.atleast_1d(axes)[0], 3)
