# SPDX-License-Identifier: Apache-2.0
"""Figures 3 and 4 of ha, and the predictions for its experiments, figures 6 to 13."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.ha import mechanism as ha
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.mechanisms.rolling_joint.displacement import solve_displacement
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, RollingStatics
from continuum_robot.robot.schema import Quantity

Array = NDArray[np.float64]

_UNLOADED = ((3.0, 1.0), (1.0, 1.0), (1.0, 3.0))
_LARGEST_FRICTION = 0.5


@experiment(
    "ha.unloaded",
    "ha, fig. 3",
    paper={"configurations_identical_when_raised": True, "leans_right_with_right_tension": True},
)
def unloaded(
    progress: Progress,
    factor: Annotated[float, Quantity("by which both tensions are raised in fig. 3 (b)", gt=0, le=1e6)] = 2.0,
) -> Any:
    """Poses of the five-link mechanism for three ratios of the tensions, which raising both does not change."""
    statics = ha.make_statics()
    numbers: dict[str, object] = {}
    found, moved = [], []
    for tension in _UNLOADED:
        progress(f"tensions {tension}")
        once = statics.solve_tension(tension)
        raised = statics.solve_tension(np.array(tension) * factor)
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
    return numbers, partial(_draw, "Tensions without loads (ha, fig. 3)", statics, found, ())


@experiment("ha.loaded", "ha, fig. 4", paper={"bends_right_with_pull": True})
def loaded(
    progress: Progress,
    largest_pull: Annotated[
        float, Quantity("largest pull to the right, in the unit of the tensions", ge=0, le=10)
    ] = 1.5,
    steps: Annotated[int, Quantity("number of pulls", ge=2, le=50)] = 4,
) -> Any:
    """Poses of the five-link mechanism under a growing pull to the right at its last link."""
    statics = ha.make_statics()
    pulls = np.linspace(0.0, largest_pull, steps)
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
    return numbers, partial(_draw, "Tensions (6, 3) and a pull to the right (ha, fig. 4)", statics, found, pulls)


@experiment(
    "ha.experiments",
    "ha, figs 6 to 13; the measured link positions are not published, their errors are",
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
    tolerances={"*round_trip*": Tolerance(absolute=1e-6), "friction*": Tolerance(relative=1e-3, absolute=1e-3)},
)
def experiments(
    progress: Progress, fit_friction: Annotated[bool, Quantity("fit a friction coefficient of the tendons")] = True
) -> Any:
    """Predictions for the paper's experiments from tensions and lengths, and what tendon friction explains."""
    statics = ha.make_statics()
    numbers: dict[str, object] = {}
    pairs: list[tuple[str, float, Equilibrium, Equilibrium]] = []
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
        pairs.append((f"{tension}", 0.0, by_tension, result.equilibrium))
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
        pairs.append((f"{ha.LOADED_TENSION}, pull {pull:g}", pull, by_tension, result.equilibrium))
    if fit_friction:
        numbers |= _fit_friction(statics, by_length, progress)

    def draw(figure: Figures) -> None:
        title = "Predictions from tensions and from tendon lengths (ha, figs 6 and 8, 10 and 12)"
        columns = len(pairs) // 2
        with figure(title, 2, columns, size=(2.4 * columns, 6.4), sharex=True, sharey=True) as (drawing, axes):
            for axis, (label, pull, by_tension, by_length) in zip(axes.flat, pairs, strict=True):
                loads = ha.pull_to_the_right(pull) if pull else []
                ha.draw_mechanism(axis, statics, by_tension, color=COLOURS[1], label="from tensions", loads=loads)
                ha.draw_mechanism(axis, statics, by_length, color=COLOURS[2], label="from lengths")
                axis.set_title(label)
            for axis in axes[-1]:
                axis.set_xlabel("x in mm")
            for axis in axes[:, 0]:
                axis.set_ylabel("y in mm")
            legend_below(drawing, axes[0, 0])

    return numbers, draw


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
            predicted = ha.equilibrium_with_friction(statics, tension, coefficient, direction)
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


def _draw(
    title: str, statics: RollingStatics, found: Sequence[tuple[str, Equilibrium]], pulls: Any, figure: Figures
) -> None:
    """Poses with their labels side by side, each with its pull in the paper's unit where there are pulls."""
    with figure(title, 1, len(found), size=(2.4 * len(found), 3.6), sharex=True, sharey=True) as (_, axes):
        for index, (axis, (label, one)) in enumerate(zip(axes, found, strict=True)):
            loads = ha.pull_to_the_right(float(pulls[index])) if len(pulls) else []
            ha.draw_mechanism(axis, statics, one, color=COLOURS[index % len(COLOURS)], loads=loads)
            axis.set(title=label, xlabel="x in mm")
        axes[0].set_ylabel("y in mm")
