# SPDX-License-Identifier: Apache-2.0
"""Hours of faults drawn by weight, each a run of :func:`.runner.run_one` on one stack, and the report of that."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from continuum_robot.app.output import plain, print_table, run_folder, write_json
from continuum_robot.app.running.demo import prepare_cycle
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.experiments.plotting import figure
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.robot.loading import load_robot
from faults.judge import DEVIATION_M, TIME_TO_SAFE_S, Truth
from faults.kinds import EITHER, SAFE, SOAK, TOLERATED, Kind
from faults.processes import ALLOWED_PER_H, QUANTITIES, WARM_UP_S, Growth, UsageLog, judge_growth
from faults.runner import NOT_RECOVERED, STOPPED_TOO, Effect, run_one
from faults.up import CLIENT, LONGEST_WATCH_S, UpStand
from faults.up_actions import WATCH_S

Vector = NDArray[np.float64]

RAMP_S, HOLD_S = 0.3, 0.5
MOTION_PROBABILITY, LONGEST_MOTION_S = 0.8, 4.0
USAGE_ROWS = 720
"""Rows of a process in a soak, about."""
BINS = 60


@dataclass(frozen=True, slots=True)
class SoakRecord:
    """One fault of a soak."""

    number: int
    fault: str
    detail: str
    at_s: float
    moving: bool
    reaction: str
    time_to_safe_ms: float
    peak_n: float
    faults: tuple[str, ...]
    recovery_s: float
    recovered: bool
    unsafe: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class Soak:
    """What a soak found."""

    robot: str
    seed: int
    planned_s: float
    ran_s: float = 0.0
    lived_s: float = 0.0
    peak_n: float = 0.0
    records: list[SoakRecord] = field(default_factory=list)
    overloads: list[str] = field(default_factory=list)
    shocks: list[str] = field(default_factory=list)
    unprompted: list[str] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    truth_lost_ms: int = 0
    unjudged: int = 0
    ended: str = ""

    @property
    def failures(self) -> list[str]:
        """Why the soak failed, sentences; empty where it did not."""
        lines = [f"unsafe: {sentence}" for sentence in self.overloads]
        for record in self.records:
            where = f"{record.fault} (number {record.number}, {record.at_s:.0f} s)"
            lines += [f"unsafe: {where}: {sentence}" for sentence in record.unsafe]
            lines += [f"{where}: {sentence}" for sentence in record.problems]
            if not record.recovered:
                lines.append(f"not recovered: {where}")
        lines += [
            f"{growth.process} grows: {growth.quantity} by {growth.per_h:.2f} an hour"
            f" ({growth.low_per_h:.2f} to {growth.high_per_h:.2f})"
            for growth in self.growths
            if growth.grows and growth.process != CLIENT
        ]
        return [*lines, *([self.ended] if self.ended else [])]

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each fault was drawn."""
        return Counter(record.fault for record in self.records)


def run_soak(robot: str, hours: float, *, seed: int, out: Path, console: Console | None = None) -> int:
    """Run a soak and write ``usage.csv``, ``faults.jsonl``, ``soak.json`` and ``soak.png``.

    Ctrl-C ends it with the same report.
    """
    console = console or Console()
    loaded = load_robot(robot)  # one that cannot be used is refused before anything is made
    prepare_cycle(loaded, console)
    folder = run_folder(out).resolve()
    soak = Soak(robot, seed, 3600.0 * hours)
    console.print(f"results  {folder}", highlight=False, soft_wrap=True)
    with StopRequest() as stop, UsageLog(folder / "usage.csv") as usage:
        stand = SoakStand(soak, folder, stop, _sampled(usage, max(0.5, soak.planned_s / USAGE_ROWS)))
        try:
            with console.status("bringing the stack up ..."):
                stand.start()
            _draw_faults(soak, stand, stop, folder, console)
        finally:
            soak.ended = stand.close()
            soak.lived_s, soak.peak_n = stand.lived_s, stand.peak_n
            soak.overloads += [str(one) for one in stand.overloads()]
            soak.truth_lost_ms = stand.truth_lost
            soak.growths = _growths(usage, soak.ran_s)
            write_soak(soak, folder / "soak.json")
            draw_soak(soak, usage, folder / "soak.png")
    print_soak(soak, console)
    return 1 if soak.failures else 0


class _Ended(Exception):  # noqa: N818
    """A stop was asked for."""


class SoakStand(UpStand):
    """A stack that goes on from one fault to the next: it moves or not, and is reset where it has to be."""

    def __init__(
        self, soak: Soak, folder: Path, stop: StopRequest, look: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        super().__init__(soak.robot, folder, {"contact": True}, look, soak.seed)
        self.soak, self._stop, self._begun_s = soak, stop, time.monotonic()
        self.moving, self.at_s, self.begun_s, self.recovery_s = False, 0.0, math.nan, 0.0
        self.done, self.seen = Effect(), False
        self.latched: tuple[str, ...] = ()
        self.unsafe: list[str] = []
        self.problems: list[str] = []

    def unprompted(self, reason: object) -> None:
        """Note a stop that was not drawn: a busy machine may stop the robot at any time."""
        self.soak.unprompted.append(f"{self.at_s:.0f} s: {reason}")

    def move(self, _kind: Kind, _moment: str) -> None:
        """As :class:`.runner.Stand`: or stay."""
        self.at_s = time.monotonic() - self._begun_s
        self.unsafe, self.problems, self.latched, self.done, self.recovery_s = [], [], (), Effect(), 0.0
        if not self.state.obeys:
            self.unprompted(", ".join(self.state.all_faults) or self.state.stack)
            self._reset_or_restart()
        self.moving = bool(self.rng.random() < MOTION_PROBABILITY)
        pause_s = float(self.rng.uniform(0.2, LONGEST_MOTION_S))
        try:
            if self.moving:
                self.link.restart()
            elif not self.state.holding:
                self.link.hold()
        except ContinuumRobotError as error:
            self.moving = False  # a start of a robot that stopped is refused, as it must be
            self.unprompted(error)
        if self._stop.wait(pause_s):
            raise _Ended("a stop was asked for")

    def act(self, kind: Kind, moment: str) -> Effect:
        """As :class:`.runner.Stand`: what the stack refuses is a stop that was not drawn, what it takes a problem."""
        self.begun_s = time.monotonic()
        try:
            self.done = super().act(kind, moment)
        except ParameterError as error:
            self.problems.append(str(error))  # accepted what must be refused
        except ContinuumRobotError as error:
            self.unprompted(error)
            self.done = Effect(becomes=EITHER)
        # Faults count from when they are known; what is judged begins before.
        return dataclasses.replace(self.done, begin_s=self.begun_s)

    def watch(self, kind: Kind, _effect: Effect, begin_s: float, _after_s: float) -> None:
        """As :class:`.runner.Stand`."""
        self._stop.wait(max(0.0, WATCH_S - (time.monotonic() - self.begun_s)))
        seen = not kind.truthless and self.lived(begin_s, WATCH_S, LONGEST_WATCH_S)
        if seen:
            self.latched = tuple(self.state.all_faults)
            # What has latched just now has its time, too.
            seen = self.lived(time.monotonic(), RAMP_S, LONGEST_WATCH_S)
        self.soak.unjudged += not seen and not kind.truthless
        self.seen = seen

    def truth(self, begin_s: float) -> Truth:
        """As :class:`.runner.Stand`."""
        self._listening.clear()
        return super().truth(begin_s) if self.seen and self.rows(begin_s) else {}

    def recover(self, kind: Kind, effect: Effect, *, stopped: bool) -> str:
        """As :class:`.runner.Stand`: a reset where one is needed, and nothing may move then."""
        for overload in self.overloads():
            (self.soak.shocks if overload.is_shock(self.robot, effect.slack_m) else self.soak.overloads).append(
                str(overload)
            )
        if kind.mechanical and not stopped:
            self._tried(lambda: self.link.trigger("estop"))
        self._tried(effect.repair)
        if not (kind.mechanical or kind.reset or not self.state.obeys):
            return ""
        problem = self._reset_or_restart()
        self.unsafe += self._moved()
        return problem

    def _tried(self, action: Callable[[], object]) -> None:
        try:
            action()
        except ContinuumRobotError as error:
            self.problems.append(str(error))

    def _reset_or_restart(self) -> str:
        begin_s = time.monotonic()
        problem = self.reset()
        if problem:
            self.problems.append(problem)
            ended = self.restart()
            if ended:
                self.problems.append(ended)
        self.recovery_s = time.monotonic() - begin_s
        return problem

    def _moved(self) -> list[str]:
        """What moved although nobody started a motion after the recovery."""
        begin_s = time.monotonic()
        time.sleep(HOLD_S)
        if self.state.obeys and not self.state.holding:  # a busy machine may have stopped it again meanwhile
            return ["the stack does not hold after its recovery"]
        rows = self.rows(begin_s)
        way_m = float(np.ptp(rows["displacement_m"], axis=0).max()) if rows else 0.0
        return [f"a tendon moved by {1e3 * way_m:.1f} mm before a start"] if way_m > DEVIATION_M else []


def draw(rng: np.random.Generator) -> Kind:
    """One of the kinds of a soak; processes are killed seldom, so that they live long enough to be seen growing."""
    weights = np.array([kind.weight for kind in SOAK])
    return SOAK[int(rng.choice(len(SOAK), p=weights / weights.sum()))]


def _draw_faults(soak: Soak, stand: SoakStand, stop: StopRequest, folder: Path, console: Console) -> None:
    rng = np.random.default_rng(soak.seed)
    begin_s = stand._begun_s = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        (folder / "faults.jsonl").open("w", encoding="utf-8") as log,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        task = progress.add_task("soak", total=soak.planned_s)
        while (ran_s := time.monotonic() - begin_s) < soak.planned_s and not stop.wait(0.0):
            kind = draw(rng)
            progress.update(task, completed=ran_s, description=f"{len(soak.records) + 1}: {kind.name}")
            record = _one(soak, stand, kind)
            soak.ran_s = time.monotonic() - begin_s
            if record is None:
                break
            soak.records.append(record)
            log.write(json.dumps(plain(dataclasses.asdict(record))) + "\n")
            log.flush()
            for sentence in (*record.unsafe, *record.problems):
                console.print(f"[red]{record.number}: {record.fault}[/red]: {escape(sentence)}", highlight=False)


def _one(soak: Soak, stand: SoakStand, kind: Kind) -> SoakRecord | None:
    """One fault from a robot that is up to a robot that is up again; None where a stop was asked for before."""
    try:
        found = run_one(stand, kind, "", soak.seed, slack=False)
    except _Ended:
        return None
    unsafe = [*stand.unsafe, *(one for one in found.problems if not one.startswith((STOPPED_TOO, NOT_RECOVERED)))]
    if stand.latched and found.reaction == TOLERATED and (stand.done.becomes or kind.becomes) == EITHER:
        unsafe.append(f"the motors go on to pull, with the faults {', '.join(stand.latched)}")
    return SoakRecord(
        number=len(soak.records) + 1,
        fault=kind.name,
        detail=stand.done.detail,
        at_s=stand.at_s,
        moving=stand.moving,
        reaction=found.reaction,
        time_to_safe_ms=found.time_to_safe_ms,
        peak_n=found.tension_peak_n,
        faults=stand.latched,
        recovery_s=stand.recovery_s,
        recovered=found.recovered_without_restart,
        unsafe=tuple(unsafe),
        problems=tuple(stand.problems),
    )


def _sampled(usage: UsageLog, period_s: float) -> Callable[[Mapping[str, int]], None]:
    next_s = -math.inf

    def look(pids: Mapping[str, int]) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + period_s
            usage.sample(pids)

    return look


def _growths(usage: UsageLog, ran_s: float) -> list[Growth]:
    bin_s = max(10.0, ran_s / BINS)
    growths = []
    for process in usage.processes:
        for quantity in QUANTITIES:
            series = usage.series(process, quantity)
            growths.append(judge_growth(process, quantity, *series, warm_up_s=WARM_UP_S, bin_s=bin_s))
    return growths


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
    rows = []
    for process in dict.fromkeys(growth.process for growth in soak.growths):
        own = {growth.quantity: growth for growth in soak.growths if growth.process == process}
        rows.append((process, *(own[quantity].shown for quantity in ALLOWED_PER_H)))
    print_table(
        console, "growth an hour, with its 95 % interval", ("process", *(f">{one}" for one in ALLOWED_PER_H)), rows
    )
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
