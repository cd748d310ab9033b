# SPDX-License-Identifier: Apache-2.0
"""Plots of a run: tracking, tensions, timing, and the shapes that the robot took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from continuum_robot.experiments.plotting import (
    COLOURS,
    DESIRED,
    DETECTED,
    FAULT,
    LIMIT,
    MEASURED,
    figure,
    legend_above,
)
from continuum_robot.models.colors import css, tendon_colors
from continuum_robot.models.drawing import Drawing
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

TIME = "time since the recording began in s"
"""One zero of time for all pictures and for the times in metrics.json."""

_WIDTH = 9.0


@dataclass(frozen=True)
class Events:
    """What is marked on every axis of time: faults by moment and name, detected contacts by begin and end, s."""

    faults: Sequence[tuple[float, str]] = ()
    contacts: Sequence[tuple[float, float]] = ()

    def mark(self, axes: Any) -> None:
        """Begin axes of time at 0; draw a line at each fault with its name in the topmost panel, a band a contact."""
        for axis in axes:
            for begin_s, end_s in self.contacts:
                axis.axvspan(begin_s, end_s, color=DETECTED["color"], alpha=0.15, lw=0)
            for at_s, _ in self.faults:
                axis.axvline(at_s, **FAULT)
            axis.set_xlim(left=0.0)  # last: it ends the scaling by what is drawn
        for at_s, name in self.faults:
            axes[0].text(
                at_s, 0.02, f" {name}", color=FAULT["color"], rotation=90, ha="right", va="bottom", fontsize=8,
                transform=axes[0].get_xaxis_transform(),
            )  # fmt: skip


NOTHING = Events()


def draw_tracking(tracking: Tracking, robot: Robot, folder: Path, events: Events = NOTHING) -> Path:
    """Plot desired and measured Clarke coordinates and their error, a row a coordinate, to ``tracking.png``."""
    time_s, count, file = tracking.first_s + tracking.time_s, tracking.measured.shape[1], folder / "tracking.png"
    look: dict[str, Any] = {"sharex": True, "squeeze": False, "size": (_WIDTH, 1.0 + 2.6 * count)}
    look["gridspec_kw"] = {"height_ratios": [2.2, 1] * count}
    with figure(file, f"{robot.name}: {robot.coordinates_name}", 2 * count, **look) as (_, axes):
        for index in range(count):
            name = robot.part_names[index] if tracking.modes else clarke_name(index, count)
            upper, lower = axes[2 * index, 0], axes[2 * index + 1, 0]
            upper.plot(time_s, 1e3 * tracking.desired[:, index], **DESIRED, label="reference")
            upper.plot(time_s, 1e3 * tracking.measured[:, index], **MEASURED, label="measured")
            upper.set_ylabel(f"{name} in mm")
            lower.plot(time_s, 1e6 * tracking.error[:, index], **MEASURED)
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
        legend_above(axes[0, 0])
        events.mark(axes[:, 0])
        axes[-1, 0].set_xlabel(f"{TIME}  (grey: start-up blend, left out of the errors)")
    return file


def draw_tip(tip: TipTracking, robot: Robot, folder: Path, events: Events = NOTHING) -> Path:
    """Plot the true place of the tip, the reference's, and their distance, to ``tip.png``."""
    file = folder / "tip.png"
    title = f"{robot.name}: true tip of the simulated robot, RMSE {1e3 * tip.rmse_m:.2f} mm"
    with figure(file, title, 4, sharex=True, size=(_WIDTH, 7.5)) as (_, axes):
        for index, (axis, name) in enumerate(zip(axes, "xyz", strict=False)):
            axis.plot(tip.time_s, 1e3 * tip.desired[:, index], **DESIRED, label="reference")
            axis.plot(tip.time_s, 1e3 * tip.measured[:, index], **MEASURED, label="true")
            axis.set_ylabel(f"{name} in mm")
        axes[3].plot(tip.time_s, 1e3 * np.linalg.norm(tip.desired - tip.measured, axis=1), **MEASURED)
        axes[3].set(xlabel=TIME, ylabel="distance in mm")
        legend_above(axes[0])
        events.mark(axes)
    return file


def draw_tensions(recording: Recording, robot: Robot, folder: Path, events: Events = NOTHING) -> Path:
    """Plot measured and commanded tension of every tendon with the limits, a panel a segment, to ``tensions.png``."""
    states, limits = recording.series("tendon_states"), robot.limits
    measured, commanded = states["tension"], states["commanded_tension"]
    lines = np.zeros((0, robot.tendon_count))
    highest = max(float(np.nanmax(values, initial=0.0)) for values in (measured, commanded))
    if limits is not None:
        most_n, least_n = (limits.each(key, robot.tendon_count) for key in ("maximum_n", "least_n"))
        lines = np.array([least_n, most_n] if highest > 0.5 * most_n.min() else [least_n])
    values = measured, commanded, lines
    return _draw_tendons(states.stamp_s, values, robot, "tension in N", folder / "tensions.png", events)


def draw_displacements(recording: Recording, robot: Robot, folder: Path, events: Events = NOTHING) -> Path:
    """Plot measured and commanded displacement of every tendon, a panel a segment, to ``displacements.png``."""
    states = recording.series("tendon_states")
    values = 1e3 * states["displacement"], 1e3 * states["commanded_displacement"], np.zeros((0, robot.tendon_count))
    return _draw_tendons(states.stamp_s, values, robot, "displacement in mm", folder / "displacements.png", events)


def _draw_tendons(
    time_s: Vector, values: tuple[Vector, Vector, Vector], robot: Robot, label: str, file: Path, events: Events
) -> Path:
    """A panel a segment of measured and commanded values, (k, N), and limits, (l, N); what is empty is not drawn."""
    (measured, commanded, limits), groups = values, robot.tendon_groups
    look: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False, "size": (_WIDTH, 1.0 + 3.2 * len(groups))}
    tints = [css(color) for color in tendon_colors(robot)]
    shown = f"measured (solid){', commanded (dotted)' if commanded.size else ''}"
    shown += ", limits (dashed)" if limits.size else ""
    with figure(file, f"{robot.name}: {shown}", len(groups), **look) as (_, axes):
        for axis, (part, tendons) in zip(axes[:, 0], groups.items(), strict=True):
            for index in range(tendons.start, tendons.stop):
                axis.plot(time_s, measured[:, index], color=tints[index], lw=0.8, label=f"tendon {index + 1}")
                if commanded.size:
                    axis.plot(time_s, commanded[:, index], color=tints[index], lw=0.8, ls=":")
            for limit in np.unique(limits[:, tendons]):
                axis.axhline(limit, **LIMIT)
            axis.set_title(part, loc="left")
            axis.set_ylabel(label)
            legend_above(axis)
        if limits.size:  # tensions: of all panels, which have one scale
            axes[0, 0].set_ylim(bottom=0)
        axes[-1, 0].set_xlabel(TIME)
        events.mark(axes[:, 0])
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
    axis.hist(values, bins=edges, color=COLOURS[0])
    axis.set_yscale("log")
    for fraction, style in ((50, "-"), (99, "--")):
        axis.axvline(np.percentile(values, fraction), color="black", lw=1, ls=style, label=f"p{fraction}")
    legend_above(axis, title=f"max {values.max():.0f} µs, {outside} outside")


def clarke_name(index: int, count: int) -> str:
    """Name of a coordinate for a person, e.g. ``q_Re``, ``q_Im,2`` of several segments, ``q`` where there is one."""
    if count == 1:
        return "q"
    if count == WITH_INSERTION:
        return ("q_Re", "q_Im", "insertion")[index]
    part = "Re" if index % 2 == 0 else "Im"
    return f"q_{part}" if count <= 2 else f"q_{part},{index // 2 + 1}"


_TITLE = "estimated shapes, by the time since the recording began"


def seen_shapes(recording: Recording) -> tuple[Vector, Vector]:
    """All moments at which the sensors saw the shape: time, (k,), s, and coefficients, (k, n)."""
    if "shape" not in recording.topics:
        return np.zeros(0), np.zeros((0, 0))
    shapes = recording.series("shape")
    seen = np.isfinite(shapes["coefficients"]).all(axis=1)
    return shapes.stamp_s[seen], np.asarray(shapes["coefficients"][seen])


def draw_shapes(recording: Recording, robot: Robot, folder: Path, count: int = 5) -> Path:
    """Draw the robot as the estimator saw it, from its straightest to its most bent shape, to ``shapes.png``.

    The shapes are drawn and listed in the order of time.
    """
    times_s, coefficients = seen_shapes(recording)
    widest = coefficients[:, int(np.argmax(np.ptp(coefficients, axis=0)))]
    bends = np.linspace(widest.min(), widest.max(), count)
    moments = sorted({int(np.argmin(np.abs(widest - bend))) for bend in bends})
    drawing = robot_model(robot).drawing()
    if not len(drawing.geometry(coefficients[0]).backbone):
        return _draw_parts(robot.name, drawing, times_s[moments], coefficients[moments], folder)
    file, colours = folder / "shapes.png", mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(moments)))
    look = {"projection": "3d", "proj_type": "ortho"}
    with figure(file, f"{robot.name}: {_TITLE}", size=(7, 6), subplot_kw=look) as (sheet, axis):
        for moment, colour in zip(moments, colours, strict=True):
            geometry = drawing.geometry(coefficients[moment])
            label = f"{times_s[moment]:.1f} s"
            axis.plot(*(1e3 * geometry.backbone[:, :3, 3].T), color=colour, lw=2.5, label=label)
            for pose, radius_m in zip(geometry.disks, drawing.disk_radii_m, strict=True):
                axis.plot(*_ring(pose, radius_m).T, color=colour, lw=0.8)
            for tendon in geometry.tendons:
                axis.plot(*(1e3 * tendon.T), color=colour, lw=0.5, alpha=0.7)
        # A motion in one plane still needs some depth to be seen in.
        for low, high, setter in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
            half = max((high - low) / 2, 0.2e3 * robot.length_m)
            setter((low + high) / 2 - half, (low + high) / 2 + half)
        spans = [high - low for low, high in (axis.get_xlim(), axis.get_ylim(), axis.get_zlim())]
        axis.set_box_aspect(spans, zoom=0.85)  # room for the labels, which the layout does not know
        for name, span in zip("xyz", spans, strict=True):  # an axis seen at an angle has room for few numbers
            axis.locator_params(axis=name, nbins=max(2, round((4 if name == "y" else 8) * span / max(spans))))
        low, high = axis.get_ylim()
        if high - low < 0.5 * max(spans):
            axis.set_yticks([tick for tick in axis.get_yticks() if low <= tick <= high][::2])
        axis.set_xlabel("x in mm", labelpad=6)
        axis.set_ylabel("y in mm")
        axis.set_zlabel("z in mm", labelpad=8)
        axis.view_init(elev=18, azim=-70)
        if robot.gravity_m_per_s2[2] > 0:
            axis.invert_zaxis()
        sheet.legend(loc="outside right center")
    return file


def _draw_parts(name: str, drawing: Drawing, times_s: Vector, coefficients: Vector, folder: Path) -> Path:
    """Links and tendons of a mechanism in the plane x, z, a row of ``coefficients`` a moment, to ``shapes.png``."""
    file, colours = folder / "shapes.png", mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(coefficients)))
    with figure(file, f"{name}: {_TITLE}", size=(7, 6)) as (_, axis):
        for time_s, row, colour in zip(times_s, coefficients, colours, strict=True):
            geometry = drawing.geometry(row)
            for number, outline in enumerate(geometry.outlines):
                label = None if number else f"{time_s:.1f} s"
                axis.plot(1e3 * outline[:, 0], 1e3 * outline[:, 2], color=colour, lw=1.2, label=label)
            for tendon in geometry.tendons:
                axis.plot(1e3 * tendon[:, 0], 1e3 * tendon[:, 2], color=colour, lw=0.6, ls=":")
        axis.set(aspect="equal", xlabel="x in mm", ylabel="z in mm")
        legend_above(axis)
    return file


def _ring(pose: Vector, radius_m: float) -> Vector:
    angle = np.linspace(0.0, 2 * np.pi, 33)
    circle = radius_m * np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    return 1e3 * (pose[:3, 3] + circle @ pose[:3, :3].T)
