# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: fits of a robot's parameters to a recorded motion, and the file they leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.app.procedures.calibration_plot import draw_dynamics_fit
from continuum_robot.app.procedures.identify_motion import NOT_SHOWN
from continuum_robot.errors import ParameterError
from continuum_robot.identification.dynamics_fit import DynamicsFit, DynamicsFitSettings, dynamics_in_file, fit_dynamics
from continuum_robot.identification.dynamics_recordings import read_dynamics_recording, write_dynamics_recording
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.calibration_motion import simulate_calibration

DYNAMICS = "dynamics"
KINDS = (DYNAMICS,)


def run_calibrate(
    kind: str,
    robot: str,
    data: Path | None,
    out: Path,
    plot: Path | None = None,
    *,
    masses: bool = False,
    json_file: Path | None = None,
    console: Console | None = None,
) -> DynamicsFit:
    """Fit, print what was found with its uncertainty, write the calibrated robot file and draw the motion.

    Parameters
    ----------
    kind : what to calibrate: "dynamics", the stiffnesses of the backbone and the friction of the tendons
    robot : path of a robot file, or the name of a shipped one
    data : recording of torques, tendons and strings; None: the robot is simulated along johnston's chirp, and the
        recording is written beside ``out``
    out : the robot file to write
    plot : picture to draw, PNG; None: none
    masses : whether masses, the capstans' inertia and the damping are found, too
    json_file : where all numbers go; None: nowhere
    console : where to print

    Raises
    ------
    ParameterError : unknown kind, or a robot that has nothing to fit
    RobotFileError, RecordingError : a file cannot be used, or they do not fit together
    ConvergenceError : no fit was found
    """
    if kind not in KINDS:
        raise ParameterError("kind", kind, "one of " + ", ".join(KINDS))
    console = console or Console()
    loaded = load_robot(robot)
    with console.status(f"calibrating {loaded.name} ...") as status:

        def show(text: str) -> None:
            status.update(escape(text))

        if data is None:
            show("simulating the chirp ...")
            run = simulate_calibration(loaded, np.random.default_rng(loaded.simulation.seed))
            recording = write_dynamics_recording(
                loaded,
                out.with_suffix(".csv"),
                time_s=run.time_s,
                capstan_torque_nm=run.capstan_torque_nm,
                tendon_displacement_m=run.tendon_displacement_m,
                string_extension_m=run.string_extension_m,
            )
        else:
            recording = read_dynamics_recording(loaded, data)
        fit = fit_dynamics(loaded, recording, show, settings=DynamicsFitSettings(masses=masses))
    write_fitted_robot(loaded, fit, out)
    console.print(_parameters(loaded, fit))
    if fit.limited:
        console.print(f"at the bounds of the fit, so that nothing here is to be trusted: {', '.join(fit.limited)}")
    for name, values in (
        ("simulated in windows", fit.rmse_tip_m),
        ("simulated in one piece", fit.open_loop_rmse_tip_m),
    ):
        numbers = ", ".join(f"{1e3 * value:.2f}" for value in values)
        console.print(f"RMSE of the tip's x, y, z, {name}: {numbers} mm", highlight=False)
    if data is None:
        console.print(f"simulated recording: {recording.file}", markup=False, highlight=False, soft_wrap=True)
    if plot is not None:
        console.print(f"plot: {draw_dynamics_fit(fit, plot)}", markup=False, highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(json_file, fit.numbers() | {"file": str(fit.file), "sha256": fit.sha256})
        console.print(f"numbers: {json_file}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"calibrated robot: {out}", markup=False, highlight=False, soft_wrap=True)
    return fit


def _parameters(robot: Robot, fit: DynamicsFit) -> Table:
    table = Table(title=f"{robot.name}, {fit.date}", title_justify="left", title_style="bold")
    for heading in ("parameter", "value", "deviation", "robot file", ""):
        table.add_column(heading)
    before = dynamics_in_file(robot)[: len(fit.names)]
    for name, value, deviation, old, shown in zip(
        fit.names, fit.values, fit.deviations, before, fit.shown, strict=True
    ):
        table.add_row(name, f"{value:.4g}", f"± {deviation:.2g}", f"{old:.4g}", "" if shown else NOT_SHOWN)
    return table
