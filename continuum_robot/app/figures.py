# SPDX-License-Identifier: Apache-2.0
"""Matplotlib as the reports use it: without a display, errors of the disk in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from continuum_robot.errors import RecordingError

mpl.use("Agg")
from matplotlib import pyplot as plt  # the backend comes first: no display is needed

__all__ = ["plt", "save_figure"]


def save_figure(figure: Any, file: Path) -> Path:
    """Write a figure and close it; gives the file. Raises :class:`RecordingError` where it cannot be written."""
    try:
        figure.savefig(file, dpi=110)
    except OSError as error:
        raise RecordingError(file, f"cannot be written ({error.strerror or error})", "Make room on the disk") from error
    finally:
        plt.close(figure)
    return file
