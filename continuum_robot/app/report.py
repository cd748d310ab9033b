# SPDX-License-Identifier: Apache-2.0
"""The report of a run: metrics.json and plots, computed from its recording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from continuum_robot.app.contact_report import CONTACT, TRUTH, contact_lines, contact_numbers, draw_contact
from continuum_robot.app.figures import plt, save_figure
from continuum_robot.app.output import make_folder, write_json
from continuum_robot.app.recorded_run import RecordedRun, open_run, recorded_facts
from continuum_robot.app.recording import Recording, Series, read_recording
from continuum_robot.errors import RecordingError
from continuum_robot.mechanisms.parts import make_drawing
from continuum_robot.robot.description import Robot
from continuum_robot.rod.dynamics import RodDynamics

Vector = NDArray[np.float64]

_WITH_INSERTION = 3  # coordinates: rods have two a segment, an insertion comes as a third
TOPICS = ("tendon_states", "tendon_commands", "clarke_state", "clarke_reference", "shape", CONTACT, TRUTH)
_PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
MEASURED, WANTED, LIMIT = "#1f77b4", "#d62728", "#7f7f7f"


@dataclass(frozen=True)
class Tracking:
    """Measured and wanted Clarke coordinates on the stamps of the measured ones, within the evaluated window.

    Attributes
    ----------
    time_s : from the first reference, shape (k,), s
    measured, wanted : shape (k, 2m), m
    evaluated : which samples the errors are computed from, shape (k,): the start-up blend is left out
    """

    time_s: Vector
    measured: Vector
    wanted: Vector
    evaluated: NDArray[np.bool_]

    @property
    def error(self) -> Vector:
        """Wanted less measured, shape (k, 2m), m."""
        return self.wanted - self.measured

    @property
    def rmse(self) -> Vector:
        """Root mean square error of each coordinate over the evaluated samples, shape (2m,), m."""
        error = self.error[self.evaluated]
        return np.sqrt(np.mean(error**2, axis=0)) if len(error) else np.full(self.measured.shape[1], np.nan)


def report_run(
    run: RecordedRun, folder: Path, robot: Robot, facts: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[Path]]:
    """Write the report of a recorded run: the same after the run and any time later, from the recording alone.

    Parameters
    ----------
    run : the recording
    folder : where the report goes; made where it is missing
    robot : whose run it was
    facts : numbers over those that the recording holds

    Returns
    -------
    the metrics, and the paths of the plots

    Raises
    ------
    RecordingError : the recording cannot be read, has no states, or is that of another robot
    DeviceError : the report cannot be written
    """
    known = {**recorded_facts(run), **run.statistics, **(facts or {})}
    return write_report(run.bag, folder, robot, known, blend_s=run.blend_s, namespace=run.namespace)


def write_report(
    bag: Path, folder: Path, robot: Robot, facts: Mapping[str, Any], *, blend_s: float, namespace: str | None = None
) -> tuple[dict[str, Any], list[Path]]:
    """Compute metrics.json and the plots of a run from its recording.

    Parameters
    ----------
    bag : what the recorder wrote
    folder : where the report goes
    robot : whose run it was
    facts : numbers that the recording does not hold, such as the driver's own statistics; they win over computed ones
    blend_s : length of the reference's start-up blend, which the errors leave out, s
    namespace : ROS namespace of the topics, None: the recorded one

    Returns
    -------
    the metrics, and the paths of the plots

    Raises
    ------
    RecordingError : the recording cannot be read, or has no states
    DeviceError : the report cannot be written
    """
    recording = read_recording(bag, TOPICS, namespace)
    check_robot(recording, robot)
    tracking = None
    if "clarke_state" in recording.topics and "clarke_reference" in recording.topics:
        tracking = track(recording.series("clarke_state"), recording.series("clarke_reference"), blend_s)
    numbers = {"robot": robot.name, **metrics(recording, tracking), **contact_numbers(recording), **facts}
    write_json(folder / "metrics.json", numbers)
    plots = [draw_tensions(recording, robot, folder), draw_timing(recording, numbers, folder)]
    if tracking is not None:
        plots.insert(0, draw_tracking(tracking, robot, folder))
    if "shape" in recording.topics:
        plots.append(draw_shapes(recording, robot, folder))
    if CONTACT in recording.topics and len(recording.topics[CONTACT]) > 1:
        plots.append(draw_contact(recording, robot, folder))
    return numbers, plots


def check_robot(recording: Recording, robot: Robot) -> None:
    """Whether a recording can be that of a robot, by its numbers of tendons and coefficients.

    Raises
    ------
    RecordingError : it is not
    """
    expected = (
        ("tendon_states", "tension", robot.tendon_count, "tendons"),
        ("shape", "coefficients", robot.coefficient_count, "coefficients of the shape"),
    )
    for topic, name, count, what in expected:
        series = recording.topics.get(topic)
        if series is not None and len(series) and series[name].shape[1] != count:
            raise RecordingError(
                recording.file,
                f"has {series[name].shape[1]} {what}, the robot {robot.name} has {count}",
                "Give the recorded robot's file with --robot",
            )


def track(state: Series, reference: Series, blend_s: float) -> Tracking:
    """Bring measured and wanted Clarke coordinates onto the same instants.

    Parameters
    ----------
    state : clarke_state, stamped when the displacements were acquired
    reference : clarke_reference, interpolated linearly to those stamps
    blend_s : how long after the first reference the evaluation begins, s
    """
    first_s, last_s = float(reference.stamp_s[0]), float(reference.stamp_s[-1])
    state = state.between(first_s, last_s)
    time_s = state.stamp_s - first_s
    wanted = np.stack(
        [np.interp(state.stamp_s, reference.stamp_s, column) for column in reference["position"].T], axis=1
    )
    return Tracking(time_s, state["position"], wanted, time_s >= blend_s)


def metrics(recording: Recording, tracking: Tracking | None) -> dict[str, Any]:
    """Numbers of a run, flat, units in the keys.

    Parameters
    ----------
    recording : of the topics ``TOPICS``
    tracking : from :func:`track`, None where no reference was recorded

    Returns
    -------
    ``loop_rate_hz``, ``missed_cycles_percent``: from the stamps of tendon_states; ``response_*_us``: from the
    acquisition of a state to the stamp of the command that answers it; ``rmse_q_re_m``, ``rmse_q_im_m``: root mean
    square over segments and time, and each segment's own where there are several; ``rmse_q_m`` where there is one
    coordinate only; tensions while references came
    """
    states = recording.series("tendon_states")
    active = _active(recording, states)
    numbers: dict[str, Any] = {
        "simulated": bool(states["simulated"].max()),
        "duration_s": float(active.stamp_s[-1] - active.stamp_s[0]),
        **loop_numbers(active),
        **response_numbers(active, recording.topics.get("tendon_commands")),
    }
    tension = active["tension"]
    known = tension[np.isfinite(tension)]
    numbers["min_tension_n"] = float(known.min()) if known.size else math.nan
    numbers["max_tension_n"] = float(known.max()) if known.size else math.nan
    numbers["limited_cycles_percent"] = 100.0 * float(np.mean((active["limited"] > 0).any(axis=1)))
    if tracking is None:
        return numbers
    rmse = tracking.rmse
    if len(rmse) == 1:
        numbers["rmse_q_m"] = float(rmse[0])
    elif len(rmse) == _WITH_INSERTION:
        numbers |= {f"rmse_{name}_m": float(rmse[i]) for i, name in enumerate(("q_re", "q_im", "insertion"))}
    else:
        numbers["rmse_q_re_m"] = float(np.sqrt(np.mean(rmse[0::2] ** 2)))
        numbers["rmse_q_im_m"] = float(np.sqrt(np.mean(rmse[1::2] ** 2)))
    if len(rmse) > 2 and len(rmse) != _WITH_INSERTION:
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

    Parameters
    ----------
    states : messages of ``tendon_states``
    """
    span_s, cycles = float(states.stamp_s[-1] - states.stamp_s[0]), int(states.sequence[-1] - states.sequence[0])
    if cycles < 1 or span_s <= 0:
        return {"loop_rate_hz": math.nan, "missed_cycles_percent": math.nan, "recorded_states": len(states)}
    period_s = float(np.median(periods_s(states)))
    # Nominal rates are round numbers; the median of many periods is near enough to find which.
    period_s = round(period_s * 1e5) / 1e5 or period_s
    deadlines = max(cycles, round(span_s / period_s))
    return {
        "loop_rate_hz": cycles / span_s,
        "missed_cycles_percent": 100.0 * (deadlines - cycles) / deadlines,
        "recorded_states": len(states),
        "recording_lost_percent": 100.0 * (cycles + 1 - len(states)) / (cycles + 1),
    }


def periods_s(states: Series) -> Vector:
    """Times between states that follow each other, shape (at most k - 1,), s."""
    following = np.diff(states.sequence) == 1
    return np.diff(states.stamp_s)[following]


def responses_s(states: Series, commands: Series | None) -> Vector:
    """From the acquisition of each state to the stamp of the command that answers it, shape (answered,), s.

    Parameters
    ----------
    states : messages of ``tendon_states``
    commands : messages of ``tendon_commands``; None: not recorded
    """
    if commands is None:
        return np.zeros(0)
    _, answered, answers = np.intersect1d(states.sequence, commands.sequence, return_indices=True)
    return commands.stamp_s[answers] - states.stamp_s[answered]


def response_numbers(states: Series, commands: Series | None) -> dict[str, Any]:
    """Quantiles of :func:`responses_s`, in microseconds.

    Parameters
    ----------
    states : messages of ``tendon_states``
    commands : messages of ``tendon_commands``; None: not recorded
    """
    response_us = 1e6 * responses_s(states, commands)
    if not len(response_us):
        return {f"response_{name}_us": math.nan for name in ("p50", "p99", "max")}
    return {
        "response_p50_us": float(np.percentile(response_us, 50)),
        "response_p99_us": float(np.percentile(response_us, 99)),
        "response_max_us": float(response_us.max()),
    }


def _active(recording: Recording, states: Series) -> Series:
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


def draw_tracking(tracking: Tracking, robot: Robot, folder: Path) -> Path:
    """Plot wanted and measured Clarke coordinates and their error, a row a coordinate, to ``tracking.png``.

    Parameters
    ----------
    folder : where the picture goes
    """
    count = tracking.measured.shape[1]
    figure, axes = plt.subplots(
        2 * count,
        1,
        figsize=(10, 1.0 + 3.2 * count),
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": [2.2, 1] * count},
        layout="constrained",
    )
    rmse = tracking.rmse
    for index in range(count):
        name = clarke_name(index, count)
        upper, lower = axes[2 * index, 0], axes[2 * index + 1, 0]
        upper.plot(tracking.time_s, 1e3 * tracking.wanted[:, index], color=WANTED, lw=1.6, label="reference")
        upper.plot(tracking.time_s, 1e3 * tracking.measured[:, index], color=MEASURED, lw=0.9, label="measured")
        upper.set_ylabel(f"{name} [mm]")
        upper.legend(loc="upper right", ncols=2, frameon=False)
        upper.margins(y=0.25)
        lower.plot(tracking.time_s, 1e6 * tracking.error[:, index], color="black", lw=0.6)
        lower.set_ylabel("error [µm]")
        lower.text(
            0.995,
            0.94,
            f"RMSE {1e6 * rmse[index]:.1f} µm",
            transform=lower.transAxes,
            ha="right",
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
        evaluated = np.flatnonzero(tracking.evaluated)
        if len(evaluated):
            for axis in (upper, lower):
                axis.axvspan(0, tracking.time_s[evaluated[0]], color="0.92", lw=0)
            within = 1e6 * tracking.error[evaluated, index]
            reach = max(1.0, 1.3 * float(np.abs(within).max()))
            lower.set_ylim(-reach, reach)
    axes[-1, 0].set_xlabel("time since the first reference [s]  (grey: start-up blend, left out of the errors)")
    axes[0, 0].set_title(f"{robot.name}: Clarke coordinates", loc="left")
    return save_figure(figure, folder / "tracking.png")


def draw_tensions(recording: Recording, robot: Robot, folder: Path) -> Path:
    """Plot measured and commanded tension of every tendon with the limits, a panel a segment, to ``tensions.png``.

    Parameters
    ----------
    folder : where the picture goes
    """
    states = recording.series("tendon_states")
    time_s = states.stamp_s - float(_active(recording, states).stamp_s[0])
    figure, axes = plt.subplots(
        len(robot.part_names),
        1,
        figsize=(10, 1.0 + 3.6 * len(robot.part_names)),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    colours = mpl.colormaps["viridis"]
    for axis, part, tendons in zip(axes[:, 0], robot.part_names, robot.tendon_slices, strict=True):
        count = tendons.stop - tendons.start
        measured, commanded = states["tension"][:, tendons], states["commanded_tension"][:, tendons]
        for tendon in range(count):
            colour = colours(0.9 * tendon / max(1, count - 1))
            axis.plot(time_s, measured[:, tendon], color=colour, lw=0.8, label=f"{tendon + 1}")
            axis.plot(time_s, commanded[:, tendon], color=colour, lw=0.8, ls=":")
        if robot.limits is not None:
            axis.axhline(robot.limits.minimum_n, color=LIMIT, lw=1, ls="--")
            highest = np.nanmax([*measured.ravel(), *commanded.ravel(), 0.0])
            if highest > 0.5 * robot.limits.maximum_n:
                axis.axhline(robot.limits.maximum_n, color=LIMIT, lw=1, ls="--")
        axis.set_ylim(bottom=0)
        axis.set_ylabel("tension [N]")
        axis.set_title(f"{part}: measured (solid), commanded (dotted), limits (dashed)", loc="left")
        axis.legend(title="tendon", loc="upper right", ncols=count, frameon=False)
        axis.margins(x=0.01)
        axis.set_ylim(top=axis.get_ylim()[1] * 1.25)
    axes[-1, 0].set_xlabel("time since the first reference [s]")
    return save_figure(figure, folder / "tensions.png")


def draw_timing(recording: Recording, numbers: Mapping[str, Any], folder: Path) -> Path:
    """Plot histograms of the loop's period and of the response to each state, to ``timing.png``.

    Parameters
    ----------
    numbers : of the report
    folder : where the picture goes
    """
    states = _active(recording, recording.series("tendon_states"))
    period_us = 1e6 * periods_s(states)
    response_us = 1e6 * responses_s(states, recording.topics.get("tendon_commands"))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    _histogram(left, period_us, "period of the driver's loop [µs]")
    left.set_title(
        f"{numbers.get('loop_rate_hz', math.nan):.1f} Hz, "
        f"{numbers.get('missed_cycles_percent', math.nan):.2f} % of the cycles missed",
        loc="left",
    )
    _histogram(right, response_us, "state acquired → its command computed [µs]")
    trip = [numbers.get(f"round_trip_{name}_us") for name in ("p50", "p99", "max")]
    if all(isinstance(value, (int, float)) and math.isfinite(value) for value in trip):
        right.set_title("whole round trip p50 {:.0f}, p99 {:.0f}, max {:.0f} µs".format(*trip), loc="left")
    return save_figure(figure, folder / "timing.png")


def draw_shapes(recording: Recording, robot: Robot, folder: Path, count: int = 5) -> Path:
    """Draw the robot as the estimator saw it, from its straightest to its most bent moments, to ``shapes.png``.

    Parameters
    ----------
    recording : with the topic ``shape``
    robot : whose disks and tendons are drawn
    folder : where the picture goes
    count : number of moments
    """
    coefficients = recording.series("shape")["coefficients"]
    widest = coefficients[:, int(np.argmax(np.ptp(coefficients, axis=0)))]
    moments = [int(np.argmin(np.abs(widest - value))) for value in np.linspace(widest.min(), widest.max(), count)]
    if robot.mechanism is not None:
        return _draw_mechanism(robot, coefficients[moments], folder)
    rod = RodDynamics(robot, compile="never")
    arc_lengths = np.linspace(0.0, robot.length_m, 60)
    disks = robot.disk_arc_lengths_m
    figure = plt.figure(figsize=(7, 6), layout="constrained")
    axis = figure.add_subplot(projection="3d", proj_type="ortho")
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, count))
    for moment, colour in zip(moments, colours, strict=True):
        backbone = 1e3 * rod.poses(coefficients[moment], arc_lengths)[:, :3, 3]
        axis.plot(*backbone.T, color=colour, lw=2.5)
        for segment, start_m in zip(robot.segments, robot.segment_starts_m, strict=True):
            own = (disks > start_m + 1e-9) & (disks <= start_m + segment.length_m + 1e-9)
            places = np.concatenate([[start_m], disks[own]])
            poses = rod.poses(coefficients[moment], places)
            for pose in poses[1:]:
                axis.plot(*_ring(pose, segment.disks.radius_m).T, color=colour, lw=0.8)
            for angle in segment.tendons.angles_rad:
                hole = segment.tendons.pitch_radius_m * np.array([np.cos(angle), np.sin(angle), 0.0])
                tendon = 1e3 * (poses[:, :3, 3] + poses[:, :3, :3] @ hole)
                axis.plot(*tendon.T, color=colour, lw=0.5, alpha=0.7)
    # A motion in one plane still needs some depth to be seen in.
    for low, high, setter in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
        half = max((high - low) / 2, 0.2e3 * robot.length_m)
        setter((low + high) / 2 - half, (low + high) / 2 + half)
    axis.set_aspect("equal")
    axis.locator_params(axis="y", nbins=3)
    axis.set_xlabel("x [mm]")
    axis.set_ylabel("y [mm]")
    axis.set_zlabel("z [mm]")
    axis.view_init(elev=18, azim=-70)
    if robot.gravity_m_per_s2[2] > 0:
        axis.invert_zaxis()
    axis.set_title(f"{robot.name}: estimated shape at {count} moments", loc="left")
    return save_figure(figure, folder / "shapes.png")


def _draw_mechanism(robot: Robot, coefficients: Vector, folder: Path) -> Path:
    """Links and tendons of a mechanism in the plane x, z, a row of ``coefficients`` a moment, to ``shapes.png``."""
    drawing = make_drawing(robot)
    figure, axis = plt.subplots(figsize=(7, 6), layout="constrained")
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(coefficients)))
    for row, colour in zip(coefficients, colours, strict=True):
        for outline in drawing.outlines(row):
            axis.plot(1e3 * outline[:, 0], 1e3 * outline[:, 2], color=colour, lw=1.2)
        for tendon in drawing.tendons(row):
            axis.plot(1e3 * tendon[:, 0], 1e3 * tendon[:, 2], color=colour, lw=0.6, ls=":")
    axis.set_aspect("equal")
    axis.set_xlabel("x [mm]")
    axis.set_ylabel("z [mm]")
    axis.set_title(f"{robot.name}: estimated shape at {len(coefficients)} moments", loc="left")
    return save_figure(figure, folder / "shapes.png")


def _ring(pose: Vector, radius_m: float) -> Vector:
    angle = np.linspace(0.0, 2 * np.pi, 33)
    circle = radius_m * np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    return 1e3 * (pose[:3, 3] + circle @ pose[:3, :3].T)


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
    for share, style in ((50, "-"), (99, "--")):
        axis.axvline(np.percentile(values, share), color="black", lw=1, ls=style, label=f"p{share}")
    axis.legend(frameon=False, title=f"max {values.max():.0f} µs\n{outside} outside")


def clarke_name(index: int, count: int) -> str:
    """Name of a coordinate for a person, e.g. ``q_Re``, ``q_Im,2`` of several segments, ``q`` where there is one.

    Parameters
    ----------
    index : from 0
    count : number of coordinates
    """
    if count == 1:
        return "q"
    if count == _WITH_INSERTION:
        return ("q_Re", "q_Im", "insertion")[index]
    part = "Re" if index % 2 == 0 else "Im"
    return f"q_{part}" if count <= 2 else f"q_{part},{index // 2 + 1}"


def _tracking_errors(numbers: Mapping[str, Any]) -> str:
    if "rmse_q_m" in numbers:
        return f"q {1e6 * numbers['rmse_q_m']:.1f} µm"
    re, im = (1e6 * numbers.get(f"rmse_q_{part}_m", math.nan) for part in ("re", "im"))
    text = f"q_Re {re:.1f} µm, q_Im {im:.1f} µm"
    if "rmse_insertion_m" in numbers:
        text += f", insertion {1e6 * numbers['rmse_insertion_m']:.1f} µm"
    return text


def run_report(path: Path, robot: str | None, out: Path | None, console: Console | None = None) -> int:
    """``continuum-robot report``: redraw the report of a recorded run, and print its numbers.

    Parameters
    ----------
    path : folder of a run, folder of a recording, or an MCAP file
    robot : robot file instead of the recorded one
    out : where the report goes; None: beside the recording
    console : where to print

    Returns
    -------
    exit code: 0

    Raises
    ------
    RecordingError : no recording, or one that cannot be read
    RobotFileError : a robot file that cannot be used
    DeviceError : the report cannot be written
    """
    console = console or Console()
    with open_run(path) as run:
        folder = out or run.folder
        make_folder(folder)
        numbers, plots = report_run(run, folder, run.robot(robot))
    if run.was_cut:
        console.print(
            f"recording the recorder could not end it; {run.lost_bytes} bytes at the end are not readable",
            **_PLAIN,
        )
    for line in [*summary_lines(numbers, plots), f"metrics   {folder / 'metrics.json'}"]:
        console.print(line, **_PLAIN)
    return 0


def summary_lines(numbers: Mapping[str, Any], plots: Sequence[Path]) -> list[str]:
    """What the demo prints at its end: the main numbers with units a person reads, then the files.

    Parameters
    ----------
    plots : files that were drawn
    """
    get = numbers.get
    lines = [
        f"loop      {get('loop_rate_hz', math.nan):.1f} Hz, {get('missed_cycles_percent', math.nan):.2f} % missed; "
        f"round trip p50 {get('round_trip_p50_us', math.nan):.0f}, p99 {get('round_trip_p99_us', math.nan):.0f}, "
        f"max {get('round_trip_max_us', math.nan):.0f} µs",
        f"tracking  RMSE {_tracking_errors(numbers)} over {get('evaluated_s', 0.0):.1f} s "
        f"(the first {get('left_out_at_start_s', 0.0):.1f} s, the start-up blend, left out)",
        f"tensions  {get('min_tension_n', math.nan):.2f} to {get('max_tension_n', math.nan):.2f} N",
        *contact_lines(numbers),
        f"faults    {', '.join(get('faults', [])) or 'none'}",
    ]
    return [*lines, *(f"plot      {plot}" for plot in plots)]
