# SPDX-License-Identifier: Apache-2.0
"""One run: move, let something break, watch, judge by the truth, recover. In virtual time, on `up`, and in a soak."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.description import Robot
from faults.judge import Judgement, Truth, judge
from faults.kinds import BEFORE, EITHER, SAFE, STOPPING, TOLERATED, Kind

Vector = NDArray[np.float64]
LIMITS = "limits"
STOPPED_TOO, NOT_RECOVERED = "it stopped all the same: ", "not recovered: "


def _nothing() -> None:
    """Nothing is to be repaired."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What was done, and found by the way."""

    detail: str = ""
    tendon: int = -1
    begin_s: float = math.nan
    known_s: float = math.nan
    resumed_s: float = math.nan
    becomes: str = ""
    repair: Callable[[], object] = _nothing
    slack_m: float = 0.0
    """By which a tendon was made longer."""
    found: Mapping[str, str] = dataclasses.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    limits: Any = None


class Stand(Protocol):
    """A robot under control that faults happen to. Times are on its own clock, s.

    ``exact``: virtual time, in which nothing is late; ``notices``: who named which fault first, and when, since
    :meth:`act` began; ``reported``: what a user learnt of it.
    """

    robot: Robot
    exact: bool
    rate_hz: float
    reported: list[str]

    @property
    def limits(self) -> Any:
        """Of the robot, or of the file that it was started with."""

    @property
    def notices(self) -> dict[str, float]:
        """Who named which fault first, and when."""

    @property
    def now_s(self) -> float:
        """The time."""

    def move(self, kind: Kind, moment: str) -> None:
        """Move to a fraction of the largest displacement, until the moment."""

    def act(self, kind: Kind, moment: str) -> Effect:
        """Let the fault happen."""

    def known_after_s(self, kind: Kind) -> float:
        """How long after its beginning the fault can be known; NaN: from its detection."""

    def watch(self, kind: Kind, effect: Effect, begin_s: float, after_s: float) -> None:
        """Wait until enough happened."""

    def truth(self, begin_s: float) -> Truth:
        """What happened to the robot since a time; an unknown reference is NaN. Empty: nobody knows."""

    def truth_time(self, at_s: float) -> float:
        """When a time was on the clock of the truth, which leaves out what the robot did not live through."""

    def stopped(self, truth: Truth) -> bool:
        """Whether the robot was stopped."""

    def recover(self, kind: Kind, effect: Effect, *, stopped: bool) -> str:
        """Repair it, and what an operator does; why the robot does not move again then, "" where it does."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One run."""

    fault: str
    injection_time: str
    seed: int
    runs: str
    rate_hz: float
    reaction: str
    detected_by: tuple[str, ...]
    detected_after_ms: float
    time_to_safe_ms: float
    tension_peak_n: float
    tension_left_n: float
    slack_ms: float
    deviation_mm: float
    reported: tuple[str, ...]
    ended_safe: bool
    recovered_without_restart: bool
    problems: tuple[str, ...]


def failed(kind: Kind, moment: str, seed: int, problem: str, *, rate_hz: float = math.nan) -> FaultRecord:
    """The record of a run that could not be judged."""
    nothing = (math.nan,) * 6
    return FaultRecord(
        kind.name, moment, seed, kind.runs, rate_hz, "unknown", (), *nothing, (), False, False, (problem,)
    )


def finds(kind: Kind, who: str) -> bool:
    """Whether ``who`` named a fault that the kind has to be found by; servos' kinds name the driver's fault alone."""
    return who.startswith(kind.found_by) or who.rpartition(": ")[2] in kind.found_by


def run_one(stand: Stand, kind: Kind, moment: str, seed: int, *, slack: bool = True, runs: str = "") -> FaultRecord:
    """Move, let it happen, watch, judge, recover; errors of the robot's stack are problems of the record."""
    try:
        stand.move(kind, moment)
        begin_s = stand.now_s
        effect = stand.act(kind, moment)
        begin_s = next((one for one in (effect.begin_s, effect.known_s) if math.isfinite(one)), begin_s)
        after_s = 0.0 if moment == STOPPING else stand.known_after_s(kind)
        stand.watch(kind, effect, begin_s, after_s)
        truth = stand.truth(begin_s)
        stopped = bool(truth) and stand.stopped(truth)
        judgement, problems, detected, first_s = _judged(
            stand, kind, moment, effect, truth, begin_s, after_s, stopped=stopped, slack=slack
        )
        reported = tuple(stand.reported)
        becomes = effect.becomes or kind.becomes
        ended_safe = not problems
        if becomes == TOLERATED and stopped and moment not in (BEFORE, STOPPING):
            problems.append(STOPPED_TOO + ", ".join(stand.notices))
            ended_safe = ended_safe and not stand.exact  # a busy computer that stops a stack is a fault of its own
        recovery = stand.recover(kind, effect, stopped=stopped)
        if stand.exact and not stand.robot.takes_displacements:
            peak_n = float(stand.truth(begin_s)["tension_n"].max())
            if peak_n > max(stand.limits.maximum_n, judgement.tension_peak_n):
                ended_safe = False
                problems.append(f"in the recovery a tendon had {peak_n:.1f} N")
    except ContinuumRobotError as error:
        return failed(kind, moment, seed, str(error), rate_hz=stand.rate_hz)
    return FaultRecord(
        fault=kind.name,
        injection_time=moment,
        seed=seed,
        runs=runs or kind.runs,
        rate_hz=stand.rate_hz,
        reaction="-" if not truth else SAFE if stopped else TOLERATED,
        detected_by=tuple(dict.fromkeys([*detected, *effect.found, *stand.notices])),
        detected_after_ms=1e3 * (first_s - begin_s),
        time_to_safe_ms=1e3 * judgement.time_to_safe_s,
        tension_peak_n=judgement.tension_peak_n,
        tension_left_n=judgement.tension_left_n,
        slack_ms=1e3 * judgement.slack_s,
        deviation_mm=1e3 * judgement.deviation_m,
        reported=(*effect.found.values(), *reported),
        ended_safe=ended_safe,
        recovered_without_restart=not recovery,
        problems=(*problems, *([NOT_RECOVERED + recovery] if recovery else [])),
    )


def _judged(
    stand: Stand,
    kind: Kind,
    moment: str,
    effect: Effect,
    truth: Truth,
    begin_s: float,
    after_s: float,
    *,
    stopped: bool,
    slack: bool,
) -> tuple[Judgement, list[str], list[str], float]:
    if not truth:
        return Judgement(*(math.nan,) * 5, ()), list(effect.problems), [], math.nan
    becomes, ordinary = effect.becomes or kind.becomes, moment not in (BEFORE, STOPPING)
    detected = [who for who in (*effect.found, *stand.notices) if kind.found_by and finds(kind, who)]
    first_s = min(stand.notices.values(), default=begin_s if effect.found else math.nan)
    latched = [at_s for who, at_s in stand.notices.items() if who.startswith(("tendon_safety", "tendon_driver"))]
    stopped_s = min(latched, default=begin_s) if stopped else math.nan
    known_s = (
        begin_s + after_s if math.isfinite(after_s) else min(latched, default=begin_s if stand.exact else math.nan)
    )
    if math.isfinite(effect.known_s):
        known_s = stand.truth_time(effect.known_s)
    elif stopped and not stand.exact and becomes != SAFE:
        known_s = math.nan  # by a fault that follows, or by a busy computer
    judgement = judge(
        stand.robot, effect.limits or stand.limits, truth,
        known_s=known_s, stopped_s=stopped_s,
        resumed_s=stand.truth_time(effect.resumed_s), slack_m=effect.slack_m, period_s=1 / stand.rate_hz,
        spared=effect.tendon if kind.spared else -1, holds=kind.holds, slack=slack,
        astray=kind.astray, powered=getattr(stand, "powered", False),
    )  # fmt: skip
    problems = [*judgement.problems, *effect.problems]
    if becomes == SAFE and not stopped and ordinary:
        problems.append("it was tolerated, not safe")
    if kind.found_by and not detected and ordinary and (becomes != EITHER or stopped or not stand.exact):
        problems.append("nobody noticed it" if not stopped else f"found as {', '.join(stand.notices) or 'nothing'}")
    return judgement, problems, detected, first_s


def summary(records: Sequence[FaultRecord]) -> dict[str, float]:
    """``n_runs``, ``n_safe``, ``n_recovered`` and ``worst_time_to_safe_ms`` (NaN where none went to the safe state)."""
    times = [record.time_to_safe_ms for record in records if math.isfinite(record.time_to_safe_ms)]
    return {
        "n_runs": len(records),
        "n_safe": sum(record.ended_safe for record in records),
        "n_recovered": sum(record.recovered_without_restart for record in records),
        "worst_time_to_safe_ms": max(times, default=math.nan),
    }
