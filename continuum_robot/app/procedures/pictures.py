# SPDX-License-Identifier: Apache-2.0
"""Pictures of what calibrations and fits found."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.identification.displaced.fit import DisplacedFit
from continuum_robot.identification.dynamics_fit import DynamicsFit
from continuum_robot.identification.motion.fit import MotionFit
from continuum_robot.identification.procedures.record import CoggingRecord


def draw_cogging(record: CoggingRecord, file: Path) -> None:
    """Draw the table of every motor with three standard deviations on either side."""
    count = len(record.motors)
    with figure(file, f"Cogging of the motors of {record.robot}", count, 1, sharex=True) as (_, axes):
        for index, (axis, motor) in enumerate(zip(np.atleast_1d(axes), record.motors, strict=True)):
            torque, deviation = 1e3 * np.array(motor.torque_nm), 3e3 * np.array(motor.deviation_nm)
            angle = 360.0 * np.arange(torque.size) / torque.size
            colour = COLOURS[index % len(COLOURS)]
            axis.fill_between(angle, torque - deviation, torque + deviation, color=colour, alpha=0.3, linewidth=0)
            axis.plot(angle, torque, color=colour, linewidth=0.8)
            axis.set_ylabel("torque in mN.m")
            axis.set_title(f"{motor.tendon} (band: 3 standard deviations)", loc="left")
        np.atleast_1d(axes)[-1].set_xlabel("angle of the motor in degrees")


def draw_motion(fit: MotionFit, file: Path) -> None:
    """Draw the forces on the coordinates, and what the model leaves of them."""
    count = fit.measured_n.shape[1]
    with figure(file, "Force of the tendons on their coordinates, in chirps", count, 1, sharex=True) as (drawing, axes):
        time_s = fit.time_s - fit.time_s[0]
        for index, axis in enumerate(np.atleast_1d(axes)):
            measured, left = fit.measured_n[:, index], fit.measured_n[:, index] - fit.modelled_n[:, index]
            axis.plot(time_s, measured - measured.mean(), color=COLOURS[0], linewidth=0.6, label="measured")
            axis.plot(time_s, left, color=COLOURS[1], linewidth=0.6, label="left by the model")
            axis.set_ylabel(f"coordinate {index + 1}\nin N")
        np.atleast_1d(axes)[-1].set_xlabel("time in s")
        legend_below(drawing, np.atleast_1d(axes)[0], 2)


def draw_dynamics_fit(fit: DynamicsFit, file: Path) -> None:
    """Plot coefficients and tip: measured (solid), simulated in windows (dashed) and in one piece (dotted)."""
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


def draw_fit(fit: DisplacedFit, file: Path) -> Path:
    """Draw what each step of a fit was worth, and the errors on blocks left out of it."""
    kept = [step for step in fit.steps if step.kept][-1]
    title = f"{fit.robot.name}: tip RMSE on blocks left out of the fit, {1e3 * kept.held_out_rmse_m:.1f} mm"
    with figure(file, title, 2, 1, size=(7.2, 5.4)) as (drawing, axes):
        place = np.arange(len(fit.steps))
        for shift, colour, name, values in (
            (-0.2, COLOURS[5], "fitted", [step.train_rmse_m for step in fit.steps]),
            (0.2, COLOURS[0], "left out", [step.held_out_rmse_m for step in fit.steps]),
        ):
            axes[0].bar(place + shift, values, 0.4, color=colour, label=name)
        for index, step in enumerate(fit.steps):
            axes[0].plot([index + 0.2] * len(step.block_rmse_m), step.block_rmse_m, ".", color=REFERENCE)
        if math.isfinite(fit.repeat.floor_m):
            axes[0].axhline(fit.repeat.floor_m, color=COLOURS[1], label="repeatability, no memory")
        names = [
            ("+ " if index else "") + step.name.replace("_", " ") + ("" if step.kept else "\n(not kept)")
            for index, step in enumerate(fit.steps)
        ]
        axes[0].set_xticks(place, names)
        axes[0].set(ylabel="tip RMSE in m")
        axes[0].legend()
        sample = np.arange(len(fit.recording))
        for colour, name, error in (
            (COLOURS[1], "constant curvature", fit.held_out_first_m),
            (COLOURS[0], "all kept steps", fit.held_out_m),
        ):
            axes[1].plot(sample, np.linalg.norm(error, axis=1), color=colour, linewidth=0.9, label=name)
        for edge in np.flatnonzero(np.diff(fit.block)) + 1:
            axes[1].axvline(edge, color=REFERENCE, linewidth=0.5, linestyle=":")
        axes[1].set(xlabel="sample", ylabel="error when its block was left out, in m")
        axes[1].legend()
        drawing.align_ylabels()
    return file
