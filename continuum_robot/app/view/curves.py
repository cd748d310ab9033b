# SPDX-License-Identifier: Apache-2.0
"""Live curves of the last seconds beside the robot: where it is, what pulls, what touches, how the loop keeps time."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import viser
from numpy.typing import ArrayLike, NDArray

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view import colors
from continuum_robot.app.view.gui import note, show
from continuum_robot.app.view.steering_range import unit_of
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


class History:
    """A ring of samples."""

    def __init__(self, width: int, samples: int) -> None:
        self._times = np.full(samples, np.nan)
        self._values = np.full((samples, width), np.nan)
        self._next = 0

    def add(self, time_s: float, values: ArrayLike) -> None:
        """Keep a sample; too few values leave the rest unknown, too many are left out."""
        given = np.asarray(values, dtype=float).reshape(-1)[: self._values.shape[1]]
        row = self._next % len(self._times)
        self._times[row] = time_s
        self._values[row] = np.nan
        self._values[row, : given.size] = given
        self._next += 1

    def clear(self) -> None:
        """Forget all samples."""
        self._times[:] = np.nan
        self._values[:] = np.nan

    def last(self, now_s: float, duration_s: float) -> tuple[Array, Array]:
        """The samples of the last seconds, the oldest first."""
        order = np.arange(self._next, self._next + len(self._times)) % len(self._times)
        times = self._times[order] - now_s
        kept = times >= -duration_s  # False for NaN
        return times[kept], self._values[order][kept]


def drawn_range(values: Array, drawn: tuple[float, float]) -> tuple[float, float]:
    """The range of an axis: round numbers around what is known; kept while it fits, so that the axis stands still.

    uPlot finds no range of its own where the first value of a curve is NaN, and then draws none of its curves.
    """
    known = values[np.isfinite(values)]
    if known.size == 0:
        return drawn
    low, high = float(known.min()), float(known.max())
    room = drawn[1] - drawn[0]
    if drawn[0] <= low and high <= drawn[1] and high - low >= 0.4 * room:
        return drawn
    # Less would give ticks that differ only behind the third digit, where uPlot rounds.
    span = max(high - low, 0.02 * max(1.0, abs(low), abs(high)))
    power = 10.0 ** np.floor(np.log10(span))
    step = next(float(factor * power) for factor in (0.2, 0.5, 1.0) if span <= 10.0 * factor * power)
    return step * float(np.floor(low / step)), step * float(np.floor(high / step) + 1.0)


DURATION_S = 15.0
SAMPLE_RATE_HZ = 30
_POINTS = 150
_HEIGHT = 84
_LEFT, _RIGHT = 50, 14


@dataclass
class _Plot:
    history: History
    handle: Any
    ticks: Any
    drawn: tuple[float, float] = (0.0, 1.0)


def _heading(robot: Robot) -> str:
    """Of the plot of the coordinates: short, as their names follow it."""
    return robot.coordinates_name.removesuffix(" coordinates").capitalize()


class Curves:
    """Plots of what the robot has, made in the container that is open."""

    def __init__(self, server: viser.ViserServer, names: tuple[str, ...], robot: Robot) -> None:
        self._server, self._unit, self._tendons = server, unit_of(robot), robot.tendon_count
        tendons = self._tendons
        self._coordinates = len(names)
        self._clarke: _Plot | None = None
        if names:
            clarke = [(name, False) for name in names] + [(name, True) for name in names]
            tints = [k % len(colors.CURVES) for k in range(len(names))] * 2
            self._clarke = self._plot(f"{_heading(robot)}, {self._unit.name}", "dashed: desired", clarke, tints)
        pulls = [(str(k + 1), False) for k in range(tendons)]
        self._displacement: _Plot | None = None
        if robot.takes_displacements:
            spools = pulls + [(str(k + 1), True) for k in range(tendons)]
            title = f"Displacements, {self._unit.name}"
            self._displacement = self._plot(title, "dashed: commanded", spools, list(range(tendons)) * 2)
        self._tension = self._plot("Tensions, N", "tendon", pulls, list(range(tendons)))
        self._contact: _Plot | None = None
        self._tip: _Plot | None = None
        if not robot.traits.without_contact:
            residual = [("residual / threshold", False), ("threshold", True)]
            self._contact = self._plot("Contact", "above 1: touched", residual, [1, 7])
        else:
            self._tip = self._plot(
                f"Tip, {self._unit.name}", "base frame", [(axis, False) for axis in "xyz"], [1, 2, 0]
            )
        self._loop = self._plot(
            "Loop, µs", "99 % take less", [("reading to command", False), ("driver's cycle", False)], [0, 2]
        )
        self._loop.handle.visible = self._loop.ticks.visible = False
        self._unmeasured = server.gui.add_html(note("Not measured: in lock-step a cycle takes no time of its own."))

    def add(self, snapshot: RobotState) -> None:
        """Keep what a snapshot reports."""
        now_s, scale = snapshot.time_s, self._unit.per_m
        measured = np.full(2 * self._coordinates, np.nan)
        for values, first in ((snapshot.clarke_m, 0), (snapshot.reference_m, self._coordinates)):
            if values.size == self._coordinates:
                measured[first : first + self._coordinates] = scale * values
        if self._clarke is not None:
            self._clarke.history.add(now_s, measured)
        if self._displacement is not None:
            wound = np.full((2, self._tendons), np.nan)
            for row, values in zip(wound, (snapshot.displacement_m, snapshot.commanded_m), strict=True):
                if values.size == row.size:
                    row[:] = scale * values
            self._displacement.history.add(now_s, wound.ravel())
        self._tension.history.add(now_s, snapshot.tension_n)
        if self._tip is not None:
            self._tip.history.add(now_s, scale * snapshot.tip_position_m)
        if self._contact is not None:
            contact, fraction = snapshot.contact, math.nan
            if np.any(np.isfinite(contact.residual_ratio)):
                fraction = float(np.nanmax(contact.residual_ratio))
            self._contact.history.add(now_s, [fraction, 1.0 if contact.state else math.nan])
        timed = math.isfinite(snapshot.loop.execution_p99_us)
        show(self._loop.handle, "visible", timed)
        show(self._loop.ticks, "visible", timed)
        show(self._unmeasured, "visible", not timed)
        self._loop.history.add(now_s, [snapshot.loop.response_p99_us, snapshot.loop.execution_p99_us])

    def draw(self, now_s: float) -> None:
        """Send the last seconds, decimated; call it within ``server.atomic()``."""
        for plot in (self._clarke, self._displacement, self._tension, self._contact, self._tip, self._loop):
            if plot is None:
                continue
            times, values = plot.history.last(now_s, DURATION_S)
            if len(times) < 2:
                continue
            step = max(1, math.ceil(len(times) / _POINTS))
            kept = slice((len(times) - 1) % step, None, step)  # the newest sample is always among them
            drawn = drawn_range(values[kept], plot.drawn)
            if drawn != plot.drawn:
                plot.drawn, plot.handle.scales = drawn, _scales(drawn)
            plot.handle.data = (times[kept], *values[kept].T.copy())

    def _plot(self, title: str, meaning: str, series: list[tuple[str, bool]], tints: list[int]) -> _Plot:
        styles: list[Any] = [{"label": "s"}]
        names = []
        for (label, dashed), tint in zip(series, tints, strict=True):
            color = colors.CURVES[tint % len(colors.CURVES)]
            style: dict[str, Any] = {"label": label, "stroke": color, "width": 1.5, "points": {"show": False}}
            if dashed:
                style["dash"] = (6, 4)
            styles.append(style)
            if not dashed:
                names.append(f'<span style="color:{color}">{html.escape(label)}</span>')
        self._server.gui.add_html(
            f'<div class="cr-title"><b>{html.escape(title)}</b> {" ".join(names)} ({html.escape(meaning)})</div>'
        )
        empty = tuple(np.array([-DURATION_S, 0.0]) if k == 0 else np.full(2, np.nan) for k in range(len(styles)))
        handle = self._server.gui.add_uplot(
            empty,
            tuple(styles),
            scales=_scales((0.0, 1.0)),
            axes=({"show": False}, {"size": _LEFT, "font": "10px sans-serif", "space": 22}),
            legend={"show": False},
            height=_HEIGHT,
            padding=(8, _RIGHT, 4, 0),
        )
        # Where a browser is slow, uPlot forgets its own axis of time: width and data come to it together.
        words = "".join(f"<span>{-DURATION_S * k / 3:g}</span>" for k in (3, 2, 1)) + "<span>0 s</span>"
        ticks = self._server.gui.add_html(
            f'<div class="cr-ends cr-ticks" style="padding:0 {_RIGHT + 6}px 0 {_LEFT + 4}px">{words}</div>'
        )
        return _Plot(History(len(series), int(DURATION_S * SAMPLE_RATE_HZ)), handle, ticks)


def _scales(drawn: tuple[float, float]) -> dict[str, Any]:
    return {
        "x": {"time": False, "auto": False, "range": (-DURATION_S, 0.0)},
        "y": {"auto": False, "range": drawn},
    }
