# SPDX-License-Identifier: Apache-2.0
"""The page on security: every statement names a test, or why there is none, and every test that it names exists."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def statements(text: str) -> list[str]:
    """Paragraphs, points of lists and rows of tables; not headings, heads of tables and code."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        if not lines or all(line.startswith("    ") for line in lines):
            continue
        if lines[0].startswith("|"):
            found += lines[2:]
            continue
        begins = [index for index, line in enumerate(lines) if line.startswith("- ")]
        bounds = sorted({0, *begins, len(lines)})
        found += [" ".join(lines[begin:end]) for begin, end in itertools.pairwise(bounds)]
    return found


@pytest.mark.parametrize("statement", statements(PAGE), ids=lambda statement: statement[:40])
def test_every_statement_names_its_test_or_says_why_there_is_none(statement: str) -> None:
    assert NAMED.search(statement) or "no test: " in statement


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_every_test_that_is_named_exists(file: str, name: str) -> None:
    (path,) = (ROOT / "test").rglob(file)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_statements_are_taken_apart() -> None:
    text = "# A\nx\ny\n\n| a | b |\n|---|---|\n| c | d |\n\n- e\n  f\n- g\n\n    code\n"
    assert statements(text) == ["x y", "| c | d |", "- e   f", "- g"]
