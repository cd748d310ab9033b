# SPDX-License-Identifier: Apache-2.0
"""What all generated pages are made of: tables, cells that cannot break them, and the note who wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from continuum_robot.errors import ParameterError

WRITTEN_BY = "<!-- Written by `make pages`: change the code, not this page. -->"


def cell(text: str) -> str:
    """``text`` as a cell of a table: bars escaped, no line breaks."""
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table.

    Parameters
    ----------
    header : titles of the columns
    rows : cells, as many in each as there are titles
    """
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(cell(text) for text in row)} |" for row in rows)]


def code(text: str) -> str:
    """``text`` as code, empty where there is none."""
    return f"`{text}`" if text else ""


def filled(text: str, page: str, parts: Mapping[str, Iterable[str]]) -> str:
    """A page with its generated parts written again.

    Parameters
    ----------
    text : the page as it is, with the lines ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of each part
    page : its path, for the message
    parts : lines of each part by its name

    Raises
    ------
    ParameterError : a page without the places of its parts
    """
    for name, lines in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, opened, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (opened and closed):
            raise ParameterError(page, name, f"the lines {begin} and {end}")
        text = "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])
    return text
