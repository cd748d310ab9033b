# SPDX-License-Identifier: Apache-2.0
"""Figures 3 and 4 of ha, and the predictions for its experiments, figures 6 to 13."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from continuum_robot.experiments.experiment import Experiment, Progress, Result, Tolerance
from continuum_robot.experiments.ha import mechanism as ha
from continuum_robot.experiments.ha.friction import equilibrium_with_friction
from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.mechanisms.rolling_joint.displacement import solve_displacement
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, RollingStatics
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

_UNLOADED = ((3.0, 1.0), (1.0, 1.0), (1.0, 3.0))
_LARGEST_FRICTION = 0.5


@dataclass(frozen=True, kw_only=True)
class UnloadedSettings:
    """Options of ha.unloaded."""

    factor: float = quantity("by which both tensions are raised in fig. 3 (b)", default=2.0, gt=0, le=1e6)


@dataclass(frozen=True, kw_only=True)
class LoadedSettings:
    """Options of ha.loaded."""

    largest_pull: float = quantity("largest pull to the right, in the unit of the tensions", default=1.5, ge=0, le=10)
    steps: int = quantity("number of pulls", default=4, ge=2, le=50)


@dataclass(frozen=True, kw_only=True)
class ExperimentsSettings:
    """Options of ha.experiments."""

    fit_friction: bool = quantity("fit a friction coefficient of the tendons", default=True)


@dataclass(frozen=True, slots=True)
class Poses:
    """What the figures show: the mechanism, and poses with their labels.

    Attributes
    ----------
    statics : of the mechanism
    found : label and pose of each
    pulls : the loads of the poses, in the paper's unit; empty where none are drawn
    """

    statics: RollingStatics
    found: list[tuple[str, Equilibrium]]
    pulls: tuple[float, ...] = ()


def _unloaded(settings: UnloadedSettings, progress: Progress) -> Result:
    statics = ha.make_statics()
    numbers: dict[str, object] = {}
    found, moved = [], []
    for tension in _UNLOADED:
        progress(f"tensions {tension}")
        once = statics.solve_tension(tension)
        raised = statics.solve_tension(np.array(tension) * settings.factor)
        key = f"tension_{tension[0]:g}_{tension[1]:g}"
        numbers[f"{key}_last_link_mm"] = ha.last_link_mm(once).tolist()
        numbers[f"{key}_last_link_rad"] = float(once.poses[-1, 2])
        numbers[f"{key}_tendon_length_mm"] = (once.tendon_length_m * ha.MM).tolist()
        moved.append(float(np.abs(raised.poses - once.poses).max()))
        found.append((f"({tension[0]:g}, {tension[1]:g})", once))
    numbers["largest_change_by_raising_m_rad"] = max(moved)
    numbers["configurations_identical_when_raised"] = max(moved) < 1e-9
    leans = [float(one.poses[-1, 0]) for _, one in found]
    numbers["leans_right_with_right_tension"] = leans == sorted(leans)
    return Result(numbers, Poses(statics, found))


def _loaded(settings: LoadedSettings, progress: Progress) -> Result:
    statics = ha.make_statics()
    pulls = np.linspace(0.0, settings.largest_pull, settings.steps)
    found = []
    for pull in pulls:
        progress(f"pull {pull:g}")
        found.append((f"{pull:.3g}", statics.solve_tension(ha.LOADED_TENSION, ha.pull_to_the_right(float(pull)))))
    x = [float(ha.last_link_mm(one)[0]) for _, one in found]
    numbers = {
        "pull": pulls.tolist(),
        "last_link_x_mm": x,
        "last_link_y_mm": [float(ha.last_link_mm(one)[1]) for _, one in found],
        "last_link_rad": [float(one.poses[-1, 2]) for _, one in found],
        "tendon_length_left_mm": [float(one.tendon_length_m[0] * ha.MM) for _, one in found],
        "tendon_length_right_mm": [float(one.tendon_length_m[1] * ha.MM) for _, one in found],
        "bends_right_with_pull": x == sorted(x),
    }
    return Result(numbers, Poses(statics, found, tuple(float(pull) for pull in pulls)))


def _experiments(settings: ExperimentsSettings, progress: Progress) -> Result:
    statics = ha.make_statics()
    numbers: dict[str, object] = {}
    found: list[tuple[str, Equilibrium]] = []
    by_length: dict[tuple[float, float], Equilibrium] = {}
    apart = []
    for tension, lengths in ha.MEASURED.items():
        progress(f"tensions {tension}")
        key = f"unloaded_{tension[0]:g}_{tension[1]:g}"
        by_tension = statics.solve_tension(tension)
        result = solve_displacement(statics, np.array(lengths) / ha.MM)
        by_length[tension] = result.equilibrium
        numbers[f"{key}_last_link_by_tension_mm"] = ha.last_link_mm(by_tension).tolist()
        numbers[f"{key}_tendon_length_by_tension_mm"] = (by_tension.tendon_length_m * ha.MM).tolist()
        numbers[f"{key}_last_link_by_length_mm"] = ha.last_link_mm(result.equilibrium).tolist()
        numbers[f"{key}_tendon_length_by_length_mm"] = (result.equilibrium.tendon_length_m * ha.MM).tolist()
        numbers[f"{key}_length_residual_mm"] = result.residual_m * ha.MM
        apart.append(_distance_mm(by_tension, result.equilibrium))
        numbers[f"{key}_predictions_apart_mm"] = apart[-1]
        found += [(f"{tension} by tension", by_tension), (f"{tension} by length", result.equilibrium)]
    numbers["predictions_apart_mean_mm"] = float(np.mean(apart))
    numbers["predictions_apart_largest_mm"] = max(apart)
    for pull in ha.PULLS:
        progress(f"pull {pull:g}")
        loads = ha.pull_to_the_right(pull)
        by_tension = statics.solve_tension(ha.LOADED_TENSION, loads)
        # The paper prints no measured lengths for its loaded poses: those of the prediction must lead back to it.
        result = solve_displacement(statics, by_tension.tendon_length_m, loads)
        key = f"loaded_{pull:g}"
        numbers[f"{key}_last_link_by_tension_mm"] = ha.last_link_mm(by_tension).tolist()
        numbers[f"{key}_tendon_length_by_tension_mm"] = (by_tension.tendon_length_m * ha.MM).tolist()
        numbers[f"{key}_round_trip_from_own_lengths_mm"] = _distance_mm(by_tension, result.equilibrium)
        numbers[f"{key}_tension_by_length"] = result.equilibrium.tension_n.tolist()
        label = f"{ha.LOADED_TENSION}, pull {pull:g}"
        found += [(f"{label} by tension", by_tension), (f"{label} by length", result.equilibrium)]
    if settings.fit_friction:
        numbers |= _fit_friction(statics, by_length, progress)
    return Result(numbers, Poses(statics, found, (*(0.0 for _ in ha.MEASURED), *ha.PULLS)))


def _fit_friction(
    statics: RollingStatics, by_length: dict[tuple[float, float], Equilibrium], progress: Progress
) -> dict[str, object]:
    """The friction coefficient with which the tensions give what the measured lengths give, and what it explains.

    All poses were reached from equal tensions by raising one of them: that tendon was pulled in, the other paid out.
    The pose of equal tensions itself, whose history the paper does not give, is left as it is.
    """

    def distances(coefficient: float) -> Array:
        values = []
        for tension, measured in by_length.items():
            direction = np.sign(tension[0] - tension[1]) * np.array([1.0, -1.0])
            predicted = equilibrium_with_friction(statics, tension, coefficient, direction)
            values.append(_distance_mm(predicted, measured))
        return np.array(values)

    progress("friction of the tendons")
    best = minimize_scalar(
        lambda value: float(np.mean(distances(value))),
        bounds=(0.0, _LARGEST_FRICTION),
        method="bounded",
        options={"xatol": 1e-4},
    )
    without, with_it = distances(0.0), distances(float(best.x))
    return {
        "friction_coefficient": float(best.x),
        "friction_apart_without_mm": without.tolist(),
        "friction_apart_with_mm": with_it.tolist(),
        "friction_mean_without_mm": float(without.mean()),
        "friction_mean_with_mm": float(with_it.mean()),
        "friction_explains_mm": float(without.mean() - with_it.mean()),
        "friction_explains_fraction": float(1 - with_it.mean() / without.mean()),
    }


def _distance_mm(a: Equilibrium, b: Equilibrium) -> float:
    return float(np.linalg.norm(ha.last_link_mm(a) - ha.last_link_mm(b)))


def _draw_unloaded(result: Result, folder: Path) -> list[Path]:
    return _draw(result.series, folder / "ha_unloaded.png", "Tensions without loads (ha, fig. 3)")


def _draw_loaded(result: Result, folder: Path) -> list[Path]:
    return _draw(result.series, folder / "ha_loaded.png", "Tensions (6, 3) and a pull to the right (ha, fig. 4)")


def _draw(series: Poses, file: Path, title: str) -> list[Path]:
    with figure(file, title, 1, len(series.found), size=(2.4 * len(series.found), 3.6), sharex=True, sharey=True) as (
        _,
        axes,
    ):
        for index, (axis, (label, one)) in enumerate(zip(axes, series.found, strict=True)):
            loads = ha.pull_to_the_right(series.pulls[index]) if series.pulls else []
            color = COLOURS[index % len(COLOURS)]
            ha.draw_mechanism(axis, series.statics, one, color=color, loads=loads)
            axis.set_title(label)
            axis.set_xlabel("x in mm")
        axes[0].set_ylabel("y in mm")
    return [file]


def _draw_experiments(result: Result, folder: Path) -> list[Path]:
    series: Poses = result.series
    file = folder / "ha_experiments.png"
    pairs = list(zip(series.found[::2], series.found[1::2], strict=True))
    title = "Predictions from tensions and from tendon lengths (ha, figs 6 and 8, 10 and 12)"
    columns = len(pairs) // 2
    with figure(file, title, 2, columns, size=(2.4 * columns, 6.4), sharex=True, sharey=True) as (drawing, axes):
        for axis, ((label, by_tension), (_, by_length)), pull in zip(axes.flat, pairs, series.pulls, strict=True):
            loads = ha.pull_to_the_right(pull) if pull else []
            ha.draw_mechanism(axis, series.statics, by_tension, color=COLOURS[1], label="from tensions", loads=loads)
            ha.draw_mechanism(axis, series.statics, by_length, color=COLOURS[2], label="from lengths")
            axis.set_title(label.removesuffix(" by tension"))
        for axis in axes[-1]:
            axis.set_xlabel("x in mm")
        for axis in axes[:, 0]:
            axis.set_ylabel("y in mm")
        legend_below(drawing, axes[0, 0])
    return [file]


UNLOADED = Experiment(
    name="ha.unloaded",
    summary="Poses of the five-link mechanism for three ratios of the tensions, which raising both does not change.",
    source="ha, fig. 3",
    paper={"configurations_identical_when_raised": True, "leans_right_with_right_tension": True},
    settings=UnloadedSettings,
    compute=_unloaded,
    plot=_draw_unloaded,
)
LOADED = Experiment(
    name="ha.loaded",
    summary="Poses of the five-link mechanism under a growing pull to the right at its last link.",
    source="ha, fig. 4",
    paper={"bends_right_with_pull": True},
    settings=LoadedSettings,
    compute=_loaded,
    plot=_draw_loaded,
)
EXPERIMENTS = Experiment(
    name="ha.experiments",
    summary="Predictions for the paper's experiments from tensions and lengths, and what tendon friction explains.",
    source="ha, figs 6 to 13; the measured link positions are not published, their errors are",
    paper={
        "tension_unloaded_last_link_mean_mm": 1.71,
        "tension_unloaded_largest_mm": 3.74,
        "displacement_unloaded_last_link_mean_mm": 1.05,
        "displacement_unloaded_largest_mm": 2.19,
        "tension_loaded_last_link_mean_mm": 2.60,
        "tension_loaded_last_link_largest_mm": 3.95,
        "displacement_loaded_last_link_mean_mm": 1.86,
        "displacement_loaded_last_link_largest_mm": 3.49,
    },
    settings=ExperimentsSettings,
    compute=_experiments,
    plot=_draw_experiments,
    tolerances={"*round_trip*": Tolerance(absolute=1e-6), "friction*": Tolerance(relative=1e-3, absolute=1e-3)},
)
