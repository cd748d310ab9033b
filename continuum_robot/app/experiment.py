# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot experiment``: lists and runs the experiments, prints their numbers beside the papers'."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import Experiment
from continuum_robot.experiments.registry import experiments


def print_list(console: Console | None = None) -> None:
    """Print every experiment with its summary, the paper's own numbers beside it, and its options."""
    console = console or Console()
    for name, experiment in experiments().items():
        console.print(f"[bold]{name}[/bold]  ({escape(experiment.source)})", highlight=False)
        table = Table.grid(padding=(0, 2), pad_edge=True)
        table.add_column(no_wrap=True)
        table.add_column()
        table.add_row("what", escape(experiment.summary))
        for index, (key, value) in enumerate(experiment.paper.items()):
            table.add_row("" if index else "paper", escape(f"{key}: {_shown(value)}"))
        for index, (key, text) in enumerate(experiment.options.items()):
            table.add_row("" if index else "options", escape(f"--{key.replace('_', '-')}: {text}"))
        console.print(table)
        console.print()


def run_experiment(
    name: str,
    options: Mapping[str, str | bool],
    json_file: Path | None,
    plots: Path | None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Run one experiment and print its numbers beside the paper's.

    Parameters
    ----------
    name : as listed
    options : the experiment's own, as typed
    json_file : where to write the numbers too, None for nowhere
    plots : folder for the figures, None for none
    console : where to print

    Returns
    -------
    the numbers, flat, units in the keys

    Raises
    ------
    ParameterError : no such experiment, or an option that it does not have
    """
    console = console or Console()
    experiment = _find(name)
    with console.status(f"{name} ...") as status:
        result = experiment.run(dict(options), lambda text: status.update(f"{name}: {escape(text)}"))
    table = Table(title=name, title_justify="left", title_style="bold")
    table.add_column("number")
    table.add_column("here", justify="right")
    table.add_column("paper", justify="right")
    for key, value in result.items():
        table.add_row(key, escape(_shown(value)), escape(_shown(experiment.paper.get(key, ""))))
    console.print(table)
    for key, value in experiment.paper.items():
        if key not in result:
            console.print(f"paper: {key}: {_shown(value)}", markup=False, highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(json_file, result)
        console.print(f"numbers: {json_file}", markup=False, highlight=False, soft_wrap=True)
    if plots is not None:
        for figure in experiment.draw(result, plots):
            console.print(f"figure: {figure}", markup=False, highlight=False, soft_wrap=True)
    return result


def _find(name: str) -> Experiment:
    known = experiments()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ParameterError("experiment", name, f"one of {', '.join(known)}{hint}")
    return known[name]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{len(value)} entries, in the JSON file"
    if isinstance(value, bool) or not isinstance(value, (float, list, tuple)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    shown = ", ".join(_shown(item) for item in value[:8])
    return f"[{shown}{', ...' if len(value) > 8 else ''}]"
