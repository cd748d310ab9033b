# SPDX-License-Identifier: Apache-2.0
"""Static shapes of our rod, of MuJoCo's chain and of SoRoSim side by side, over the number of links.

Two comparisons. A robot under its tendons: tip of the chain against that of our rod with a basis of high order. The
chain's tendons run straight from disk to disk, the rod's in a channel; what remains with many links is that, and the
chain is therefore also compared with the rod whose bending is multiplied by tan(u) / u, u = l / 2 sqrt(P / (E I)), the
beam-column of length l between two disks under the sum P of all tensions. And the clamped steel rod of
sorosim_shapes.py, without tendons, under gravity and wrenches.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot, parse_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.inertia import section_stiffness
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.mujoco.body import ChainBody, chain_equilibrium
from validation.sorosim_shapes import SteelRod, read_shapes, round_rod, wrenches

Vector = NDArray[np.float64]

_LINKS = (5, 10, 20, 40, 80)
_HIGH_ORDER = 6
_MILLIMETRES = 1e3


@dataclass(frozen=True, kw_only=True)
class MujocoStaticsSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file, or the name of a shipped one; of one segment", default="opencr_five_tendon")
    tension: float = quantity("of the first tendon", "N", default=4.0, ge=0, le=1e4)
    pretension: float = quantity("of the others", "N", default=1.5, ge=0, le=1e4)
    data: str = quantity("file of SoRoSim's static shapes, CSV; empty: without", default="")
    shapes: int = quantity("how many of them are solved, evenly over the file", default=20, ge=1, le=1000)
    most_links: int = quantity("largest number of links", default=80, ge=5, le=200)


@dataclass(frozen=True, slots=True)
class _Series:
    links: Vector
    tip_m: Vector  # (links, 3) of the chain under its tendons
    rod_m: Vector  # (3,)
    column_m: Vector  # (3,)
    sorosim_error_m: Vector  # (links, shapes)
    rod_error_m: Vector  # (shapes,)
    length_m: float


def steel_rod(settings: SteelRod) -> Robot:
    """The rod of the file as a robot with one massless disk at its tip and tendons that nothing pulls."""
    return parse_robot(
        f"""
schema_version: 2
name: steel_rod
segments:
  - name: rod
    length_m: {settings.length!r}
    backbone:
      youngs_modulus_pa: {settings.youngs_modulus!r}
      poisson_ratio: {settings.poisson_ratio!r}
      density_kg_per_m3: {settings.density!r}
      outer_diameter_m: {2 * settings.radius!r}
    disks: {{count: 1, mass_kg: 0.0, radius_m: 0.01}}
    tendons: {{count: 3, pitch_radius_m: 0.008}}
    basis: {{kind: chebyshev, bending_order: 2, torsion_order: 2}}
"""
    )


def _tip(body: ChainBody) -> Vector:
    return np.array(body.kinematics.poses((), [body.robot.length_m])[0, :3, 3])


def _under_tendons(settings: MujocoStaticsSettings, links: Vector) -> tuple[Vector, Vector, Vector]:
    """Tips of the chain, of the rod, and of the rod as a row of beam-columns, m."""
    robot = load_robot(settings.robot)
    tension = np.full(robot.tendon_count, settings.pretension)
    tension[0] = settings.tension
    segment = robot.segments[0]
    high = Basis(kind="chebyshev_bending", order=_HIGH_ORDER)
    rod = Rod(robot.changed(segments=(dataclasses.replace(segment, basis=high),)))
    rod_tip = rod.moved(rod.equilibrium(tension).c)[0][:3, 3]
    stiffness_nm2 = section_stiffness(robot, 0)
    apart_m = float(np.diff([0.0, *segment.disks.positions_m(segment.length_m)]).mean())
    u = apart_m / 2 * math.sqrt(tension.sum() / float(stiffness_nm2[:2].mean()))
    softer = dataclasses.replace(
        segment.backbone,
        bending_stiffness_x_nm2=segment.backbone.bending_stiffnesses_nm2[0] * u / math.tan(u),
        bending_stiffness_y_nm2=segment.backbone.bending_stiffnesses_nm2[1] * u / math.tan(u),
    )
    soft = Rod(robot.changed(segments=(dataclasses.replace(segment, basis=high, backbone=softer),)))
    column_tip = soft.moved(soft.equilibrium(tension).c)[0][:3, 3]
    tips = []
    for count in links:
        body = ChainBody(robot, None, links=int(count))
        chain_equilibrium(body, tension)
        tips.append(_tip(body))
    return np.array(tips), np.array(rod_tip), np.array(column_tip)


def _against_sorosim(
    settings: MujocoStaticsSettings, links: Vector, progress: Progress
) -> tuple[Vector, Vector, float]:
    """Largest position error of a shape over its stations, of the chain (links, shapes) and of our rod (shapes,), m."""
    steel = SteelRod(data=settings.data)
    shapes = read_shapes(settings.data)
    picked = np.unique(np.linspace(0, len(shapes.position_m) - 1, settings.shapes).astype(int))
    rod = Rod(round_rod(steel, _HIGH_ORDER), loads=wrenches(steel, np.zeros(6), np.zeros(6)))
    bodies = [ChainBody(steel_rod(steel), None, links=int(count)) for count in links]
    chain_m, rod_m = np.full((len(links), len(picked)), np.nan), np.full(len(picked), np.nan)
    for k, index in enumerate(picked):
        progress(f"shape {k + 1} of {len(picked)}")
        loads = wrenches(steel, shapes.mid_wrench[index], shapes.tip_wrench[index])
        gravity, exact = shapes.gravity_m_per_s2[index], shapes.position_m[index]
        places = steel.length * shapes.stations
        try:
            rod.arrays.gravity[:] = gravity
            rod.load(loads)
            found = rod.poses(rod.equilibrium().c, places)[:, :3, 3]
            rod_m[k] = np.linalg.norm(found - exact, axis=1).max()
        except ConvergenceError:
            pass
        for row, body in enumerate(bodies):
            body.mujoco_model.opt.gravity[:] = gravity
            try:
                chain_equilibrium(body, wrenches=loads)
            except ConvergenceError:
                continue
            found = body.kinematics.poses((), places)[:, :3, 3]
            chain_m[row, k] = np.linalg.norm(found - exact, axis=1).max()
    return chain_m, rod_m, steel.length


@experiment(
    "mujoco.statics",
    "no paper: a second model of the same robot, and static shapes by SoRoSim",
    paper={"chain_of_80_median_worst_station_mm": "the file's own floor is about 0.2 mm"},
    not_stored="docs/how-to/mujoco.md has its numbers, which need a file of shapes",
)
def statics(progress: Progress, settings: MujocoStaticsSettings) -> Any:
    """Compares static shapes of our rod, of MuJoCo's chain of links and of SoRoSim over the number of links."""
    links = np.array([count for count in _LINKS if count <= settings.most_links])
    progress("the robot under its tendons")
    tips, rod_tip, column_tip = _under_tendons(settings, links)
    numbers: dict[str, float | int] = {
        "rod_tip_x_mm": _MILLIMETRES * float(rod_tip[0]),
        "beam_columns_tip_x_mm": _MILLIMETRES * float(column_tip[0]),
    }
    for count, tip in zip(links, tips, strict=True):
        numbers[f"chain_of_{count}_tip_x_mm"] = _MILLIMETRES * float(tip[0])
        numbers[f"chain_of_{count}_from_rod_mm"] = _MILLIMETRES * float(np.linalg.norm(tip - rod_tip))
        numbers[f"chain_of_{count}_from_beam_columns_mm"] = _MILLIMETRES * float(np.linalg.norm(tip - column_tip))
    chain_m, rod_m, length_m = np.zeros((len(links), 0)), np.zeros(0), math.nan
    if settings.data:
        chain_m, rod_m, length_m = _against_sorosim(settings, links, progress)
        numbers |= {"sorosim_shapes": rod_m.size, "rod_converged": int(np.isfinite(rod_m).sum())}
        numbers["rod_median_worst_station_mm"] = _MILLIMETRES * float(np.nanmedian(rod_m))
        for count, errors in zip(links, chain_m, strict=True):
            converged = np.isfinite(errors)
            numbers[f"chain_of_{count}_converged"] = int(converged.sum())
            median = float(np.median(errors[converged])) if converged.any() else math.nan
            numbers[f"chain_of_{count}_median_worst_station_mm"] = _MILLIMETRES * median
    return numbers, partial(_draw, _Series(links, tips, rod_tip, column_tip, chain_m, rod_m, length_m))


def _draw(series: _Series, figure: Figures) -> None:
    columns = 2 if series.rod_error_m.size else 1
    with figure("MuJoCo's chain over the number of links", 1, columns, size=(3.8 * columns, 3.2)) as (_, axes):
        first = np.atleast_1d(axes)[0]
        for target, label, colour in (
            (series.rod_m, "from our rod", COLOURS[0]),
            (series.column_m, "from our rod as beam-columns", COLOURS[1]),
        ):
            first.loglog(series.links, np.linalg.norm(series.tip_m - target, axis=1), "o-", color=colour, label=label)
        first.set(xlabel="links", ylabel="tip position under tendons, difference in m")
        first.legend()
        if columns == 2:
            second = axes[1]
            second.loglog(series.links, np.nanmedian(series.sorosim_error_m, axis=1), "o-", color=COLOURS[0],
                          label="chain")  # fmt: skip
            second.axhline(np.nanmedian(series.rod_error_m), color=REFERENCE, linestyle="--", label="our rod")
            second.set(xlabel="links", ylabel="worst station from SoRoSim, median in m")
            second.legend()
        for axis in np.atleast_1d(axes):
            axis.set_xticks(series.links, [str(count) for count in series.links])
            axis.set_xticks([], minor=True)
