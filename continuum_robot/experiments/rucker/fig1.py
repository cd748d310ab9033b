# SPDX-License-Identifier: Apache-2.0
"""Rucker fig. 1: the coupled and the point-moment model under forces at the tip, in the tendon's plane and across it.

The paper prints no numbers with the figure; tension and force are those of its high-tension experiment, section V-E,
and the robot is weightless. In plane the models differ by the compression of the rod alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.experiments.rucker.prototype import HIGH_TENSION, prototype, tip_force
from continuum_robot.experiments.rucker.two_solvers import solve_both
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve

# Of a tendon at -y: along y is its plane, along x across it.
_FORCES = {
    "without_force": (0.0, 0.0, 0.0),
    "in_plane_towards_tendon": (0.0, -1.0, 0.0),
    "in_plane_away": (0.0, 1.0, 0.0),
    "out_of_plane": (-1.0, 0.0, 0.0),
}


@experiment(
    "rucker.fig1",
    "rucker, fig. 1 and section V-E",
    paper={
        "models_differ_percent_of_length_in_plane_towards_tendon": "only axial compression",
        "models_differ_percent_of_length_in_plane_away": "only axial compression",
        "models_differ_percent_of_length_out_of_plane": "significantly; in section V-E errors of 23.5 and 5.3",
    },
    tolerances={"solvers_differ*": Tolerance(absolute=1e-5)},
)
def fig1(
    progress: Progress,
    tension_n: Annotated[float, Quantity("tension of tendon 4", "N", ge=0, le=100)] = HIGH_TENSION.tension_n,
    force_n: Annotated[float, Quantity("force at the tip", "N", ge=0, le=100)] = HIGH_TENSION.tip_load_n,
    order: Annotated[int, Quantity("order of all strains of the energy engine", ge=0, le=24)] = 8,
    youngs_modulus_pa: Annotated[
        float | None,
        Quantity("Young's modulus; none: that calibrated for the coupled model", "Pa", gt=1e6, le=1e13),
    ] = None,
) -> Any:
    """Coupled against point-moment model for forces at the tip in the tendon's plane and across it."""
    rod = prototype(4, order, youngs_modulus_pa, weighs=False)
    numbers: dict[str, Any] = {}
    tips: dict[str, dict[str, list[float]]] = {}
    shapes: dict[str, tuple[CosseratSolution, CosseratSolution]] = {}
    for name, direction in _FORCES.items():
        progress(name)
        x, y, z = direction
        loads = tip_force((x * force_n, y * force_n, z * force_n))
        both = solve_both(rod, [tension_n], loads)
        coupled = both.cosserat or solve(cosserat_rod(rod), [tension_n], loads)
        simple = solve(cosserat_rod(rod), [tension_n], loads, model="point_moment")
        shapes[name] = coupled, simple
        tips[name] = {
            "coupled": coupled.tip_m.tolist(),
            "coupled_energy": both.energy_tip_m.tolist(),
            "point_moment": simple.tip_m.tolist(),
        }
        difference_m = float(np.linalg.norm(coupled.tip_m - simple.tip_m))
        numbers[f"models_differ_percent_of_length_{name}"] = 100 * difference_m / rod.length_m
        numbers[f"solvers_differ_percent_of_length_{name}"] = 100 * both.difference_m / rod.length_m

    def draw(figure: Figures) -> None:
        title = "Coupled model (lines) and point-moment model (dashed), forces at the tip (rucker, fig. 1)"
        with figure(title, 1, 2, size=(8.4, 3.6)) as (_, axes):
            for k, (name, pair) in enumerate(shapes.items()):
                for solution, style in zip(pair, ("-", "--"), strict=True):
                    places = np.linspace(0, solution.problem.rod.length_m, 49)
                    points = solution.at(places).position_m
                    for axis, column in zip(axes, (1, 0), strict=True):
                        label = name.replace("_", " ") if style == "-" else None
                        axis.plot(points[:, 2], points[:, column], style, color=COLOURS[k], label=label)
            axes[0].set(xlabel="z in m", ylabel="y in m (the tendon's plane)")
            axes[1].set(xlabel="z in m", ylabel="x in m (across it)")
            axes[0].legend()

    return {**numbers, "tip_m": tips}, draw
