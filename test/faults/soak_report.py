# SPDX-License-Identifier: Apache-2.0
"""The report of a soak: numbers as JSON, a picture, and the verdict on the console."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.experiments.plotting import figure
from faults.growth import ALLOWED_PER_H
from faults.judge import TIME_TO_SAFE_S
from faults.kinds import SAFE
from faults.usage import UsageLog

if TYPE_CHECKING:
    from faults.run import Soak

_PANELS = (("pss_mib", "PSS [MiB]"), ("handles", "open handles"), ("threads", "threads"))
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#7f7f7f", "#e377c2")
_MINUTE_S = 60.0


def write_soak(soak: Soak, file: Path) -> None:
    """Write everything that was found. Raises :class:`DeviceError` where the file cannot be written."""
    numbers = dataclasses.asdict(soak) | {
        "failures": soak.failures,
        "worst_time_to_safe_ms": worst_time_to_safe_ms(soak),
        "allowed_growth_per_h": dict(ALLOWED_PER_H),
        "counts": dict(soak.counts),
    }
    write_json(file, numbers)


def worst_time_to_safe_ms(soak: Soak) -> float:
    """The longest time to the safe state, where it is known when the fault could be known; NaN where there was none."""
    times = [record.time_to_safe_ms for record in soak.records if math.isfinite(record.time_to_safe_ms)]
    return max(times, default=math.nan)


def print_soak(soak: Soak, console: Console) -> None:
    """Print growth, counts and verdict."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title="growth an hour, with its 95 % interval", title_justify="left"
    )
    table.add_column("process")
    for quantity in ALLOWED_PER_H:
        table.add_column(quantity, justify="right")
    for process in dict.fromkeys(growth.process for growth in soak.growths):
        own = {growth.quantity: growth for growth in soak.growths if growth.process == process}
        cells = []
        for quantity in ALLOWED_PER_H:
            growth = own[quantity]
            text = f"{growth.per_h:+.2f} ({growth.low_per_h:+.2f} to {growth.high_per_h:+.2f})"
            text = text if growth.judged else "too short to judge"
            cells.append(f"[red]{text}[/red]" if growth.grows else text)
        table.add_row(process, *cells)
    console.print(table)
    stopped = [record for record in soak.records if record.reaction == SAFE]
    recoveries = [record.recovery_s for record in soak.records if record.recovery_s > 0]
    for line in (
        f"{soak.ran_s / _MINUTE_S:.1f} minutes, of which the robot lived {soak.lived_s / _MINUTE_S:.1f} on its own"
        f" clock; {soak.truth_lost_ms} ms of its truth were not seen, {soak.unjudged} faults not judged",
        f"{len(soak.records)} faults of {len(soak.counts)} kinds, {len(stopped)} ended in the safe state,"
        f" {len(recoveries)} needed a reset (median {np.median(recoveries) if recoveries else math.nan:.1f} s)",
        f"slowest way to the safe state {worst_time_to_safe_ms(soak):.0f} ms, largest tension {soak.peak_n:.1f} N",
        f"{len(soak.shocks)} shocks of slack that was taken up"
        + (": " if soak.shocks else "")
        + "; ".join(soak.shocks[:10]),
        f"{len(soak.unprompted)} stops without a fault that was drawn"
        + (": " if soak.unprompted else "")
        + "; ".join(soak.unprompted[:10]),
    ):
        console.print(line, highlight=False, markup=False)
    failures = soak.failures
    if failures:
        for sentence in failures:
            console.print(f"[red]failed[/red]: {escape(sentence)}", highlight=False)
    else:
        console.print("[green]no unsafe moment, every fault recovered, no growth above noise[/green]")


def draw_soak(soak: Soak, usage: UsageLog, file: Path) -> Path:
    """Draw memory, handles and threads of each process, and each fault, over time."""
    title = (
        f"Soak of {soak.robot}, seed {soak.seed}: {len(soak.records)} faults in {soak.ran_s / _MINUTE_S:.0f} minutes,"
        f" {len(soak.failures)} failures"
    )
    heights = [2, 1.4, 1.4, 1.2]
    with figure(file, title, len(_PANELS) + 1, size=(12, 13), sharex=True, height_ratios=heights) as (_, axes):
        for (quantity, label), axis in zip(_PANELS, axes, strict=False):
            for process, color in zip(usage.processes, _COLORS * 4, strict=False):
                time_s, value, life = usage.series(process, quantity)
                for one in dict.fromkeys(life.tolist()):
                    own = life == one
                    first = one == life[0]
                    axis.plot(
                        time_s[own] / _MINUTE_S, value[own], color=color, lw=1.2, label=process if first else None
                    )
                    if not first:
                        axis.plot(time_s[own][:1] / _MINUTE_S, value[own][:1], color=color, marker="o", ms=4)
            axis.set_ylabel(label)
            axis.set_ylim(bottom=0)
            axis.grid(color="0.9")
        axes[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, title="process (dot: started again)")
        last = axes[-1]
        at_min = np.array([record.at_s for record in soak.records]) / _MINUTE_S
        times_ms = np.array([record.time_to_safe_ms for record in soak.records])
        bad = np.array([bool(record.unsafe or not record.recovered) for record in soak.records], dtype=bool)
        last.plot(at_min, times_ms, "o", color="#1f77b4", ms=4, label="time to the safe state")
        last.plot(at_min, np.zeros_like(at_min), "|", color="0.4", ms=8, label="a fault")
        if bad.any():
            last.plot(at_min[bad], np.zeros(bad.sum()), "x", color="#d62728", ms=9, label="unsafe, or not recovered")
        last.axhline(1e3 * TIME_TO_SAFE_S, color="#d62728", lw=1, ls="--", label="limit")
        last.set_ylabel("time to safe [ms]")
        last.set_xlabel("time [min]")
        last.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        last.grid(color="0.9")
    return file
