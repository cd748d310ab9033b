# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: fits of a robot's parameters to a recorded motion, and the file they leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from continuum_robot.app.procedures.identify_motion import leave
from continuum_robot.app.procedures.pictures import draw_dynamics_fit
from continuum_robot.errors import ParameterError
from continuum_robot.identification.dynamics_fit import DynamicsFit, DynamicsFitSettings, fit_dynamics
from continuum_robot.identification.recorded_motion import (
    RecordedMotion,
    read_recorded_motion,
    write_recorded_motion,
)
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
            motion = RecordedMotion(
                run.time_s, run.tendon_displacement_m, run.capstan_torque_nm, run.string_extension_m
            )
            recording = write_recorded_motion(loaded, motion, out.with_suffix(".csv"))
        else:
            recording = read_recorded_motion(loaded, data)
        fit = fit_dynamics(loaded, recording, show, settings=DynamicsFitSettings(masses=masses))
    lines = [f"simulated recording: {recording.file}"] if data is None else []
    if fit.limited:
        lines.append(f"at the bounds of the fit, so that nothing here is to be trusted: {', '.join(fit.limited)}")
    for name, values in (("in windows", fit.rmse_tip_m), ("in one piece", fit.open_loop_rmse_tip_m)):
        numbers = ", ".join(f"{1e3 * value:.2f}" for value in values)
        lines.append(f"RMSE of the tip's x, y, z, simulated {name}: {numbers} mm")
    leave(loaded, fit, out, lines, draw_dynamics_fit, plot=plot, json_file=json_file, console=console)
    return fit
