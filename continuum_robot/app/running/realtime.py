# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot realtime``: whether this machine is fit for the 1 kHz cycle, and what to do where it is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.app.running.driver_cycle import PERIOD_S, measure_form
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime import machine, timer_jitter
from continuum_robot.runtime.cycle.forms import compiled_form
from continuum_robot.runtime.machine import Finding, Verdict
from continuum_robot.runtime.periodic import FIFO_PRIORITY
from continuum_robot.runtime.timer_jitter import Lateness

ROBOT = "opencr_five_tendon"
FIT_LATE_P99_US, RESERVE_LATE_P99_US = 100.0, 500.0
RESERVE_MISSED_PERCENT = 0.2
FIT_CYCLE_PART, RESERVE_CYCLE_PART = 0.3, 0.6
_COST_SECONDS = 3.0
_COLORS = {Verdict.FIT: "green", Verdict.RESERVE: "yellow", Verdict.UNFIT: "red"}


def run_realtime(
    seconds: float,
    json_file: Path | None,
    *,
    priority: int = FIFO_PRIORITY,
    root: Path = machine.SYSTEM_ROOT,
    console: Console | None = None,
) -> int:
    """Inspect, measure, print, and write JSON."""
    console = console or Console()
    findings = machine.inspect_machine(root)
    findings.append(machine.scheduler_rights(machine.try_real_time_scheduler(), root))
    findings.append(machine.memory_lock(machine.try_memory_lock()))
    isolated = machine.cpu_list(_isolated(root))
    numbers: dict[str, Any] = {"timer_seconds": seconds}
    loaded_cores = sorted(set(os.sched_getaffinity(0)) - set(isolated))
    for name, cores in (("idle", []), ("loaded", loaded_cores)):
        with console.status(f"the timer for {seconds / 2:g} s, {name} ..."), timer_jitter.busy_cores(cores):
            measured = timer_jitter.measure_lateness(lambda: time.sleep(seconds / 2), priority=priority, cpus=isolated)
        findings.append(judge_timer(f"timer, {name}", measured))
        numbers |= _timer_numbers(name, measured)
    with console.status("one cycle of the driver ..."):
        cost_us = cycle_cost_us(lambda: time.sleep(_COST_SECONDS))
    findings.append(judge_cycle(cost_us))
    numbers["driver_cycle_us"] = cost_us
    verdict = machine.worst(finding.verdict for finding in findings)
    _print(console, findings, verdict)
    if json_file is not None:
        for finding in findings:
            key = finding.name.replace(",", "").replace(" ", "_")
            numbers |= {key: finding.value, f"{key}_verdict": finding.verdict.value, f"{key}_cure": finding.cure}
        write_json(json_file, {"verdict": verdict.value, **numbers})
    return 1 if verdict is Verdict.UNFIT else 0


def cycle_cost_us(wait: Callable[[], object]) -> float:
    """Processor time of one cycle of the driver here, in the form that runs by default, us.

    The boards are simulated by another process, at the other end of real sockets.
    """
    return float(measure_form(load_robot(ROBOT), compiled_form(), wait)["cycle_us"])


def judge_timer(name: str, measured: Lateness) -> Finding:
    """The verdict on wake-ups."""
    value = (
        f"late by {measured.p50_us:.0f} us p50, {measured.p99_us:.0f} us p99, {measured.maximum_us:.0f} us max; "
        f"{measured.missed} of {measured.deadlines} deadlines missed ({measured.missed_percent:.2g} %), "
        f"{'SCHED_FIFO' if measured.real_time else 'ordinary scheduler'}"
    )
    if measured.missed == 0 and measured.p99_us <= FIT_LATE_P99_US:
        return Finding(name, value, Verdict.FIT)
    cure = "the cures above, the kernel and the isolated cores first"
    if not measured.real_time:
        cure = "the scheduler's rights and rt.priority first, then the cures above"
    few = measured.missed_percent <= RESERVE_MISSED_PERCENT and measured.p99_us <= RESERVE_LATE_P99_US
    return Finding(name, value, Verdict.RESERVE if few else Verdict.UNFIT, cure)


def judge_cycle(cost_us: float) -> Finding:
    """The verdict on what one cycle costs, us."""
    part = cost_us * 1e-6 / PERIOD_S
    value = f"{cost_us:.0f} us of processor time on simulated motor boards, {100 * part:.0f} % of the period"
    if part <= FIT_CYCLE_PART:
        return Finding("driver cycle", value, Verdict.FIT)
    cure = "governor performance, a faster processor, a C compiler for the compiled cycle, or a lower rate"
    return Finding("driver cycle", value, Verdict.RESERVE if part <= RESERVE_CYCLE_PART else Verdict.UNFIT, cure)


def _isolated(root: Path) -> str:
    found = machine.isolated_cores(root)
    return found.value if found.verdict is Verdict.FIT else ""


def _timer_numbers(name: str, measured: Lateness) -> dict[str, Any]:
    return {
        f"timer_{name}_late_p50_us": measured.p50_us,
        f"timer_{name}_late_p99_us": measured.p99_us,
        f"timer_{name}_late_max_us": measured.maximum_us,
        f"timer_{name}_missed": measured.missed,
        f"timer_{name}_missed_percent": measured.missed_percent,
        f"timer_{name}_real_time": measured.real_time,
    }


def _print(console: Console, findings: list[Finding], verdict: Verdict) -> None:
    rows = [(one.name, one.value, Text(one.verdict.value, _COLORS[one.verdict])) for one in findings]
    print_table(console, "", ("", "found", "verdict"), rows)
    say(console, *(f"{one.name}: {one.cure}" for one in findings if one.cure))
    console.print(f"\nFor a 1 kHz cycle this machine is [{_COLORS[verdict]}]{verdict.value}[/{_COLORS[verdict]}].")
    say(console, "How to set up a machine: docs/realtime.md")
