# SPDX-License-Identifier: Apache-2.0
"""A picture of a robot at its task."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from continuum_robot.models.colors import DESIRED, MEASURED, css
from continuum_robot.models.drawing import Geometry

Array = NDArray[np.float64]

_SIZE_IN, _DPI = 4.8, 100


def picture(geometry: Geometry, length_m: float, goal: Array, others: tuple[Array, ...] = ()) -> NDArray[np.uint8]:
    """The robot, its tip's goal (3,), and paths of other things, each (points, 3), in the base frame, m.

    Returns
    -------
    RGB, shape (480, 480, 3)
    """
    figure = Figure((_SIZE_IN, _SIZE_IN), dpi=_DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot(projection="3d")
    for path in (*geometry.tendons, *geometry.outlines):
        axes.plot(*path.T, color="0.6", linewidth=0.8)
    if len(geometry.backbone):
        axes.plot(*geometry.backbone[:, :3, 3].T, color=css(MEASURED), linewidth=3)
    for path in others:
        axes.plot(*path.T, color="0.3", linewidth=0.8)
    axes.plot(*geometry.tip[:3, 3, None], "o", color=css(MEASURED))
    axes.plot(*goal[:, None], "x", color=css(DESIRED), markersize=8)
    axes.set(xlim=(-length_m, length_m), ylim=(-length_m, length_m), zlim=(-length_m / 2, 1.5 * length_m))
    axes.set(xlabel="x in m", ylabel="y in m", zlabel="z in m", box_aspect=(1, 1, 1))
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:, :, :3].copy()
