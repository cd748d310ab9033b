# SPDX-License-Identifier: Apache-2.0
"""Arguments, options and exit codes that several commands have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.file.whole_file import make_folder
from continuum_robot.workers import MOST_WORKERS

EXIT_REFUSED = 2


def output_file(file: Path | None) -> Path | None:
    """A file that a command writes at its end, its folder made at once: minutes of work must not be lost to it.

    Parameters
    ----------
    file : as given; None: not given

    Raises
    ------
    ParameterError : it is a folder, or its folder cannot be made or written to
    """
    if file is not None:
        if file.is_dir():
            raise ParameterError("output", str(file), "a file; this is a folder")
        _writable(file.parent, file if file.exists() else file.parent)
    return file


def _writable(folder: Path, path: Path) -> None:
    """Make a folder; raise ParameterError where that fails, or where ``path`` may not be written."""
    try:
        make_folder(folder)
    except DeviceError as error:
        raise ParameterError("output", str(folder), f"a folder that may be written to: it {error.problem}") from error
    if not os.access(path, os.W_OK):
        raise ParameterError("output", str(path), "a file or folder that may be written to")


def file_option(metavar: str, text: str) -> Any:
    """An option for a file that a command writes at its end.

    Parameters
    ----------
    metavar : kind of the file
    text : of the help
    """
    return typer.Option(metavar=metavar, callback=output_file, help=text)


def without_effect(where: str, given: Mapping[str, bool]) -> None:
    """Refuse options that would do nothing.

    Parameters
    ----------
    where : in words
    given : whether each option was given

    Raises
    ------
    ParameterError : one was
    """
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise ParameterError(", ".join(names), "given", f"to be left out {where}, where it has no effect")


def output_folder(folder: Path | None) -> Path | None:
    """The same of a folder.

    Parameters
    ----------
    folder : as given; None: not given

    Raises
    ------
    ParameterError : it cannot be made or written to
    """
    if folder is not None:
        _writable(folder, folder)
    return folder


RobotArgument = Annotated[
    str, typer.Argument(metavar="ROBOT", help="Robot file (YAML), or the name of a shipped one such as two_segment.")
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=output_file, help="Also write the numbers as JSON here."),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        max=MOST_WORKERS,
        help="Share the work out to so many processes of this machine (extra cluster); the same numbers for any N. "
        "0: this process.",
    ),
]
SchedulerOption = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Share it out to the workers of a dask scheduler instead, tcp://host:port; they need this package, and "
        "who reaches that port can run programs on them.",
        show_default=False,
    ),
]
