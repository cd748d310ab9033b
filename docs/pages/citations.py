# SPDX-License-Identifier: Apache-2.0
"""The papers: their references, by CITATION.cff, and where the code cites which equation."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.experiments.experiment import PAPERS
from pages.text import code, table

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("continuum_robot", "validation")

_PLACE = r"\(\d+\)"
_CITATION = re.compile(rf"\b({'|'.join(PAPERS)}) ({_PLACE}(?:(?:, and |, | and | to |-){_PLACE})*)")
_RANGE = re.compile(r"\((\d+)\)(?:(?: to |-)\((\d+)\))?")


def numbers(text: str) -> set[int]:
    """Equations that a text such as ``(2), (5) to (7)`` names."""
    return {n for first, last in _RANGE.findall(text) for n in range(int(first), int(last or first) + 1)}


def reference(paper: str) -> str:
    """One line of Markdown: authors, title, year, where, and links."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    one: dict[str, Any] = next(entry for entry in cited["references"] if entry["abbreviation"] == paper)
    names = ("given-names", "family-names", "name-suffix")
    authors = ", ".join(" ".join(author[key] for key in names if key in author) for author in one["authors"])
    where = one.get("journal") or one.get("conference", {}).get("name") or "arXiv"
    if "volume" in one:
        where += f" {one['volume']}({one['issue']}), {one['start']} to {one['end']}"
    links = [f"doi:[{one['doi']}](https://doi.org/{one['doi']})"]
    if "url" in one:
        links.append(f"[{one['url'].removeprefix('https://')}]({one['url']})")
    return f"{authors}: *{one['title']}.* {where}, {one['year']}. {', '.join(links)}."


@lru_cache(maxsize=1)
def citations() -> Mapping[str, Mapping[int, tuple[tuple[str, str], ...]]]:
    """By paper and equation: file (in the repository) and name of what cites it, in order of the files."""
    found: dict[str, dict[int, dict[tuple[str, str], None]]] = {paper: {} for paper in PAPERS}
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        relative = file.relative_to(ROOT)
        source = file.read_text(encoding="utf-8")
        hits = [
            (source.count("\n", 0, match.start()) + 1, match[1], numbers(match[2]))
            for match in _CITATION.finditer(source)
        ]
        if not hits:
            continue
        owners = _owners(ast.parse(source))
        for line, paper, equations in hits:
            for equation in equations:
                found[paper].setdefault(equation, {})[str(relative), owners.get(line, "")] = None
    return {paper: {n: tuple(places) for n, places in by.items()} for paper, by in found.items()}


def _owners(tree: ast.Module) -> dict[int, str]:
    """Name of the innermost class or function of each line; private functions count to what is around them."""
    owners: dict[int, str] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{node.name}"
                owners.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name))
                walk(node.body, f"{name}." if isinstance(node, ast.ClassDef) else prefix)

    walk(tree.body, "")
    return owners


def equations_table(paper: str, groups: Mapping[str, str]) -> list[str]:
    """Lines of the table of a paper.

    Parameters
    ----------
    paper : its short name
    groups : what the equations say, by texts such as ``(2), (5) to (7)``
    """
    rows = []
    for text, meaning in groups.items():
        by_file: dict[str, dict[str, None]] = {}
        for equation in sorted(numbers(text)):
            for file, owner in citations()[paper].get(equation, ()):
                by_file.setdefault(file, {})[owner] = None
        places = [
            f"[{file.removeprefix('continuum_robot/')}](../../{file}): "
            f"{', '.join(code(name) for name in names if name) or 'module'}"
            for file, names in by_file.items()
        ]
        rows.append((text, meaning, "; ".join(places) or "not as a formula of its own"))
    return table(("equations", "what", "where"), rows)


def left_out(paper: str, groups: Mapping[str, str]) -> set[int]:
    """Equations that the code cites and no group holds.

    Parameters
    ----------
    paper, groups : as of :func:`equations_table`
    """
    return set(citations()[paper]) - {n for text in groups for n in numbers(text)}
