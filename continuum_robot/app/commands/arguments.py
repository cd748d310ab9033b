# SPDX-License-Identifier: Apache-2.0
"""What several commands have: arguments, options, exit codes, imports of what runs them, and ``--help`` as a manual."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from continuum_robot import messages
from continuum_robot.errors import DeviceError, ParameterError, missing_package, only_messages_miss
from continuum_robot.nodes.stack.option_list import REQUIRED, Offered, offered
from continuum_robot.robot.file.whole_file import make_folder
from continuum_robot.workers import MOST_WORKERS

EXIT_REFUSED = 2


def part(name: str) -> ModuleType:
    """A module of app/, imported when its command runs: ROS 2, CasADi and matplotlib take a second."""
    try:
        with _interrupts_wait():
            module = importlib.import_module(f"continuum_robot.app.{name}")
    except ModuleNotFoundError as error:
        if not only_messages_miss(error):
            raise missing_package(error) from None
        messages.build(functools.partial(typer.echo, err=True))
        return part(name)
    if "continuum_robot.msg" in sys.modules:
        messages.check()
    return module


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
        help="Share the work out to so many processes of this machine; the same numbers for any N. 0: this process.",
    ),
]
SchedulerOption = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Share it out to the workers of a dask scheduler instead (extra cluster), tcp://host:port; they need this "
        "package, and who reaches that port can run programs on them.",
        show_default=False,
    ),
]


_enumeration: Any = enum.Enum


def with_options(options: type[Any], face: str, argument: str = "") -> Callable[[Callable[[Any], None]], Any]:
    """Make a command of a function that takes options; its help is the function's docstring."""

    def decorated(run: Callable[[Any], None]) -> Callable[..., None]:
        shown = list(offered(options, face))

        def command(**given: Any) -> None:
            values = {one.field: _value(given[one.name]) for one in shown}
            run(options(**{name: value for name, value in values.items() if value is not None}))

        parameters = [_parameter(one, is_argument=one.name == argument) for one in shown]
        command.__doc__, command.__name__ = run.__doc__, run.__name__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorated


def _value(given: Any) -> Any:
    return given.value if isinstance(given, enum.Enum) else given


def _parameter(one: Offered, *, is_argument: bool) -> inspect.Parameter:
    kind, default = one.kind, one.default
    more: dict[str, Any] = {"help": f"{one.rules.doc}."}
    if is_argument:
        more["metavar"] = one.name.upper() if default is REQUIRED else f"[{one.name.upper()}]"
    elif one.shown.metavar:
        more["metavar"] = one.shown.metavar
    elif one.rules.choices:
        # typer knows choices as an enumeration only.
        kind = _enumeration(one.name, {word: word for word in one.rules.choices}, type=str)
        default = kind(default)
    if kind in (int, float):
        more |= {"min": one.rules.ge, "max": one.rules.le}
        if default is None:  # left out here, and no negative value that stands for it
            kind, more["min"] = kind | None, 0
    hidden = default is None or default in ("", -1)
    if is_argument:
        shown: Any = typer.Argument(show_default=not hidden, **more)
        default = inspect.Parameter.empty if default is REQUIRED else default
    else:
        word = one.name.replace("_", "-")
        flags = one.shown.flags or ((f"--{word}/--no-{word}",) if kind is bool else (f"--{word}",))
        shown = typer.Option(*flags, show_default=not hidden, rich_help_panel=one.shown.group or None, **more)
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


_FIRST = {"argument": "Arguments", "option": "Options"}
_GROUP = "rich_help_panel"  # typer's name of it
_SENTENCE = 300  # characters: the first sentence of a command is never cut


def _write(formatter: Any, rows: Iterable[tuple[str, Any]]) -> None:
    groups: dict[str, list[Any]] = {}
    for group, row in rows:
        groups.setdefault(group, []).append(row)
    for group, members in groups.items():
        with formatter.section(group):
            formatter.write_dl(members)


def _options(command: Any, ctx: Any) -> Iterable[tuple[str, Any]]:
    for one in command.get_params(ctx):
        record = one.get_help_record(ctx)
        if record is not None:
            yield getattr(one, _GROUP, None) or _FIRST[one.param_type_name], record


class ManualCommand(TyperCommand):
    """A command whose options are listed in their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write them; ``ctx`` is the parser's context, ``formatter`` writes the page."""
        rows = list(_options(self, ctx))
        _write(formatter, sorted(rows, key=lambda row: row[0] not in _FIRST.values()))


class ManualGroup(TyperGroup):
    """Commands that are listed in their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands; ``ctx`` is the parser's context, ``formatter`` writes the page."""
        _write(formatter, _options(self, ctx))
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = ((getattr(one, _GROUP), (name, one.get_short_help_str(_SENTENCE))) for name, one in found if one)
        _write(formatter, lines)
