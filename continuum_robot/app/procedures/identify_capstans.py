# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot identify`` of a robot with capstans: its dynamics are fitted to a chirp, recorded or simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from continuum_robot.app.procedures.identify_motion import leave
from continuum_robot.app.procedures.pictures import draw_dynamics_fit
from continuum_robot.identification.dynamics_fit import fit_dynamics
from continuum_robot.identification.recorded_motion import (
    RecordedMotion,
    read_recorded_motion,
    write_recorded_motion,
)
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.calibration_motion import simulate_calibration


def run_identify_capstans(
    robot: Robot,
    data: Path | None,
    out: Path,
    *,
    json_file: Path | None = None,
    plot: Path | None = None,
    console: Console | None = None,
) -> int:
    """Fit, print what was found with its uncertainty, write the fitted robot file and draw the motion."""
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
    leave(robot, fit, out, lines, draw_dynamics_fit, plot=plot, json_file=json_file, console=console)
    return 0
