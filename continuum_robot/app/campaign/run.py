# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot faults``: break everything once, and see whether the robot ends safe."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from continuum_robot.app.output import counting_bar, write_json
from continuum_robot.experiments.fault_campaign import campaign, servos
from continuum_robot.experiments.fault_campaign.campaign import FaultRecord, as_mapping, injection_times, summary
from continuum_robot.experiments.fault_campaign.kind import PROCESSES, STACK, VIRTUAL, FaultKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS, kinds_by_name
from continuum_robot.experiments.fault_campaign.servo_kinds import ServoFault
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.assembly import PERIOD_S
from continuum_robot.workers import HERE, WorkerOptions, tasks

PLAIN_WIDTH = 150


def run_faults(
    robot: str,
    *,
    kinds: str = "",
    injection_time_count: int = 3,
    seed: int = 0,
    json_file: Path | None = None,
    processes: bool = True,
    console: Console | None = None,
    where: WorkerOptions = HERE,
) -> int:
    """Run the campaign and print what became of each fault."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, PLAIN_WIDTH)
    loaded = load_robot(robot)
    servo_kinds = servos.kinds_by_name(kinds) if loaded.takes_displacements else ()
    chosen: list[FaultKind] = []
    if not loaded.takes_displacements:
        chosen = [kind for kind in kinds_by_name(kinds) if processes or kind.runs == VIRTUAL]
    times = len(injection_times(injection_time_count))
    on_servos = servos.virtual_runs(loaded, servo_kinds, times, seed) if servo_kinds else []
    total = len(chosen) * times + len(on_servos) + (sum(kind.stack for kind in servo_kinds) if processes else 0)
    records: list[FaultRecord] = []
    with counting_bar(console) as progress:
        task = progress.add_task("faults", total=total)

        def finished(record: FaultRecord) -> None:
            if record.problems:
                progress.console.print(
                    f"[red]{record.fault}, {record.injection_time}[/red]: {'; '.join(record.problems)}"
                )
            elif not console.is_terminal:  # where no bar is drawn
                console.print(f"{record.fault}, {record.injection_time}: {record.reaction}", highlight=False)
            progress.update(task, advance=1, description=f"{record.fault}, {record.injection_time}")

        with tasks(where) as runner:
            if chosen:
                runs = campaign.virtual_runs(loaded, chosen, injection_time_count, seed)
                records += runner.run(campaign.run_virtual, runs, lambda _, record: finished(record))
            if on_servos:
                records += runner.run(servos.run_virtual, on_servos, lambda _, record: finished(record))
        in_processes = servo_kinds if processes else ()
        for record in _in_processes(robot, chosen, in_processes, injection_time_count, seed):
            records.append(record)
            finished(record)
    numbers = summary(records)
    console.print(_table(records))
    worst_ms = numbers["worst_time_to_safe_ms"]
    slowest = "" if math.isnan(worst_ms) else f"; the slowest took {worst_ms:.0f} ms from when the fault could be known"
    console.print(
        f"{numbers['n_safe']} of {numbers['n_runs']} runs ended safe, {numbers['n_recovered']} recovered without a "
        f"restart{slowest}",
        highlight=False,
    )
    rates = sorted({record.rate_hz for record in records if record.runs == STACK and record.rate_hz > 0})
    if rates and rates[0] < 1 / PERIOD_S:
        text = f"This machine is late at 1 kHz without a fault: the driver of stacks ran at {rates[0]:g} Hz"
        console.print(text, highlight=False)
    if json_file is not None:
        write_json(json_file, {**numbers, "seed": seed, "robot": robot, "records": [as_mapping(r) for r in records]})
    return 0 if records and numbers["n_safe"] == numbers["n_runs"] else 1


def run_soak(robot: str, hours: float, *, seed: int, out: Path) -> int:
    """Run a soak: see :func:`continuum_robot.app.soak.run.run_soak`, which needs ROS."""
    return int(importlib.import_module("continuum_robot.app.soak.run").run_soak(robot, hours, seed=seed, out=out))


def print_kinds(console: Console | None = None) -> None:
    """Print every kind with what must happen."""
    console = console or Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("fault", "runs in", "must be", "what happens"):
        table.add_column(heading)
    for kind in KINDS:
        table.add_row(kind.name, kind.runs, kind.reaction, kind.cause)
    for servo_kind in servos.KINDS:
        where = ", processes of up" if servo_kind.stack else ""
        table.add_row(servo_kind.name, f"virtual time{where}: servos", servo_kind.reaction, servo_kind.cause)
    console.print(table)


def _in_processes(
    robot: str, kinds: Sequence[FaultKind], servo_kinds: Sequence[ServoFault], injection_time_count: int, seed: int
) -> Iterator[FaultRecord]:
    """Runs of the kinds that need processes, one after the other: several stacks at once would make each other late."""
    # Only here: the rest of the campaign runs where there is no ROS.
    if any(kind.runs == PROCESSES for kind in kinds):
        in_processes = importlib.import_module("continuum_robot.app.campaign.processes")
        domain = importlib.import_module("continuum_robot.app.running.domain")
        with contextlib.ExitStack() as stack:
            stack.enter_context(domain.claimed_domain(""))
            yield from in_processes.run_campaign(robot, kinds, injection_time_count, seed)
    if any(kind.runs == STACK for kind in kinds):  # the stack claims the domain itself
        yield from importlib.import_module("continuum_robot.app.campaign.stack").run_campaign(
            robot, kinds, injection_time_count, seed
        )
    if any(kind.stack for kind in servo_kinds):
        yield from importlib.import_module("continuum_robot.app.campaign.servo_stack").run_campaign(
            robot, servo_kinds, seed
        )


def _table(records: Sequence[FaultRecord]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault")
    table.add_column("injection time")
    table.add_column("became")
    table.add_column("found by")
    for heading in ("to safe", "peak", "left"):
        table.add_column(heading, justify="right")
    table.add_column("safe")
    table.add_column("again")
    for record in records:
        table.add_row(
            record.fault,
            record.injection_time,
            record.reaction,
            record.detected_by[0] if record.detected_by else "-",
            "-" if math.isnan(record.time_to_safe_ms) else f"{record.time_to_safe_ms:.0f} ms",
            f"{record.tension_peak_n:.1f} N",
            f"{record.tension_left_n:.1f} N",
            "[green]yes[/green]" if record.ended_safe else "[red]NO[/red]",
            "yes" if record.recovered_without_restart else "[red]no[/red]",
        )
    return table
