# SPDX-License-Identifier: Apache-2.0
"""Muhmann fig. 7: two segments track sines of rising frequency under PID, with clipped and with shifted tensions.

As in the paper's simulation the tendons have ideal tension sources. The paper gives neither gains nor duration. Gains:
p is ``margin`` times the ultimate one, at which the loop sampled at 1 kHz turns unstable somewhere on the reference
(half of it by default, as Ziegler and Nichols), and d and i follow from the model by
:class:`continuum_robot.experiments.closed_loop.GainRule`. A sweep over the gains, and the gains of the robot's file,
which are for its motors, say how far the figure depends on them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import Reference, make_reference
from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.experiments.closed_loop import PERIOD_S, UNBOUNDED_N, GainRule, IdealRobot, Series
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.control_settings import ControlSettings, PidGains
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import PLANTS, ROD

Array = NDArray[np.float64]

_POSE_EVERY_S = 0.25


@dataclass(frozen=True, kw_only=True)
class TrackingSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, with a reference", default="two_segment")
    duration_s: float = quantity("simulated time; the paper does not state it", "s", default=20.0, gt=0.1, le=1000)
    gains: str = quantity("rule: from the model; file: the robot file's own", default="rule", choices=("rule", "file"))
    margin: float = quantity("p over the ultimate p, for the rule", default=0.5, gt=0, lt=1)
    damping_ratio: float = quantity("of p and the straight robot's mass, for the rule", default=1.0, gt=0, le=10)
    integral_fraction: float = quantity("i over p and the loop's frequency, for the rule", default=0.2, ge=0, le=10)
    plant: str = quantity("what moves: our rod, or MuJoCo's chain of links", default=ROD, choices=tuple(PLANTS))
    sweep: bool = quantity("repeat with other gains", default=True)


@dataclass(frozen=True)
class Pair:
    """The same motion with both methods."""

    shift: Series
    clip: Series

    @property
    def reduction_percent(self) -> Array:
        """By how much shifting has the lower error, for each coordinate, shape (2m,), percent."""
        return np.asarray(100 * (1 - self.shift.rmse_m / self.clip.rmse_m))


@experiment(
    "muhmann.tracking",
    "muhmann, fig. 7",
    paper={"mean_rmse_reduction_percent": 43.3},
    # Clipped tensions chatter: rounding grows in single runs.
    tolerances={"*percent": Tolerance(absolute=2.0), "*": Tolerance(relative=0.05)},
)
def tracking(progress: Progress, settings: TrackingSettings) -> Any:
    """Two segments track sines of rising frequency under PID, negative tensions clipped or shifted."""
    described = load_robot(settings.robot)
    if described.reference is None:
        raise ParameterError("robot", settings.robot, "a robot whose file has a reference")
    reference = make_reference(
        described.reference,
        described.coordinate_count,
        Path(described.file_name).parent if described.file_name else None,
    )
    robot = IdealRobot(described, plant=settings.plant, progress=progress)
    rule = GainRule(damping_ratio=settings.damping_ratio, integral_fraction=settings.integral_fraction)
    poses = np.array([reference.at(t).position for t in np.arange(0.0, settings.duration_s, _POSE_EVERY_S)])
    if settings.gains == "file":
        gains = _file_gains(described.control)
        ratios: dict[str, float] = {}
    else:
        progress("ultimate gain of the sampled loop")
        ultimate = robot.ultimate_ratio(rule, poses)
        rule = dataclasses.replace(rule, stiffness_ratio=settings.margin * ultimate)
        gains = robot.gains(rule)
        ratios = {"stiffness_ratio": rule.stiffness_ratio, "ultimate_stiffness_ratio": ultimate}
    try:
        pair = _pair(robot, gains, reference, settings.duration_s, progress)
    except ConvergenceError as error:
        if settings.plant == ROD:
            raise
        # The rule knows one bending mode a segment; the chain's light links answer faster than the loop samples.
        stable_s = PERIOD_S * error.iterations
        # There is nothing to draw.
        return {"stable_with_the_rods_gains": False, "diverged_after_s": stable_s, **ratios}, lambda _: None
    numbers = {
        "rmse_shift_m": pair.shift.rmse_m.tolist(),
        "rmse_clip_m": pair.clip.rmse_m.tolist(),
        "rmse_reduction_percent": pair.reduction_percent.tolist(),
        "mean_rmse_reduction_percent": float(pair.reduction_percent.mean()),
        "reduction_of_mean_rmse_percent": float(100 * (1 - pair.shift.rmse_m.mean() / pair.clip.rmse_m.mean())),
        "min_tension_shift_n": float(pair.shift.tension_n.min()),
        "max_tension_shift_n": float(pair.shift.tension_n.max()),
        "max_tension_clip_n": float(pair.clip.tension_n.max()),
        "p_n_per_m": [one.p for one in gains],
        "i_n_per_ms": [one.i for one in gains],
        "d_ns_per_m": [one.d for one in gains],
        "duration_s": settings.duration_s,
        "n_samples": len(pair.shift.time_s),
        **ratios,
    }
    if settings.sweep and settings.gains == "rule":
        numbers.update(_sweep(robot, rule, reference, settings.duration_s, progress))
        if described.control is not None:
            progress("the gains of the robot's file")
            # They are made for motors, whose reflected mass the ideal robot does not have: it may swing up under them.
            try:
                other = _pair(robot, _file_gains(described.control), reference, settings.duration_s, lambda _: None)
                numbers["mean_rmse_reduction_with_file_gains_percent"] = float(other.reduction_percent.mean())
            except ConvergenceError:
                numbers["file_gains_stable_without_motors"] = False
    return numbers, partial(_draw, pair)


def _pair(
    robot: IdealRobot, gains: tuple[PidGains, ...], reference: Reference, duration_s: float, progress: Progress
) -> Pair:
    def track(method: str) -> Series:
        # Pretension adds one tension to all tendons, which bends nothing: 0, as in the paper.
        control = ControlSettings(gains=gains, tendon_forces=method, pretension_n=0.0)
        return robot.run(control, reference, duration_s, progress)

    return Pair(track("shift"), track("clip"))


def _sweep(
    robot: IdealRobot, rule: GainRule, reference: Reference, duration_s: float, progress: Progress
) -> dict[str, list[float | None]]:
    """The same comparison with other gains, one number of the rule changed at a time."""
    variants = [
        dataclasses.replace(rule, stiffness_ratio=rule.stiffness_ratio / 4),
        dataclasses.replace(rule, stiffness_ratio=rule.stiffness_ratio / 2),
        dataclasses.replace(rule, stiffness_ratio=rule.stiffness_ratio * 1.5),
        dataclasses.replace(rule, integral_fraction=0.0),
        dataclasses.replace(rule, integral_fraction=rule.integral_fraction / 4),
        dataclasses.replace(rule, integral_fraction=rule.integral_fraction * 2.5),
        dataclasses.replace(rule, damping_ratio=rule.damping_ratio * 0.7),
        dataclasses.replace(rule, damping_ratio=rule.damping_ratio * 1.3),
    ]
    rows = []
    for number, variant in enumerate(variants, 1):
        progress(f"sweep over the gains: {number} of {len(variants)}")
        try:
            pair = _pair(robot, robot.gains(variant), reference, duration_s, lambda _: None)
            reduction = float(pair.reduction_percent.mean())
        except ConvergenceError:
            reduction = None  # unstable
        rows.append((variant.stiffness_ratio, variant.integral_fraction, variant.damping_ratio, reduction))
    names = ("stiffness_ratio", "integral_fraction", "damping_ratio", "mean_rmse_reduction_percent")
    return {f"sweep_{name}": [row[column] for row in rows] for column, name in enumerate(names)}


def _file_gains(control: ControlSettings | None) -> tuple[PidGains, ...]:
    """The robot file's gains, without the bounds that are those of its motors."""
    if control is None:
        raise ParameterError("gains", "file", "rule, since the robot's file has no control section")
    high, low = UNBOUNDED_N, -UNBOUNDED_N
    return tuple(
        dataclasses.replace(one, u_clamp_max=high, u_clamp_min=low, i_clamp_max=high, i_clamp_min=low)
        for one in control.gains
    )


def _draw(pair: Pair, figure: Figures) -> None:
    shift, clip = pair.shift, pair.clip
    title = "Tracking with clipped and shifted tensions (muhmann, fig. 7)"
    with figure(title, shift.clarke_m.shape[1], 1, sharex=True) as (drawing, axes):
        for index, axis in enumerate(axes):
            part, segment = ("Re", "Im")[index % 2], index // 2 + 1
            axis.plot(shift.time_s, clip.clarke_m[:, index], color=COLOURS[1], label="clipping")
            axis.plot(shift.time_s, shift.clarke_m[:, index], color=COLOURS[0], label="shifting")
            dashed = {"color": REFERENCE, "linestyle": "--", "linewidth": 0.9}
            axis.plot(shift.time_s, shift.reference_m[:, index], label="reference", **dashed)
            axis.set_ylabel(f"$q_{{{part},{segment}}}$ in m")
            axis.set_title(
                f"RMSE: clipping {clip.rmse_m[index]:.2e} m, shifting {shift.rmse_m[index]:.2e} m "
                f"({pair.reduction_percent[index]:.1f} % lower)",
                loc="left",
            )
        axes[-1].set_xlabel("time in s")
        legend_below(drawing, axes[0])
