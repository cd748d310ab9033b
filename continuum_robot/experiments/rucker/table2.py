# SPDX-License-Identifier: Apache-2.0
"""Rucker Table II: every static experiment of the paper by both solvers, from the straight rod.

The measured tips are not published, only statistics of the errors against them (Tables IV and V), so what is compared
is the two solvers, over the order of the strain basis. Beside the 37 cases: the high-tension experiment of fig. 11 by
the coupled and the point-moment model, and the last polynomial case with the tip load that Table II probably means.
"""

from __future__ import annotations

import contextlib
import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.rucker.prototype import (
    HIGH_TENSION,
    NOMINAL_MODULUS_PA,
    PROBABLE_MISPRINT,
    TABLE_II,
    Case,
    prototype,
    prototype_robot,
)
from continuum_robot.experiments.rucker.two_solvers import Answers, solve_both
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.rod import Rod

Array = NDArray[np.float64]

_FAMILIES = {"straight": (1, 2, 3, 4), "helical": (5,), "polynomial": (6,)}
_STATIONS = 49


@experiment(
    "rucker.table2",
    "rucker, Table II, figs. 9 to 14",
    paper={
        "n_cases": 37,
        "n_converged": 37,
        "high_tension_models_differ_percent_of_length": "the models' tip errors were 23.5 (point moment) and 5.3",
        "mean tip error against measurements (not published), coupled model": "3.6 mm straight (3.1 in plane, 4.1 out"
        " of plane), 5.5 mm helical, 4.6 mm polynomial; calibrated E 229.6 GPa and base angles",
        "mean tip error against measurements (not published), point-moment model": "3.5 mm in plane, 9.8 out of plane",
    },
    tolerances={
        "*residual": Tolerance(absolute=1e-9),
        "*integration_error*": Tolerance(absolute=1e-6),
        "*difference_percent*": Tolerance(absolute=1e-5),
    },
)
def table2(
    progress: Progress,
    order: Annotated[int, Quantity("order of bending, torsion, shear and extension", ge=0, le=24)] = 8,
    highest_order: Annotated[
        int, Quantity("up to which order the agreement is followed; 0: not at all", ge=0, le=24)
    ] = 12,
    youngs_modulus_pa: Annotated[
        float | None, Quantity("Young's modulus; none: that calibrated for the coupled model", "Pa", gt=1e6, le=1e13)
    ] = None,
) -> Any:
    """All 37 static experiments and the high-tension one, by boundary-value problem and by energy."""
    every = (*TABLE_II, HIGH_TENSION, PROBABLE_MISPRINT)
    answers = {}
    for index, case in enumerate(every):
        progress(f"case {index + 1} of {len(every)}: {case.name}")
        rod = prototype(case.tendon, order, youngs_modulus_pa)
        answers[case] = solve_both(rod, [case.tension_n], case.loads)
    table = [answers[case] for case in TABLE_II]
    length_m = prototype_robot().length_m
    high = answers[HIGH_TENSION]
    point_moment = _solve_high_tension(high.rod.description, "point_moment")
    nominal = prototype(HIGH_TENSION.tendon, order, NOMINAL_MODULUS_PA)
    nominal_tip_m = _solve_high_tension(nominal, "coupled").tip_m
    fraction = np.array([answer.difference_m / length_m for answer in answers.values()])
    numbers: dict[str, Any] = {
        "n_cases": len(TABLE_II),
        "n_converged": sum(answer.converged for answer in table),
        "n_converged_cosserat": sum(answer.cosserat is not None for answer in table),
        "n_converged_energy": sum(answer.energy is not None for answer in table),
        "n_stable": sum(answer.stable for answer in table),
        "high_tension_converged": high.converged,
        "high_tension_models_differ_percent_of_length": 100
        * float(np.linalg.norm(high.cosserat_tip_m - point_moment.tip_m))
        / length_m,
        "high_tension_models_differ_percent_of_length_nominal_modulus": 100
        * float(np.linalg.norm(nominal_tip_m - _solve_high_tension(nominal, "point_moment").tip_m))
        / length_m,
        "max_difference_percent_of_length": 100 * float(fraction.max()),
        "mean_difference_percent_of_length": 100 * float(fraction.mean()),
        "order": order,
        "max_residual": max((answer.cosserat.residual for answer in table if answer.cosserat), default=math.nan),
        "max_integration_error_mm": 1e3
        * max((answer.cosserat.integration_error_m for answer in table if answer.cosserat), default=math.nan),
        "tip_m": {
            case.name: {"cosserat": answer.cosserat_tip_m.tolist(), "energy": answer.energy_tip_m.tolist()}
            for case, answer in answers.items()
        },
        "problems": [problem for answer in answers.values() for problem in answer.problems],
    }
    orders = list(range(1, highest_order + 1))
    differences = np.full((len(orders), len(answers)), np.nan)  # fraction of the length; NaN: one did not converge
    for row, at in zip(differences, orders, strict=True):
        progress(f"order {at}")
        rods = {tendon: prototype(tendon, at, youngs_modulus_pa) for tendon in range(1, 7)}
        for column, (case, answer) in enumerate(answers.items()):
            own = Rod(rods[case.tendon], loads=case.loads)
            with contextlib.suppress(ConvergenceError):
                tip_m = own.moved(own.equilibrium([case.tension_n]).c)[0][:3, 3]
                row[column] = np.linalg.norm(tip_m - answer.cosserat_tip_m) / length_m
    numbers["orders"] = orders
    numbers["max_difference_percent_of_length_by_order"] = [100 * float(row.max()) for row in differences]

    def draw(figure: Figures) -> None:
        title = "The 37 cases of rucker, Table II: boundary-value problem (lines), energy (dots)"
        with figure(title, 2, len(_FAMILIES), size=(9.6, 6.4), sharex=True) as (_, axes):
            for column, (family, tendons) in enumerate(_FAMILIES.items()):
                axes[0, column].set_title(f"{family} tendons", loc="left")
                for case in TABLE_II:
                    if case.tendon in tendons:
                        _backbone(axes[:, column], answers[case], COLOURS[case.tendon % len(COLOURS)])
                axes[1, column].set_xlabel("z in m")
            axes[0, 0].set_ylabel("x in m (up)")
            axes[1, 0].set_ylabel("y in m")
        if orders:
            _draw_orders(figure, answers, orders, differences)
        title = "Tendon 4 at 6.38 N, 0.196 N down (rucker, fig. 11)"
        with figure(title, 1, 2, name="rucker_fig11", size=(7.2, 3.2)) as (_, axes):
            _backbone(axes, high, COLOURS[0], "coupled")
            other = point_moment.at(np.linspace(0, length_m, _STATIONS)).position_m
            for axis, row in zip(axes, (0, 1), strict=True):
                axis.plot(other[:, 2], other[:, row], color=COLOURS[1], label="point moment")
                axis.set(xlabel="z in m", ylabel=("x in m (up)", "y in m")[row])
            axes[0].legend()

    return numbers, draw


def _solve_high_tension(rod: RodDescription, model: str) -> CosseratSolution:
    return solve(cosserat_rod(rod), [HIGH_TENSION.tension_n], HIGH_TENSION.loads, model=model)


def _backbone(axes: Any, answer: Answers, colour: str, label: str | None = None) -> None:
    """Elevation and plan."""
    if answer.cosserat is None:
        return
    places = np.linspace(0, answer.rod.length_m, _STATIONS)
    line, dots = answer.cosserat.at(places).position_m, answer.energy_backbone_m(places[::8])
    for axis, row in zip(axes, (0, 1), strict=True):
        axis.plot(line[:, 2], line[:, row], color=colour, linewidth=0.9, label=label)
        axis.plot(dots[:, 2], dots[:, row], ".", color=colour, markersize=3)


def _draw_orders(figure: Figures, answers: dict[Case, Answers], orders: list[int], differences: Array) -> None:
    title = "Agreement of the two solvers over the order of the strain basis"
    with figure(title, name="rucker_table2_orders", size=(7.2, 4.0)) as (_, axis):
        for colour, (family, tendons) in zip(COLOURS, _FAMILIES.items(), strict=False):
            shown = 100 * differences[:, [k for k, case in enumerate(answers) if case.tendon in tendons]]
            axis.semilogy(orders, shown, color=colour, linewidth=0.5, alpha=0.5)
            axis.semilogy(orders, shown.max(axis=1), "o-", color=colour, markersize=3, label=family)
        axis.axhline(0.01, color=REFERENCE, linestyle="--", linewidth=0.8)
        axis.set(xlabel="order of bending, torsion, shear and extension", ylabel="distance of tips in % of length")
        axis.legend()
