# SPDX-License-Identifier: Apache-2.0
"""Figure 4 of wang: how the tip moves by micrometres while the modulation backbone is inserted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure
from continuum_robot.experiments.wang.segment import IDEAL, MM, NMM, UM, in_plane, load_segment
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import backbone_poses, jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.robot.schema import quantity

Array = NDArray[Any]

_DRAWN_DEPTHS = 5


@dataclass(frozen=True, kw_only=True)
class MicroMotionSettings:
    """Options of wang.micro_motion."""

    theta_deg: float = quantity("nominal bending angle, 90 for straight", "deg", default=30.0, ge=-90, le=270)
    k_lambda0_nmm: float = quantity("constant part of lambda", "N.mm", default=0.2, ge=-10, le=10)
    k_lambdaq_n: float = quantity("part of lambda by insertion, N.mm/mm", "N", default=0.025, ge=-10, le=10)
    deepest_mm: float = quantity("deepest insertion", "mm", default=44.3, gt=0, le=44.3)
    samples: int = quantity("number of insertions", default=101, ge=3, le=10000)


@dataclass(frozen=True, slots=True)
class Paths:
    """What the figure shows: the segment, its angle, and for each lambda its label, its error, path and turn.

    Attributes
    ----------
    theta_rad : angle of the end disk, rad
    depth_m : insertions, shape (k,), m
    found : label, error, path of the tip (k, 3) in m, and turning point in m or None, for each lambda
    """

    segment: ModulatedSegment
    theta_rad: float
    depth_m: Array
    found: list[tuple[str, LinearMomentError, Array, float | None]]


def _run(settings: MicroMotionSettings, progress: Progress) -> Result:
    segment, _, _ = load_segment()
    theta = float(np.deg2rad(settings.theta_deg))
    linear = LinearMomentError(settings.k_lambda0_nmm * NMM, settings.k_lambdaq_n)
    deepest = settings.deepest_mm / MM
    depth = np.linspace(0.0, deepest, settings.samples)
    numbers: dict[str, object] = {"theta_deg": settings.theta_deg, "insertion_mm": (depth * MM).tolist()}
    found = []
    for name, error in (("lambda0", IDEAL), ("lambda_linear", linear)):
        progress(name)
        moved = jacobians(segment, theta, 0.0, depth, error)
        path = in_plane(moved.pose[:, :3, 3])
        turn = turning_point(segment, theta, error, stroke_m=deepest)
        numbers[f"{name}_has_turning_point"] = turn is not None
        numbers[f"{name}_tip_path_um"] = ((path - path[0]) * UM).tolist()
        numbers[f"{name}_path_length_um"] = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum() * UM)
        numbers[f"{name}_largest_angle_change_mrad"] = float(np.max(np.abs(moved.state.theta_end_rad - theta)) * 1e3)
        found.append((name, error, path, turn))
    turn = found[1][3]
    numbers["turning_point_qs_mm"] = float("nan") if turn is None else turn * MM
    if turn is not None:
        tip = jacobians(segment, theta, 0.0, [0.0, turn], linear).pose[:, :3, 3]
        numbers["turning_point_distance_um"] = float(np.linalg.norm(tip[1] - tip[0]) * UM)
    return Result(numbers, Paths(segment, theta, depth, found))


def _draw(result: Result, folder: Path) -> list[Path]:
    series: Paths = result.series
    file = folder / "wang_micro_motion.png"
    title = f"Insertion of the modulation backbone at theta = {np.rad2deg(series.theta_rad):.4g} deg (wang, fig. 4)"
    with figure(file, title, 1, 3, size=(9.6, 3.4)) as (_, axes):
        s = np.linspace(0.0, series.segment.length_m, 100)
        for number, depth in enumerate(np.linspace(0, series.depth_m[-1], _DRAWN_DEPTHS)):
            state = modulated_equilibrium(series.segment, series.theta_rad, 0.0, depth, series.found[0][1])
            points = in_plane(backbone_poses(state, series.segment, s)[:, :3, 3]) * MM
            shift = 8.0 * number
            axes[0].plot(points[:, 0] + shift, points[:, 1], color=COLOURS[0])
            inserted = s <= depth
            axes[0].plot(points[inserted, 0] + shift, points[inserted, 1], color=COLOURS[1], linewidth=2.5)
        axes[0].set_title("segment, depths side by side")
        axes[0].set_xlabel("x in mm, shifted")
        axes[0].set_ylabel("z in mm, up to down")
        axes[0].invert_yaxis()
        axes[0].set_aspect("equal")
        for axis, (name, error, path, turn) in zip(axes[1:], series.found, strict=True):
            moved = (path - path[0]) * UM
            points = axis.scatter(*moved.T, c=series.depth_m * MM, s=8, cmap="viridis")
            axis.plot(*moved.T, color=REFERENCE, linewidth=0.5)
            if turn is not None:
                tip = jacobians(series.segment, series.theta_rad, 0.0, turn, error).pose[:3, 3]
                place = (in_plane(tip) - path[0]) * UM
                axis.plot(*place, "x", color=COLOURS[1], label=f"turn at {turn * MM:.1f} mm")
                axis.legend(loc="best")
            label = "lambda = 0" if name == "lambda0" else "lambda linear in depth"
            axis.set_title(label)
            axis.set_xlabel("x in um")
            axis.set_ylabel("z in um")
            axis.invert_yaxis()
        axes[2].figure.colorbar(points, ax=list(axes[1:]), label="insertion in mm")
    return [file]


MICRO_MOTION = Experiment(
    name="wang.micro_motion",
    summary="Tip paths while the modulation backbone is inserted: without a moment error, and with one that turns it.",
    source="wang, fig. 4",
    paper={
        "lambda0_has_turning_point": False,
        "lambda_linear_has_turning_point": True,
        "turning_point_qs_mm": "not given; fig. 4 (c) shows it",
        "segment": "L 44.3 mm, r 3 mm, E 41 GPa, I 0.0312 and 0.0010 mm^4 (table 2)",
    },
    settings=MicroMotionSettings,
    compute=_run,
    plot=_draw,
)
