# SPDX-License-Identifier: Apache-2.0
"""The picture of a dynamics calibration: measured and simulated motion, as johnston figure 5."""

from __future__ import annotations

from pathlib import Path

from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.identification.dynamics_fit import DynamicsFit


def draw_dynamics_fit(fit: DynamicsFit, file: Path) -> None:
    """Plot coefficients and tip: measured (solid), simulated in windows (dashed) and in one piece (dotted).

    Parameters
    ----------
    fit : result of ``fit_dynamics``
    file : of the picture, PNG
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    curves = [
        (k, ", ".join(filter(None, [_title(fit, index), f"order {number // 2}"])))
        for index, own in zip(fit.segments, fit.coefficients, strict=True)
        for number, k in enumerate(range(own.start, own.stop))
    ]
    with figure(file, "\n".join(_found(fit)), rows=3, sharex=True, size=(7.2, 8.4)) as (drawing, axes):
        for index, label in curves:
            axis, colour = axes[index % 2], COLOURS[index // 2 % len(COLOURS)]
            axis.plot(fit.time_s, fit.measured_c[:, index], color=colour, label=label)
            axis.plot(fit.time_s, fit.window_c[:, index], color=colour, linestyle="--")
            axis.plot(fit.time_s, fit.open_loop_c[:, index], color=colour, linestyle=":")
        for index, name in enumerate("xyz"):
            axes[2].plot(fit.time_s, fit.measured_tip_m[:, index], color=COLOURS[index], label=f"tip {name}")
            axes[2].plot(fit.time_s, fit.open_loop_tip_m[:, index], color=COLOURS[index], linestyle=":")
        for axis, label in zip(axes, ("curvature about x in 1/m", "curvature about y in 1/m", "tip in m"), strict=True):
            axis.set_ylabel(label)
        axes[2].set_xlabel("time in s")
        axes[2].legend(loc="upper left")
        axes[0].set_title("measured (solid), simulated in windows (dashed), in one piece (dotted)")
        legend_below(drawing, axes[0])


def _found(fit: DynamicsFit) -> list[str]:
    """A line of stiffness and friction for each segment."""
    lines = []
    for index in fit.segments:
        stiffness, friction, _ = fit.of_segment(index)
        found = [f"EI_{axis} = {value:.4f} N·m²" for axis, value in zip("xy", stiffness, strict=True)]
        found += [f"μ_{number} = {value:.4f}" for number, value in enumerate(friction, 1)]
        lines.append(": ".join(filter(None, [_title(fit, index), ", ".join(found)])))
    return lines


def _title(fit: DynamicsFit, index: int) -> str:
    """Of one of several segments."""
    return f"segments[{index}]" if len(fit.segments) > 1 else ""
