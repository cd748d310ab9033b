# SPDX-License-Identifier: Apache-2.0
"""A rod let go from a held shape, as SoRoSim computed it, against the general rod: files of opencr-mujoco's format.

First line: damping, then zeros, gravity last. Second line: 0, mid wrench, tip wrench (moment, force each) that hold
the rod before. Then a line a sample: time, pose in the middle and at the tip (three angles, then the position in m).
Axes as in :mod:`validation.sorosim.statics`.

The number called damping is not explained there. Taken as Kelvin-Voigt's time, by which the stiffness of every strain
is multiplied to resist its rate, it gives the recorded motion.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RecordingError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import METHODS, Rod
from continuum_robot.simulation.moving_rod import MovingRod
from validation.sorosim.statics import OURS, StaticsSettings, round_rod, wrenches

Vector = NDArray[np.float64]

_COLUMNS = 13


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(StaticsSettings):
    """Options of the experiment; the rod's default values are those of the steel files."""

    data: str = quantity("file of a release, text")
    order: int = quantity("order of all strains on each half", default=3, ge=1, le=12)
    step_ms: float = quantity("longest time step", "ms", default=2.5, gt=0, le=50)
    method: str = quantity("time stepping", default="sdirk", choices=tuple(METHODS))
    duration_s: float = quantity("how long; 0: the whole recording", "s", default=0.0, ge=0)


@dataclass(frozen=True, slots=True)
class Release:
    """A recording, in our axes."""

    damping_s: float
    gravity_m_per_s2: Vector
    mid_wrench: Vector
    tip_wrench: Vector
    time_s: Vector
    mid_m: Vector
    tip_m: Vector


def read_release(path: Path | str) -> Release:
    """Read a recording of a release."""
    file = Path(path).expanduser()
    remedy = "Give a text file of a release as in opencr-mujoco: damping and gravity, wrenches, then time and poses."
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        rows = np.array([[float(word) for word in line.split()] for line in lines if line.strip()])
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise RecordingError(file, str(error), remedy) from error
    if rows.ndim != 2 or rows.shape[1] != _COLUMNS or len(rows) < 4:
        raise RecordingError(file, f"numbers in the form {rows.shape}", remedy)
    if not np.isfinite(rows).all() or rows[0, 0] < 0 or not (np.diff(rows[2:, 0]) > 0).all():
        raise RecordingError(
            file, "a value that is not finite, negative damping, or times that do not increase", remedy
        )
    mid, tip = rows[1, 1:7], rows[1, 7:]
    return Release(
        damping_s=float(rows[0, 0]),
        gravity_m_per_s2=OURS @ rows[0, 10:],
        mid_wrench=np.concatenate([OURS @ mid[3:], OURS @ mid[:3]]),
        tip_wrench=np.concatenate([OURS @ tip[3:], OURS @ tip[:3]]),
        time_s=rows[2:, 0],
        mid_m=rows[2:, 4:7] @ OURS.T,
        tip_m=rows[2:, 10:] @ OURS.T,
    )


@dataclass(frozen=True, slots=True)
class _Series:
    recorded: Release
    tip_m: Vector
    length_m: float


@experiment(
    "sorosim.release",
    "releases by SoRoSim, in the format of opencr-mujoco",
)
def release(progress: Progress, settings: ReleaseSettings) -> Any:
    """Lets a clamped rod go from a held shape, and compares the tip's motion over the recording."""
    recorded = read_release(settings.data)
    rod = Rod(round_rod(settings, settings.order)).with_gravity(recorded.gravity_m_per_s2)
    rod.arrays.damping[:] = recorded.damping_s * rod.arrays.stiffness
    progress("the held shape")
    held = rod.loaded(wrenches(settings, recorded.mid_wrench, recorded.tip_wrench)).equilibrium()
    end_s = recorded.time_s[0] + settings.duration_s if settings.duration_s else math.inf
    times = recorded.time_s[: max(2, int(np.searchsorted(recorded.time_s, end_s, side="right")))]
    progress(f"{times[-1] - times[0]:g} s of motion")
    start = time.perf_counter()
    moving = MovingRod(rod, method=settings.method, tolerance=1e-10)
    moving.reset(held.c)
    motion = moving.follow(times, 1e-3 * settings.step_ms)
    took_s = time.perf_counter() - start
    places = np.array([rod.poses(c, [settings.length / 2, settings.length])[:, :3, 3] for c in motion.c])
    count = len(times)

    def percent(found: Vector, expected: Vector) -> Vector:
        return 100 * np.linalg.norm(found - expected, axis=1) / settings.length

    tip, mid = percent(places[:, 1], recorded.tip_m[:count]), percent(places[:, 0], recorded.mid_m[:count])
    numbers = {
        "tip_rmse_percent_of_length": float(np.sqrt(np.mean(tip**2))),
        "tip_max_error_percent_of_length": float(tip.max()),
        "mid_rmse_percent_of_length": float(np.sqrt(np.mean(mid**2))),
        "held_tip_error_percent_of_length": float(tip[0]),
        "damping_law": "Kelvin-Voigt: damping of every strain = damping_s times its stiffness",
        "damping_s": recorded.damping_s,
        "n_samples": count,
        "duration_s": float(times[-1] - times[0]),
        "times_faster_than_real_time": float(times[-1] - times[0]) / took_s,
        "shortest_step_ms": 1e3 * motion.shortest_step_s,
    }
    return numbers, partial(_draw, _Series(recorded, places[:, 1], settings.length))


def _draw(series: _Series, figure: Figures) -> None:
    count = len(series.tip_m)
    times, recorded = series.recorded.time_s[:count], series.recorded.tip_m[:count]
    title = f"Tip of a rod of {series.length_m:g} m let go, and its distance from SoRoSim's"
    with figure(title, 2, 1, sharex=True) as (drawing, (tip, error)):
        for row, name in enumerate("xyz"):
            tip.plot(times, recorded[:, row], color=REFERENCE, linewidth=2.0, alpha=0.5)
            tip.plot(times, series.tip_m[:, row], color=COLOURS[row], linewidth=0.8, label=name)
        tip.set_ylabel("position in m")
        error.plot(times, np.linalg.norm(series.tip_m - recorded, axis=1), color=COLOURS[0])
        error.set(xlabel="time in s", ylabel="distance in m")
        legend_below(drawing, tip)
