# SPDX-License-Identifier: Apache-2.0
"""``make faults`` breaks everything once, ``make soak`` does so at random for hours."""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from continuum_robot.app.output import counting_bar, print_table, write_json
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.loading import load_robot
from continuum_robot.workers import WorkerOptions, tasks
from faults.kinds import KINDS, SERVOS, UP, VIRTUAL, by_name, kinds_of, moments
from faults.runner import FaultRecord, summary
from faults.virtual import run_virtual, virtual_runs

PLAIN_WIDTH = 150
application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
RobotOption = Annotated[str, typer.Option(metavar="ROBOT", help="Robot file, or the name of a shipped one.")]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, help="Of noise, and of what is hit.")]


@application.command()
def faults(
    robot: RobotOption = "opencr_five_tendon",
    *,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the records here.")] = None,
    kinds: Annotated[str, typer.Option(metavar="NAMES", help="Only these, separated by commas. Empty: all.")] = "",
    count: Annotated[
        int,
        typer.Option("--moments", min=1, max=3, help="1: early in the ramp; 2: at speed too; 3: at rest, bent, too."),
    ] = 3,
    seed: SeedOption = 0,
    virtual_only: Annotated[bool, typer.Option("--virtual-only", help="Leave out the kinds on processes.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List all kinds of faults.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes that share the runs in virtual time.")] = 0,
) -> None:
    """Break everything once, on a simulated robot that moves under control, and see whether it ends safe.

    Exit code 1 unless every run ended safe. docs/reference/faults.md has the kinds, and how they are judged.
    """
    if show_list:
        print_kinds(Console())
        raise typer.Exit
    raise typer.Exit(
        run_faults(
            robot, kinds=kinds, count=count, seed=seed, json_file=json_file, processes=not virtual_only, workers=workers
        )
    )


@application.command()
def soak(
    hours: Annotated[float, typer.Option(min=0.001, max=1000.0, help="How long.")],
    robot: RobotOption = "opencr_five_tendon",
    *,
    seed: SeedOption = 0,
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path("runs"),
) -> None:
    """Faults, kills and resets, drawn by the seed, on one stack in processes. Ctrl-C ends it with the same report.

    Exit code 1 where a moment was unsafe, a fault was not recovered, or a process grew.
    """
    raise typer.Exit(importlib.import_module("faults.soak").run_soak(robot, hours, seed=seed, out=folder))


def run_faults(
    robot: str,
    *,
    kinds: str = "",
    count: int = 3,
    seed: int = 0,
    json_file: Path | None = None,
    processes: bool = True,
    workers: int = 0,
    console: Console | None = None,
) -> int:
    """Run the campaign and print what became of each fault."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, PLAIN_WIDTH)
    loaded = load_robot(robot)
    chosen = by_name(kinds_of(loaded), kinds)
    runs = virtual_runs(loaded, chosen, count, seed)
    on_up = [kind for kind in chosen if processes and (kind.up or kind.runs == UP)]
    moment_count = 1 if loaded.takes_displacements else count
    records: list[FaultRecord] = []
    with counting_bar(console) as progress:
        task = progress.add_task("faults", total=len(runs) + sum(len(moments(kind, moment_count)) for kind in on_up))

        def finished(record: FaultRecord) -> None:
            where = f"{record.fault}, {record.injection_time}"
            if record.problems:
                progress.console.print(f"[red]{where}[/red]: {'; '.join(record.problems)}")
            elif not console.is_terminal:  # where no bar is drawn
                console.print(f"{where}: {record.reaction}", highlight=False)
            progress.update(task, advance=1, description=where)

        with tasks(WorkerOptions(workers, "")) as runner:
            records += runner.run(run_virtual, runs, lambda _, record: finished(record))
        if on_up:  # one after the other: several stacks at once would make each other late. Only here ROS is needed.
            for record in importlib.import_module("faults.up").run_on_up(robot, on_up, count, seed):
                records.append(record)
                finished(record)
    numbers = summary(records)
    print_table(console, "", COLUMNS, map(_row, records))
    worst_ms = numbers["worst_time_to_safe_ms"]
    slowest = "" if math.isnan(worst_ms) else f"; the slowest took {worst_ms:.0f} ms from when the fault could be known"
    console.print(
        f"{numbers['n_safe']} of {numbers['n_runs']} runs ended safe, {numbers['n_recovered']} recovered without a "
        f"restart{slowest}",
        highlight=False,
    )
    rates = sorted({record.rate_hz for record in records if record.runs == UP and record.rate_hz > 0})
    if rates and not loaded.takes_displacements and rates[0] < 1000.0:
        text = f"This machine is late at 1 kHz without a fault: the driver of stacks ran at {rates[0]:g} Hz"
        console.print(text, highlight=False)
    if json_file is not None:
        write_json(
            json_file, {**numbers, "seed": seed, "robot": robot, "records": [dataclasses.asdict(r) for r in records]}
        )
    return 0 if records and numbers["n_safe"] == numbers["n_runs"] else 1


def print_kinds(console: Console) -> None:
    """Print every kind with what must happen."""
    rows = [
        (kind.name, "virtual time" if kind.runs == VIRTUAL else "processes of up", kind.becomes, kind.cause)
        for kind in KINDS
    ]
    for kind in SERVOS:
        where = ", processes of up" if kind.up else ""
        rows.append((kind.name, f"virtual time{where}: servos", kind.becomes, kind.cause))
    print_table(console, "", ("fault", "runs in", "must be", "what happens"), rows)


COLUMNS = ("fault", "injection time", "became", "found by", ">to safe", ">peak", ">left", "safe", "again")


def _row(record: FaultRecord) -> tuple[str | Text, ...]:
    return (
        record.fault,
        record.injection_time,
        record.reaction,
        record.detected_by[0] if record.detected_by else "-",
        "-" if math.isnan(record.time_to_safe_ms) else f"{record.time_to_safe_ms:.0f} ms",
        f"{record.tension_peak_n:.1f} N",
        f"{record.tension_left_n:.1f} N",
        Text("yes", "green") if record.ended_safe else Text("NO", "red"),
        "yes" if record.recovered_without_restart else Text("no", "red"),
    )


if __name__ == "__main__":
    try:
        application()
    except ContinuumRobotError as error:
        sys.exit(str(error))
