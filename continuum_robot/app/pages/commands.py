# SPDX-License-Identifier: Apache-2.0
"""docs/reference/command_line.md from the parser of ``continuum-robot`` itself."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from continuum_robot.app.command_line import EPILOG, application
from continuum_robot.app.pages.markdown import WRITTEN_BY, code, table

INTRODUCTION = """\
# The command line

{written_by}

`continuum-robot` is in `.venv/bin` after `make demo`, and on the path after `colcon build`. This page reports what
`continuum-robot COMMAND --help` reports.

{epilog}
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or option of a command.

    Attributes
    ----------
    name : of the function's argument
    kind : its type, without what typer adds
    info : help, flags and bounds as typer has them
    default : of the function's argument; ``inspect.Parameter.empty``: required
    """

    name: str
    kind: Any
    info: Any
    default: Any


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION.format(written_by=WRITTEN_BY, epilog=EPILOG)]
    for command in sorted(application.registered_commands, key=_name_of):
        if not command.hidden and command.callback is not None:
            lines += _command(_name_of(command), command)
    return "\n".join(lines).rstrip() + "\n"


def _name_of(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def _parameters(function: Any) -> list[Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        info = next((one for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, ParameterInfo)), None)
        if info is not None and not info.hidden:
            found.append(Parameter(name, typing.get_args(hints[name])[0], info, parameter.default))
    return found


def _command(name: str, command: Any) -> Iterator[str]:
    parameters = _parameters(command.callback)
    arguments = [one for one in parameters if isinstance(one.info, ArgumentInfo)]
    options = [one for one in parameters if isinstance(one.info, OptionInfo)]
    extra = (command.context_settings or {}).get("allow_extra_args", False)
    usage = [name, *map(_usage, arguments), *(["[OPTIONS]"] if options else []), *(["[ITS OPTIONS]"] if extra else [])]
    yield from (f"## {name}", "", f"    continuum-robot {' '.join(usage)}", "")
    yield _escaped(inspect.cleandoc(command.help or command.callback.__doc__ or ""))
    yield ""
    if arguments:
        meanings = [(code(_label(one)), _escaped(one.info.help or "")) for one in arguments]
        yield from (*table(("argument", "meaning"), meanings), "")
    if options:
        rows = [(_flags(one), _values(one), _default(one), _escaped(one.info.help or "")) for one in options]
        yield from (*table(("option", "value", "default", "meaning"), rows), "")
    if command.epilog:
        title, _, example = command.epilog.partition(": ")
        yield from ((f"{title}:", "", f"    {example}") if title == "Example" else (_escaped(command.epilog),))
        yield ""


def _label(one: Parameter) -> str:
    return str(one.info.metavar or one.name.upper())


def _usage(one: Parameter) -> str:
    return _label(one) if _required(one) else f"[{_label(one)}]"


def _required(one: Parameter) -> bool:
    return one.default in (inspect.Parameter.empty, ...)


def _flags(one: Parameter) -> str:
    # Within Annotated the first flag arrives where a default would stand.
    given = [one.info.default, *(one.info.param_decls or ())]
    declared = [text for text in given if isinstance(text, str) and text.startswith("-")]
    if not declared:
        flag = one.name.replace("_", "-")
        declared = [f"--{flag}/--no-{flag}" if one.kind is bool else f"--{flag}"]
    return ", ".join(code(flag) for text in declared for flag in text.split("/") if flag.startswith("-"))


def _values(one: Parameter) -> str:
    if one.kind is bool:
        return ""
    plain = next((kind for kind in typing.get_args(one.kind) if kind is not type(None)), one.kind)
    words = [code(one.info.metavar)] if one.info.metavar else []
    if inspect.isclass(plain) and issubclass(plain, enum.Enum):
        words.append(", ".join(str(member.value) for member in plain))
    low, high = one.info.min, one.info.max
    if low is not None or high is not None:
        words.append(f"{f'from {low:g}' if high is None else f'{low:g} to {high:g}'}")
    return " ".join(words) or getattr(plain, "__name__", "text").lower()


def _default(one: Parameter) -> str:
    if _required(one):
        return "**required**"
    if one.default in (None, "", [], ()):
        return ""
    if one.kind is bool:
        return "on" if one.default else "off"
    return code(str(getattr(one.default, "value", one.default)))


def _escaped(text: str) -> str:
    """Texts hold placeholders such as <date>, which a browser would take for tags."""
    return text.replace("<", "&lt;").replace(">", "&gt;")
