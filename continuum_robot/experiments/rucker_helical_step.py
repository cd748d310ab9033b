# SPDX-License-Identifier: Apache-2.0
"""Rucker fig. 7: the prototype's backbone with its helical tendon after a step of the tension.

The paper prints shapes at millisecond intervals and no numbers. What moves is taken to be the backbone alone, straight
and weightless at first, of steel of 7850 kg/m^3; with ``inertia=prototype`` the mass of rod and disks moves, 0.47 N/m
by weight. Nothing is damped by default, as in the paper, so energy has to stay what it was. The same motion on twice as
coarse a grid, in twice as long steps, says how far to trust it: errors are of second order, so the finer one is off by
a third of the distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure
from continuum_robot.experiments.rucker_prototype import prototype, prototype_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.cosserat.conversion import cosserat_rod, inertias
from continuum_robot.rod.cosserat.motion import Motion, SectionInertia, simulate
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve

_HELICAL_TENDON = 5
_SNAPSHOT_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class HelicalStepSettings:
    """Options of the experiment."""

    tension_n: float = quantity("tension from the start on", "N", default=5.0, gt=0, le=50)
    duration_ms: int = quantity("how long; a snapshot every millisecond", "ms", default=30, ge=1, le=1000)
    inertia: str = quantity("what moves", default="backbone", choices=("backbone", "prototype"))
    elements: int = quantity("pieces of the rod on the coarser grid", default=32, ge=4, le=200)
    steps_per_ms: int = quantity("time steps in a millisecond on the coarser grid", default=10, ge=1, le=1000)
    damping_ms: float = quantity("Kelvin-Voigt damping time of every strain", "ms", default=0.0, ge=0, le=1000)


def section_inertia(kind: str) -> SectionInertia:
    """Inertia of the prototype.

    Parameters
    ----------
    kind : "backbone": of the steel rod; "prototype": with the disks' mass, as if it were in the rod's cross-section

    Returns
    -------
    the inertia per length
    """
    (own,) = inertias(prototype(_HELICAL_TENDON, 0))
    if kind == "prototype":
        return own
    backbone = prototype_robot().segments[0].backbone
    share = backbone.density_kg_per_m3 * backbone.area_m2 / own.mass_kg_per_m
    x, y, z = own.rotary_kg_m
    return SectionInertia(mass_kg_per_m=share * own.mass_kg_per_m, rotary_kg_m=(share * x, share * y, share * z))


def _run(settings: HelicalStepSettings, progress: Progress) -> Result:
    rod = cosserat_rod(prototype(_HELICAL_TENDON, 0))
    times = _SNAPSHOT_S * np.arange(settings.duration_ms + 1)
    motions: dict[str, Motion] = {}
    for name, finer in (("coarse", 1), ("fine", 2)):
        progress(f"{name} grid")
        motions[name] = simulate(
            rod,
            [section_inertia(settings.inertia)],
            times,
            lambda _: [settings.tension_n],
            elements=finer * settings.elements,
            step_s=_SNAPSHOT_S / (finer * settings.steps_per_ms),
            damping_s=1e-3 * settings.damping_ms,
            progress=progress,
        )
    progress("static shape")
    static = solve(rod, [settings.tension_n])
    fine, coarse = motions["fine"], motions["coarse"]
    apart_m = np.linalg.norm(fine.position_m[:, -1] - coarse.position_m[:, -1], axis=1)
    moving_j = float(fine.kinetic_j.max())
    numbers: dict[str, Any] = {
        "tip_m": _by_time(fine),
        "tip_coarse_m": _by_time(coarse),
        "static_tip_m": static.tip_m.tolist(),
        "max_grid_difference_percent_of_length": 100 * float(apart_m.max()) / rod.length_m,
        "mean_grid_difference_percent_of_length": 100 * float(apart_m.mean()) / rod.length_m,
        "max_kinetic_energy_j": moving_j,
        "energy_change_percent_of_kinetic": 100 * float(np.abs(fine.energy_j - fine.energy_j[0]).max()) / moving_j,
        "energy_change_percent_of_kinetic_coarse": 100
        * float(np.abs(coarse.energy_j - coarse.energy_j[0]).max())
        / moving_j,
    }
    return Result(numbers, (fine, coarse, static))


def _by_time(motion: Motion) -> dict[str, list[float]]:
    return {f"{1e3 * t:.0f} ms": tip.tolist() for t, tip in zip(motion.time_s, motion.position_m[:, -1], strict=True)}


def _draw(result: Result, folder: Path) -> list[Path]:
    fine, coarse, static = result.series
    return [_shapes(fine, static, folder), _over_time(fine, coarse, static, folder)]


def _shapes(fine: Motion, static: CosseratSolution, folder: Path) -> Path:
    file = folder / "rucker_helical_step.png"
    title = "Backbone with a helical tendon, every millisecond after a step of its tension (rucker, fig. 7)"
    rest = static.at(np.linspace(0, static.problem.rod.length_m, 49)).position_m
    with figure(file, title, 1, 2, size=(8.4, 3.4)) as (_, axes):
        for axis, row in zip(axes, (0, 1), strict=True):
            for k, shape in enumerate(fine.position_m):
                share = k / max(1, len(fine.time_s) - 1)
                axis.plot(shape[:, 2], shape[:, row], color=COLOURS[0], alpha=0.15 + 0.85 * share, linewidth=0.8)
            axis.plot(rest[:, 2], rest[:, row], "--", color=REFERENCE, label="at rest")
            axis.set(xlabel="z in m", ylabel=f"{'xy'[row]} in m")
        axes[0].legend()
    return file


def _over_time(fine: Motion, coarse: Motion, static: CosseratSolution, folder: Path) -> Path:
    file = folder / "rucker_helical_step_time.png"
    with figure(file, "Tip and energy, on two grids", 2, 1, sharex=True) as (_, (tip, energy)):
        for row, name in enumerate("xyz"):
            tip.plot(fine.time_s, fine.position_m[:, -1, row], color=COLOURS[row], label=f"{name}, finer grid")
            tip.plot(coarse.time_s, coarse.position_m[:, -1, row], ".", color=COLOURS[row], markersize=3)
            tip.axhline(static.tip_m[row], color=COLOURS[row], linestyle="--", linewidth=0.6)
        tip.set_ylabel("tip in m")
        for axis in (tip, energy):
            axis.margins(y=0.25)
        tip.legend(ncols=3, loc="upper center")
        energy.plot(fine.time_s, fine.kinetic_j, color=COLOURS[0], label="kinetic")
        potential_j = fine.energy_j - fine.kinetic_j
        energy.plot(fine.time_s, potential_j - potential_j[0], color=COLOURS[1], label="elastic, less what is given")
        energy.plot(fine.time_s, fine.energy_j - fine.energy_j[0], color=REFERENCE, label="sum, finer grid")
        energy.plot(coarse.time_s, coarse.energy_j - coarse.energy_j[0], ":", color=REFERENCE, label="sum, coarser")
        energy.set(xlabel="time in s", ylabel="energy in J")
        energy.legend(ncols=4, loc="upper center")
    return file


HELICAL_STEP = Experiment(
    name="rucker.helical_step",
    summary="The backbone with a helical tendon after a step of its tension, on two grids, with its energy.",
    source="rucker, fig. 7",
    paper={
        "tip_m": "shapes at millisecond intervals, without numbers; the backbone moves towards a helix very quickly",
    },
    settings=HelicalStepSettings,
    compute=_run,
    plot=_draw,
)
