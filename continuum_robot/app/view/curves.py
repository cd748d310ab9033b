# SPDX-License-Identifier: Apache-2.0
"""Live curves of the last seconds beside the robot: where it is, what pulls, what touches, how the loop keeps time."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import viser
from numpy.typing import ArrayLike, NDArray

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.gui import note, show
from continuum_robot.app.view.steering_range import reach_of, unit_of
from continuum_robot.models import colors
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread

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
POINTS = 150
_SAMPLES = int(DURATION_S * SAMPLE_RATE_HZ)
_HEIGHT = 84
_LEFT, _RIGHT = 50, 14
TICKS_STYLE = f"""
.cr-contact{{background:{colors.css(colors.CONTACT)}40}}
.cr-fault{{background:{colors.css(colors.FAULT)}20;border-left:2px solid {colors.css(colors.FAULT)}}}
.cr-ticks{{position:relative;margin:-7px {_RIGHT + 7}px 0 {_LEFT + 12}px;color:var(--cr-dim)}}
.cr-ticks .cr-ends{{font-size:10px;margin:0 -8px}}
.cr-marks{{position:absolute;left:0;right:0;bottom:calc(100% + 5px);height:{_HEIGHT - 14}px;pointer-events:none}}
.cr-marks i{{position:absolute;top:0;bottom:0;box-sizing:border-box}}"""
_PALER = ("", "85", "55")
"""Opacity of the curves of the first robot, of the second, and of all others."""

Series = list[tuple[str, bool, colors.Color]]
"""Name of each curve, whether it is dashed, and its colour."""


def _sized(values: Array, count: int, scale: float = 1.0) -> Array:
    return scale * values if values.size == count else np.full(count, np.nan)


def _coordinates(robot: Robot) -> Series:
    """The measured coordinates, and dashed the desired ones in the same colours."""
    names = zip(reach_of(robot).short_names, colors.coordinate_colors(robot), strict=True)
    return [(name, dashed, color) for dashed in (False, True) for name, color in names]


def _tendons(robot: Robot, *dashes: bool) -> Series:
    tints = colors.tendon_colors(robot)
    return [(str(k + 1), dashed, tint) for dashed in dashes for k, tint in enumerate(tints)]


@dataclass(frozen=True)
class _Kind:
    """A plot: ``series`` of a robot, none where it has nothing of the kind, and their values in a state of it.

    ``from_zero``: whether the axis holds 0; ``empty`` is shown in place of a plot without values.
    """

    title: str
    meaning: str
    series: Callable[[Robot], Series]
    values: Callable[[Robot, RobotState, float], Array]
    from_zero: bool = False
    empty: str = f"Nothing was measured in these {DURATION_S:g} s."


def _touch(_robot: Robot, snapshot: RobotState, _scale: float) -> Array:
    ratio = snapshot.contact.residual_ratio
    largest = float(np.nanmax(ratio)) if np.any(np.isfinite(ratio)) else math.nan
    return np.array([largest, 1.0 if snapshot.contact.state else math.nan])


_LOOP = _Kind(
    "Loop, µs",
    "99 % take less",
    lambda _robot: [("reading to command", False, colors.SERIES[0]), ("driver's cycle", False, colors.SERIES[1])],
    lambda _robot, snapshot, _scale: np.array([snapshot.loop.response_p99_us, snapshot.loop.execution_p99_us]),
    True,
    "Not measured: in lock-step a cycle takes no time of its own.",
)


def _kinds(robot: Robot) -> tuple[_Kind, ...]:
    """All plots; the words are those of this robot."""
    unit = unit_of(robot).name
    heading = robot.coordinates_name.removesuffix(" coordinates").capitalize()  # short, as their names follow it
    limits = robot.limits
    limit = "" if limits is None else f"; limit {spread(limits.each('maximum_n', robot.tendon_count))}"
    return (
        _Kind(
            f"{heading}, {unit}",
            "dashed: desired",
            _coordinates,
            lambda robot, snapshot, scale: np.concatenate(
                [_sized(values, robot.coordinate_count, scale) for values in (snapshot.clarke_m, snapshot.reference_m)]
            ),
        ),
        _Kind(
            f"Displacements, {unit}",
            "dashed: commanded",
            lambda robot: _tendons(robot, False, True) if robot.takes_displacements else [],
            lambda robot, snapshot, scale: np.concatenate(
                [
                    _sized(values, robot.tendon_count, scale)
                    for values in (snapshot.displacement_m, snapshot.commanded_m)
                ]
            ),
        ),
        _Kind(
            "Tensions, N",
            f"tendon{limit}",
            lambda robot: _tendons(robot, False),
            lambda robot, snapshot, _scale: _sized(snapshot.tension_n, robot.tendon_count),
            from_zero=True,
        ),
        _Kind(
            "Contact",
            "above 1: touched",
            lambda robot: (
                []
                if robot.traits.without_contact
                else [("residual / threshold", False, colors.CONTACT), ("threshold", True, colors.LIMIT)]
            ),
            _touch,
            True,
            "No contact monitor runs: the option --contact starts it.",
        ),
        _Kind(
            f"Tip, {unit}",
            "base frame",
            lambda robot: (
                [(name, False, color) for name, color in zip("xyz", colors.AXES, strict=True)]
                if robot.traits.without_contact
                else []
            ),
            lambda _robot, snapshot, scale: scale * snapshot.tip_position_m,
        ),
        _LOOP,
    )


@dataclass
class _Plot:
    kind: _Kind
    history: History
    handle: Any
    ticks: Any
    empty: Any
    drawn: tuple[float, float] = (0.0, 1.0)


class Curves:
    """Plots of what robots have, made in the container that is open: those of several robots over each other."""

    def __init__(self, server: viser.ViserServer, robots: Sequence[Robot]) -> None:
        self._server, self._robots, self._per_m = server, robots, unit_of(robots[0]).per_m
        self._plots = [self._plot(kind) for kind in _kinds(robots[0]) if any(kind.series(robot) for robot in robots)]
        self._marked = History(2, _SAMPLES)

    def add(self, snapshots: Sequence[RobotState]) -> None:
        """Keep what a snapshot of each robot reports, at the time of the first."""
        now_s = snapshots[0].time_s
        for plot in self._plots:
            values = [
                plot.kind.values(robot, snapshot, self._per_m)
                for robot, snapshot in zip(self._robots, snapshots, strict=True)
                if plot.kind.series(robot)
            ]
            plot.history.add(now_s, np.concatenate(values))
        touched = any(snapshot.contact.in_contact for snapshot in snapshots)
        self._marked.add(now_s, (touched, any(snapshot.faults for snapshot in snapshots)))

    def clear(self) -> None:
        """Forget all samples."""
        for history in (self._marked, *(plot.history for plot in self._plots)):
            history.clear()

    def draw(self, now_s: float) -> None:
        """Send the last seconds, decimated; call it within ``server.atomic()``."""
        ticks = _ticks(*self._marked.last(now_s, DURATION_S))
        for plot in self._plots:
            times, values = plot.history.last(now_s, DURATION_S)
            known = len(times) > 1 and bool(np.isfinite(values).any())
            show(plot.handle, "visible", known)
            show(plot.ticks, "visible", known)
            show(plot.empty, "visible", not known)
            if not known:
                continue
            show(plot.ticks, "content", ticks)
            step = max(1, math.ceil(len(times) / POINTS))
            kept = slice((len(times) - 1) % step, None, step)  # the newest sample is always among them
            drawn = drawn_range(np.append(values[kept], 0.0 if plot.kind.from_zero else math.nan), plot.drawn)
            if drawn != plot.drawn:
                plot.drawn, plot.handle.scales = drawn, _scales(drawn)
            plot.handle.data = (times[kept], *values[kept].T.copy())

    def _plot(self, kind: _Kind) -> _Plot:
        styles: list[Any] = [{"label": "s"}]
        for number, robot in enumerate(self._robots):
            paler = _PALER[min(number, len(_PALER) - 1)]
            for label, dashed, tint in kind.series(robot):
                color = colors.css(tint) + paler
                width = 3.0 if paler else 1.5
                style: dict[str, Any] = {"label": label, "stroke": color, "width": width, "points": {"show": False}}
                styles.append(style | {"dash": (6, 4)} if dashed else style)
        most = max((kind.series(robot) for robot in self._robots), key=len)
        names = [
            f'<span style="color:{colors.css(tint)}">{html.escape(label)}</span>'
            for label, dashed, tint in most
            if not dashed
        ]
        title, meaning = html.escape(kind.title), html.escape(kind.meaning)
        self._server.gui.add_html(f'<div class="cr-title"><b>{title}</b> {" ".join(names)} ({meaning})</div>')
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
        ticks = self._server.gui.add_html("", visible=False)
        empty = self._server.gui.add_html(note(kind.empty))
        handle.visible = False
        return _Plot(kind, History(len(styles) - 1, _SAMPLES), handle, ticks, empty)


def marked_spans(times: Array, marked: Array) -> list[tuple[float, float]]:
    """Begin and end of each run of samples that are marked, 1 and not 0 or NaN."""
    edges = np.diff(np.concatenate([[0], marked == 1, [0]]).astype(int))
    return [
        (float(times[first]), float(times[last]))
        for first, last in zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0) - 1, strict=True)
    ]


def _ticks(times: Array, marked: Array) -> str:
    """The axis of time under a plot, and over the plot a band for each contact, and for each fault.

    Where a browser is slow, uPlot forgets its own axis of time: width and data come to it together.
    """
    words = "".join(f"<span>{-DURATION_S * k / 3:g}</span>" for k in (3, 2, 1)) + "<span>0 s</span>"
    per_s = 100 / DURATION_S
    bands = "".join(
        f'<i class="{kind}" style="left:{100 + per_s * begin:.1f}%;right:{-per_s * end:.1f}%"></i>'
        for column, kind in enumerate(("cr-contact", "cr-fault"))
        for begin, end in marked_spans(times, marked[:, column])
    )
    return f'<div class="cr-ticks"><div class="cr-marks">{bands}</div><div class="cr-ends">{words}</div></div>'


def _scales(drawn: tuple[float, float]) -> dict[str, Any]:
    return {
        "x": {"time": False, "auto": False, "range": (-DURATION_S, 0.0)},
        "y": {"auto": False, "range": drawn},
    }
