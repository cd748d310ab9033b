# SPDX-License-Identifier: Apache-2.0
"""Static shapes of a clamped rod that SoRoSim solved, against the general rod: files of opencr-mujoco's format.

Two header rows (labels; normalised arc lengths of the stations, each half of the rod from 0 to 1), then six rows for
each shape: EulX, EulY, EulZ in rad, Px, Py, Pz in m. The columns gravity, mid_wrench and tip_wrench of these six rows
hold the loads' components: moment x, y, z (N.m), then force x, y, z (N), in the base frame; of gravity the last three
(m/s^2). SoRoSim's x is along the rod: its (x, y, z) are our (z, -y, x).
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, RecordingError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Equilibrium

Vector = NDArray[np.float64]

_LOAD_COLUMNS = ("gravity", "mid_wrench", "tip_wrench")
_ROWS = 6
_ORDERS = (2, 4, 8)
_LARGEST_DEFECT = 5e-4  # of the length: what the basis may miss before a higher order is taken
OURS = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
"""From SoRoSim's axes to ours."""


@dataclass(frozen=True, kw_only=True)
class StaticsSettings:
    """Options of the experiment; the rod's default values are those of the steel file."""

    data: str = quantity("file of shapes, CSV")
    length: float = quantity("length of the rod", "m", default=0.6, gt=0, le=100)
    radius: float = quantity("radius of its cross-section", "m", default=0.8e-3, gt=0, le=1)
    youngs_modulus: float = quantity("Young's modulus", "Pa", default=200e9, ge=1e3, le=1e13)
    poisson_ratio: float = quantity("Poisson's ratio", "", default=0.33, gt=-1, le=0.5)
    density: float = quantity("density", "kg/m^3", default=7870.0, ge=0, le=25000)
    order: int = quantity(
        "order of all strains on each half; 0: from 2 on until the basis bears the loads", default=0, ge=0, le=24
    )


@dataclass(frozen=True, slots=True)
class Shapes:
    """A file of shapes, in our axes."""

    stations: Vector
    position_m: Vector
    gravity_m_per_s2: Vector
    mid_wrench: Vector
    tip_wrench: Vector


def read_shapes(path: Path | str) -> Shapes:
    """Read a file of static shapes."""
    file = Path(path).expanduser()
    remedy = "Give a CSV file of static shapes as in opencr-mujoco: two header rows, then six rows a shape."
    try:
        rows = [row for row in csv.reader(file.read_text(encoding="utf-8-sig").splitlines()) if row]
        labels, body = rows[0], np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise RecordingError(file, str(error), remedy) from error
    count = body.shape[1] - 3 if body.ndim == 2 else 0
    if (
        tuple(label.strip() for label in labels[1:4]) != _LOAD_COLUMNS
        or count < 2
        or count % 2
        or len(body) < 1 + _ROWS
        or (len(body) - 1) % _ROWS
    ):
        raise RecordingError(file, f"{len(rows)} rows with the columns {', '.join(labels[:5])}", remedy)
    if not np.isfinite(body).all():
        raise RecordingError(file, "a value that is not a number", remedy)
    halves = np.repeat([0.0, 0.5], count // 2)
    values = body[1:].reshape(-1, _ROWS, 3 + count)
    loads = np.concatenate([values[:, 3:, :3], values[:, :3, :3]], axis=1)  # force first
    wrench = np.concatenate(
        [np.einsum("ij,sjl->sil", OURS, loads[:, :3]), np.einsum("ij,sjl->sil", OURS, loads[:, 3:])], axis=1
    )
    return Shapes(
        halves + body[0, 3:] / 2,
        np.einsum("ij,sjk->ski", OURS, values[:, 3:, 3:]),
        wrench[:, :3, 0],
        wrench[:, :, 1],
        wrench[:, :, 2],
    )


def round_rod(settings: StaticsSettings, order: int, kind: str = "chebyshev") -> RodDescription:
    """The rod, weightless, in two halves with strains of an order: the load in the middle makes them jump there."""
    area = math.pi * settings.radius**2
    second_moment = math.pi / 4 * settings.radius**4
    shear_modulus = settings.youngs_modulus / (2 * (1 + settings.poisson_ratio))
    bending, shear = settings.youngs_modulus * second_moment, shear_modulus * area
    rotary = settings.density * second_moment
    half = RodSegment(
        length_m=settings.length / 2,
        basis=Basis(kind=kind, bending_order=order, torsion_order=order, shear_order=order, extension_order=order),
        stiffness=(bending, bending, 2 * shear_modulus * second_moment, shear, shear, settings.youngs_modulus * area),
        linear_density_kg_per_m=settings.density * area,
        rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
        name="half",
    )
    return RodDescription(segments=(half, half), name="rod")


def wrenches(settings: StaticsSettings, mid: Vector, tip: Vector) -> tuple[PointWrench, ...]:
    """The loads of a shape: wrenches (force, moment) in the base frame at half the length and at the tip."""
    return tuple(
        PointWrench(s_m=s, force_n=tuple(wrench[:3].tolist()), moment_nm=tuple(wrench[3:].tolist()))
        for s, wrench in ((settings.length / 2, mid), (settings.length, tip))
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """Behind the numbers: per shape and station (shapes, stations), NaN where not converged."""

    stations: Vector
    error_m: Vector
    length_m: float
    solve_ms: Vector


@experiment(
    "sorosim.statics",
    "static shapes by SoRoSim, in the format of opencr-mujoco",
    paper={"tip_mean_error_percent_of_length_of_the_mujoco_model": 0.2},
)
def statics(progress: Progress, settings: StaticsSettings) -> Any:
    """Solves the static shapes of a clamped rod under gravity and wrenches, and compares all stations."""
    shapes = read_shapes(settings.data)
    count = len(shapes.position_m)
    error_m = np.full((count, len(shapes.stations)), np.nan)
    solve_ms = np.full(count, np.nan)
    found: list[Equilibrium] = []
    orders = [settings.order] if settings.order else list(_ORDERS)
    here = wrenches(settings, np.zeros(6), np.zeros(6))
    rods = {order: Rod(round_rod(settings, order), loads=here) for order in orders}
    used = dict.fromkeys(orders, 0)
    for index in range(count):
        progress(f"shape {index + 1} of {count}")
        loads = wrenches(settings, shapes.mid_wrench[index], shapes.tip_wrench[index])
        start = time.perf_counter()
        try:
            for order in orders:
                rod = rods[order]
                rod.arrays.gravity[:] = shapes.gravity_m_per_s2[index]
                rod.load(loads)
                state = rod.equilibrium()
                if state.defect_m <= _LARGEST_DEFECT * settings.length:
                    break
        except ConvergenceError:
            continue
        solve_ms[index] = 1e3 * (time.perf_counter() - start)
        used[order] += 1
        found.append(state)
        places = rods[order].poses(state.c, settings.length * shapes.stations)[:, :3, 3]
        error_m[index] = np.linalg.norm(places - shapes.position_m[index], axis=1)
    converged = np.isfinite(solve_ms)
    percent = 100 * error_m[converged] / settings.length

    def over(values: Vector, function: str) -> float:
        return float(getattr(np, function)(values)) if values.size else math.nan

    numbers = {
        "n_shapes": count,
        "n_converged": int(converged.sum()),
        "n_unstable": sum(not state.stable for state in found),
        "n_snapped": sum(state.snapped for state in found),
        "mean_position_error_percent_of_length": over(percent, "mean"),
        "max_position_error_percent_of_length": over(percent, "max"),
        "median_worst_station_error_mm": over(1e3 * error_m[converged].max(axis=1, initial=0.0), "median"),
        "tip_mean_error_percent_of_length": over(percent[:, -1], "mean"),
        "median_solve_ms": over(solve_ms[converged], "median"),
        "max_solve_ms": over(solve_ms[converged], "max"),
        "largest_defect_of_the_basis_mm": 1e3 * max((state.defect_m for state in found), default=math.nan),
        **{f"n_of_order_{order}": number for order, number in used.items()},
    }
    return numbers, partial(_draw, numbers, _Series(shapes.stations, error_m, settings.length, solve_ms))


def _draw(result: Mapping[str, Any], series: _Series, figure: Figures) -> None:
    shown = series.error_m[np.isfinite(series.solve_ms)]
    title = f"{result['n_converged']} of {result['n_shapes']} static shapes of SoRoSim, rod of {series.length_m:g} m"
    with figure(title, 1, 2, size=(7.2, 3.2)) as (drawing, axes):
        axes[0].plot(series.stations * series.length_m, shown.T, ".", color=COLOURS[5], markersize=2)
        axes[0].plot(series.stations * series.length_m, shown.mean(axis=0), color=COLOURS[0], label="mean")
        axes[0].plot(series.stations * series.length_m, shown.max(axis=0), color=COLOURS[1], label="worst")
        axes[0].set(xlabel="arc length in m", ylabel="position error in m")
        axes[1].hist(series.solve_ms[np.isfinite(series.solve_ms)], 40, color=REFERENCE)
        axes[1].set(xlabel="time of a solution in ms", ylabel="shapes")
        legend_below(drawing, axes[0])
