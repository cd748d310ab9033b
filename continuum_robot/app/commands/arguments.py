# SPDX-License-Identifier: Apache-2.0
"""What several commands have: arguments, options, exit codes, and their imports of what runs them."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from continuum_robot.errors import DeviceError, ParameterError, missing_package
from continuum_robot.robot.file.whole_file import make_folder
from continuum_robot.workers import MOST_WORKERS

EXIT_REFUSED = 2


def part(name: str) -> ModuleType:
    """A module of app/, imported when its command runs: ROS 2, CasADi and matplotlib take a second."""
    try:
        with _interrupts_wait():
            return importlib.import_module(f"continuum_robot.app.{name}")
    except ModuleNotFoundError as error:
        raise missing_package(error) from None


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C comes when the block is left: CasADi swallows it while it is imported, and the command would go on."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def output_file(file: Path | None) -> Path | None:
    """A file that a command writes at its end, its folder made at once: minutes of work must not be lost to it."""
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
    """An option for a file that a command writes at its end."""
    return typer.Option(metavar=metavar, callback=output_file, help=text)


def without_effect(where: str, given: Mapping[str, bool]) -> None:
    """Refuse options that would do nothing."""
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise ParameterError(", ".join(names), "given", f"to be left out {where}, where it has no effect")


def output_folder(folder: Path | None) -> Path | None:
    """The same of a folder."""
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
