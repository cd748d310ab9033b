# SPDX-License-Identifier: Apache-2.0
"""Tables and bars that the command line prints, and files that it leaves behind."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from continuum_robot.errors import DeviceError
from continuum_robot.robot.file.whole_file import DISK_REMEDY, unwritten, write_whole

_KEPT_WHOLE = 20
"""Characters of a cell that is not broken where the terminal is narrow."""


def counting_bar(console: Console) -> Progress:
    """A bar with what is being done, how many are done of how many, the time and what is left of it; it goes when the
    work ends.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows of texts and numbers; columns whose names begin with ``>`` are of numbers."""
    cells = [[cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row] for row in rows]
    widths = [max((row[k].cell_len for row in cells), default=0) for k in range(len(columns))]
    least = [width if width <= _KEPT_WHOLE else 1 for width in widths]
    fits = sum(least) + 3 * len(columns) <= console.width  # else all columns give way, and none is lost
    table = Table(title=title and escape(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name, width in zip(columns, least, strict=True):
        side: Any = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=side, overflow="fold", min_width=width if fits else None)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def say(console: Console, *lines: str) -> None:
    """Print lines as they are, however long: paths in them can be copied."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def shown(value: Any) -> str:
    """A value as a cell shows it: numbers to four digits, of lists the first eight."""
    if isinstance(value, Mapping):
        return f"{len(value)} entries, in the JSON file"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(item) for item in value[:8])}{', ...' if len(value) > 8 else ''}]"
    return str(value)


def write_json(file: Path | None, numbers: Mapping[str, Any]) -> None:
    """Write a flat mapping as JSON where a file is given; NaN and infinity, which JSON has no word for, become null."""
    if file is None:
        return
    try:
        write_whole(file, json.dumps(plain(dict(numbers)), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise unwritten(file, error) from error


def run_folder(parent: Path, now: datetime | None = None) -> Path:
    """Create ``parent/<date>_<time>/``, with a number behind it if that exists already."""
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
