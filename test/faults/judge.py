# SPDX-License-Identifier: Apache-2.0
"""Whether a run ended safe: from the plant's truth, not from what the driver reports. Virtual runs, `up` and soak."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import servo_thresholds, spread

Vector = NDArray[np.float64]
Truth = dict[str, Vector]

TIME_TO_SAFE_S = 0.1
"""Longest time from the instant at which a fault can be known to the safe state."""
TORQUE_MARGIN_N = 0.1
"""The safe state: no motor gives more than limits.safe_n and this."""
SLACK_N = 0.01
SLACK_S = 0.15
"""Longest time for which a tendon may be below SLACK_N while the robot is under control."""
DEVIATION_M = 0.004
"""Largest distance to the reference of a robot that goes on in spite of a fault."""
REST_S = 0.2
"""At the end of a run, in which a stopped robot is at rest."""
PULL_IN_M = 1e-7
"""By how much a servo's command may grow in a cycle by rounding."""
HELD_M = 1e-3
"""How far a spool may wind in that is held where it is."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the truth reports about a run; times from the instant at which the fault can be known."""

    time_to_safe_s: float
    tension_peak_n: float
    tension_left_n: float
    slack_s: float
    deviation_m: float
    problems: tuple[str, ...]


def passive_tension_n(robot: Robot) -> float:
    """Tension that a motor without current holds by its friction and cogging, N."""
    if robot.actuators is None:
        return 0.0
    friction_n, cogging_n = (robot.actuators.each(key, robot.tendon_count) for key in ("coulomb_n", "cogging_n"))
    return float((friction_n + cogging_n).max())


def shock_n(robot: Robot, motor_n: float, slack_m: float) -> float:
    """What a motor that takes up slack adds to a tendon: T s of energy at most, and a tendon takes T^2 / (2 k), N."""
    return math.sqrt(2 * robot.tendon_stiffnesses_n_per_m.max() * motor_n * slack_m) if slack_m > 0 else 0.0


def pulls(robot: Robot, truth: Truth, limits: Any) -> NDArray[np.bool_]:
    """In which rows of the truth a motor pulls with more than the safe tension, or a servo winds a taut tendon in."""
    if not robot.takes_displacements:
        return np.asarray((truth["motor_n"] > limits.safe_n + TORQUE_MARGIN_N).any(axis=1))
    # A release may begin where a servo is, further out: that pulls nothing, nor does what winds in slack.
    winds = (np.diff(truth["commanded"], axis=0) > PULL_IN_M) & (truth["tension_n"][1:] > SLACK_N)
    return np.concatenate([[False], winds.any(axis=1)])


def has_stopped(robot: Robot, truth: Truth, limits: Any) -> bool:
    """Whether no motor pulls at the end of the truth."""
    rest = truth["time_s"] > truth["time_s"][-1] - REST_S
    return not pulls(robot, truth, limits)[rest].any()


def judge(
    robot: Robot,
    limits: Any,
    truth: Truth,
    *,
    known_s: float,
    stopped_s: float,
    resumed_s: float = math.nan,
    period_s: float = 0.001,
    spared: int = -1,
    astray: bool = False,
    slack: bool = True,
    slack_m: float = 0.0,
    holds: bool = False,
    powered: bool = False,
) -> Judgement:
    """Judge a run.

    ``known_s``: from when on the fault can be known, NaN: not known; ``stopped_s``: NaN where the robot goes on;
    ``resumed_s``: when a program went on that a fault had stopped: its ramp counts from there; ``spared``: the tendon
    that broke; ``astray``: the robot is pulled away from its reference; ``slack``: judge it; ``slack_m``: of a tendon
    that a fault made longer, s; ``holds``: the stop can only hold the robot; ``powered``: the torque is on.
    """
    time_s, tension = truth["time_s"], truth["tension_n"]
    servos, problems = robot.takes_displacements, list[str]()
    thresholds = servo_thresholds(robot, period_s) if servos else None
    motor_n = min(float(truth["motor_n"].max()), limits.maximum_n)
    highest_n = limits.maximum_n + shock_n(robot, motor_n, slack_m) if thresholds is None else thresholds.highest_n
    if astray and not servos:
        highest_n += passive_tension_n(robot)  # the robot drags a motor along that friction holds
    peak_n = float(tension.max())
    if (tension.max(axis=0) > highest_n).any():
        allowed = f"its maximum of {limits.maximum_n:g}" if thresholds is None else spread(thresholds.highest_n)
        problems.append(f"a tendon had {peak_n:.1f} N, more than {allowed} N")
    others = np.arange(tension.shape[1]) != spared
    goes_on = math.isnan(stopped_s)
    loud = time_s[pulls(robot, truth, limits)]
    last_s = float(loud[-1]) if loud.size else -math.inf

    controlled = np.ones_like(time_s, dtype=bool)
    if not goes_on:
        controlled = time_s < (stopped_s if servos else np.nanmin([stopped_s, known_s, last_s]))
    slack_s = 0.0 if servos or not slack else _longest(time_s[controlled], (tension[controlled] < SLACK_N)[:, others])
    if slack_s > SLACK_S:
        problems.append(f"a tendon was slack for {slack_s * 1e3:.0f} ms under control")
    deviation = np.abs(truth["clarke_m"] - truth["reference_m"])[controlled]
    deviation_m = float(np.nanmax(deviation)) if np.isfinite(deviation).any() else math.nan
    lag_m = 0.0 if thresholds is None else float(thresholds.lag_m.max())

    left = tension[time_s > time_s[-1] - REST_S].mean(axis=0)
    safe_s, left_n = math.nan, float(left.max())
    if goes_on:
        if not astray and deviation_m > DEVIATION_M + lag_m:
            problems.append(f"the robot went on, {deviation_m * 1e3:.1f} mm away from its reference")
        return Judgement(safe_s, peak_n, left_n, slack_s, deviation_m, tuple(problems))

    allowed_s = TIME_TO_SAFE_S
    if thresholds is not None:
        count = left.size
        allowed_s += float((limits.each("speed_m_per_s", count) / limits.each("acceleration_m_per_s2", count)).max())
        last_s = max(last_s, stopped_s)
    if thresholds is None and last_s >= time_s[-1]:
        problems.append("the motors did not come to the safe tension")
    elif not math.isnan(known_s):
        safe_s = max(0.0, last_s - known_s)
        if resumed_s > known_s:
            before = loud[(loud > known_s) & (loud <= resumed_s)]
            safe_s = max(0.0, last_s - resumed_s, float(before[-1]) - known_s if before.size else 0.0)
        if safe_s > allowed_s:
            what = "the safe state came" if thresholds is None else "a servo still pulled in"
            problems.append(f"{what} {safe_s * 1e3:.0f} ms after the fault could be known")
    if holds:
        spools = truth["spool_m"][time_s >= known_s + allowed_s][:, others]
        if spools.size and float(way := (spools - spools[0]).max()) > HELD_M:
            problems.append(f"a spool that is to be held wound in {1e3 * way:.1f} mm")
    # Torque that goes off leaves what the motors' friction holds; gears hold the more.
    allowed_n = (0.0 if servos else limits.safe_n) + TORQUE_MARGIN_N + passive_tension_n(robot)
    if not holds and float(left[others].max()) > allowed_n:
        problems.append(f"{left_n:.1f} N are left on the tendons, more than {allowed_n:.1f} N")
    if powered and not np.isfinite(truth["commanded"][-1]).all():
        problems.append("the torque is on without a command")
    return Judgement(safe_s, peak_n, left_n, slack_s, deviation_m, tuple(problems))


def _longest(time_s: Vector, slack: NDArray[np.bool_]) -> float:
    """Longest time without a break for which a tendon was slack; ``slack`` has a column a tendon."""
    longest_s = 0.0
    for column in slack.T:
        begin_s = math.nan
        for now_s, is_slack in zip(time_s.tolist(), column.tolist(), strict=True):
            if not is_slack:
                begin_s = math.nan
            elif math.isnan(begin_s):
                begin_s = now_s
            else:
                longest_s = max(longest_s, now_s - begin_s)
    return longest_s
