# SPDX-License-Identifier: Apache-2.0
"""docs/reference/messages.md from the files of msg/, srv/ and action/, with their own comments."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.requests import REQUESTS
from continuum_robot.robot.schema import quantity_of
from pages.text import WRITTEN_BY, code, table

PACKAGE = "continuum_robot"
PARTS = {"msg": ("",), "srv": ("Request", "Response"), "action": ("Goal", "Result", "Feedback")}
TITLES = {"msg": "Messages", "srv": "Services", "action": "Actions"}

INTRODUCTION = """\
# Messages, services and actions

{written_by}

Types of the package `continuum_robot`, from their files in `msg/`, `srv/` and `action/`. SI units; NaN means unknown;
quaternions are x, y, z, w here. Who publishes what, how often and with which quality of service:
[topics and QoS](topics.md).

    ros2 interface show continuum_robot/msg/TendonStates
"""

_FIELD = re.compile(
    r"(?P<type>[\w/]+(?:\[[\d<=]*\])?)\s+(?P<name>\w+)\s*(?:=\s*(?P<value>\S+)|(?P<default>[^#\s]\S*))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field or constant of a message.

    Attributes
    ----------
    kind : its ROS type
    name : as in the file
    value : of a constant, or the default; empty for neither
    constant : it is a constant
    meaning : the comment beside it
    """

    kind: str
    name: str
    value: str
    constant: bool
    meaning: str


def page(root: Path) -> str:
    """The whole page.

    Parameters
    ----------
    root : folder of the repository

    Raises
    ------
    ParameterError : a line of an interface that is none
    """
    lines = [INTRODUCTION.format(written_by=WRITTEN_BY)]
    for kind, parts in PARTS.items():
        lines += [f"## {TITLES[kind]}", ""]
        for file in sorted((root / kind).glob(f"*.{kind}")):
            lines += _interface(file, kind, parts)
    return "\n".join(lines).rstrip() + "\n"


def _interface(file: Path, kind: str, parts: tuple[str, ...]) -> Iterator[str]:
    yield f"### {file.stem}"
    yield ""
    yield f"`{PACKAGE}/{kind}/{file.stem}`"
    yield ""
    sections = re.split(r"^---$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for title, text in zip(parts, sections, strict=True):
        about, fields = parsed(text, file)
        if about:
            yield about
            yield ""
        if title:
            yield f"**{title}**" + ("" if fields else ": empty")
            yield ""
        if fields:
            rows = [
                (
                    code(field.name),
                    code(field.kind),
                    code(field.value) if field.constant else _default(field),
                    f"{field.meaning} {_allowed(file.stem, title, field)}".strip(),
                )
                for field in fields
            ]
            yield from table(("field", "type", "value", "meaning"), rows)
            yield ""


def _default(field: Field) -> str:
    return f"default {code(field.value)}" if field.value else ""


def _allowed(interface: str, part: str, field: Field) -> str:
    """The range of a number that is asked for, as its server checks it."""
    if field.constant or part not in ("Request", "Goal") or field.kind == "string":
        return ""
    checks = {known.name: quantity_of(known) for known in dataclasses.fields(REQUESTS[interface])}
    return f"(allowed: {checks[field.name].expected()})"


def parsed(text: str, file: Path) -> tuple[str, list[Field]]:
    """What a part of an interface is about (its first comment), and its fields.

    Parameters
    ----------
    text : of the part
    file : for the error

    Raises
    ------
    ParameterError : a line that is neither a comment nor a field
    """
    about: list[str] = []
    before: list[str] = []
    fields: list[Field] = []
    for line in text.splitlines():
        body, _, comment = (part.strip() for part in line.partition("#"))
        if body:
            match = _FIELD.fullmatch(body)
            if match is None:
                raise ParameterError(str(file), line, "a field, a constant or a comment")
            value = match["value"] or match["default"] or ""
            meaning = " ".join([*before, comment])
            before = []
            fields.append(Field(match["type"], match["name"], value, match["value"] is not None, meaning))
        elif comment and line.startswith(" "):  # the comment of the field above goes on
            fields[-1] = dataclasses.replace(fields[-1], meaning=f"{fields[-1].meaning} {comment}")
        elif comment:
            (before if fields else about).append(comment)
    return " ".join(about), fields
