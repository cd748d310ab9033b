# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot identify-geometry``: the fit of a robot's geometry to a recording, and the file it leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.identification.geometry_fit import GeometryFit, identify_geometry
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot


def run_identify_geometry(robot: str, data: Path, out: Path, console: Console | None = None) -> None:
    """Fit, print what was found with its uncertainty, and write the fitted robot file.

    Parameters
    ----------
    robot : path of a robot file, or the name of a shipped one
    data : recording in which one tendon at a time is pulled
    out : the file to write
    console : where to print

    Raises
    ------
    RobotFileError, RecordingError : a file cannot be used, or they do not fit together
    ConvergenceError : no fit was found
    """
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
