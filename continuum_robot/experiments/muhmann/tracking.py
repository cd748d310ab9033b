# SPDX-License-Identifier: Apache-2.0
"""Muhmann fig. 7: two segments track sines of rising frequency under PID, with clipped and with shifted tensions.

As in the paper's simulation the tendons have ideal tension sources. The paper gives neither gains nor duration. Gains:
p is ``margin`` times the ultimate one, at which the loop sampled at 1 kHz turns unstable somewhere on the reference
(half of it by default, as Ziegler and Nichols), and d and i follow from the model by
:class:`continuum_robot.experiments.muhmann.ideal_robot.GainRule`. A sweep over the gains, and the gains of the robot's
file, which are for its motors, say how far the figure depends on them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import make_reference
from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.muhmann.ideal_robot import PERIOD_S, UNBOUNDED_N, GainRule, IdealRobot, Series
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.control_settings import ControlSettings, PidGains
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.plants import PLANTS, ROD

_POSE_EVERY_S = 0.25


@experiment(
    "muhmann.tracking",
    "muhmann, fig. 7",
    paper={"mean_rmse_reduction_percent": 43.3},
    # Clipped tensions chatter: rounding grows in single runs.
    tolerances={"*percent": Tolerance(absolute=2.0), "*": Tolerance(relative=0.05)},
)
def tracking(
    progress: Progress,
    robot: Annotated[str, Quantity("robot file or name, with a reference")] = "two_segment",
    duration_s: Annotated[float, Quantity("simulated time; the paper does not state it", "s", gt=0.1, le=1000)] = 20.0,
    gains: Annotated[
        str, Quantity("rule: from the model; file: the robot file's own", choices=("rule", "file"))
    ] = "rule",
    margin: Annotated[float, Quantity("p over the ultimate p, for the rule", gt=0, lt=1)] = 0.5,
    damping_ratio: Annotated[float, Quantity("of p and the straight robot's mass, for the rule", gt=0, le=10)] = 1.0,
    integral_fraction: Annotated[float, Quantity("i over p and the loop's frequency, for the rule", ge=0, le=10)] = 0.2,
    plant: Annotated[str, Quantity("what moves: our rod, or MuJoCo's chain of links", choices=tuple(PLANTS))] = ROD,
    sweep: Annotated[bool, Quantity("repeat with other gains")] = True,
) -> Any:
    """Two segments track sines of rising frequency under PID, negative tensions clipped or shifted."""
    described = load_robot(robot)
    if described.reference is None:
        raise ParameterError("robot", robot, "a robot whose file has a reference")
    folder = Path(described.file_name).parent if described.file_name else None
    reference = make_reference(described.reference, described.coordinate_count, folder)
    ideal = IdealRobot(described, plant=plant, progress=progress)
    rule = GainRule(damping_ratio=damping_ratio, integral_fraction=integral_fraction)
    ratios: dict[str, float] = {}
    if gains == "file":
        used = _file_gains(described.control)
    else:
        progress("ultimate gain of the sampled loop")
        poses = np.array([reference.at(t).position for t in np.arange(0.0, duration_s, _POSE_EVERY_S)])
        ultimate = ideal.ultimate_ratio(rule, poses)
        rule = dataclasses.replace(rule, stiffness_ratio=margin * ultimate)
        used = ideal.gains(rule)
        ratios = {"stiffness_ratio": rule.stiffness_ratio, "ultimate_stiffness_ratio": ultimate}

    def shift_and_clip(gains: tuple[PidGains, ...], say: Progress = lambda _: None) -> tuple[Series, Series]:
        # Pretension adds one tension to all tendons, which bends nothing: 0, as in the paper.
        shift, clip = (
            ideal.run(ControlSettings(gains=gains, tendon_forces=method, pretension_n=0.0), reference, duration_s, say)
            for method in ("shift", "clip")
        )
        return shift, clip

    def mean_reduction(gains: tuple[PidGains, ...]) -> float | None:
        """None where the loop is unstable."""
        try:
            return float(reduction_percent(*shift_and_clip(gains)).mean())
        except ConvergenceError:
            return None

    try:
        shift, clip = shift_and_clip(used, progress)
    except ConvergenceError as error:
        if plant == ROD:
            raise
        # The rule knows one bending mode a segment; the chain's light links answer faster than the loop samples.
        stable_s = PERIOD_S * error.iterations
        # There is nothing to draw.
        return {"stable_with_the_rods_gains": False, "diverged_after_s": stable_s, **ratios}, lambda _: None
    reduction = reduction_percent(shift, clip)
    numbers: dict[str, object] = {
        "rmse_shift_m": shift.rmse_m.tolist(),
        "rmse_clip_m": clip.rmse_m.tolist(),
        "rmse_reduction_percent": reduction.tolist(),
        "mean_rmse_reduction_percent": float(reduction.mean()),
        "reduction_of_mean_rmse_percent": float(100 * (1 - shift.rmse_m.mean() / clip.rmse_m.mean())),
        "min_tension_shift_n": float(shift.tension_n.min()),
        "max_tension_shift_n": float(shift.tension_n.max()),
        "max_tension_clip_n": float(clip.tension_n.max()),
        "p_n_per_m": [one.p for one in used],
        "i_n_per_ms": [one.i for one in used],
        "d_ns_per_m": [one.d for one in used],
        "duration_s": duration_s,
        "n_samples": len(shift.time_s),
        **ratios,
    }
    if sweep and gains == "rule":
        p, i, d = rule.stiffness_ratio, rule.integral_fraction, rule.damping_ratio
        variants = [(r * p, i, d) for r in (1 / 4, 1 / 2, 1.5)] + [(p, r * i, d) for r in (0, 1 / 4, 2.5)]
        variants += [(p, i, r * d) for r in (0.7, 1.3)]
        rows = []
        for number, variant in enumerate(variants, 1):
            progress(f"sweep over the gains: {number} of {len(variants)}")
            other = GainRule(stiffness_ratio=variant[0], integral_fraction=variant[1], damping_ratio=variant[2])
            rows.append((*variant, mean_reduction(ideal.gains(other))))
        names = ("stiffness_ratio", "integral_fraction", "damping_ratio", "mean_rmse_reduction_percent")
        numbers |= {f"sweep_{name}": list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        if described.control is not None:
            progress("the gains of the robot's file")
            # They are made for motors, whose reflected mass the ideal robot does not have: it may swing up under them.
            with_file = mean_reduction(_file_gains(described.control))
            if with_file is None:
                numbers["file_gains_stable_without_motors"] = False
            else:
                numbers["mean_rmse_reduction_with_file_gains_percent"] = with_file

    def draw(figure: Figures) -> None:
        title = "Tracking with clipped and shifted tensions (muhmann, fig. 7)"
        with figure(title, shift.clarke_m.shape[1], 1, sharex=True) as (drawing, axes):
            for index, axis in enumerate(axes):
                axis.plot(shift.time_s, clip.clarke_m[:, index], color=COLOURS[1], label="clipping")
                axis.plot(shift.time_s, shift.clarke_m[:, index], color=COLOURS[0], label="shifting")
                dashed = {"color": REFERENCE, "linestyle": "--", "linewidth": 0.9}
                axis.plot(shift.time_s, shift.reference_m[:, index], label="reference", **dashed)
                axis.set_ylabel(f"$q_{{{('Re', 'Im')[index % 2]},{index // 2 + 1}}}$ in m")
                axis.set_title(
                    f"RMSE: clipping {clip.rmse_m[index]:.2e} m, shifting {shift.rmse_m[index]:.2e} m "
                    f"({reduction[index]:.1f} % lower)",
                    loc="left",
                )
            axes[-1].set_xlabel("time in s")
            legend_below(drawing, axes[0])

    return numbers, draw


def reduction_percent(better: Series, other: Series) -> NDArray[np.float64]:
    """By how much the first run has the lower error, for each coordinate, shape (2m,), percent; negative: higher."""
    return np.asarray(100 * (1 - better.rmse_m / other.rmse_m))


def _file_gains(control: ControlSettings | None) -> tuple[PidGains, ...]:
    """The robot file's gains, without the bounds that are those of its motors."""
    if control is None:
        raise ParameterError("gains", "file", "rule, since the robot's file has no control section")
    high, low = UNBOUNDED_N, -UNBOUNDED_N
    return tuple(
        dataclasses.replace(one, u_clamp_max=high, u_clamp_min=low, i_clamp_max=high, i_clamp_min=low)
        for one in control.gains
    )
