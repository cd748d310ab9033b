# SPDX-License-Identifier: Apache-2.0
"""How the error of the tip falls with the number of functions of a strain, for each family of functions.

The influence of the choice of basis is future work in johnston. The shapes are those of sorosim_shapes.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.basis import SHIPPED
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import Rod
from validation.sorosim_shapes import Shapes, SteelRod, read_shapes, round_rod, wrenches

Vector = NDArray[np.float64]

ORDERS = (0, 1, 2, 3, 4, 5, 6, 8)
LIMIT_ORDER = 12
"""Of the polynomials that stand for the rod itself: what is left between them and SoRoSim is not the basis."""
_MARKERS = "osd^"


@dataclass(frozen=True, kw_only=True)
class BasisSettings(SteelRod):
    """The rod, its shapes, how many of them, and functions."""

    order: int = quantity("order of all strains on each half; 0: each up to 8", default=0, ge=0, le=24)
    shapes: int = quantity("number of shapes, evenly drawn from the file; 0: all", default=50, ge=0, le=100000)


@dataclass(frozen=True, slots=True)
class _Series:
    """Behind the numbers, for the shapes that all found: (families, orders, shapes), m."""

    orders: tuple[int, ...]
    error_m: Vector
    gap_m: Vector
    length_m: float


def _tips_m(settings: BasisSettings, shapes: Shapes, chosen: Vector, kind: str, order: int) -> Vector:
    """Tip of each chosen shape, (shapes, 3), m; NaN where not converged."""
    rod = Rod(round_rod(settings, order, kind), loads=wrenches(settings, np.zeros(6), np.zeros(6)))
    tips_m = np.full((len(chosen), 3), np.nan)
    for place, index in enumerate(chosen):
        loads = wrenches(settings, shapes.mid_wrench[index], shapes.tip_wrench[index])
        try:
            rod.arrays.gravity[:] = shapes.gravity_m_per_s2[index]
            rod.load(loads)
            state = rod.equilibrium()
        except ConvergenceError:
            continue
        tips_m[place] = rod.moved(state.c)[0][:3, 3]
    return tips_m


@experiment(
    "sorosim.basis",
    "johnston, future work: the choice of basis; static shapes by SoRoSim, in the format of opencr-mujoco",
)
def basis(progress: Progress, settings: BasisSettings) -> Any:
    """How the error of the tip falls with the number of functions of a strain, for each family of functions."""
    shapes = read_shapes(settings.data)
    count = len(shapes.position_m)
    chosen = np.unique(np.linspace(0, count - 1, settings.shapes or count).round().astype(int))
    orders = (settings.order,) if settings.order else ORDERS
    progress("many polynomials")
    limit_m = _tips_m(settings, shapes, chosen, "chebyshev", LIMIT_ORDER)
    tips_m = np.empty((len(SHIPPED), len(orders), *limit_m.shape))
    for row, kind in enumerate(SHIPPED):
        for column, order in enumerate(orders):
            progress(f"{kind}, {order + 1} functions a strain")
            tips_m[row, column] = _tips_m(settings, shapes, chosen, kind, order)
    # The same shapes for all: those that every one of them found.
    found = np.isfinite(tips_m).all(axis=(0, 1, 3)) & np.isfinite(limit_m).all(axis=1)
    error_m = np.linalg.norm(tips_m - shapes.position_m[chosen, -1], axis=3)[..., found]
    gap_m = np.linalg.norm(tips_m - limit_m, axis=3)[..., found]
    numbers: dict[str, float] = {"n_shapes": len(chosen), "n_found_by_all": int(found.sum())}
    for name, distance_m in (("error", error_m), ("gap", gap_m)):
        for row, kind in enumerate(SHIPPED):
            for column, order in enumerate(orders):
                percent = 100 * distance_m[row, column] / settings.length
                key = f"tip_{name}_percent_{kind}_{order + 1}"
                numbers[key] = float(percent.mean()) if percent.size else math.nan
    return numbers, partial(_draw, numbers, _Series(tuple(orders), error_m, gap_m, settings.length))


def _draw(result: Mapping[str, Any], series: _Series, figure: Figures) -> None:
    functions = np.array(series.orders) + 1
    title = f"{result['n_found_by_all']} static shapes of SoRoSim, rod of {series.length_m:g} m in two halves"
    with figure(title, 1, 2, size=(8.0, 3.8)) as (drawing, axes):
        ours = f"tip from that with {LIMIT_ORDER + 1} polynomials"
        sides = (series.error_m, "tip from SoRoSim's"), (series.gap_m, ours)
        for axis, (distance_m, what) in zip(axes, sides, strict=True):
            for row, kind in enumerate(SHIPPED if distance_m.size else ()):
                percent = 100 * distance_m[row].mean(axis=1) / series.length_m
                axis.semilogy(functions, percent, marker=_MARKERS[row], color=COLOURS[row], label=kind, markersize=4)
            axis.set(xlabel="functions of each strain on a half", ylabel="mean, % of the length")
            axis.set_title(what, fontsize="medium")
        legend_below(drawing, axes[0])
