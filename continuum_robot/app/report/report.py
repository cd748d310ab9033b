# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot report``, and the report at the end of a demo: metrics.json and the plots of a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from continuum_robot.app.output import say, write_json
from continuum_robot.app.recordings.reading import Recording, read_recording
from continuum_robot.app.recordings.run import RecordedRun, fault_moments, open_run, recorded_facts
from continuum_robot.app.report.contact import (
    CONTACT,
    TRUTH,
    contact_lines,
    contact_numbers,
    detected_intervals,
    draw_contact,
)
from continuum_robot.app.report.numbers import metrics, track, track_tip
from continuum_robot.app.report.plots import (
    Events,
    draw_displacements,
    draw_shapes,
    draw_tensions,
    draw_timing,
    draw_tip,
    draw_tracking,
    seen_shapes,
)
from continuum_robot.errors import RecordingError
from continuum_robot.nodes.stack.choices import LOCKSTEP
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.whole_file import make_folder

TRUE_SHAPE = "simulated_shape"
TOPICS: dict[str, tuple[str, ...]] = {
    "tendon_states": (
        "tension", "commanded_tension", "displacement", "commanded_displacement", "limited", "simulated",
    ),
    "tendon_commands": (),
    "clarke_state": ("position",),
    "clarke_reference": ("position",),
    "shape": ("coefficients",),
    CONTACT: (
        "state", "invalid_reason", "in_contact", "ratio", "kind", "simulated",
        "wrench", "wrench_sensed", "arc_length", "arc_length_deviation", "location_observable",
    ),
    TRUTH: ("in_contact", "wrench", "arc_length"),
    TRUE_SHAPE: ("tip",),
}  # fmt: skip
"""What a report is made of: topics and their fields."""


def report_run(
    run: RecordedRun, folder: Path, robot: Robot, facts: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[Path]]:
    """Write the report of a recorded run: the same after the run and any time later, from the recording alone."""
    known = {**recorded_facts(run), **run.statistics, **(facts or {})}
    # In lock-step time is computed: there is none to measure.
    timed = run.parameters("tendon_driver").get("clock") != LOCKSTEP
    return write_report(run.bag, folder, robot, known, blend_s=run.blend_s, namespace=run.namespace, timed=timed)


def write_report(
    bag: Path,
    folder: Path,
    robot: Robot,
    facts: Mapping[str, Any],
    *,
    blend_s: float,
    namespace: str | None = None,
    timed: bool = True,
) -> tuple[dict[str, Any], list[Path]]:
    """Compute metrics.json and the plots of a run from its recording."""
    recording = read_recording(bag, TOPICS, namespace)
    check_robot(recording, robot)
    tracking = None
    if "clarke_state" in recording.topics and "clarke_reference" in recording.topics:
        tracking = track(recording.series("clarke_state"), recording.series("clarke_reference"), robot, blend_s)
    tip = None
    if TRUE_SHAPE in recording.topics and "clarke_reference" in recording.topics:
        tip = track_tip(recording.series(TRUE_SHAPE), recording.series("clarke_reference"), robot, blend_s)
    numbers = {"robot": robot.name, **metrics(recording, tracking, tip), **contact_numbers(recording), **facts}
    write_json(folder / "metrics.json", numbers)
    detected = recording.topics.get(CONTACT)
    events = Events(
        fault_moments(bag, recording.origin_ns, recording.namespace),
        detected_intervals(detected) if detected is not None and len(detected) else (),
    )
    try:
        plots = [draw_tensions(recording, robot, folder, events)]
        if robot.takes_displacements:
            plots.append(draw_displacements(recording, robot, folder, events))
        if timed:
            plots.append(draw_timing(recording, numbers, folder))
        if tracking is not None:
            plots.insert(0, draw_tracking(tracking, robot, folder, events))
        if tip is not None:
            plots.append(draw_tip(tip, robot, folder, events))
        if len(seen_shapes(recording)[0]):
            plots.append(draw_shapes(recording, robot, folder))
        if CONTACT in recording.topics and len(recording.topics[CONTACT]) > 1:
            plots.append(draw_contact(recording, robot, folder, events))
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise RecordingError(Path(error.filename or folder), problem, "Make room on the disk") from error
    return numbers, plots


def check_robot(recording: Recording, robot: Robot) -> None:
    """Whether a recording can be that of a robot, by its numbers of tendons and coefficients."""
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


def run_report(path: Path, robot: str | None, out: Path | None, console: Console | None = None) -> int:
    """``continuum-robot report``: redraw the report of a recorded run, and print its numbers."""
    console = console or Console()
    with open_run(path) as run:
        folder = out or run.folder
        make_folder(folder)
        numbers, plots = report_run(run, folder, run.robot(robot))
    if run.was_cut:
        say(console, f"recording the recorder could not end it; {run.lost_bytes} bytes at the end are not readable")
    say(console, *summary_lines(numbers, plots), f"metrics   {folder / 'metrics.json'}")
    return 0


def summary_lines(numbers: Mapping[str, Any], plots: Sequence[Path]) -> list[str]:
    """What the demo prints at its end: the main numbers with units a person reads, then the files."""
    get = numbers.get
    trip = [get(f"round_trip_{name}_us", math.nan) for name in ("p50", "p99", "max")]
    timed = all(value is not None and math.isfinite(value) for value in trip)
    lines = [
        f"loop      {get('loop_rate_hz', math.nan):.1f} Hz, {get('missed_cycles_percent', math.nan):.2f} % missed; "
        + ("round trip p50 {:.0f}, p99 {:.0f}, max {:.0f} µs".format(*trip) if timed else "round trip not measured"),
        f"tracking  RMSE {_tracking_errors(numbers)} over {get('evaluated_s', 0.0):.1f} s "
        f"(the first {get('left_out_at_start_s', 0.0):.1f} s, the start-up blend, left out)",
        *([f"tip       RMSE {1e3 * numbers['tip_rmse_m']:.2f} mm, of the true tip"] if "tip_rmse_m" in numbers else []),
        *([f"truth     {numbers['truth']}"] if "truth" in numbers else []),
        f"tensions  {get('min_tension_n', math.nan):.2f} to {get('max_tension_n', math.nan):.2f} N",
        *contact_lines(numbers),
        f"faults    {', '.join(get('faults', [])) or 'none'}",
    ]
    return [*lines, *(f"plot      {plot}" for plot in plots)]


def _tracking_errors(numbers: Mapping[str, Any]) -> str:
    modes = [key for key in numbers if key.startswith("rmse_mode_")]
    if modes:
        return ", ".join(f"{key[5:-2]} {1e6 * numbers[key]:.1f} µm" for key in modes)
    if "rmse_q_m" in numbers:
        return f"q {1e6 * numbers['rmse_q_m']:.1f} µm"
    re, im = (1e6 * numbers.get(f"rmse_q_{part}_m", math.nan) for part in ("re", "im"))
    text = f"q_Re {re:.1f} µm, q_Im {im:.1f} µm"
    if "rmse_insertion_m" in numbers:
        text += f", insertion {1e6 * numbers['rmse_insertion_m']:.1f} µm"
    return text
