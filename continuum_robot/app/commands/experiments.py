# SPDX-License-Identifier: Apache-2.0
"""Commands that end in numbers: experiments of the papers, and how this machine keeps time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from continuum_robot.app.commands.arguments import (
    EXIT_REFUSED,
    JsonOption,
    ManualCommand,
    SchedulerOption,
    WorkersOption,
    output_folder,
    part,
    without_effect,
)
from continuum_robot.errors import ParameterError
from continuum_robot.workers import WorkerOptions


class ExperimentHelp(ManualCommand):
    """A command whose ``--help`` behind the name of an experiment is about that experiment."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Print the help of an experiment where it is asked for; ``ctx`` is the parser's context."""
        asked = [word for word in args if word in ("--help", "-h")]
        if asked and args[0] not in asked and not args[0].startswith("-"):
            part("experiment").print_experiment(args[0])
            raise typer.Exit
        return super().parse_args(ctx, args)


def experiment(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; see --list.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", callback=output_folder, help="Draw the figures here.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List all, a line each.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All of them, with --check or --store.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the stored numbers, each within its tolerance; exit code 1 if not."),
    ] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Store the numbers, for --check and the papers' pages.")
    ] = False,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
) -> None:
    """Run an experiment of a paper: print its numbers beside the paper's, write them as JSON, draw its figures.

    Options of the experiment itself follow its name, e.g. --robot FILE --data FILE for ftdcr.replay; NAME --help shows
    them, and the paper's own numbers. --workers and --scheduler are for --check, --store and the experiments that list
    them; others refuse them.

    With --check or --store it runs with its default options. The stored numbers lie in docs/papers/numbers of a clone,
    each file with tolerances and the processor time of its run. --all reports first how long it takes; experiments that
    need files of data, or whose numbers are a machine's times, are skipped with the reason.
    """
    module = part("experiment")
    if check and store:
        raise ParameterError("--check, --store", "both", "one of them")
    if every and not (check or store):
        raise ParameterError("--all", "alone", "--all --check or --all --store")
    if (check or store) and (every or name is not None):
        beside = list(own_options(context.args))
        beside += [str(name)] if every and name is not None else []
        beside += ["--json"] if json_file is not None else []
        if beside:
            raise ParameterError("options", ", ".join(beside), "none with --check and --store")
        if not every:
            without_effect("with a single experiment", {"--workers": workers > 0})
        where = WorkerOptions(workers, scheduler)
        failed = module.run_stored([] if every else [name], store=store, plots=plots, where=where)
        raise typer.Exit(1 if failed else 0)
    own = dict(own_options(context.args))
    own |= {key: str(value) for key, value in (("workers", workers), ("scheduler", scheduler)) if value}
    if show_list or name is None:
        given = {"NAME": name is not None, "--json": json_file is not None, "--plots": plots is not None}
        without_effect("with --list", given | {f"--{key}": True for key in own})
        module.print_list()
        raise typer.Exit(0 if show_list else EXIT_REFUSED)
    module.run_experiment(name, own, json_file, plots)


def realtime(
    json_file: JsonOption = None,
    duration: Annotated[
        float, typer.Option(metavar="S", min=1.0, max=86400.0, help="Length of the timer's measurement, s.")
    ] = 30.0,
    priority: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=98, help="SCHED_FIFO priority of the timer's thread where that is allowed; 0: none."
        ),
    ] = 80,
) -> None:
    """Find out whether this machine is fit for the 1 kHz cycle, and what to do where it is not.

    Kernel, rights, memory lock, frequency, idle states, cores, clock; then how late a thread wakes up from sleeps to
    absolute deadlines, half of the time idle and half with a busy process on every core; and what one cycle of the
    driver costs. Each line is fit, with reserve or not fit, and has its cure. Exit code 1 where one is not fit.
    docs/how-to/realtime.md shows how to set up a machine.
    """
    raise typer.Exit(part("running.realtime").run_realtime(duration, json_file, priority=priority))


def own_options(arguments: Sequence[str]) -> dict[str, str | bool]:
    """Options that follow an experiment's name, ``["--robot", "a.yaml", "--fast"]`` -> ``{"robot": "a.yaml", ...}``.

    An option without a value counts as true, ``true`` and ``false`` are no texts; hyphens in names become underscores.
    """
    options: dict[str, str | bool] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--") or len(name) == len("--"):
            raise ParameterError("argument", name, "options of the experiment as --name VALUE")
        key, equals, value = name[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        key = key.replace("-", "_")
        if key in options:
            raise ParameterError(f"--{key}", value, "each option once")
        options[key] = {"true": True, "false": False}.get(value, value)
    return options
