# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot faults --soak HOURS``: draw faults, judge each by the robot's truth; in the end the processes."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from continuum_robot.app.output import plain, run_folder
from continuum_robot.app.running.demo import prepare_cycle
from continuum_robot.app.soak.faults import SoakFault, draw
from continuum_robot.app.soak.growth import WARM_UP_S, Growth, judge_growth
from continuum_robot.app.soak.report import draw_soak, print_soak, write_soak
from continuum_robot.app.soak.stand import CLIENT, StackStand
from continuum_robot.app.soak.usage import QUANTITIES, UsageLog
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.experiments.fault_campaign.judgement import DEVIATION_M, REST_S, TIME_TO_SAFE_S, TORQUE_MARGIN_N
from continuum_robot.experiments.fault_campaign.kind import EITHER, SAFE, TOLERATED
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.robot.loading import load_robot

Vector = NDArray[np.float64]

WATCH_S = 1.5
LONGEST_WATCH_S = 30.0
RAMP_S = 0.3
HOLD_S = 0.5
MOTION_PROBABILITY = 0.8
LONGEST_MOTION_S = 4.0
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
    since_begin_ms: float
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
        stand = StackStand(robot, folder, look=_sampled(usage, max(0.5, soak.planned_s / USAGE_ROWS)))
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


def _draw_faults(soak: Soak, stand: StackStand, stop: StopRequest, folder: Path, console: Console) -> None:
    rng = np.random.default_rng(soak.seed)
    begin_s = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        (folder / "faults.jsonl").open("w", encoding="utf-8") as log,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        task = progress.add_task("soak", total=soak.planned_s)
        while (ran_s := time.monotonic() - begin_s) < soak.planned_s and not stop.wait(0.0):
            fault = draw(rng)
            progress.update(task, completed=ran_s, description=f"{len(soak.records) + 1}: {fault.name}")
            record = _one(soak, stand, fault, rng, ran_s, stop)
            soak.ran_s = time.monotonic() - begin_s
            if record is None:
                break
            soak.records.append(record)
            log.write(json.dumps(plain(dataclasses.asdict(record))) + "\n")
            log.flush()
            for sentence in (*record.unsafe, *record.problems):
                console.print(f"[red]{record.number}: {record.fault}[/red]: {escape(sentence)}", highlight=False)


def _one(
    soak: Soak, stand: StackStand, fault: SoakFault, rng: np.random.Generator, at_s: float, stop: StopRequest
) -> SoakRecord | None:
    """One fault from a robot that is up to a robot that is up again; None where a stop was asked for before."""
    unsafe: list[str] = []
    problems: list[str] = []
    if not stand.state.obeys:
        soak.unprompted.append(f"{at_s:.0f} s: {', '.join(stand.state.all_faults) or stand.state.stack}")
        _recovered(stand, problems)
    moving = bool(rng.random() < MOTION_PROBABILITY)
    pause_s = float(rng.uniform(0.2, LONGEST_MOTION_S))
    try:
        if moving:
            stand.link.restart()
        elif not stand.state.holding:
            stand.link.hold()
    except ContinuumRobotError as error:
        # A busy machine may stop the robot at any time; a start is refused then, as it must be.
        moving = False
        soak.unprompted.append(f"{at_s:.0f} s: {error}")
    if stop.wait(pause_s):
        return None
    begin_s = time.monotonic()
    detail, known_s, resumed_s, expected, repair, slack_m = "", math.nan, math.nan, fault.reaction, None, 0.0
    try:
        effect = fault.act(stand, rng)
        detail, known_s, repair = effect.detail, effect.known_s, effect.repair
        resumed_s, slack_m = effect.resumed_s, effect.slack_m
        expected = effect.reaction or expected
    except ParameterError as error:
        problems.append(str(error))  # accepted what must be refused
    except ContinuumRobotError as error:
        soak.unprompted.append(f"{at_s:.0f} s: {error}")
        expected = EITHER
    stop.wait(max(0.0, WATCH_S - (time.monotonic() - begin_s)))
    latched: tuple[str, ...] = ()
    seen = not fault.truthless and stand.lived(begin_s, WATCH_S, LONGEST_WATCH_S)
    if seen:
        latched = tuple(stand.state.all_faults)
        # What has latched just now has its time, too.
        seen = stand.lived(time.monotonic(), RAMP_S, LONGEST_WATCH_S)
    truth = stand.truth(begin_s) if seen else {}
    reaction, time_to_safe_s, since_begin_s, peak_n = "-", math.nan, math.nan, math.nan
    if not seen and not fault.truthless:
        soak.unjudged += 1
    if truth:
        stopped, time_to_safe_s = time_to_safe(truth, stand.limits.safe_n, known_s, resumed_s)
        since_begin_s = time_to_safe(truth, stand.limits.safe_n, begin_s)[1]
        reaction = SAFE if stopped else TOLERATED
        peak_n = float(truth["tension_n"].max())
        unsafe += _unsafe(expected, stopped, time_to_safe_s, latched)
    recovered, recovery_s = True, 0.0
    for overload in stand.overloads():
        (soak.shocks if overload.is_shock(stand.robot, slack_m) else soak.overloads).append(str(overload))
    if fault.mechanical and reaction == TOLERATED:
        _tried(lambda: stand.link.trigger("estop"), problems)
    if repair is not None:
        _tried(repair, problems)
    if fault.mechanical or fault.reset or not stand.state.obeys:
        recovered, recovery_s = _recovered(stand, problems)
        unsafe += _moved(stand)
    return SoakRecord(
        number=len(soak.records) + 1,
        fault=fault.name,
        detail=detail,
        at_s=at_s,
        moving=moving,
        reaction=reaction,
        time_to_safe_ms=1e3 * time_to_safe_s,
        since_begin_ms=1e3 * since_begin_s,
        peak_n=peak_n,
        faults=latched,
        recovery_s=recovery_s,
        recovered=recovered,
        unsafe=tuple(unsafe),
        problems=tuple(problems),
    )


def time_to_safe(
    truth: Mapping[str, Vector], safe_n: float, known_s: float, resumed_s: float = math.nan
) -> tuple[bool, float]:
    """Whether all motors are at the safe tension or off in the end, and how long that took."""
    time_s, lived_s = truth["time_s"], truth["lived_s"]
    pulling: Any = (truth["motor_n"] > safe_n + TORQUE_MARGIN_N).any(axis=1)
    if pulling[time_s > time_s[-1] - REST_S].any():
        return False, math.nan
    if math.isnan(known_s):
        return True, math.nan
    ends = (resumed_s, math.inf) if resumed_s > known_s else (math.inf,)
    longest_s = 0.0
    for begin_s, end_s in zip((known_s, *ends), ends, strict=False):
        late = np.flatnonzero(pulling & (time_s > begin_s) & (time_s <= end_s))
        if late.size:
            longest_s = max(longest_s, float(lived_s[late[-1]] - lived_s[np.searchsorted(time_s, begin_s)]))
    return True, longest_s


def _unsafe(expected: str, stopped: bool, time_to_safe_s: float, latched: tuple[str, ...]) -> list[str]:
    lines = []
    if expected == SAFE and not stopped:
        lines.append("the motors go on to pull")
    elif latched and not stopped and expected != TOLERATED:
        lines.append(f"the motors go on to pull, with the faults {', '.join(latched)}")
    if time_to_safe_s > TIME_TO_SAFE_S:
        lines.append(f"the safe state came {1e3 * time_to_safe_s:.0f} ms after it could be known")
    return lines


def _recovered(stand: StackStand, problems: list[str]) -> tuple[bool, float]:
    begin_s = time.monotonic()
    problem = stand.recover()
    if problem:
        problems.append(problem)
        ended = stand.restart()
        if ended:
            problems.append(ended)
    return not problem, time.monotonic() - begin_s


def _moved(stand: StackStand) -> list[str]:
    """What moved although nobody started a motion after the recovery."""
    begin_s = time.monotonic()
    time.sleep(HOLD_S)
    if stand.state.obeys and not stand.state.holding:  # a busy machine may have stopped it again meanwhile
        return ["the stack does not hold after its recovery"]
    truth = stand.truth(begin_s)
    if not truth:
        return []
    way_m = float(np.ptp(truth["displacement_m"], axis=0).max())
    return [f"a tendon moved by {1e3 * way_m:.1f} mm before a start"] if way_m > DEVIATION_M else []


def _tried(action: Callable[[], object], problems: list[str]) -> None:
    try:
        action()
    except ContinuumRobotError as error:
        problems.append(str(error))


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
