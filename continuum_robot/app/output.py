# SPDX-License-Identifier: Apache-2.0
"""Files that the command line leaves behind, and the bar of long work."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from continuum_robot.errors import DeviceError
from continuum_robot.robot.file.whole_file import DISK_REMEDY, write_whole


def counting_bar(console: Console) -> Progress:
    """A bar with what is being done, how many are done of how many, and the time; it goes when the work ends.

    Parameters
    ----------
    console : where to draw
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def write_json(file: Path, numbers: Mapping[str, Any]) -> None:
    """Write a flat mapping as JSON; NaN and infinity, which JSON has no word for, become null.

    Parameters
    ----------
    file : created with its folders; replaced at once, so that a reader never sees half of it
    numbers : keys with units, values numbers, texts, or lists of them

    Raises
    ------
    DeviceError : the file cannot be written, e.g. a full disk
    """
    try:
        write_whole(file, json.dumps(plain(dict(numbers)), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise DeviceError(str(file), f"cannot be written ({error.strerror or error})", DISK_REMEDY) from error


def run_folder(parent: Path, now: datetime | None = None) -> Path:
    """Create ``parent/<date>_<time>/``, with a number behind it if that exists already.

    Parameters
    ----------
    parent : created if missing
    now : date in the name; None for the present, local time

    Raises
    ------
    DeviceError : the folder cannot be made
    """
    stem = (now or datetime.now()).strftime("%Y-%m-%d_%H-%M-%S")
    for number in range(1000):
        folder = parent / (stem if number == 0 else f"{stem}_{number + 1}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise DeviceError(str(folder), f"cannot be made ({error.strerror or error})", DISK_REMEDY) from error
        return folder
    raise DeviceError(str(parent), "has a thousand runs of this second", "Choose another folder")


def plain(value: Any) -> Any:
    """A value as strict JSON takes it: numpy as numbers and lists, NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
