# SPDX-License-Identifier: Apache-2.0
"""A CSV file with a header line: read strictly, nothing is skipped, guessed or filled in; and written for that."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RecordingError


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The cells of a file.

    Attributes
    ----------
    file : where it was read from
    sha256 : of that file, hexadecimal
    header : names of the columns, each once
    lines : line number of each row in the file
    rows : as many cells as columns
    """

    file: Path
    sha256: str
    header: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """The cells of the column ``name``, without blanks around them."""
        index = self.header.index(name)
        return [row[index].strip() for row in self.rows]

    def numbers(self, columns: Sequence[str], *, lost: bool = False) -> NDArray[np.float64]:
        """Numbers of some columns, shape (rows, columns).

        Parameters
        ----------
        columns : names
        lost : an empty cell, or nan, is a value that was not measured: NaN

        Raises
        ------
        RecordingError : a cell that is not a finite number; names line and column
        """
        values = np.empty((len(self.rows), len(columns)))
        for k, name in enumerate(columns):
            for row, cell in enumerate(self.column(name)):
                values[row, k] = math.nan if lost and cell.lower() in ("", "nan") else self._number(row, name, cell)
        return values

    def check_increasing(self, column: str) -> None:
        """Check that a column of numbers increases from row to row.

        Raises
        ------
        RecordingError : names line and column
        """
        values = self.numbers([column])[:, 0]
        for row in np.flatnonzero(np.diff(values) <= 0) + 1:
            problem = f"line {self.lines[row]}, column {column}: {values[row]:g} after {values[row - 1]:g}"
            raise RecordingError(self.file, problem, "It has to increase from row to row")

    def check_length(self, least: int) -> None:
        """Raise :class:`RecordingError` for fewer than ``least`` rows."""
        if len(self.rows) < least:
            remedy = f"Give a file with at least {least} row{'s' * (least > 1)} of values"
            raise RecordingError(self.file, f"{len(self.rows)} rows", remedy)

    def _number(self, row: int, column: str, cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            problem = f"line {self.lines[row]}, column {column}: {cell!r}"
            raise RecordingError(self.file, problem, "Expected a finite number")
        return value


def read_csv_table(
    file: Path | str, required: Sequence[str], *, further: Callable[[str], bool] = lambda _name: False
) -> CsvTable:
    """Read a CSV file in UTF-8; its columns may stand in any order.

    Parameters
    ----------
    file : path
    required : columns that it has to have
    further : whether a column of this name may stand beside them

    Raises
    ------
    RecordingError : no such file, not text, not CSV, a missing, unknown or doubled column, a row of another length;
        names file, line and column
    """
    path = Path(file).expanduser()
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(path, f"cannot be read: {error}", "Give the path of a CSV file in UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines, rows = [], []
    try:
        header = tuple(name.strip() for name in next(reader, []))
        _check_header(path, header, required, further)
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                problem = f"line {reader.line_num}: {len(row)} cells where the header has {len(header)} columns"
                raise RecordingError(path, problem, "Is the last line cut off? Remove or repair the line")
            lines.append(reader.line_num)
            rows.append(tuple(row))
    except csv.Error as error:
        raise RecordingError(path, f"line {reader.line_num}: {error}", "Give a well-formed CSV file") from error
    return CsvTable(path, hashlib.sha256(content).hexdigest(), header, tuple(lines), tuple(rows))


def _check_header(path: Path, header: tuple[str, ...], required: Sequence[str], further: Callable[[str], bool]) -> None:
    expected = f"Expected the columns {', '.join(required)}"
    if not any(header):
        raise RecordingError(path, "empty", expected)
    doubled = sorted({name for name in header if header.count(name) > 1})
    if doubled:
        raise RecordingError(path, f"line 1: column {', '.join(doubled)} appears more than once", expected)
    missing = [name for name in required if name not in header]
    if missing:
        raise RecordingError(path, f"line 1: no column {', '.join(missing)}", expected)
    unknown = [name for name in header if name not in required and not further(name)]
    if unknown:
        raise RecordingError(path, f"line 1: unknown column {', '.join(map(repr, unknown))}", expected)


def write_csv_table(file: Path | str, columns: Sequence[str], rows: NDArray[np.float64]) -> None:
    """Write numbers under a header, with nine digits.

    Parameters
    ----------
    file : path to write; its folder is made
    columns : names, k of them
    rows : shape (T, k), in the units of their columns

    Raises
    ------
    RecordingError : it cannot be written
    """
    path = Path(file).expanduser()
    lines = [",".join(columns), *(",".join(f"{value:.9g}" for value in row) for row in rows)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise RecordingError(path, f"cannot be written: {error}", "Give a path that can be written") from error
