# SPDX-License-Identifier: Apache-2.0
"""The papers' tables redrawn beside ours, from the stored numbers.

In docs/, ``python -m pages.paper_figures`` draws them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.experiments.experiment import Experiment, experiments
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure
from continuum_robot.experiments.stored_numbers import STORED, read_stored
from pages.figures import IMAGES
from pages.paper_results import label_and_unit

_LOG_FROM = 30.0  # ratio of the largest to the smallest number, from which the axis is logarithmic
_LEAST_FRACTION = 1e-9  # of the largest: below, a number is rounding and drawn at the axis' end
_ROW_INCH = 0.24


def comparable(experiment: Experiment, numbers: Mapping[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """Keys of the numbers that both the paper and we have: single ones by their unit, and lists.

    Parameters
    ----------
    experiment : with the paper's numbers
    numbers : ours
    """
    single: dict[str, list[str]] = {}
    lists = []
    for key, value in experiment.paper.items():
        ours = numbers.get(key)
        if is_number(value) and is_number(ours):
            single.setdefault(label_and_unit(key)[1], []).append(key)
        elif isinstance(value, (list, tuple)) and isinstance(ours, list) and not key.endswith("iteration"):
            lists.append(key)
    return single, lists


def draw(experiment: Experiment, folder: Path, stored: Path = STORED) -> Path | None:
    """Bars of single numbers, a panel for each unit, and curves of lists: the paper's in black, ours in blue.

    Parameters
    ----------
    experiment : which
    folder : where the picture goes
    stored : folder of the stored numbers

    Returns
    -------
    the picture; None where fewer than two numbers can be compared
    """
    known = read_stored(experiment.name, stored)
    if known is None:
        return None
    single, lists = comparable(experiment, known.numbers)
    if sum(map(len, single.values())) + 2 * len(lists) < 2:
        return None
    file = folder / f"paper_{experiment.name.replace('.', '_')}.png"
    heights = [0.9 + _ROW_INCH * len(keys) for keys in single.values()] + [2.0] * len(lists)
    options: dict[str, Any] = {"size": (7.2, 0.6 + sum(heights)), "height_ratios": heights, "squeeze": False}
    with figure(file, f"{experiment.name}: {experiment.source}", len(heights), 1, **options) as (_, axes):
        panels = list(axes[:, 0])
        for axis, (unit, keys) in zip(panels, single.items(), strict=False):
            _bars(axis, unit, keys, experiment.paper, known.numbers)
        for axis, key in zip(panels[len(single) :], lists, strict=True):
            _curves(axis, key, experiment.paper[key], experiment.paper.get(_iterations(key)), known.numbers)
    return file


def _bars(axis: Any, unit: str, keys: list[str], paper: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    place = np.arange(len(keys))
    values = {
        "paper": np.array([float(paper[key]) for key in keys]),
        "here": np.array([float(ours[key]) for key in keys]),
    }
    sizes = np.abs(np.concatenate(list(values.values())))
    positive = sizes[sizes > _LEAST_FRACTION * max(sizes.max(), 1e-300)]
    logarithmic = (
        all((one >= 0).all() for one in values.values())
        and len(positive)
        and (positive.max() > _LOG_FROM * positive.min())
    )
    for shift, (name, one), colour in zip((-0.2, 0.2), values.items(), (REFERENCE, COLOURS[0]), strict=True):
        drawn = np.maximum(one, positive.min() / 2) if logarithmic else one
        axis.barh(place + shift, drawn, height=0.36, color=colour, label=name)
    if logarithmic:
        axis.set_xscale("log")
        axis.set_xlim(positive.min() / 2)
    axis.set_yticks(place, [label_and_unit(key)[0] for key in keys], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel(unit or "number")
    axis.legend()


def _curves(axis: Any, key: str, paper: Any, iterations: Any, ours: Mapping[str, Any]) -> None:
    label, unit = label_and_unit(key)
    for values, colour, word, at in (
        (paper, REFERENCE, "paper", iterations),
        (ours[key], COLOURS[0], "here", ours.get(_iterations(key))),
    ):
        places = at if at is not None and len(at) == len(values) else range(len(values))
        known = [(x, float(y)) for x, y in zip(places, values, strict=True) if is_number(y)]
        axis.plot(*zip(*known, strict=True), "o-", color=colour, label=word, markersize=3)
    axis.set_ylabel(f"{label} in {unit}" if unit else label, fontsize=7)
    axis.set_xlabel("iteration" if _iterations(key) in ours else "place in the list")
    axis.legend()


def _iterations(key: str) -> str:
    """Key of the iterations that belong to a column of a table."""
    return f"{key.partition('_')[0]}_iteration"


def is_number(value: Any) -> bool:
    """Whether a value is a number; a switch is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


if __name__ == "__main__":
    for one in experiments().values():
        written = draw(one, IMAGES)
        if written is not None:
            sys.stdout.write(f"{written}\n")
