# SPDX-License-Identifier: Apache-2.0
"""One look for all figures: a light grid, legends beside the curves, the colours of the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from continuum_robot.models import colors

REFERENCE = "#000000"
"""What a figure compares with."""
COLOURS = tuple(colors.css(color) for color in colors.SERIES)
MEASURED: Any = {"color": colors.css(colors.MEASURED), "linewidth": 0.9}
DESIRED: Any = {"color": colors.css(colors.DESIRED), "linewidth": 2.4, "alpha": 0.5}
DETECTED: Any = {"color": colors.css(colors.CONTACT), "linewidth": 0.9}
TRUE: Any = {"color": colors.css(colors.PUSH), "linewidth": 2.4, "alpha": 0.5}
LIMIT: Any = {"color": colors.css(colors.LIMIT), "linewidth": 1.0, "linestyle": "--"}
FAULT: Any = {"color": colors.css(colors.FAULT), "linewidth": 1.2, "linestyle": "-."}
"""How a curve of each meaning is drawn: as wide and pale what the thin one over it should be."""

_STYLE: Any = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.xmargin": 0.01,
    "figure.titlesize": 10,
    "legend.borderaxespad": 0.2,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.2,
    "savefig.dpi": 160,
}


@contextmanager
def figure(file: Path, title: str, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """A figure that is written when the block ends; no global state of matplotlib is touched."""
    size = options.pop("size", (7.2, 1.2 + 1.9 * rows))
    with rc_context(_STYLE):
        drawing = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawing)
        axes = drawing.subplots(rows, columns, **options)
        drawing.suptitle(title)
        yield drawing, axes
        drawing.savefig(file)


def legend_above(axis: Any, columns: int = 6, **options: Any) -> None:
    """A legend over the right end of a panel, where it hides no curve."""
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, **options)


def legend_below(drawing: Figure, axis: Any, columns: int = 4) -> None:
    """One legend for the whole figure under all axes, with the entries of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=columns)
