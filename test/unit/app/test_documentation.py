# SPDX-License-Identifier: Apache-2.0
"""The documentation against the code: keys of the robot file, commands, topics, links."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest

from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity_of

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def nested_dataclasses(kind: type) -> dict[str, type]:
    """Every dataclass reachable from ``kind``, by name."""
    found = {kind.__name__: kind}
    for hint in typing.get_type_hints(kind).values():
        for candidate in [hint, *typing.get_args(hint)]:
            if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
                found |= nested_dataclasses(candidate)
    return found


@pytest.mark.parametrize("kind", nested_dataclasses(Robot).values(), ids=lambda kind: kind.__name__)
def test_every_key_of_the_robot_file_is_documented_with_its_unit(kind: type) -> None:
    text = (DOCS / "robot_file.md").read_text(encoding="utf-8")
    for field in dataclasses.fields(kind):
        if field.init:
            quantity = quantity_of(field)
            assert re.search(
                rf"^\| `{field.name}` \| {re.escape(quantity.unit)} \|.*{re.escape(quantity.doc)}", text, re.M
            )


def test_robot_file_page_names_no_key_that_does_not_exist() -> None:
    text = (DOCS / "robot_file.md").read_text(encoding="utf-8")
    known = {field.name for kind in nested_dataclasses(Robot).values() for field in dataclasses.fields(kind)}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) == known - {"file_name"}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    for target in targets:
        if "://" not in target:
            assert (page.parent / target).exists(), target
