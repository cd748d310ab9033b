# SPDX-License-Identifier: Apache-2.0
"""``--help`` as a manual that reads at 80 columns, options and commands in groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

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
