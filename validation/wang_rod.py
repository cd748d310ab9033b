# SPDX-License-Identifier: Apache-2.0
"""What wang's model leaves out: modulation backbones at different depths, and secondary backbones that are locked."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.experiments.wang.segment import IDEAL, MM, UM, in_plane, load_segment
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.robot.schema import Quantity
from validation.wang_rod_model import ModulatedRod


@experiment(
    "wang.rod",
    "wang, section 6.3: the limitation it names; compared with its model where both say something",
    paper={
        "held_has_turning_point": "measured at all five angles (fig. 9), not explained by the paper",
        "out_of_plane_range_um": "outside of its model",
    },
    tolerances={"*_um": Tolerance(relative=1e-3, absolute=1e-3)},
)
def rod_experiment(
    progress: Progress,
    theta_deg: Annotated[float, Quantity("nominal bending angle, 90 for straight", "deg", ge=0, le=85)] = 30.0,
    samples: Annotated[int, Quantity("number of depths", ge=3, le=200)] = 15,
    grid: Annotated[int, Quantity("depths of each wire in the map of all three", ge=2, le=20)] = 6,
) -> Any:
    """Modulation backbones at different depths move the tip out of plane; locked backbones turn it back."""
    segment, _, _ = load_segment()
    theta = float(np.deg2rad(theta_deg))
    depth = np.linspace(0.0, segment.length_m * 0.99, samples)
    count = segment.count
    together = replace(segment, modulation_stiffness_nm2=segment.modulation_stiffness_nm2 * count)
    simple_tip = jacobians(together, theta, 0.0, depth, IDEAL).pose[:, :3, 3]
    simple = (simple_tip - simple_tip[0]) * UM

    progress("all wires to one depth")
    central = ModulatedRod(segment, theta, offsets=False)
    rod = ModulatedRod(segment, theta)
    start = rod.tip(np.zeros(count))
    overlap = np.array([central.tip(np.full(count, one)) - start for one in depth]) * UM
    held = np.array([rod.tip_held(np.full(count, one)) - start for one in depth]) * UM
    progress("one wire alone")
    alone = []
    for index in range(count):
        depths = np.zeros((len(depth), count))
        depths[:, index] = depth
        alone.append(np.array([rod.tip(one) - start for one in depths]) * UM)
    progress("all depths")
    levels = np.linspace(0.0, segment.length_m * 0.99, grid)
    reached = np.array([rod.tip(one) - start for one in itertools.product(levels, repeat=count)]) * UM

    away = np.linalg.norm(held, axis=1)
    farthest = int(np.argmax(away))
    numbers = {
        "theta_deg": theta_deg,
        "insertion_mm": (depth * MM).tolist(),
        "simple_tip_path_um": in_plane(simple).tolist(),
        "rod_tip_path_um": in_plane(overlap).tolist(),
        "rod_from_simple_largest_um": float(np.linalg.norm(overlap - simple, axis=1).max()),
        "rod_from_simple_percent": float(
            100 * np.linalg.norm(overlap - simple, axis=1).max() / np.linalg.norm(simple, axis=1).max()
        ),
        "held_tip_path_um": in_plane(held).tolist(),
        "held_has_turning_point": bool(0 < farthest < len(depth) - 1),
        "held_farthest_at_mm": float(depth[farthest] * MM),
        "held_farthest_um": float(away[farthest]),
        "one_wire_largest_out_of_plane_um": [float(np.abs(path[:, 1]).max()) for path in alone],
        "out_of_plane_range_um": [float(reached[:, 1].min()), float(reached[:, 1].max())],
        "all_together_out_of_plane_um": float(np.abs([rod.tip(np.full(count, one))[1] * UM for one in depth]).max()),
    }

    def draw(figure: Figures) -> None:
        title = f"Three modulation backbones by the rod engine, theta = {theta_deg:.4g} deg"
        with figure(title, 1, 3, size=(9.8, 3.4)) as (_, axes):
            axes[0].plot(*in_plane(simple).T, color=COLOURS[0], label="simple model")
            axes[0].plot(*in_plane(overlap).T, "o", color=COLOURS[1], markersize=3, label="rod, forces kept")
            axes[0].plot(*in_plane(held).T, "s-", color=COLOURS[2], markersize=3, label="rod, lengths kept")
            axes[0].set(title="one depth, lambda = 0", xlabel="x in um, towards the bend", ylabel="z in um")
            axes[0].invert_yaxis()
            axes[0].legend()
            for number, path in enumerate(alone, start=1):
                axes[1].plot(path[:, 0], path[:, 1], ".-", color=COLOURS[number - 1], label=f"wire {number} alone")
            axes[1].set_title("one wire, forces kept")
            axes[1].legend()
            axes[2].plot(reached[:, 0], reached[:, 1], ".", color=COLOURS[0], markersize=3)
            axes[2].set_title("all depths, forces kept")
            for axis in axes[1:]:
                axis.set(xlabel="x in um, towards the bend", ylabel="y in um, out of plane")

    return numbers, draw
