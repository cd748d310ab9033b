# SPDX-License-Identifier: Apache-2.0
"""What the papers' pages show of each experiment: status, the paper's numbers beside ours, a picture, all numbers.

The status of each result and the sentence why are in docs/papers/verdicts.yaml.
"""

from __future__ import annotations

import fnmatch
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.experiments.experiment import Experiment, experiments
from continuum_robot.experiments.stored_numbers import STORED, StoredNumbers, read_stored
from pages.citations import reference
from pages.text import WRITTEN_BY, table

# Ends of keys, longest first, and the unit that they stand for.
UNITS = {
    "_1e-2_nmm": "10⁻² N·mm",
    "_1e-3_n": "10⁻³ N",
    "_percent_of_length": "% of length",
    "_n_per_ms": "N/(m·s)",
    "_ns_per_m": "N·s/m",
    "_n_per_m": "N/m",
    "_per_m": "1/m",
    "_m_rad": "m, rad",
    "_percent": "%",
    "_mrad": "mrad",
    "_rad": "rad",
    "_deg": "deg",
    "_gpa": "GPa",
    "_hz": "Hz",
    "_ms": "ms",
    "_mm": "mm",
    "_um": "µm",
    "_us": "µs",
    "_nm": "N·m",
    "_n": "N",
    "_j": "J",
    "_m": "m",
    "_s": "s",
}
CAPITALS = {"gmo": "GMO", "jfd": "JFD", "pid": "PID", "pd": "PD", "rmse": "RMSE", "lambda0": "λ = 0"}
WIDTH = 112
PICTURES = ("", "_example", "_windows")
"""Ends of an experiment's own pictures that the pages show, where docs/images has them."""


REPRODUCED, PARTLY, NOT, UNKNOWN = STATUSES = ("reproduced", "partly", "not", "not comparable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a paper's result."""

    result: str
    status: str
    why: str
    experiment: str = ""
    keys: tuple[str, ...] = ()
    within: float = 0.1


def read_verdicts(file: Path = STORED.parent / "verdicts.yaml") -> dict[str, tuple[Verdict, ...]]:
    """Verdicts by paper, in the order of its figures.

    Parameters
    ----------
    file : where they are kept
    """
    kept = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {paper: tuple(Verdict(**one) for one in results) for paper, results in kept.items()}


VERDICTS = read_verdicts()


def label_and_unit(key: str) -> tuple[str, str]:
    """A number's name in words, and its unit, from its key.

    Parameters
    ----------
    key : e.g. ``gmo_noiseless_rmse_x_n``
    """
    unit = next((end for end in UNITS if key.endswith(end)), "")
    words = key.removesuffix(unit).split("_") if unit else key.split("_")
    return " ".join(CAPITALS.get(word, word) for word in words), UNITS.get(unit, "")


def verdicts_of(paper: str, experiment: str) -> list[Verdict]:
    """Verdicts on the results of a ``paper`` that an ``experiment`` is about, by their names."""
    return [one for one in VERDICTS[paper] if one.experiment == experiment]


def reason(verdict: Verdict, folder: Path) -> str:
    """The sentence of a verdict with the stored numbers in it.

    Parameters
    ----------
    verdict : whose
    folder : of the stored numbers
    """
    stored = read_stored(verdict.experiment, folder) if verdict.experiment else None
    return verdict.why.format(**_known(stored)) if stored else verdict.why


def _known(stored: StoredNumbers) -> dict[str, Any]:
    """Numbers for a sentence; NaN where a number is unknown, which no sentence hides."""
    return {key: float("nan") if value is None else value for key, value in stored.numbers.items()}


def sections(paper: str, folder: Path, images: Path) -> list[str]:
    """Lines of a section for each experiment of a paper, then all numbers.

    Parameters
    ----------
    paper : its short name
    folder : of the stored numbers
    images : folder of the pictures; the page shows those that exist
    """
    own = [one for name, one in experiments().items() if name.partition(".")[0] == paper]
    order = [one.experiment for one in VERDICTS[paper]]
    own.sort(key=lambda one: order.index(one.name) if one.name in order else len(order))
    lines = [*_status_table(folder, [one for one in VERDICTS[paper] if not one.experiment])]
    for one in own:
        lines += _section(one, paper, folder, images)
    lines += ["", "### All numbers", "", "Everything that the experiments above give, lists in full.", ""]
    for one in own:
        stored = read_stored(one.name, folder)
        if stored is not None:
            lines += [f"#### {one.name}: all numbers", "", "```text", *_all_numbers(stored.numbers), "```", ""]
    return lines


def _status_table(folder: Path, verdicts: list[Verdict]) -> list[str]:
    if not verdicts:
        return []
    rows = [(one.result, f"**{one.status}**", reason(one, folder)) for one in verdicts]
    return ["", "### Without an experiment", "", *table(("result", "status", "why"), rows), ""]


def _section(experiment: Experiment, paper: str, folder: Path, images: Path) -> list[str]:
    stored = read_stored(experiment.name, folder)
    lines = ["", f"### {experiment.name}", "", f"{experiment.summary} Source: {experiment.source}.", ""]
    verdicts = verdicts_of(paper, experiment.name)
    if verdicts:
        rows = [(one.result, f"**{one.status}**", reason(one, folder)) for one in verdicts]
        lines += [*table(("result", "status", "why"), rows), ""]
    lines += [f"    continuum-robot experiment {experiment.name} --plots plots", ""]
    if stored is None:
        why = experiment.not_stored or "it needs files of data"
        return [*lines, f"Its numbers are not kept here: {why}. Run it.", ""]
    own = experiment.name.replace(".", "_")
    for picture, text in (
        (f"paper_{own}.png", "the paper's numbers beside ours"),
        *((f"{own}{end}.png", "the paper's figure, as it comes out here") for end in PICTURES),
    ):
        if (images / picture).exists():
            lines += [f"![{experiment.name}: {text}](../images/{picture})", ""]
    compared = []
    for key, value in experiment.paper.items():
        label, unit = label_and_unit(key)
        compared.append((label, unit, shown(value), shown(stored.numbers.get(key))))
    return [*lines, *table(("number", "unit", "paper", "here"), compared), ""]


def _all_numbers(numbers: Mapping[str, Any]) -> Iterator[str]:
    for key, value in numbers.items():
        text = f"{key}: {_full(value)}"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _full(value: Any) -> str:
    """A value with all that is in it, numbers to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(_full(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_full(item)}' for name, item in value.items())}}}"
    return "unknown" if value is None else json.dumps(value).strip('"')


def shown(value: Any) -> str:
    """A value as a cell, numbers to three digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, Mapping):
        return f"{len(value)} entries, below"
    return re.sub(r"\s+", " ", str(value))


def overview(folder: Path) -> str:
    """The page of all results of the five papers.

    Parameters
    ----------
    folder : of the stored numbers
    """
    lines = [
        WRITTEN_BY,
        "# What came of the papers' results",
        "",
        "Every result of the five papers, how it comes out here, and why.",
        "",
        "- *Reproduced*: the paper's numbers, or its statements, come out.",
        "- *Partly*: some of them do, or the sign does and the size does not.",
        "- *Not*: they do not come out; the page states what was found instead.",
        "- *Not comparable*: the paper publishes nothing to compare with.",
        "",
        "    continuum-robot experiment --all --check    # run all again and compare with the stored numbers",
        "",
    ]
    counts: dict[str, int] = {}
    for paper, verdicts in VERDICTS.items():
        rows = []
        for one in verdicts:
            counts[one.status] = counts.get(one.status, 0) + 1
            anchor = one.experiment.replace(".", "")
            where = f"[{one.experiment}]({paper}.md#{anchor})" if one.experiment else ""
            rows.append((one.result, f"**{one.status}**", reason(one, folder), where))
        lines += [f"## [{paper}]({paper}.md)", "", reference(paper), ""]
        lines += [*table(("result", "status", "why", "experiment"), rows), ""]
    summary = ", ".join(f"{count} {status}" for status, count in counts.items())
    return "\n".join([*lines[:9], "", f"Of {sum(counts.values())} results: {summary}.", *lines[9:-1], ""])


def matching(verdict: Verdict, experiment: Experiment) -> list[str]:
    """Keys of the paper's numbers that a verdict speaks of."""
    return [key for key in experiment.paper if any(fnmatch.fnmatchcase(key, pattern) for pattern in verdict.keys)]
