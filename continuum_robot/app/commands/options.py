# SPDX-License-Identifier: Apache-2.0
"""Commands of typer: with the options of a dataclass (:mod:`continuum_robot.nodes.stack.option_list`), and ``--help``
as a manual that reads at 80 columns, options and commands in groups.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from continuum_robot.nodes.stack.option_list import REQUIRED, Offered, offered

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
