# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot identify`` and ``identify-geometry``: fits of a robot to a recording, and the files they leave."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.app.procedures.identify_capstans import run_identify_capstans
from continuum_robot.app.procedures.identify_motion import run_identify_motion
from continuum_robot.app.procedures.pictures import draw_fit
from continuum_robot.errors import ParameterError
from continuum_robot.identification.displaced.fit import DisplacedFit, identify_displaced
from continuum_robot.identification.geometry_fit import GeometryFit, identify_geometry
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.provenance import Provenance
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.workers import HERE, WorkerOptions, tasks


def run_identify_geometry(robot: str, data: Path, out: Path, console: Console | None = None) -> None:
    """Fit, print what was found with its uncertainty, and write the fitted robot file."""
    console = console or Console()
    loaded = load_robot(robot)
    with console.status(f"fitting {loaded.name} ...") as status:
        fit = identify_geometry(loaded, data, lambda text: status.update(escape(text)))
    fitted = write_fitted_robot(loaded, fit, out)
    console.print(_segments(fitted, fit))
    place = fit.recording
    for name, value, deviation in (
        ("marker in the tip frame", place.marker_in_tip_m, fit.marker_deviation_m),
        ("base in the tracker's frame", place.base_in_tracker_m, fit.base_deviation_m),
    ):
        numbers = ", ".join(f"{1e3 * v:.2f} ± {1e3 * d:.2f}" for v, d in zip(value, deviation, strict=True))
        console.print(f"{name}: {numbers} mm", highlight=False)
    console.print(
        f"RMSE of the fit: {1e3 * fit.rmse_m:.2f} mm over {fit.used_samples} of {fit.samples} samples "
        f"(the second-best distribution of columns over segments: {1e3 * fit.second_rmse_m:.2f} mm)",
        highlight=False,
    )
    console.print(f"fitted robot: {out}", markup=False, highlight=False, soft_wrap=True)


def run_identify(
    robot: str,
    data: Path | None,
    out: Path,
    *,
    simulated: bool = True,
    duration_s: float = 0.0,
    tension_n: float = 0.0,
    json_file: Path | None = None,
    plot: Path | None = None,
    console: Console | None = None,
    where: WorkerOptions = HERE,
) -> int:
    """Fit what a robot's recording shows, print it, and write the fitted robot file.

    A robot whose servos hold its tendons: geometry, statics and friction, in steps. One with motors: its dynamics.
    """
    console = console or Console()
    loaded = load_robot(robot)
    motors = loaded.actuators is not None and not loaded.takes_displacements
    moves = data is None and motors and not drives(loaded)
    for option, value in (("--duration", duration_s), ("--tension", tension_n)):
        if value and not moves:
            raise ParameterError(option, value, "none where the robot does not move in chirps: leave it out")
    if not simulated and data is not None:
        raise ParameterError("--hardware", "given", "to be left out with --data: nothing moves then")
    if where != HERE and motors:
        expected = "to be left out: only the fit of a robot whose servos hold its tendons is shared out"
        raise ParameterError("--workers, --scheduler", "given", expected)
    if drives(loaded):
        if data is None and not simulated:
            raise ParameterError("--data", None, "a recording of torques, tendons and strings: docs/calibration.md")
        return run_identify_capstans(loaded, data, out, json_file=json_file, plot=plot, console=console)
    if motors:
        return run_identify_motion(
            loaded,
            data,
            out,
            simulated=simulated,
            duration_s=duration_s,
            tension_n=tension_n,
            json_file=json_file,
            plot=plot,
            console=console,
        )
    if data is None:
        raise ParameterError("--data", None, f"a recording: {loaded.name} has no motors that take tensions")
    recording = read_recording(data)
    with tasks(where) as runner, console.status(f"fitting {loaded.name} ...") as status:
        fit = identify_displaced(loaded, recording, lambda text: status.update(escape(text)), runner=runner)
    write_fitted_robot(loaded, fit, out)
    console.print(_steps(fit))
    console.print(_patterns(fit))
    numbers = fit.numbers()
    if fit.repeat.pairs:
        later_m = fit.repeat.later_floor_m
        later = f" ({1e3 * later_m:.2f} mm more than 5 min apart)" if math.isfinite(later_m) else ""
        console.print(
            f"{fit.repeat.pairs} pairs of moments with nearly the same displacements: their tips are "
            f"{1e3 * fit.repeat.difference_m:.2f} mm apart, and no model without memory can be better than "
            f"{1e3 * fit.repeat.floor_m:.2f} mm there{later}",
            highlight=False,
        )
    console.print(
        f"the other way round, on blocks left out: the pulls miss those that bring the marker where it was by "
        f"{1e3 * fit.pulls.rmse_m:.2f} mm; {1e3 * fit.pulls.left_rmse_m:.2f} mm of the marker no pull explains",
        highlight=False,
    )
    console.print(values_table(fit.provenance))
    if fit.unidentified:
        console.print(
            f"poorly observable in this recording, near its start value: {', '.join(fit.unidentified)}", markup=False
        )
    if json_file is not None:
        write_json(json_file, numbers)
        console.print(f"numbers: {json_file}", markup=False, highlight=False, soft_wrap=True)
    if plot is not None:
        console.print(f"picture: {draw_fit(fit, plot)}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"fitted robot: {out}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _steps(fit: DisplacedFit) -> Table:
    table = Table(title=f"{fit.robot.name}: tip RMSE in mm", title_justify="left", title_style="bold")
    for heading in ("step", "fitted", "left out", "by block left out", ""):
        table.add_column(heading)
    for step in fit.steps:
        by_block = ", ".join(f"{1e3 * value:.1f}" for value in step.block_rmse_m)
        table.add_row(
            step.name,
            f"{1e3 * step.train_rmse_m:.2f}",
            f"{1e3 * step.held_out_rmse_m:.2f}",
            by_block,
            "" if step.kept else "no gain: not kept",
        )
    return table


def _patterns(fit: DisplacedFit) -> Table:
    table = Table(title="tip RMSE on blocks left out, by pattern", title_justify="left", title_style="bold")
    for heading in ("pattern", "samples", "mm", "of all squared errors"):
        table.add_column(heading)
    errors = fit.pattern_errors()
    whole = sum(count * rmse_m**2 for count, rmse_m in errors.values())
    for pattern, (count, rmse_m) in errors.items():
        table.add_row(pattern, str(count), f"{1e3 * rmse_m:.1f}", f"{100 * count * rmse_m**2 / whole:.0f} %")
    return table


def values_table(provenance: Provenance) -> Table:
    """All values of a fit, with their deviations."""
    table = Table(title="fitted values, SI units", title_justify="left", title_style="bold")
    table.add_column("quantity", overflow="fold")
    for heading in ("value", "deviation", "before the data"):
        table.add_column(heading)
    for value in provenance.values:
        before = "" if value.prior_deviation is None else f"{value.prior_deviation:.2g}"
        table.add_row(value.key, f"{value.value:.5g}", f"{value.deviation:.2g}", before)
    return table


def _segments(robot: Robot, fit: GeometryFit) -> Table:
    table = Table(title=f"{robot.name}, fitted", title_justify="left", title_style="bold")
    for heading in ("segment", "columns, by tendon", "signs", "offset of tendon 1"):
        table.add_column(heading)
    angles = zip(np.degrees(fit.angle_offsets_rad), np.degrees(fit.angle_offset_deviations_rad), strict=True)
    for segment, tendons, (angle, deviation) in zip(robot.segments, robot.tendon_slices, angles, strict=True):
        table.add_row(
            segment.name,
            ", ".join(fit.recording.displacement_columns[tendons]),
            ", ".join(f"{sign:+g}" for sign in fit.recording.displacement_signs[tendons]),
            f"{angle:.1f}° ± {deviation:.1f}°",
        )
    return table
