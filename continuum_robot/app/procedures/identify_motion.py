# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot identify`` of a robot with motors: it moves in chirps, and its dynamics are fitted to that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.app.procedures.devices import completed, opened
from continuum_robot.app.procedures.pictures import draw_motion
from continuum_robot.identification.dynamics_fit import DynamicsFit
from continuum_robot.identification.motion.fit import MotionFit, fit_motion
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings
from continuum_robot.identification.recorded_motion import read_recorded_motion, write_recorded_motion
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot

Fitted = TypeVar("Fitted", MotionFit, DynamicsFit)

NOT_SHOWN = "not shown by the recording: the file's value stays"


def run_identify_motion(
    robot: Robot,
    data: Path | None,
    out: Path,
    *,
    simulated: bool = True,
    duration_s: float = 0.0,
    tension_n: float = 0.0,
    json_file: Path | None = None,
    plot: Path | None = None,
    console: Console | None = None,
) -> int:
    """Move a robot in chirps, or take a recording of that; fit its dynamics and write the fitted robot file."""
    console = console or Console()
    if data is None:
        usual = ChirpSettings()
        chirps = Chirps(robot, ChirpSettings(duration_s=duration_s or usual.duration_s, tension_n=tension_n))
        with opened(robot, simulated, console) as devices:
            recorded = completed(devices, chirps, "moving in chirps", console)
        if isinstance(recorded, int):
            return recorded
        data = out.with_suffix(".csv")
        write_recorded_motion(robot, recorded, data)
        console.print(f"recording: {data}", markup=False, highlight=False, soft_wrap=True)
    motion = read_recorded_motion(robot, data)
    with console.status(f"fitting {robot.name} ...") as status:
        fit = fit_motion(robot, motion, progress=lambda text: status.update(escape(text)))
    force_n = float(np.sqrt(np.mean(fit.measured_n**2)))
    left = (
        f"of {force_n:.3g} N on the coordinates {fit.residual_n:.2g} N are left; cogging"
        f" {1e3 * fit.cogging_nm:.3g} ± {1e3 * fit.cogging_deviation_nm:.1g} mN.m; currents lead displacements by"
        f" {1e3 * fit.lag_s:.2g} ms"
    )
    leave(robot, fit, out, [left], draw_motion, plot=plot, json_file=json_file, console=console)
    return 0


def leave(
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
    """Print what a fit found, write the robot file, its picture and its numbers."""
    write_fitted_robot(robot, fit, out)
    table = Table(title=f"{robot.name}, {fit.date}: SI units", title_justify="left", title_style="bold")
    table.add_column("quantity", overflow="fold")
    for heading in ("value", "deviation", "robot file", ""):
        table.add_column(heading)
    rows = zip(fit.names, fit.values, fit.deviations, fit.before, fit.shown, strict=True)
    for name, value, deviation, before, shown in rows:
        table.add_row(name, f"{value:.4g}", f"± {deviation:.2g}", f"{before:.4g}", "" if shown else NOT_SHOWN)
    console.print(table)
    written: list[str] = [f"fitted robot: {out}"]
    if plot is not None:
        draw(fit, plot)
        written.append(f"picture: {plot}")
    if json_file is not None:
        write_json(json_file, fit.numbers() | {"file": str(fit.file), "sha256": fit.sha256})
        written.append(f"numbers: {json_file}")
    for line in [*lines, *written]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
