# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot workspace``: where the tip goes under the tensions of the tendons, and how stiff it is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.plotting import COLOURS, figure
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.design import Sensitivity, Workspace, sensitivity, workspace, workspace_tensions
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.strain_statics import equilibrium

Vector = NDArray[np.float64]

_DEFAULT_TENSION_N = 5.0
_SHOWN_SHAPES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceOptions:
    """What the command is asked for.

    Attributes
    ----------
    tension_n : largest tension of a tendon, N; 0: the robot's limit, 5 N where it has none
    samples : about how many tensions
    weightless : leave gravity out
    routed : pull the tendons that are routed one by one, too
    """

    tension_n: float = 0.0
    samples: int = 400
    weightless: bool = False
    routed: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    robot: Robot
    rod: StrainRod
    space: Workspace
    shapes: Vector
    straight: Sensitivity


def run_workspace(
    robots: Sequence[str],
    options: WorkspaceOptions,
    plot: Path | None,
    json_file: Path | None,
    console: Console | None = None,
) -> None:
    """Compute and print the workspace of one robot, or of several side by side.

    Parameters
    ----------
    robots : paths of robot files, or names of shipped ones
    options : see there
    plot : where to draw, PNG; None for nowhere
    json_file : where to write the numbers too, None for nowhere
    console : where to print

    Raises
    ------
    RobotFileError : a file that cannot be used
    ParameterError : a robot without segments, or without any equilibrium
    """
    console = console or Console()
    found = []
    for name in robots:
        robot = load_robot(name)
        with console.status(f"{robot.name} ...") as status:
            found.append(_explore(robot, options, status.update))
    numbers = {f"{one.robot.name}_{key}": value for one in found for key, value in _numbers(one).items()}
    table = Table(title="Workspace", title_justify="left", title_style="bold")
    table.add_column("")
    for one in found:
        table.add_column(one.robot.name, justify="right")
    for key in _numbers(found[0]):
        table.add_row(key, *(_shown(numbers[f"{one.robot.name}_{key}"]) for one in found))
    console.print(table)
    if plot is not None:
        _draw(found, plot)
        console.print(f"figure: {escape(str(plot))}", highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(json_file, numbers)


def _explore(robot: Robot, options: WorkspaceOptions, progress: Callable[[str], None]) -> _Found:
    if not robot.segments:
        raise ParameterError("robot", robot.name, "a robot of elastic segments")
    rod = StrainRod.from_robot(robot)
    if options.weightless:
        rod = rod.with_gravity((0.0, 0.0, 0.0))
    largest_n = options.tension_n or (robot.limits.maximum_n if robot.limits is not None else _DEFAULT_TENSION_N)
    tensions = workspace_tensions(robot, largest_n, options.samples, routed=options.routed)
    space = workspace(rod, tensions, progress=lambda text: progress(f"{robot.name}: {text}"))
    if not len(space.tip):
        raise ParameterError("tension", largest_n, f"tensions under which {robot.name} has an equilibrium, N")
    places_m = np.linspace(0, rod.length_m, 41)
    step = max(1, len(space.coefficients) // _SHOWN_SHAPES)
    shapes = np.array([rod.poses(c, places_m)[:, :3, 3] for c in space.coefficients[::step]])
    return _Found(robot, rod, space, shapes, sensitivity(equilibrium(rod)))


def _numbers(one: _Found) -> dict[str, float | int]:
    tips = one.space.tip[:, :3, 3]
    low, high = tips.min(axis=0), tips.max(axis=0)
    stiffness, _ = one.straight.ellipsoid
    numbers: dict[str, float | int] = {
        "tensions": len(tips) + one.space.failed,
        "without_equilibrium": one.space.failed,
        "unstable": one.space.unstable,
        "snapped": one.space.snapped,
        "not_represented_by_the_basis": one.space.not_represented,
        "largest_tension_n": float(one.space.tension.max()),
        "largest_tilt_deg": math.degrees(float(one.space.tilt_rad.max())),
        "largest_turn_deg": math.degrees(float(one.space.turn_rad.max())),
    }
    for axis, name in enumerate("xyz"):
        numbers[f"tip_{name}_low_m"], numbers[f"tip_{name}_high_m"] = float(low[axis]), float(high[axis])
    for rank, value in enumerate(stiffness, 1):
        numbers[f"tip_stiffness_{rank}_at_rest_n_per_m"] = float(value)
    motion = np.linalg.norm(one.straight.twist_per_tension[:3], axis=0)
    numbers["largest_tip_motion_per_tension_at_rest_m_per_n"] = float(motion.max(initial=0.0))
    return numbers


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _draw(found: Sequence[_Found], file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = len(found)
        with figure(file, "Workspace by tendon tensions", rows, 2, size=(7.2, 3.4 * rows), squeeze=False) as (
            drawing,
            axes,
        ):
            for (side, top), one in zip(axes, found, strict=True):
                for shape in one.shapes:
                    side.plot(shape[:, 0], shape[:, 2], color=COLOURS[5], linewidth=0.5)
                tips = one.space.tip[:, :3, 3]
                tilt = np.degrees(one.space.tilt_rad)
                for axis, second in ((side, 2), (top, 1)):
                    dots = axis.scatter(tips[:, 0], tips[:, second], c=tilt, s=8, cmap="viridis", zorder=3)
                    axis.set(xlabel="x in m", ylabel=f"{'xyz'[second]} in m", aspect="equal")
                side.set_title(one.robot.name)
                drawing.colorbar(dots, ax=top, label="tilt of the tip in degrees")
    except OSError as error:
        raise ParameterError("plot", str(file), f"a file that can be written ({error})") from error
