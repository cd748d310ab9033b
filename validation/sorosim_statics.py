# SPDX-License-Identifier: Apache-2.0
"""Shapes and releases of a clamped rod by SoRoSim, beside that rod here; the files' format is in sorosim_shapes.py."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RecordingError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.moving_rod import MovingRod
from validation.sorosim_shapes import OURS, SteelRod, read_shapes, round_rod, wrenches

Vector = NDArray[np.float64]
_STEP_S = 2.5e-3
_FILES = "data/reference/sorosim of github.com/ContinuumRoboticsLab/opencr-mujoco"


def station_errors(steel: SteelRod, order: int) -> tuple[Vector, int]:
    """Distance of each station of each shape from the file's, (shapes, stations), m; and how many were unstable."""
    shapes, unstable = read_shapes(steel.data), 0
    rod = Rod(round_rod(steel, order), loads=wrenches(steel, np.zeros(6), np.zeros(6)))
    errors = np.empty(shapes.position_m.shape[:2])
    for index, (gravity, mid, tip, position) in enumerate(
        zip(shapes.gravity_m_per_s2, shapes.mid_wrench, shapes.tip_wrench, shapes.position_m, strict=True)
    ):
        rod.arrays.gravity[:] = gravity
        rod.load(wrenches(steel, mid, tip))
        state = rod.equilibrium()
        unstable += not state.stable or state.snapped
        places = rod.poses(state.c, steel.length * shapes.stations)[:, :3, 3]
        errors[index] = np.linalg.norm(places - position, axis=1)
    return errors, unstable


def release_errors(steel: SteelRod, file: Path, order: int, duration_s: float) -> Vector:
    """Distance of the tip from the file's after the rod was let go, at its times, m.

    The file's first number, not explained there, is Kelvin-Voigt's time: damping over stiffness of every strain. Then
    zeros, gravity last; 0, mid wrench, tip wrench (moment, force each) that hold the rod before; and a line a sample:
    time, pose in the middle and at the tip (three angles, then the position in m).
    """
    try:
        head, held, *samples = np.loadtxt(file)
    except (OSError, ValueError) as error:
        raise RecordingError(file, str(error), "Give a release of a rod as in opencr-mujoco.") from error
    recorded = np.array([row for row in samples if row[0] <= samples[0][0] + duration_s])
    rod = Rod(round_rod(steel, order)).with_gravity(OURS @ head[10:])
    rod.arrays.damping[:] = head[0] * rod.arrays.stiffness
    loads = [np.concatenate([OURS @ one[3:], OURS @ one[:3]]) for one in (held[1:7], held[7:])]
    moving = MovingRod(rod, method="sdirk", tolerance=1e-10)
    moving.reset(rod.loaded(wrenches(steel, *loads)).equilibrium().c)
    motion = moving.follow(recorded[:, 0], _STEP_S)
    tips = np.array([rod.poses(c, [steel.length])[0, :3, 3] for c in motion.c])
    return np.asarray(np.linalg.norm(tips - recorded[:, 10:] @ OURS.T, axis=1))


@dataclass(frozen=True, kw_only=True)
class StaticsSettings(SteelRod):
    """The rod, and its file."""

    order: int = quantity("order of all strains on each half", default=4, ge=0, le=24)


@experiment("sorosim.statics", f"SoRoSim's static shapes in {_FILES}")
def statics(progress: Progress, settings: StaticsSettings) -> Any:
    """Distances of the rod's static shapes from those of SoRoSim."""
    progress("shapes")
    errors_m, unstable = station_errors(settings, settings.order)
    worst_mm = 1e3 * errors_m.max(axis=1)

    def draw(figure: Figures) -> None:
        with figure("Worst station of each shape", size=(6.0, 3.0)) as (_, axis):
            axis.hist(worst_mm, bins=40, color=COLOURS[0])
            axis.set(xlabel="distance from SoRoSim / mm", ylabel="shapes")

    numbers = {
        "shapes": len(errors_m),
        "unstable": unstable,
        "mean_percent_of_length": 100 * float(errors_m.mean()) / settings.length,
        "largest_percent_of_length": 100 * float(errors_m.max()) / settings.length,
        "median_worst_station_mm": float(np.median(worst_mm)),
        "largest_worst_station_mm": float(worst_mm.max()),
        "worst_station_mm": np.round(worst_mm, 4).tolist(),
    }
    return numbers, draw


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(SteelRod):
    """The rod, and its files."""

    order: int = quantity("order of all strains on each half", default=3, ge=0, le=24)
    duration: float = quantity("how long after it was let go", "s", default=1.0, gt=0, le=1000)


@experiment("sorosim.releases", f"SoRoSim's releases in {_FILES}")
def releases(progress: Progress, settings: ReleaseSettings) -> Any:
    """Distances of the tip of a rod that is let go from that of SoRoSim; data may be a pattern of names."""
    files = sorted(glob.glob(settings.data))
    if not files:
        raise RecordingError(settings.data, "no such file", "Give a release of a rod, or a pattern of their names.")
    rms_mm = []
    for file in files:
        progress(Path(file).name)
        errors_m = release_errors(settings, Path(file), settings.order, settings.duration)
        rms_mm.append(1e3 * float(np.sqrt(np.mean(errors_m**2))))
    return {
        "releases": len(files),
        "mean_rms_mm": float(np.mean(rms_mm)),
        "largest_rms_mm": max(rms_mm),
        "largest_rms_percent_of_length": 0.1 * max(rms_mm) / settings.length,
        "rms_mm": rms_mm,
    }, None
