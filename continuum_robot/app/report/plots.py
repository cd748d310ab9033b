# SPDX-License-Identifier: Apache-2.0
"""Plots of a run: tracking, tensions, timing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Recording
from continuum_robot.app.report.numbers import (
    WITH_INSERTION,
    TipTracking,
    Tracking,
    active_states,
    periods_s,
    responses_s,
)
from continuum_robot.experiments.plotting import COLOURS, figure
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

MEASURED, WANTED, LIMIT, FAULT = COLOURS[0], COLOURS[1], "0.5", "#c92a2a"
TIME = "time since the recording began in s"
"""One zero of time for all pictures and for the times in metrics.json."""

Moments = Sequence[tuple[float, str]]
_WIDTH = 9.0


def draw_tracking(tracking: Tracking, robot: Robot, folder: Path, faults: Moments = ()) -> Path:
    """Plot desired and measured Clarke coordinates and their error, a row a coordinate, to ``tracking.png``."""
    time_s, count, file = tracking.first_s + tracking.time_s, tracking.measured.shape[1], folder / "tracking.png"
    look: dict[str, Any] = {"sharex": True, "squeeze": False, "size": (_WIDTH, 1.0 + 2.6 * count)}
    look["gridspec_kw"] = {"height_ratios": [2.2, 1] * count}
    with figure(file, f"{robot.name}: {robot.coordinates_name}", 2 * count, **look) as (_, axes):
        for index in range(count):
            name = robot.part_names[index] if tracking.modes else clarke_name(index, count)
            upper, lower = axes[2 * index, 0], axes[2 * index + 1, 0]
            upper.plot(time_s, 1e3 * tracking.desired[:, index], color=WANTED, lw=1.6, label="reference")
            upper.plot(time_s, 1e3 * tracking.measured[:, index], color=MEASURED, lw=0.9, label="measured")
            upper.set_ylabel(f"{name} in mm")
            upper.legend(loc="upper right", ncols=2)
            upper.margins(y=0.25)
            lower.plot(time_s, 1e6 * tracking.error[:, index], color="black", lw=0.6)
            lower.set_ylabel("error in µm")
            lower.text(
                0.995, 0.94, f"RMSE {1e6 * tracking.rmse[index]:.1f} µm", transform=lower.transAxes, ha="right",
                va="top", bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
            )  # fmt: skip
            evaluated = np.flatnonzero(tracking.evaluated)
            if len(evaluated):
                for axis in (upper, lower):
                    axis.axvspan(tracking.first_s, time_s[evaluated[0]], color="0.92", lw=0)
                within = 1e6 * tracking.error[evaluated, index]
                reach = max(1.0, 1.3 * float(np.abs(within).max()))
                lower.set_ylim(-reach, reach)
        mark_faults(axes[:, 0], faults)
        axes[-1, 0].set_xlabel(f"{TIME}  (grey: start-up blend, left out of the errors)")
    return file


def mark_faults(axes: Any, faults: Moments) -> None:
    """Draw a line at each fault, its name in the topmost panel."""
    for at_s, name in faults:
        for axis in axes:
            axis.axvline(at_s, color=FAULT, lw=1.2, ls="-.")
        axes[0].text(
            at_s, 0.02, f" {name}", color=FAULT, rotation=90, ha="right", va="bottom", fontsize=8,
            transform=axes[0].get_xaxis_transform(),
        )  # fmt: skip


def draw_tip(tip: TipTracking, robot: Robot, folder: Path, faults: Moments = ()) -> Path:
    """Plot the true place of the tip, the reference's, and their distance, to ``tip.png``."""
    file = folder / "tip.png"
    title = f"{robot.name}: true tip of the simulated robot, RMSE {1e3 * tip.rmse_m:.2f} mm"
    with figure(file, title, 4, sharex=True, size=(_WIDTH, 7.5)) as (_, axes):
        for index, (axis, name) in enumerate(zip(axes, "xyz", strict=False)):
            axis.plot(tip.time_s, 1e3 * tip.desired[:, index], color=WANTED, lw=1, ls="--", label="reference")
            axis.plot(tip.time_s, 1e3 * tip.measured[:, index], color=MEASURED, lw=1, label="true")
            axis.set_ylabel(f"{name} in mm")
        axes[3].plot(tip.time_s, 1e3 * np.linalg.norm(tip.desired - tip.measured, axis=1), color=MEASURED, lw=1)
        axes[3].set(xlabel=TIME, ylabel="distance in mm")
        axes[0].legend(loc="upper right", ncols=2)
        mark_faults(axes, faults)
    return file


def draw_tensions(recording: Recording, robot: Robot, folder: Path, faults: Moments = ()) -> Path:
    """Plot measured and commanded tension of every tendon with the limits, a panel a segment, to ``tensions.png``."""
    states, limits = recording.series("tendon_states"), robot.limits
    measured, commanded = states["tension"], states["commanded_tension"]
    lines = np.zeros((0, robot.tendon_count))
    highest = max(float(np.nanmax(values, initial=0.0)) for values in (measured, commanded))
    if limits is not None:
        most_n, least_n = (limits.each(key, robot.tendon_count) for key in ("maximum_n", "least_n"))
        lines = np.array([least_n, most_n] if highest > 0.5 * most_n.min() else [least_n])
    values = measured, commanded, lines
    return _draw_tendons(states.stamp_s, values, robot, "tension in N", folder / "tensions.png", faults)


def draw_displacements(recording: Recording, robot: Robot, folder: Path, faults: Moments = ()) -> Path:
    """Plot measured and commanded displacement of every tendon, a panel a segment, to ``displacements.png``."""
    states = recording.series("tendon_states")
    values = 1e3 * states["displacement"], 1e3 * states["commanded_displacement"], np.zeros((0, robot.tendon_count))
    return _draw_tendons(states.stamp_s, values, robot, "displacement in mm", folder / "displacements.png", faults)


def _draw_tendons(
    time_s: Vector, values: tuple[Vector, Vector, Vector], robot: Robot, label: str, file: Path, faults: Moments
) -> Path:
    """A panel a segment of measured and commanded values, (k, N), and limits, (l, N); what is empty is not drawn."""
    (measured, commanded, limits), groups = values, robot.tendon_groups
    look: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False, "size": (_WIDTH, 1.0 + 3.2 * len(groups))}
    colours = mpl.colormaps["viridis"]
    shown = f"measured (solid){', commanded (dotted)' if commanded.size else ''}"
    shown += ", limits (dashed)" if limits.size else ""
    with figure(file, f"{robot.name}: {shown}", len(groups), **look) as (_, axes):
        for axis, (part, tendons) in zip(axes[:, 0], groups.items(), strict=True):
            count = tendons.stop - tendons.start
            for tendon in range(count):
                colour, index = colours(0.9 * tendon / max(1, count - 1)), tendons.start + tendon
                axis.plot(time_s, measured[:, index], color=colour, lw=0.8, label=f"{tendon + 1}")
                if commanded.size:
                    axis.plot(time_s, commanded[:, index], color=colour, lw=0.8, ls=":")
            for limit in np.unique(limits[:, tendons]):
                axis.axhline(limit, color=LIMIT, lw=1, ls="--")
            axis.set_title(part, loc="left")
            axis.set_ylabel(label)
            axis.legend(title="tendon", loc="upper right", ncols=count)
            axis.margins(x=0.01)
        if limits.size:  # tensions: of all panels, which have one scale
            axes[0, 0].set_ylim(bottom=0, top=axes[0, 0].get_ylim()[1] * 1.25)
        axes[-1, 0].set_xlabel(TIME)
        mark_faults(axes[:, 0], faults)
    return file


def draw_timing(recording: Recording, numbers: Mapping[str, Any], folder: Path) -> Path:
    """Plot histograms of the time between readings and of the response to each state, to ``timing.png``."""
    states, file = active_states(recording, recording.series("tendon_states")), folder / "timing.png"
    period_us = 1e6 * periods_s(states)
    response_us = 1e6 * responses_s(states, recording.topics.get("tendon_commands"))
    rate_hz, missed = (numbers.get(key, math.nan) for key in ("loop_rate_hz", "missed_cycles_percent"))
    title = f"{rate_hz:.1f} Hz, {missed:.2f} % of the cycles missed"
    with figure(file, title, 1, 2, size=(_WIDTH, 4.0)) as (_, (left, right)):
        _histogram(left, period_us, "from a state's reading to the next one's in µs")
        # Not the control's: that is in the title. Messages leave after the write, from a thread that waits.
        _histogram(right, response_us, "state acquired → its command on the topic in µs")
        trip: list[Any] = [numbers.get(f"round_trip_{name}_us") for name in ("p50", "p99", "max")]
        if all(isinstance(value, (int, float)) and math.isfinite(value) for value in trip):
            right.set_title("in the loop: p50 {:.0f}, p99 {:.0f}, max {:.0f} µs".format(*trip), loc="left")
    return file


def _histogram(axis: Any, values: Vector, label: str) -> None:
    axis.set_xlabel(label)
    axis.set_ylabel("cycles")
    if not len(values):
        axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center")
        return
    edges = np.linspace(max(0.0, float(np.percentile(values, 0.05))), float(np.percentile(values, 99.95)), 80)
    if edges[-1] <= edges[0]:
        edges = edges[0] + np.linspace(-1.0, 1.0, 80)
    outside = int(np.sum((values < edges[0]) | (values > edges[-1])))
    axis.hist(values, bins=edges, color=MEASURED)
    axis.set_yscale("log")
    for fraction, style in ((50, "-"), (99, "--")):
        axis.axvline(np.percentile(values, fraction), color="black", lw=1, ls=style, label=f"p{fraction}")
    axis.legend(title=f"max {values.max():.0f} µs\n{outside} outside")


def clarke_name(index: int, count: int) -> str:
    """Name of a coordinate for a person, e.g. ``q_Re``, ``q_Im,2`` of several segments, ``q`` where there is one."""
    if count == 1:
        return "q"
    if count == WITH_INSERTION:
        return ("q_Re", "q_Im", "insertion")[index]
    part = "Re" if index % 2 == 0 else "Im"
    return f"q_{part}" if count <= 2 else f"q_{part},{index // 2 + 1}"
