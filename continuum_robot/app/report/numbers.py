# SPDX-License-Identifier: Apache-2.0
"""Numbers of a run: tracking, timing of the loop, tensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Recording, Series
from continuum_robot.errors import RecordingError
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

WITH_INSERTION = 3  # coordinates: rods have two a segment, an insertion comes as a third
_FRESH = 0.9  # fraction of the cycles with a new reading, from which its stamps show missed cycles


@dataclass(frozen=True)
class Tracking:
    """Measured and desired Clarke coordinates on the stamps of the measured ones, within the evaluated window."""

    time_s: Vector
    measured: Vector
    desired: Vector
    evaluated: NDArray[np.bool_]
    first_s: float = 0.0
    modes: bool = False

    @property
    def error(self) -> Vector:
        """Desired less measured, shape (k, 2m), m."""
        return self.desired - self.measured

    @property
    def rmse(self) -> Vector:
        """Root mean square error of each coordinate over the evaluated samples, shape (2m,), m."""
        error = self.error[self.evaluated]
        return np.sqrt(np.mean(error**2, axis=0)) if len(error) else np.full(self.measured.shape[1], np.nan)


def track(state: Series, reference: Series, robot: Robot, blend_s: float) -> Tracking | None:
    """Bring measured and desired Clarke coordinates onto the same instants; None where they share none."""
    first_s, last_s = float(reference.stamp_s[0]), float(reference.stamp_s[-1])
    state = state.between(first_s, last_s)
    if not len(state):
        return None
    time_s = state.stamp_s - first_s
    desired = np.stack(
        [np.interp(state.stamp_s, reference.stamp_s, column) for column in reference["position"].T], axis=1
    )
    modes = robot.control is not None and robot.control.modes > 0
    return Tracking(time_s, state["position"], desired, time_s >= blend_s, modes=modes)


@dataclass(frozen=True)
class TipTracking:
    """True and desired place of the tip in the base frame on the stamps of the true one."""

    time_s: Vector
    measured: Vector
    desired: Vector
    evaluated: NDArray[np.bool_]

    @property
    def rmse_m(self) -> float:
        """Root mean square distance over the evaluated samples, m."""
        away = (self.desired - self.measured)[self.evaluated]
        return float(np.sqrt(np.mean((away**2).sum(axis=1)))) if len(away) else math.nan


def track_tip(truth: Series, reference: Series, robot: Robot, blend_s: float) -> TipTracking | None:
    """Where the tip of a simulated robot is, and where the reference means it to be; None as for :func:`track`."""
    first_s, last_s = float(reference.stamp_s[0]), float(reference.stamp_s[-1])
    truth, drawing = truth.between(first_s, last_s), robot_model(robot).drawing()
    if not len(truth):
        return None
    clarke = np.stack(
        [np.interp(truth.stamp_s, reference.stamp_s, column) for column in reference["position"].T], axis=1
    )
    desired = [drawing.pose(drawing.coefficients(row), robot.length_m)[:3, 3] for row in clarke]
    return TipTracking(
        truth.stamp_s, truth["tip"][:, :3], np.reshape(desired, (-1, 3)), truth.stamp_s - first_s >= blend_s
    )


def metrics(recording: Recording, tracking: Tracking | None, tip: TipTracking | None = None) -> dict[str, Any]:
    """Numbers of a run, flat, units in the keys."""
    states = recording.series("tendon_states")
    active = active_states(recording, states)
    numbers: dict[str, Any] = {
        "simulated": bool(states["simulated"].max()),
        "duration_s": float(active.stamp_s[-1] - active.stamp_s[0]),
        **loop_numbers(active),
        **response_numbers(active, recording.topics.get("tendon_commands")),
    }
    return numbers | motion_numbers(active, tracking, tip)


def motion_numbers(active: Series, tracking: Tracking | None, tip: TipTracking | None = None) -> dict[str, float]:
    """Tensions, limited cycles and errors of states that were controlled."""
    tension = active["tension"]
    known = tension[np.isfinite(tension)]
    numbers = {
        "min_tension_n": float(known.min()) if known.size else math.nan,
        "max_tension_n": float(known.max()) if known.size else math.nan,
        "limited_cycles_percent": 100.0 * float(np.mean((active["limited"] > 0).any(axis=1))),
    }
    if tip is not None:
        numbers["tip_rmse_m"] = tip.rmse_m
    if tracking is None:
        return numbers
    rmse = tracking.rmse
    if tracking.modes:
        numbers |= {f"rmse_mode_{index + 1}_m": float(value) for index, value in enumerate(rmse)}
    elif len(rmse) == 1:
        numbers["rmse_q_m"] = float(rmse[0])
    elif len(rmse) == WITH_INSERTION:
        numbers |= {f"rmse_{name}_m": float(rmse[i]) for i, name in enumerate(("q_re", "q_im", "insertion"))}
    else:
        numbers["rmse_q_re_m"] = float(np.sqrt(np.mean(rmse[0::2] ** 2)))
        numbers["rmse_q_im_m"] = float(np.sqrt(np.mean(rmse[1::2] ** 2)))
    if len(rmse) > 2 and len(rmse) != WITH_INSERTION and not tracking.modes:
        for index, value in enumerate(rmse):
            numbers[f"rmse_q_{'re' if index % 2 == 0 else 'im'}_{index // 2 + 1}_m"] = float(value)
    error = np.abs(tracking.error[tracking.evaluated])
    numbers["max_error_m"] = float(error.max()) if error.size else math.nan
    evaluated = tracking.time_s[tracking.evaluated]
    numbers["evaluated_s"] = float(evaluated[-1] - evaluated[0]) if len(evaluated) else 0.0
    numbers["left_out_at_start_s"] = float(evaluated[0]) if len(evaluated) else float(tracking.time_s[-1])
    return numbers


def loop_numbers(states: Series) -> dict[str, Any]:
    """Rate and missed cycles of the driver's loop by its own stamps; a gap in the sequence is the recorder's loss.

    Where readings are older than a cycle, as from servos on a serial bus, their stamps do not show missed cycles: NaN.
    """
    span_s, cycles = float(states.stamp_s[-1] - states.stamp_s[0]), int(states.sequence[-1] - states.sequence[0])
    if cycles < 1 or span_s <= 0:
        return {"loop_rate_hz": math.nan, "missed_cycles_percent": math.nan, "recorded_states": len(states)}
    following = periods_s(states)
    period_s = float(np.median(following))
    # Nominal rates are round numbers; the median of many periods is near enough to find which.
    period_s = round(period_s * 1e5) / 1e5 or period_s
    missed_percent = math.nan
    if period_s > 0 and (following > 0).mean() > _FRESH:
        deadlines = max(cycles, round(span_s / period_s))
        missed_percent = 100.0 * (deadlines - cycles) / deadlines
    return {
        "loop_rate_hz": cycles / span_s,
        "missed_cycles_percent": missed_percent,
        "recorded_states": len(states),
        "recording_lost_percent": 100.0 * (cycles + 1 - len(states)) / (cycles + 1),
    }


def periods_s(states: Series) -> Vector:
    """Times between states that follow each other, shape (at most k - 1,), s."""
    following = np.diff(states.sequence) == 1
    return np.diff(states.stamp_s)[following]


def responses_s(states: Series, commands: Series | None) -> Vector:
    """From the acquisition of each state to the stamp of the command that answers it, shape (answered,), s."""
    if commands is None:
        return np.zeros(0)
    _, answered, answers = np.intersect1d(states.sequence, commands.sequence, return_indices=True)
    return commands.stamp_s[answers] - states.stamp_s[answered]


def response_numbers(states: Series, commands: Series | None) -> dict[str, Any]:
    """Quantiles of :func:`responses_s`, in microseconds."""
    response_us = 1e6 * responses_s(states, commands)
    if not len(response_us):
        return {f"response_{name}_us": math.nan for name in ("p50", "p99", "max")}
    return {
        "response_p50_us": float(np.percentile(response_us, 50)),
        "response_p99_us": float(np.percentile(response_us, 99)),
        "response_max_us": float(response_us.max()),
    }


def active_states(recording: Recording, states: Series) -> Series:
    """The states while references came, else while commands came; all of them where there was neither."""
    for name in ("clarke_reference", "tendon_commands"):
        if name in recording.topics and len(recording.topics[name]) > 1:
            stamps = recording.topics[name].stamp_s
            active = states.between(float(stamps[0]), float(stamps[-1]))
            if len(active) > 1:
                return active
    if len(states) < 2:
        raise RecordingError(recording.file, "holds fewer than two states of the tendons", "Run longer")
    return states
