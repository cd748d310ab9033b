# SPDX-License-Identifier: Apache-2.0
"""Our docstrings as Markdown, for the site's page of Python: an entry is one line, ``name : what it is``."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import griffe

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : ")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def to_markdown(text: str) -> str:
    """A docstring with its sections as bold words and lists."""
    text = _ROLE.sub(lambda found: f"`{found[1].rsplit('.', maxsplit=1)[-1]}`", text).replace("``", "`")
    begin, *sections = _SECTION.split(text)
    parts = [begin.rstrip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f"**{title}**\n\n{_listed(body) if title != 'Returns' else dedent(body).strip()}")
    return "\n\n".join(parts) + "\n"


def _listed(body: str) -> str:
    items: list[str] = []
    for line in dedent(body).strip().splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names = ", ".join(f"`{name}`" for name in entry[1].split(", "))
            items.append(f"- {names}: {line[entry.end() :]}")
        elif line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(f"- {line}")
    return "\n".join(items)


class Docstrings(griffe.Extension):
    """Makes Markdown of every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **_more: Any) -> None:
        """Called for each object once it is read."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
