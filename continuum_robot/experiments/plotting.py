# SPDX-License-Identifier: Apache-2.0
"""One look for all figures: SI axes, a light grid, colours that differ in print and for colour-blind eyes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's palette: reference, then series in order.
REFERENCE = "#000000"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

_STYLE: Any = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
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
        drawing.suptitle(title, fontsize=10)
        yield drawing, axes
        drawing.savefig(file)


def legend_below(drawing: Figure, axis: Any, columns: int = 4) -> None:
    """One legend for the whole figure under all axes, with the entries of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=columns)
