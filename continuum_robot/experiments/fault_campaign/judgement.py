# SPDX-License-Identifier: Apache-2.0
"""Whether a run ended safe: from the plant's truth, not from what the driver reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

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
    actuators = robot.actuators
    if actuators is None:
        return 0.0
    friction_n, cogging_n = (actuators.each(key, robot.tendon_count) for key in ("coulomb_n", "cogging_n"))
    return float((friction_n + cogging_n).max())


def judge(
    robot: Robot,
    limits: TensionLimits,
    truth: dict[str, Vector],
    *,
    knowable_s: float,
    stopped_s: float,
    spared: int = -1,
    largest_deviation_m: float = DEVIATION_M,
) -> Judgement:
    """Judge a run."""
    time_s, tension, motor = truth["time_s"], truth["tension_n"], truth["motor_n"]
    problems = []
    peak_n = float(tension.max())
    if peak_n > limits.maximum_n:
        problems.append(f"a tendon had {peak_n:.1f} N, more than its maximum of {limits.maximum_n:g} N")
    others = np.arange(tension.shape[1]) != spared
    rest = time_s > time_s[-1] - REST_S
    left_n = float(tension[rest].mean(axis=0).max())
    goes_on = math.isnan(stopped_s)
    loud = time_s[(motor > limits.safe_n + TORQUE_MARGIN_N).any(axis=1)]
    last_s = float(loud[-1]) if loud.size else -math.inf
    controlled = np.ones_like(time_s, dtype=bool) if goes_on else time_s < min(stopped_s, knowable_s, last_s)
    slack_s = _longest(time_s[controlled], (tension[controlled] < SLACK_N)[:, others])
    if slack_s > SLACK_S:
        problems.append(f"a tendon was slack for {slack_s * 1e3:.0f} ms under control")
    deviation = np.abs(truth["clarke_m"] - truth["reference_m"])[controlled]
    deviation_m = float(np.nanmax(deviation)) if np.isfinite(deviation).any() else math.nan
    safe_s = math.nan
    if goes_on:
        if deviation_m > largest_deviation_m:
            problems.append(f"the robot went on, {deviation_m * 1e3:.1f} mm away from its reference")
    else:
        if last_s >= time_s[-1]:
            problems.append("the motors did not come to the safe tension")
        else:
            safe_s = max(0.0, last_s - knowable_s)
            if safe_s > TIME_TO_SAFE_S:
                problems.append(f"the safe state came {safe_s * 1e3:.0f} ms after the fault could be known")
        allowed_n = limits.safe_n + TORQUE_MARGIN_N + passive_tension_n(robot)
        if float(tension[rest][:, others].mean(axis=0).max()) > allowed_n:
            problems.append(f"{left_n:.1f} N are left on the tendons, more than {allowed_n:.1f} N")
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
