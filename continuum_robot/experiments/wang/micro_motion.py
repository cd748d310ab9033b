# SPDX-License-Identifier: Apache-2.0
"""Figure 4 of wang: how the tip moves by micrometres while the modulation backbone is inserted."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.wang.segment import IDEAL, MM, NMM, UM, in_plane, load_segment
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import backbone_poses, jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.robot.schema import Quantity

_DRAWN_DEPTHS = 5


@experiment(
    "wang.micro_motion",
    "wang, fig. 4",
    paper={
        "lambda0_has_turning_point": False,
        "lambda_linear_has_turning_point": True,
        "turning_point_qs_mm": "not given; fig. 4 (c) shows it",
        "segment": "L 44.3 mm, r 3 mm, E 41 GPa, I 0.0312 and 0.0010 mm^4 (table 2)",
    },
)
def micro_motion(
    progress: Progress,
    theta_deg: Annotated[float, Quantity("nominal bending angle, 90 for straight", "deg", ge=-90, le=270)] = 30.0,
    k_lambda0_nmm: Annotated[float, Quantity("constant part of lambda", "N.mm", ge=-10, le=10)] = 0.2,
    k_lambdaq_n: Annotated[float, Quantity("part of lambda by insertion, N.mm/mm", "N", ge=-10, le=10)] = 0.025,
    deepest_mm: Annotated[float, Quantity("deepest insertion", "mm", gt=0, le=44.3)] = 44.3,
    samples: Annotated[int, Quantity("number of insertions", ge=3, le=10000)] = 101,
) -> Any:
    """Tip paths while the modulation backbone is inserted: without a moment error, and with one that turns it."""
    segment, _, _ = load_segment()
    theta, deepest = float(np.deg2rad(theta_deg)), deepest_mm / MM
    linear = LinearMomentError(k_lambda0_nmm * NMM, k_lambdaq_n)
    depth = np.linspace(0.0, deepest, samples)
    numbers: dict[str, object] = {"theta_deg": theta_deg, "insertion_mm": (depth * MM).tolist()}
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

    def draw(figure: Figures) -> None:
        title = f"Insertion of the modulation backbone at theta = {theta_deg:.4g} deg (wang, fig. 4)"
        with figure(title, 1, 3, size=(9.6, 3.4)) as (drawing, axes):
            s = np.linspace(0.0, segment.length_m, 100)
            for number, inserted_m in enumerate(np.linspace(0, deepest, _DRAWN_DEPTHS)):
                state = modulated_equilibrium(segment, theta, 0.0, inserted_m, IDEAL)
                points = in_plane(backbone_poses(state, segment, s)[:, :3, 3]) * MM + [8.0 * number, 0.0]
                axes[0].plot(*points.T, color=COLOURS[0])
                axes[0].plot(*points[s <= inserted_m].T, color=COLOURS[1], linewidth=2.5)
            axes[0].set(title="segment, depths side by side", xlabel="x in mm, shifted", ylabel="z in mm, up to down")
            axes[0].set_aspect("equal")
            for axis, (name, error, path, turn) in zip(axes[1:], found, strict=True):
                moved = (path - path[0]) * UM
                points = axis.scatter(*moved.T, c=depth * MM, s=8, cmap="viridis")
                axis.plot(*moved.T, color=REFERENCE, linewidth=0.5)
                if turn is not None:
                    place = (in_plane(jacobians(segment, theta, 0.0, turn, error).pose[:3, 3]) - path[0]) * UM
                    axis.plot(*place, "x", color=COLOURS[1], label=f"turn at {turn * MM:.1f} mm")
                    axis.legend(loc="best")
                label = "lambda = 0" if name == "lambda0" else "lambda linear in depth"
                axis.set(title=label, xlabel="x in um", ylabel="z in um")
            for axis in axes:
                axis.invert_yaxis()
            drawing.colorbar(points, ax=list(axes[1:]), label="insertion in mm")

    return numbers, draw
