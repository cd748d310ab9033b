# SPDX-License-Identifier: Apache-2.0
"""The picture that compares the runs of a sweep: each metric over each key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.output import shown
from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.robot.file.whole_file import unwritten

Vector = NDArray[np.float64]

_MOST_KEYS = 6
_LONGEST_NAME = 24
_WIDE = 20
"""Largest over smallest value from which an axis is logarithmic."""


def draw(
    file: Path,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    metrics: Sequence[str],
    in_grid: Collection[str],
) -> None:
    """Draw a row of axes for each metric, and in it each key that has more than one value, but no lists of draws."""
    chosen = [key for key in keys if len({_text(row[key]) for row in rows}) > 1]
    chosen = [key for key in chosen if key in in_grid or not isinstance(rows[0][key], list)][:_MOST_KEYS] or ["run"]
    ended = np.array([bool(row["faults"] or row["problem"]) for row in rows])
    size = (1.2 + 2.6 * len(chosen), 1.4 + 2.2 * len(metrics))
    try:
        with figure(
            file,
            f"{name}: {len(rows)} runs",
            len(metrics),
            len(chosen),
            size=size,
            squeeze=False,
            sharex="col",
            sharey="row",
        ) as (drawing, axes):
            for column, key in enumerate(chosen):
                places, ticks = _places([row[key] for row in rows])
                for across, metric in zip(axes, metrics, strict=True):
                    values, _ = _shown(rows, metric)
                    _compare(across[column], places, ticks, values, ended, medians=key in in_grid)
                axes[-1][column].set_xlabel(_broken(key))
            for across, metric in zip(axes, metrics, strict=True):
                across[0].set_ylabel(_shown(rows, metric)[1])
            legend_below(drawing, axes[0][0])
    except OSError as error:
        raise unwritten(file, error) from error


def _compare(
    axis: Any, places: Vector, ticks: Sequence[str], values: Vector, ended: NDArray[np.bool_], *, medians: bool
) -> None:
    """Dots of the runs, and the median of those at one place."""
    axis.plot(places[~ended], values[~ended], ".", color=COLOURS[0], alpha=0.6, markersize=5, label="run")
    if ended.any():
        axis.plot(places[ended], values[ended], "x", color=COLOURS[1], markersize=5, label="ended by a fault")
    different = np.unique(places)
    if medians:
        usual = np.isfinite(values) & ~ended
        median = [np.median(own) if (own := values[usual & (places == at)]).size else np.nan for at in different]
        axis.plot(different, median, color=COLOURS[2], marker="_", markersize=9, label="median")
    known = values[np.isfinite(values)]
    if known.size and known.min() > 0 and known.max() > _WIDE * known.min():
        axis.set_yscale("log")
    if ticks:
        axis.set_xticks(different, ticks, rotation=20, ha="right")
        axis.set_xlim(different[0] - 0.5, different[-1] + 0.5)
    elif places.min() > 0 and places.max() > _WIDE * places.min():
        axis.set_xscale("log")


def _shown(rows: Sequence[Mapping[str, Any]], metric: str) -> tuple[Vector, str]:
    """Values of a metric, lengths in mm, and what they are."""
    values = np.array([np.nan if row.get(metric) is None else row[metric] for row in rows], dtype=float)
    return (1e3 * values, f"{metric[:-2]} in mm") if metric.endswith("_m") else (values, metric)


def _places(values: Sequence[Any]) -> tuple[Vector, list[str]]:
    """Where values stand along an axis, and the names of the places where they are no numbers."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=float), []
    names = list(dict.fromkeys(_text(value) for value in values))
    return np.array([names.index(_text(value)) for value in values], dtype=float), names


def _text(value: Any) -> str:
    whole = (
        ", ".join(f"{name} {shown(one)}" for name, one in value.items()) if isinstance(value, dict) else shown(value)
    )
    return whole if len(whole) <= _LONGEST_NAME else whole[: _LONGEST_NAME - 1] + "…"


def _broken(key: str) -> str:
    """A long key on two lines, broken at a dot."""
    head, _, tail = key.rpartition(".")
    return f"{head}\n.{tail}" if len(key) > 24 and head else key
