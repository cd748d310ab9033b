# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot workspace``: where the tip goes under the tensions of the tendons, and how stiff it is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from continuum_robot.app.output import counting_bar, print_table, write_json
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.plotting import MEASURED, figure
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.design import (
    Sensitivity,
    Workspace,
    sensitivity,
    tension_lines,
    tip_compliance,
    workspace,
    workspace_tensions,
)
from continuum_robot.rod.rod import Rod
from continuum_robot.workers import HERE, Tasks, WorkerOptions, tasks

Vector = NDArray[np.float64]

_DEFAULT_TENSION_N = 5.0
_SHOWN_SHAPES = 60
_MAP = "viridis"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceOptions:
    """What the command is asked for."""

    tension_n: float = 0.0
    samples: int = 400
    weightless: bool = False
    routed: bool = False
    pretension_n: float = 0.0


@dataclass(frozen=True, slots=True)
class _Found:
    robot: Robot
    rod: Rod
    space: Workspace
    shapes: Vector
    straight: Sensitivity
    held_n_per_m: Vector


def run_workspace(
    robots: Sequence[str],
    options: WorkspaceOptions,
    plot: Path | None,
    json_file: Path | None,
    console: Console | None = None,
    where: WorkerOptions = HERE,
) -> None:
    """Compute and print the workspace of one robot, or of several side by side."""
    console = console or Console()
    found = []
    with tasks(where) as runner:
        for name in robots:
            robot = load_robot(name)
            with counting_bar(console) as progress:
                found.append(_explore(robot, options, progress, runner))
    each = {one.robot.name: _numbers(one) for one in found}
    numbers = {f"{name}_{key}": value for name, own in each.items() for key, value in own.items()}
    keys = dict.fromkeys(key for own in each.values() for key in own)
    rows = [[key, *(each[one.robot.name].get(key, "") for one in found)] for key in keys]
    print_table(console, "Workspace", ["", *(f">{one.robot.name}" for one in found)], rows)
    if plot is not None:
        _draw(found, plot)
        console.print(f"figure: {escape(str(plot))}", highlight=False, soft_wrap=True)
    write_json(json_file, numbers)


@dataclass(frozen=True, slots=True)
class _Line:
    """A task: one list of growing tensions."""

    robot: Robot
    weightless: bool
    tensions: Vector


@lru_cache(maxsize=1)
def _rod(robot: Robot, weightless: bool) -> Rod:
    rod = Rod(robot)
    return rod.with_gravity((0.0, 0.0, 0.0)) if weightless else rod


def _along(line: _Line) -> Workspace:
    return workspace(_rod(line.robot, line.weightless), line.tensions)


def _explore(robot: Robot, options: WorkspaceOptions, progress: Progress, runner: Tasks) -> _Found:
    if robot.traits.without_statics:
        raise ParameterError("robot", robot.name, f"a robot of elastic segments: {robot.traits.without_statics}")
    rod = _rod(robot, options.weightless)
    usual_n = np.full(robot.tendon_count, _DEFAULT_TENSION_N)
    if robot.limits is not None:
        usual_n = robot.limits.each("maximum_n", robot.tendon_count)
    largest_n = np.full(robot.tendon_count, options.tension_n) if options.tension_n else usual_n
    tensions = largest_n * workspace_tensions(robot, 1.0, options.samples, routed=options.routed)
    items = [_Line(robot, options.weightless, line) for line in tension_lines(tensions)]
    bar = progress.add_task(f"{robot.name}: tensions", total=len(tensions))

    def finished(_index: int, part: Workspace) -> None:
        progress.update(bar, advance=len(part.tension) + part.failed)

    space = Workspace.joined(runner.run(_along, items, finished))
    if not len(space.tip):
        raise ParameterError("tension", largest_n.tolist(), f"tensions under which {robot.name} has an equilibrium, N")
    places_m = np.linspace(0, rod.length_m, 41)
    step = max(1, len(space.coefficients) // _SHOWN_SHAPES)
    shapes = np.array([rod.poses(c, places_m)[:, :3, 3] for c in space.coefficients[::step]])
    progress.update(bar, description=f"{robot.name}: stiffness of the tip")
    held = _held_stiffness(robot, space, options.pretension_n)
    return _Found(robot, rod, space, shapes, sensitivity(rod.equilibrium()), held)


def _held_stiffness(robot: Robot, space: Workspace, pretension_n: float) -> Vector:
    """Least stiffness of the tip across its own axis under control, at some of the places, shape (k,), N/m.

    Empty for robots without a controller, and for those on whose tendons a pretension moves the rod.
    """
    if robot.control is None or robot.traits.without_clarke:
        return np.zeros(0)
    least_n = pretension_n or robot.control.pretension_n
    if least_n <= 0:
        return np.zeros(0)
    step = max(1, len(space.coefficients) // _SHOWN_SHAPES)
    found = []
    for c, tension in zip(space.coefficients[::step], space.tension[::step], strict=True):
        held = tension.copy()
        for rows in robot.tendon_slices:
            held[rows] += least_n - held[rows].min()
        found.append(1 / np.linalg.eigvalsh(tip_compliance(robot, c, held))[-1])
    return np.array(found)


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
    if one.held_n_per_m.size:
        numbers["least_held_tip_stiffness_low_n_per_m"] = float(one.held_n_per_m.min())
        numbers["least_held_tip_stiffness_high_n_per_m"] = float(one.held_n_per_m.max())
    motion = np.linalg.norm(one.straight.twist_per_tension[:3], axis=0)
    numbers["largest_tip_motion_per_tension_at_rest_m_per_n"] = float(motion.max(initial=0.0))
    return numbers


def _draw(found: Sequence[_Found], file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = len(found)
        columns = 3 if any(one.held_n_per_m.size for one in found) else 2
        title = "Where the tip goes under tensions of the tendons (lines: the robot, black at rest)"
        size = (3.6 * columns, 0.4 + 3.6 * rows)
        with figure(file, title, rows, columns, size=size, squeeze=False, sharex="row") as (drawing, axes):
            for (side, top, *others), one in zip(axes, found, strict=True):
                for axis in others:
                    _draw_stiffness(drawing, axis, one)
                tips_mm = 1e3 * one.space.tip[:, :3, 3]
                tilt = np.degrees(one.space.tilt_rad)
                for axis, second in ((side, 2), (top, 1)):
                    for shape in 1e3 * one.shapes:
                        axis.plot(shape[:, 0], shape[:, second], color="0.8", linewidth=0.5)
                    dots = axis.scatter(tips_mm[:, 0], tips_mm[:, second], c=tilt, s=8, cmap=_MAP, zorder=3)
                    axis.set(xlabel="x in mm", ylabel=f"{'xyz'[second]} in mm", aspect="equal")
                side.plot([0, 0], [0, 1e3 * one.rod.length_m], **MEASURED | {"linewidth": 2.5}, zorder=2)
                side.set_title(f"{one.robot.name}: from the side")
                top.set_title("seen from the tip")
                drawing.colorbar(dots, ax=(side, top), location="bottom", label="tilt of the tip in degrees", aspect=40)
    except OSError as error:
        raise ParameterError("plot", str(file), f"a file that can be written ({error})") from error


def _draw_stiffness(drawing: Figure, axis: Any, one: _Found) -> None:
    """Least stiffness of the tip under control where it was computed."""
    if not one.held_n_per_m.size:
        axis.set_axis_off()
        return
    step = max(1, len(one.space.coefficients) // _SHOWN_SHAPES)
    tips_mm = 1e3 * one.space.tip[::step, :3, 3]
    dots = axis.scatter(tips_mm[:, 0], tips_mm[:, 2], c=one.held_n_per_m, s=10, cmap=_MAP, norm="log")
    axis.set(xlabel="x in mm", ylabel="z in mm", aspect="equal", title="from the side, under control")
    drawing.colorbar(dots, ax=axis, location="bottom", label="least stiffness of the tip in N/m")
