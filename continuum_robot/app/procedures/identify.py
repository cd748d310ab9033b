# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot identify`` and ``identify-geometry``: fits of a robot to a recording, and the files they leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.markup import escape

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.app.procedures.devices import run_procedure
from continuum_robot.app.procedures.pictures import draw_dynamics_fit, draw_fit, draw_motion
from continuum_robot.errors import ParameterError
from continuum_robot.identification.displaced.fit import DisplacedFit, identify_displaced
from continuum_robot.identification.dynamics_fit import DynamicsFit, fit_dynamics
from continuum_robot.identification.geometry_fit import GeometryFit, identify_geometry
from continuum_robot.identification.motion.fit import MotionFit, fit_motion
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings
from continuum_robot.identification.recorded_motion import (
    RecordedMotion,
    read_recorded_motion,
    write_recorded_motion,
)
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.provenance import Provenance
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.simulation.benches import simulate_calibration
from continuum_robot.workers import HERE, WorkerOptions, tasks

Fitted = TypeVar("Fitted", MotionFit, DynamicsFit)

NOT_SHOWN = "not shown by the recording: the file's value stays"


def run_identify_geometry(robot: str, data: Path, out: Path, console: Console | None = None) -> None:
    """Fit, print what was found with its uncertainty, and write the fitted robot file."""
    console = console or Console()
    loaded = load_robot(robot)
    with console.status(f"fitting {loaded.name} ...") as status:
        fit = identify_geometry(loaded, data, lambda text: status.update(escape(text)))
    _print_segments(console, write_fitted_robot(loaded, fit, out), fit)
    place = fit.recording
    for name, value, deviation in (
        ("marker in the tip frame", place.marker_in_tip_m, fit.marker_deviation_m),
        ("base in the tracker's frame", place.base_in_tracker_m, fit.base_deviation_m),
    ):
        numbers = ", ".join(f"{1e3 * v:.2f} ± {1e3 * d:.2f}" for v, d in zip(value, deviation, strict=True))
        say(console, f"{name}: {numbers} mm")
    say(
        console,
        f"RMSE of the fit: {1e3 * fit.rmse_m:.2f} mm over {fit.used_samples} of {fit.samples} samples "
        f"(the second-best distribution of columns over segments: {1e3 * fit.second_rmse_m:.2f} mm)",
        f"fitted robot: {out}",
    )


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
            expected = "a recording of torques, tendons and strings: docs/how-to/calibration.md"
            raise ParameterError("--data", None, expected)
        identify_capstans(loaded, data, out, json_file=json_file, plot=plot, console=console)
    elif motors:
        if data is None:
            usual = ChirpSettings()
            chirps = Chirps(loaded, ChirpSettings(duration_s=duration_s or usual.duration_s, tension_n=tension_n))
            recorded = run_procedure(loaded, simulated, chirps, "moving in chirps", console)
            data = out.with_suffix(".csv")
            write_recorded_motion(loaded, recorded, data)
            say(console, f"recording: {data}")
        _identify_motion(loaded, data, out, json_file=json_file, plot=plot, console=console)
    elif data is None:
        raise ParameterError("--data", None, f"a recording: {loaded.name} has no motors that take tensions")
    else:
        _identify_displaced(loaded, data, out, where, json_file=json_file, plot=plot, console=console)
    return 0


def _identify_displaced(
    robot: Robot,
    data: Path,
    out: Path,
    where: WorkerOptions,
    *,
    json_file: Path | None,
    plot: Path | None,
    console: Console,
) -> None:
    recording = read_recording(data)
    with tasks(where) as runner, console.status(f"fitting {robot.name} ...") as status:
        fit = identify_displaced(robot, recording, lambda text: status.update(escape(text)), runner=runner)
    write_fitted_robot(robot, fit, out)
    _print_steps(console, fit)
    _print_patterns(console, fit)
    if fit.repeat.pairs:
        later_m = fit.repeat.later_floor_m
        later = f" ({1e3 * later_m:.2f} mm more than 5 min apart)" if math.isfinite(later_m) else ""
        say(
            console,
            f"{fit.repeat.pairs} pairs of moments with nearly the same displacements: their tips are "
            f"{1e3 * fit.repeat.difference_m:.2f} mm apart, and no model without memory can be better than "
            f"{1e3 * fit.repeat.floor_m:.2f} mm there{later}",
        )
    say(
        console,
        f"the other way round, on blocks left out: the pulls miss those that bring the marker where it was by "
        f"{1e3 * fit.pulls.rmse_m:.2f} mm; {1e3 * fit.pulls.left_rmse_m:.2f} mm of the marker no pull explains",
    )
    print_values(console, fit.provenance)
    if fit.unidentified:
        say(console, f"poorly observable in this recording, near its start value: {', '.join(fit.unidentified)}")
    if json_file is not None:
        write_json(json_file, fit.numbers())
        say(console, f"numbers: {json_file}")
    if plot is not None:
        say(console, f"picture: {draw_fit(fit, plot)}")
    say(console, f"fitted robot: {out}")


def identify_capstans(
    robot: Robot,
    data: Path | None,
    out: Path,
    *,
    json_file: Path | None = None,
    plot: Path | None = None,
    console: Console | None = None,
) -> None:
    """Fit the dynamics of a robot with capstans to a chirp, recorded or simulated."""
    console = console or Console()
    with console.status(f"fitting {robot.name} ...") as status:

        def show(text: str) -> None:
            status.update(escape(text))

        if data is None:
            show("simulating the chirp ...")
            run = simulate_calibration(robot, np.random.default_rng(robot.simulation.seed))
            motion = RecordedMotion(
                run.time_s, run.tendon_displacement_m, run.capstan_torque_nm, run.string_extension_m
            )
            recording = write_recorded_motion(robot, motion, out.with_suffix(".csv"))
        else:
            recording = read_recorded_motion(robot, data)
        fit = fit_dynamics(robot, recording, show)
    lines = [f"simulated recording: {recording.file}"] if data is None else []
    if fit.limited:
        lines.append(f"at the bounds of the fit, so that nothing here is to be trusted: {', '.join(fit.limited)}")
    for name, values in (("in windows", fit.rmse_tip_m), ("in one piece", fit.open_loop_rmse_tip_m)):
        numbers = ", ".join(f"{1e3 * value:.2f}" for value in values)
        lines.append(f"RMSE of the tip's x, y, z, simulated {name}: {numbers} mm")
    _leave(robot, fit, out, lines, draw_dynamics_fit, plot=plot, json_file=json_file, console=console)


def _identify_motion(
    robot: Robot, data: Path, out: Path, *, json_file: Path | None, plot: Path | None, console: Console
) -> None:
    """Fit the dynamics of a robot with motors to its recorded motion."""
    motion = read_recorded_motion(robot, data)
    with console.status(f"fitting {robot.name} ...") as status:
        fit = fit_motion(robot, motion, progress=lambda text: status.update(escape(text)))
    force_n = float(np.sqrt(np.mean(fit.measured_n**2)))
    left = (
        f"of {force_n:.3g} N on the coordinates {fit.residual_n:.2g} N are left; cogging"
        f" {1e3 * fit.cogging_nm:.3g} ± {1e3 * fit.cogging_deviation_nm:.1g} mN.m; currents lead displacements by"
        f" {1e3 * fit.lag_s:.2g} ms"
    )
    _leave(robot, fit, out, [left], draw_motion, plot=plot, json_file=json_file, console=console)


def _leave(
    robot: Robot,
    fit: Fitted,
    out: Path,
    lines: Sequence[str],
    draw: Callable[[Fitted, Path], None],
    *,
    plot: Path | None,
    json_file: Path | None,
    console: Console,
) -> None:
    """Print what a fit of dynamics found, write the robot file, its picture and its numbers."""
    write_fitted_robot(robot, fit, out)
    rows = zip(fit.names, fit.values, fit.deviations, fit.before, fit.shown, strict=True)
    shown = [
        (name, f"{value:.4g}", f"± {deviation:.2g}", f"{before:.4g}", "" if is_shown else NOT_SHOWN)
        for name, value, deviation, before, is_shown in rows
    ]
    columns = ("quantity", "value", "deviation", "robot file", "")
    print_table(console, f"{robot.name}, {fit.date}: SI units", columns, shown)
    say(console, *lines, f"fitted robot: {out}")
    if plot is not None:
        draw(fit, plot)
        say(console, f"picture: {plot}")
    if json_file is not None:
        write_json(json_file, fit.numbers() | {"file": str(fit.file), "sha256": fit.sha256})
        say(console, f"numbers: {json_file}")


def _print_steps(console: Console, fit: DisplacedFit) -> None:
    rows = []
    for step in fit.steps:
        by_block = ", ".join(f"{1e3 * value:.1f}" for value in step.block_rmse_m)
        errors = f"{1e3 * step.train_rmse_m:.2f}", f"{1e3 * step.held_out_rmse_m:.2f}"
        rows.append((step.name, *errors, by_block, "" if step.kept else "no gain: not kept"))
    columns = ("step", "fitted", "left out", "by block left out", "")
    print_table(console, f"{fit.robot.name}: tip RMSE in mm", columns, rows)


def _print_patterns(console: Console, fit: DisplacedFit) -> None:
    errors = fit.pattern_errors()
    whole = sum(count * rmse_m**2 for count, rmse_m in errors.values())
    rows = [
        (pattern, count, f"{1e3 * rmse_m:.1f}", f"{100 * count * rmse_m**2 / whole:.0f} %")
        for pattern, (count, rmse_m) in errors.items()
    ]
    columns = ("pattern", "samples", "mm", "of all squared errors")
    print_table(console, "tip RMSE on blocks left out, by pattern", columns, rows)


def print_values(console: Console, provenance: Provenance) -> None:
    """Print all values of a fit, with their deviations."""
    rows = []
    for value in provenance.values:
        before = "" if value.prior_deviation is None else f"{value.prior_deviation:.2g}"
        rows.append((value.key, f"{value.value:.5g}", f"{value.deviation:.2g}", before))
    print_table(console, "fitted values, SI units", ("quantity", "value", "deviation", "before the data"), rows)


def _print_segments(console: Console, robot: Robot, fit: GeometryFit) -> None:
    angles = zip(np.degrees(fit.angle_offsets_rad), np.degrees(fit.angle_offset_deviations_rad), strict=True)
    rows = [
        (
            segment.name,
            ", ".join(fit.recording.displacement_columns[tendons]),
            ", ".join(f"{sign:+g}" for sign in fit.recording.displacement_signs[tendons]),
            f"{angle:.1f}° ± {deviation:.1f}°",
        )
        for segment, tendons, (angle, deviation) in zip(robot.segments, robot.tendon_slices, angles, strict=True)
    ]
    columns = ("segment", "columns, by tendon", "signs", "offset of tendon 1")
    print_table(console, f"{robot.name}, fitted", columns, rows)
