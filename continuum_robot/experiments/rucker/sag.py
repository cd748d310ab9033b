# SPDX-License-Identifier: Apache-2.0
"""Rucker section V-A: how far the prototype sags under its own weight without tension."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from scipy.optimize import brentq

from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.rucker.prototype import MEASURED_SAG_M, NOMINAL_MODULUS_PA, prototype
from continuum_robot.experiments.rucker.two_solvers import Answers, solve_both
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import solve


@experiment(
    "rucker.sag",
    "rucker, section V-A",
    paper={
        "sag_mm_calibrated_modulus": "44 measured",
        "sag_mm_nominal_modulus": "44 measured",
        "modulus_gpa_that_sags_as_measured": "229.6 from tips of 25 experiments, with the base's tilt",
    },
)
def sag(
    progress: Progress, order: Annotated[int, Quantity("order of all strains of the energy engine", ge=0, le=24)] = 8
) -> Any:
    """Sag of the prototype under its own weight, for the calibrated and the nominal modulus, by both solvers."""
    numbers: dict[str, Any] = {}
    tips: dict[str, dict[str, list[float]]] = {}
    shapes: dict[str, Answers] = {}
    for name, modulus_pa in (("calibrated", None), ("nominal", NOMINAL_MODULUS_PA)):
        progress(f"{name} modulus")
        both = solve_both(prototype(1, order, modulus_pa), [0.0])
        numbers[f"sag_mm_{name}_modulus"] = -1e3 * float(both.cosserat_tip_m[0])
        numbers[f"sag_mm_{name}_modulus_energy"] = -1e3 * float(both.energy_tip_m[0])
        tips[f"{name}_modulus"] = {
            "cosserat": both.cosserat_tip_m.tolist(),
            "energy": both.energy_tip_m.tolist(),
        }
        shapes[name] = both
    rod = shapes["calibrated"].rod.description
    bending_nm2, weight_n_per_m = (
        rod.segments[0].stiffness[0],
        -rod.segments[0].linear_density_kg_per_m * rod.gravity_m_per_s2[0],
    )
    small_m = weight_n_per_m * rod.length_m**4 / (8 * bending_nm2)
    numbers["sag_mm_calibrated_modulus_small_deflection"] = 1e3 * float(small_m)
    progress("modulus that sags as measured")
    numbers["modulus_gpa_that_sags_as_measured"] = 1e-9 * brentq(
        lambda modulus_pa: _sag_m(modulus_pa) - MEASURED_SAG_M, 150e9, 300e9, rtol=1e-6
    )

    def draw(figure: Figures) -> None:
        with figure("Sag under 0.47 N/m without tension", size=(7.2, 3.0)) as (_, axis):
            for k, (name, both) in enumerate(shapes.items()):
                if both.cosserat is not None:
                    points = both.cosserat.at(np.linspace(0, both.rod.length_m, 49)).position_m
                    axis.plot(points[:, 2], points[:, 0], color=COLOURS[k], label=f"{name} modulus")
            axis.axhline(-MEASURED_SAG_M, color=REFERENCE, linestyle="--", linewidth=0.8, label="measured at the tip")
            axis.set(xlabel="z in m", ylabel="x in m (up)")
            axis.legend()

    return {**numbers, "tip_m": tips}, draw


def _sag_m(modulus_pa: float) -> float:
    rod = prototype(1, 0, modulus_pa)
    return -float(solve(cosserat_rod(rod), [0.0]).tip_m[0])
