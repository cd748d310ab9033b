# SPDX-License-Identifier: Apache-2.0
"""The campaign in virtual time: each kind of fault at each moment of a motion, and what became of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.backends import boards_of
from continuum_robot.drivers.safety.tendon_safety import ACTIVE
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.judgement import DEVIATION_M, Judgement, judge
from continuum_robot.experiments.fault_campaign.kind import FaultKind, NamedKind
from continuum_robot.experiments.fault_campaign.kinds import KINDS
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot, make_plant
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.assembly import PERIOD_S
from continuum_robot.simulation.faults import SLACK_TENDON
from continuum_robot.simulation.plant import Plant

MOVE_S = 1.0
INJECTION_TIMES: dict[str, float] = {"early in the ramp": 0.15, "at speed": 0.5, "at rest, bent": 1.4}
"""When a fault begins, after the start of the move, s."""
DISPLACEMENT_FRACTION = 0.7
"""Amplitude of the move, as a fraction of limits.maximum_displacement_m."""
WATCH_S = 0.9
GOES_ON_S = 0.3
LIMITS = "limits"


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


def record_of(
    kind: NamedKind,
    injection_time: str,
    seed: int,
    judgement: Judgement | None,
    *,
    problems: Sequence[str],
    rate_hz: float = math.nan,
    stopped: bool = False,
    detected: Sequence[str] = (),
    detected_after_s: float = math.nan,
    reported: Sequence[str] = (),
    ended_safe: bool = False,
    recovery: str = "",
) -> FaultRecord:
    """The record of a run."""
    known = judgement is not None
    judgement = judgement or Judgement(*5 * (math.nan,), ())
    return FaultRecord(
        fault=kind.name,
        injection_time=injection_time,
        seed=seed,
        runs=kind.runs,
        rate_hz=rate_hz,
        reaction=(table.SAFE if stopped else table.TOLERATED) if known else "unknown",
        detected_by=tuple(dict.fromkeys(detected)),
        detected_after_ms=1e3 * detected_after_s,
        time_to_safe_ms=1e3 * judgement.time_to_safe_s,
        tension_peak_n=judgement.tension_peak_n,
        tension_left_n=judgement.tension_left_n,
        slack_ms=1e3 * judgement.slack_s,
        deviation_mm=1e3 * judgement.deviation_m,
        reported=tuple(reported),
        ended_safe=ended_safe,
        recovered_without_restart=known and not recovery,
        problems=(*problems, *([f"not recovered: {recovery}"] if recovery else [])),
    )


def injection_times(count: int) -> dict[str, float]:
    """The first ``count`` of :data:`INJECTION_TIMES`. Raises :class:`ParameterError` for another count."""
    if not 1 <= count <= len(INJECTION_TIMES):
        raise ParameterError("injection_times", count, f"1 to {len(INJECTION_TIMES)}")
    return dict(list(INJECTION_TIMES.items())[:count])


def run_one(robot: Robot, plant: Plant, kind: FaultKind, injection_time: str, seed: int) -> FaultRecord:
    """Move, inject, watch, judge, recover."""
    if kind.action is None:
        raise ParameterError("kind", kind.name, "one that runs in virtual time")
    rng = np.random.default_rng(seed)
    tendon = int(rng.integers(robot.tendon_count))
    reference = _move(robot)
    start_rev = 0.0
    if kind.rollover:
        tendon = 0
        start_rev = _start_before_rollover(robot, reference, INJECTION_TIMES[injection_time])
    with VirtualRobot(robot, plant, seed, start_rev=start_rev, sensors=kind.sensors) as stand:
        stand.bring_up()
        if kind.sensors:
            stand.run(SENSORS_READY_S)
        stand.follow(reference)
        stand.run(INJECTION_TIMES[injection_time])
        stand.forget_told()
        begin_s = stand.now_s
        begin_s = kind.action(stand, tendon) or begin_s
        while stand.now_s < begin_s + WATCH_S - 1e-9:
            stand.cycle()
        stopped = stand.safety.state != ACTIVE
        detected = [who for who in stand.found if who.startswith(kind.detectors)] if kind.detectors else []
        if stand.limited and LIMITS in kind.detectors:
            detected.append(LIMITS)
            stand.reported.append("tendon_states.limited shows which limits changed the command")
        detected_by = tuple(dict.fromkeys([*detected, *stand.found]))
        first_s = min((stand.found[who] for who in stand.found), default=math.nan)
        safety = [time_s for who, time_s in stand.found.items() if who.startswith("tendon_safety")]
        stopped_s = min(safety, default=begin_s) if stopped else math.nan
        after_s = table.knowable_after_s(kind, stand.limits, boards_of(stand.hardware.robot))
        knowable_s = (stopped_s if stopped else begin_s) if math.isnan(after_s) else begin_s + after_s
        spared = tendon if kind.spared else -1
        judgement = judge(
            robot,
            stand.limits,
            stand.truth.since(begin_s),
            knowable_s=knowable_s,
            stopped_s=stopped_s,
            spared=spared,
            largest_deviation_m=math.inf if kind.astray else DEVIATION_M,
        )
        reported = tuple(stand.reported)
        problems = list(judgement.problems)
        reaction = table.SAFE if stopped else table.TOLERATED
        if kind.reaction not in (table.EITHER, reaction):
            problems.append(f"it was {reaction}, not {kind.reaction}")
        if kind.detectors and not detected and kind.reaction != table.EITHER:
            problems.append("nobody noticed it")
        ended_safe = not problems
        recovery = _recover(stand, kind, tendon, stopped=stopped)
        peak_n = float(stand.truth.since(begin_s)["tension_n"].max())
        if peak_n > max(stand.limits.maximum_n, judgement.tension_peak_n):
            ended_safe = False
            problems.append(f"in the recovery a tendon had {peak_n:.1f} N")
    return record_of(
        kind, injection_time, seed, judgement,
        rate_hz=1 / PERIOD_S, stopped=stopped, detected=detected_by, detected_after_s=first_s - begin_s,
        reported=reported, ended_safe=ended_safe, problems=problems, recovery=recovery,
    )  # fmt: skip


SENSORS_READY_S = 1.2


def _move(robot: Robot) -> RestToRest:
    end = np.zeros(robot.coordinate_count)
    end[0] = DISPLACEMENT_FRACTION * robot.tension_limits.smallest("maximum_displacement_m", robot.tendon_count)
    return RestToRest(np.zeros_like(end), end, MOVE_S)


def _start_before_rollover(robot: Robot, reference: RestToRest, moment_s: float) -> float:
    """What the boards must count at the start, so that tendon 1 (pulled in) passes 100 revolutions at the moment."""
    if robot.actuators is None:
        raise ParameterError("robot.actuators", None, "actuators")
    meter_per_rev = 2 * math.pi * robot.actuators.spool_radius_m / robot.actuators.gear_ratio
    return 100.0 - float(reference.at(moment_s).position[0]) / meter_per_rev


def _recover(stand: VirtualRobot, kind: FaultKind, tendon: int, *, stopped: bool) -> str:
    """End the cause and bring the robot up again, in the same process; where it went on, it only has to go on."""

    def repair() -> None:
        stand.hardware.inject("")
        if kind.refastened:
            excess_m = float(stand.plant.displacement[tendon] - stand.plant.rod_displacement[tendon])
            stand.hardware.inject(SLACK_TENDON, tendon, excess_m)
        stand.hardware.plug_in()
        stand.safety.release_estop()
        stand.cool()
        stand.alter = None
        if kind.recovery == table.POWER:
            stand.hardware.inject("board.reboot", tendon)

    if not stopped:
        repair()
        stand.run(GOES_ON_S)
        if stand.safety.state == ACTIVE:
            return ""
    try:
        return stand.recover(repair, home=kind.recovery in (table.HOME, table.POWER))
    except ContinuumRobotError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """A task: one run in virtual time."""

    robot: Robot
    kind: str
    injection_time: str
    seed: int
    campaign_seed: int


# Making a plant takes a second, a run a fraction of it.
_plant = lru_cache(maxsize=1)(make_plant)


def run_virtual(run: VirtualRun) -> FaultRecord:
    """Do one run; the same for the same run, whatever was done before it."""
    kind = next(kind for kind in KINDS if kind.name == run.kind)
    robot = run.robot if kind.robot is None else kind.robot(run.robot)
    return run_one(robot, _plant(robot, run.campaign_seed), kind, run.injection_time, run.seed)


def virtual_runs(
    robot: Robot, kinds: Sequence[FaultKind] = KINDS, injection_time_count: int = len(INJECTION_TIMES), seed: int = 0
) -> list[VirtualRun]:
    """All runs in virtual time."""
    return [
        VirtualRun(robot, kind.name, injection_time, seed + 1000 * number + place, seed)
        for number, kind in enumerate(KINDS)
        if kind in kinds and kind.action is not None
        for place, injection_time in enumerate(injection_times(injection_time_count))
    ]


def summary(records: Sequence[FaultRecord]) -> dict[str, float]:
    """``n_runs``, ``n_safe``, ``n_recovered`` and ``worst_time_to_safe_ms`` (NaN where none went to the safe state)."""
    times = [record.time_to_safe_ms for record in records if math.isfinite(record.time_to_safe_ms)]
    return {
        "n_runs": len(records),
        "n_safe": sum(record.ended_safe for record in records),
        "n_recovered": sum(record.recovered_without_restart for record in records),
        "worst_time_to_safe_ms": max(times, default=math.nan),
    }


def as_mapping(record: FaultRecord) -> dict[str, object]:
    """A record for JSON."""
    return dataclasses.asdict(record)
