# SPDX-License-Identifier: Apache-2.0
"""Plot of the shapes that a robot took in a run."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Recording
from continuum_robot.experiments.plotting import figure, legend_below
from continuum_robot.models.drawing import Drawing
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_TITLE = "estimated shapes, by the time since the recording began"


def seen_shapes(recording: Recording) -> tuple[Vector, Vector]:
    """All moments at which the sensors saw the shape: time, (k,), s, and coefficients, (k, n)."""
    if "shape" not in recording.topics:
        return np.zeros(0), np.zeros((0, 0))
    shapes = recording.series("shape")
    seen = np.isfinite(shapes["coefficients"]).all(axis=1)
    return shapes.stamp_s[seen], np.asarray(shapes["coefficients"][seen])


def draw_shapes(recording: Recording, robot: Robot, folder: Path, count: int = 5) -> Path:
    """Draw the robot as the estimator saw it, from its straightest to its most bent shape, to ``shapes.png``.

    The shapes are drawn and listed in the order of time.
    """
    times_s, coefficients = seen_shapes(recording)
    widest = coefficients[:, int(np.argmax(np.ptp(coefficients, axis=0)))]
    bends = np.linspace(widest.min(), widest.max(), count)
    moments = sorted({int(np.argmin(np.abs(widest - bend))) for bend in bends})
    drawing = robot_model(robot).drawing()
    if not len(drawing.geometry(coefficients[0]).backbone):
        return _draw_parts(robot.name, drawing, times_s[moments], coefficients[moments], folder)
    file, colours = folder / "shapes.png", mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(moments)))
    look = {"projection": "3d", "proj_type": "ortho"}
    with figure(file, f"{robot.name}: {_TITLE}", size=(7, 6), subplot_kw=look) as (sheet, axis):
        for moment, colour in zip(moments, colours, strict=True):
            geometry = drawing.geometry(coefficients[moment])
            label = f"{times_s[moment]:.1f} s"
            axis.plot(*(1e3 * geometry.backbone[:, :3, 3].T), color=colour, lw=2.5, label=label)
            for pose, radius_m in zip(geometry.disks, drawing.disk_radii_m, strict=True):
                axis.plot(*_ring(pose, radius_m).T, color=colour, lw=0.8)
            for tendon in geometry.tendons:
                axis.plot(*(1e3 * tendon.T), color=colour, lw=0.5, alpha=0.7)
        # A motion in one plane still needs some depth to be seen in.
        for low, high, setter in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
            half = max((high - low) / 2, 0.2e3 * robot.length_m)
            setter((low + high) / 2 - half, (low + high) / 2 + half)
        spans = [high - low for low, high in (axis.get_xlim(), axis.get_ylim(), axis.get_zlim())]
        axis.set_box_aspect(spans)
        for name, span in zip("xyz", spans, strict=True):  # an axis seen at an angle has room for few numbers
            axis.locator_params(axis=name, nbins=max(2, round((4 if name == "y" else 8) * span / max(spans))))
        low, high = axis.get_ylim()
        if high - low < 0.5 * max(spans):
            axis.set_yticks([tick for tick in axis.get_yticks() if low <= tick <= high][::2])
        axis.set_xlabel("x in mm", labelpad=6)
        axis.set_ylabel("y in mm")
        axis.set_zlabel("z in mm")
        axis.view_init(elev=18, azim=-70)
        if robot.gravity_m_per_s2[2] > 0:
            axis.invert_zaxis()
        legend_below(sheet, axis, len(moments))
    return file


def _draw_parts(name: str, drawing: Drawing, times_s: Vector, coefficients: Vector, folder: Path) -> Path:
    """Links and tendons of a mechanism in the plane x, z, a row of ``coefficients`` a moment, to ``shapes.png``."""
    file, colours = folder / "shapes.png", mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(coefficients)))
    with figure(file, f"{name}: {_TITLE}", size=(7, 6)) as (_, axis):
        for time_s, row, colour in zip(times_s, coefficients, colours, strict=True):
            geometry = drawing.geometry(row)
            for number, outline in enumerate(geometry.outlines):
                label = None if number else f"{time_s:.1f} s"
                axis.plot(1e3 * outline[:, 0], 1e3 * outline[:, 2], color=colour, lw=1.2, label=label)
            for tendon in geometry.tendons:
                axis.plot(1e3 * tendon[:, 0], 1e3 * tendon[:, 2], color=colour, lw=0.6, ls=":")
        axis.set(aspect="equal", xlabel="x in mm", ylabel="z in mm")
        axis.legend()
    return file


def _ring(pose: Vector, radius_m: float) -> Vector:
    angle = np.linspace(0.0, 2 * np.pi, 33)
    circle = radius_m * np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    return 1e3 * (pose[:3, 3] + circle @ pose[:3, :3].T)
