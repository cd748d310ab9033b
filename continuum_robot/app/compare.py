# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot compare``: a published shape beside what two engines find, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.experiments.published import Judgement, Published, Row, judge, load_published
from continuum_robot.robot.file.shipped_files import shipped_file

_SHOWN = {"m": (1e3, "mm"), "rad": (1e3, "mrad"), "N": (1.0, "N")}


def run_compare(files: Sequence[str], plot: Path | None, json_file: Path | None, console: Console | None = None) -> int:
    """Judge publications; 0 if all hold, 1 if one does not or if the engines disagree on it."""
    console, numbers = console or Console(), {}
    if plot is not None and len(files) > 1:
        raise ParameterError("--plot", str(plot), "one FILE beside it")
    for given in files:
        file = Path(given).expanduser()
        name = file.name if file.suffix else f"{file.name}.yaml"
        case = load_published(file if file.is_file() else shipped_file(f"published/{name}"))
        with console.status("two engines ..."):
            found = judge(case)
        _tell(case, found, console)
        row, source = found.worst, case.stated.source
        numbers[file.stem] = {
            "publication": f"{source.authors} ({source.year})",
            "holds": found.holds,
            "engines_agree": found.agree,
            "what": row.name,
            "unit": row.unit,
            "off_by": max(row.errors[:2]),
            "tolerance": row.tolerance,
            "engines_apart": row.errors[2],
        }
        if plot is not None:
            _draw(case, found, plot)
            say(console, f"figure: {plot}")
    write_json(json_file, numbers)
    return 0 if all(one["holds"] for one in numbers.values()) else 1


def _tell(case: Published, found: Judgement, console: Console) -> None:
    source = case.stated.source
    say(console, f"{source.authors} ({source.year}): {source.title}. {source.where}. {source.link}")
    columns = ("", ">published", ">rod", ">Cosserat", ">tolerance")
    print_table(console, "", columns, [line for row in found.rows for line in _cells(row)])
    say(console, verdict(found))
    for name, text in (("Assumptions", case.stated.assumptions), ("Tolerance", case.stated.published.tolerance_from)):
        if text:
            say(console, f"{name}: {text}")
    if case.stated.cause and not found.holds:
        say(console, f"Cause: {case.stated.cause}")


def verdict(found: Judgement) -> str:
    """What became of the publication, in one sentence."""
    row = found.worst
    factor, unit = _SHOWN[row.unit]
    published, _, apart = (factor * error for error in row.errors)
    unstable = "" if found.stable else " The equilibrium is unstable, and another one may have been published."
    if not found.agree:
        worst = max(found.rows, key=lambda one: one.errors[2] / one.tolerance)
        factor, unit = _SHOWN[worst.unit]
        return f"engines disagree: by {factor * worst.errors[2]:.2g} {unit} ({worst.name}).{unstable}"
    if found.holds:
        return f"holds: within {published:.2g} {unit} ({row.name}) of both engines.{unstable}"
    return (
        f"does not hold: both engines agree within {apart:.2g} {unit} and differ from the published by "
        f"{published:.3g} {unit} ({row.name}).{unstable}"
    )


def _cells(row: Row) -> Iterator[list[str]]:
    """A line for each published component, then the distances from what was published."""
    factor, unit = _SHOWN[row.unit]
    names = {1: [""], 3: [" x", " y", " z"]}.get(len(row.published)) if row.unit != "N" else None
    names = names or [f" {index + 1}" for index in range(len(row.published))]
    for name, *numbers in zip(names, row.published, row.rod, row.cosserat, strict=True):
        if np.isfinite(numbers[0]):
            yield [f"{row.name}{name}, {unit}", *(f"{round(factor * one, 4) + 0.0:.4f}" for one in numbers), ""]
    errors = [f"{factor * number:.3g}" for number in (*row.errors[:2], row.tolerance)]
    yield [f"{row.name} off by, {unit}", "", *errors]


def _draw(case: Published, found: Judgement, file: Path) -> None:
    answers, published = found.answers, case.stated.published
    assert answers.cosserat is not None
    places = np.linspace(0, answers.rod.length_m, 101)
    rod, cosserat = 1e3 * answers.energy_backbone_m(places), 1e3 * answers.cosserat.at(places).position_m
    points = [one.position_m for one in published.backbone] + ([published.tip_m] if published.tip_m else [])
    known = 1e3 * np.array([[np.nan if one is None else one for one in point] for point in points]).reshape(-1, 3)
    title = f"{case.stated.source.authors} ({case.stated.source.year}): {verdict(found).partition(':')[0]}"
    with figure(file, title, 1, 2, size=(7.2, 3.6)) as (drawing, axes):
        for axis, (index, name) in zip(axes, enumerate("xy"), strict=True):
            axis.plot(rod[:, index], rod[:, 2], color=COLOURS[5], linewidth=4, label="rod")
            axis.plot(cosserat[:, index], cosserat[:, 2], color=COLOURS[1], linestyle="--", label="Cosserat")
            axis.plot(known[:, index], known[:, 2], "o", color=REFERENCE, markersize=4, label="published", zorder=3)
            for height in known[np.isnan(known[:, index]), 2]:  # published alone
                axis.axhline(height, color=REFERENCE, linestyle=":")
            axis.set(xlabel=f"{name} / mm", ylabel="z / mm")
            axis.set_aspect("equal", adjustable="datalim")
        legend_below(drawing, axes[0])
