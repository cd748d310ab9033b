# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot experiment``: lists and runs the experiments, prints their numbers beside the papers'."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import counting_bar, print_table, say, shown, write_json
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.experiments.experiment import VALIDATED_HERE, Experiment, Progress, experiments
from continuum_robot.experiments.stored_numbers import STORED, StoredNumbers, deviations, read_stored, run_timed
from continuum_robot.robot.file.shipped_files import did_you_mean
from continuum_robot.workers import HERE, WorkerOptions, tasks

_SHOWN_DEVIATIONS = 5
_SHOWN_ENTRIES = 6


def print_list(console: Console | None = None) -> None:
    """Print every experiment, a line each: its name, and what of a paper it is."""
    console = console or Console()
    names = experiments()
    width = max(map(len, names))
    for name, experiment in names.items():
        say(console, f"{name:{width}}  {experiment.source}")
    if not VALIDATED_HERE:
        say(console, "Validations beyond the papers: in a checkout of the repository, folder validation/")


def print_experiment(name: str, console: Console | None = None) -> None:
    """Print what an experiment does, the paper's own numbers, and its options."""
    console, experiment = console or Console(), _find(name)
    console.print(f"[bold]{name}[/bold]  ({escape(experiment.source)})", highlight=False)
    table = Table.grid(padding=(0, 2), pad_edge=True)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("what", escape(experiment.summary))
    for index, (key, value) in enumerate(experiment.paper.items()):
        table.add_row("" if index else "paper", escape(f"{key}: {shown(value)}"))
    for index, (key, text) in enumerate(experiment.options.items()):
        table.add_row("" if index else "options", escape(f"--{key.replace('_', '-')}: {text}"))
    console.print(table)


def run_experiment(
    name: str,
    options: Mapping[str, str | bool],
    json_file: Path | None,
    plots: Path | None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Run one experiment and print its numbers beside the paper's."""
    console = console or Console()
    experiment = _find(name)
    with console.status(f"{name} ...") as status:
        result = experiment.run(dict(options), lambda text: status.update(f"{name}: {escape(text)}"))
    _print_numbers(experiment, result, console)
    if json_file is not None:
        write_json(json_file, result)
        say(console, f"numbers: {json_file}")
    if plots is not None:
        for figure in experiment.draw(result, plots):
            say(console, f"figure: {figure}")
    return result


def run_stored(
    names: Sequence[str],
    folder: Path = STORED,
    *,
    store: bool = False,
    plots: Path | None = None,
    console: Console | None = None,
    where: WorkerOptions = HERE,
) -> int:
    """Run experiments with their default options and compare them with the stored numbers, or store them."""
    console = console or Console()
    chosen = [_find(name) for name in names] or list(experiments().values())
    skipped = {one.name: reason for one in chosen if (reason := _reason_to_skip(one))}
    known = {one.name: read_stored(one.name, folder) for one in chosen}
    to_run = [one for one in chosen if one.name not in skipped]
    seconds = sum(stored.seconds for one in to_run if (stored := known[one.name]) is not None)
    console.print(
        f"{len(to_run)} experiments, about {max(1, round(seconds / 60))} min of processor time where the numbers were "
        f"stored; {len(skipped)} skipped",
        highlight=False,
        soft_wrap=True,
    )
    failed = 0
    with tasks(where) as runner, counting_bar(console) as progress:
        bar = progress.add_task("experiments", total=len(to_run))

        def finished(index: int, outcome: StoredNumbers | str) -> None:
            nonlocal failed
            one = to_run[index]
            progress.update(bar, advance=1)
            failed += not _tell(one.name, known[one.name], outcome, folder if store else None, console)

        def show(text: str) -> None:
            progress.update(bar, description=escape(text))

        # Lines of progress come from this process alone.
        run = partial(_run_one, plots=plots, say=show if where == HERE else None)
        runner.run(run, [one.name for one in to_run], finished)
    for name, reason in skipped.items():
        console.print(f"skipped {name}: {escape(reason)}", soft_wrap=True, highlight=False)
    return failed


def _run_one(name: str, plots: Path | None, say: Progress | None) -> StoredNumbers | str:
    """A task: the numbers of an experiment as they are stored; a sentence where it failed."""
    one = experiments()[name]
    try:
        result, found = run_timed(one, None if say is None else lambda text: say(f"{name}: {text}"))
    except ContinuumRobotError as error:
        return str(error)
    if plots is not None:
        one.draw(result, plots)
    return found


def _tell(
    name: str, before: StoredNumbers | None, outcome: StoredNumbers | str, folder: Path | None, console: Console
) -> bool:
    """Say what an experiment came to, and store its numbers where there is a folder; whether that is good."""
    if isinstance(outcome, str):
        console.print(f"[red]failed[/red]  {name}: {escape(outcome)}", soft_wrap=True, highlight=False)
        return False
    if folder is not None:
        outcome.write(folder / f"{name}.json")
        console.print(f"stored  {name}, {outcome.seconds:.0f} s", highlight=False)
        return True
    if before is None:
        console.print(f"[red]not stored[/red]  {name}: run it with --store", highlight=False)
        return False
    different = deviations(before, outcome.numbers)
    word = "[red]differs[/red]" if different else "[green]same[/green]   "
    console.print(f"{word} {name}, {outcome.seconds:.0f} s", highlight=False)
    for deviation in different[:_SHOWN_DEVIATIONS]:
        console.print(f"         {escape(str(deviation))}", soft_wrap=True, highlight=False)
    if len(different) > _SHOWN_DEVIATIONS:
        console.print(f"         and {len(different) - _SHOWN_DEVIATIONS} more", highlight=False)
    return not different


def _reason_to_skip(experiment: Experiment) -> str:
    """Why an experiment has no stored numbers; empty: it has."""
    if experiment.required:
        return "needs files: " + ", ".join(f"--{name.replace('_', '-')}" for name in experiment.required)
    if experiment.package and importlib.util.find_spec(experiment.package) is None:
        return f"needs the package {experiment.package}"
    return experiment.not_stored


def _print_numbers(experiment: Experiment, result: Mapping[str, Any], console: Console) -> None:
    rows: list[tuple[str, Any, Any]] = []
    for key, value in result.items():
        if isinstance(value, Mapping) and 0 < len(value) <= _SHOWN_ENTRIES and not any(map(_nested, value.values())):
            rows += [(f"{key}: {name}", entry, "") for name, entry in value.items()]
        else:
            rows.append((key, value, experiment.paper.get(key, "")))
    print_table(console, experiment.name, ("number", ">here", ">paper"), rows)
    for key, value in experiment.paper.items():
        if key not in result:
            say(console, f"paper: {key}: {shown(value)}")


def _find(name: str) -> Experiment:
    known = experiments()
    if name not in known:
        elsewhere = "" if VALIDATED_HERE else "; in a checkout of the repository also those of its folder validation/"
        raise ParameterError("experiment", name, f"one of {', '.join(known)}{did_you_mean(name, known)}{elsewhere}")
    return known[name]


def _nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))
