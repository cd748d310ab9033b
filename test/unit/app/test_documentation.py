# SPDX-License-Identifier: Apache-2.0
"""The documentation against the code: keys of the robot file, commands, topics, links."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from pages.robot_file import page
from robot_files import documented_robot, robot_values

from continuum_robot.app.check import abilities
from continuum_robot.app.judgement import judge
from continuum_robot.models.making import robot_model
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
NODES = ROOT / "continuum_robot" / "nodes"


def test_the_page_of_the_robot_file_is_what_the_dataclasses_say() -> None:
    written = (DOCS / "reference" / "robot_file.md").read_text(encoding="utf-8")
    assert written == page(), "run: make pages"


def test_the_example_of_the_page_of_the_robot_file_is_a_robot_that_works(tmp_path: Path) -> None:
    """Its demo: test_stack.py."""
    robot = load_robot(documented_robot(tmp_path))
    assert (robot.name, robot.tendon_count, robot.takes_displacements) == ("my_robot", 3, True)
    assert judge(robot, robot_model(robot)).works
    assert not any(abilities(robot)[command] for command in ("up", "demo"))


def keys(value: Any) -> set[str]:
    """Keys of nested mappings."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_the_page_of_the_robot_file_holds_every_key_of_the_shipped_robots() -> None:
    text = page()
    for robot in shipped_robots():
        for key in keys(robot_values({}, robot)):
            assert f"| `{key}` |" in text


@pytest.mark.parametrize(
    "file", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=lambda file: file.name
)
def test_links_between_pages_lead_somewhere(file: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8"))
    for target in targets:
        if "://" not in target:
            assert (file.parent / target).exists(), target


def test_the_program_of_the_readme_bends_the_robot() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["robot"].state.clarke_m == pytest.approx([0.002, 0.0, 0.0, 0.001], abs=1e-4)


def first_arguments(*functions: str) -> set[str]:
    """Texts that nodes/ passes as topic, service or parameter name to methods of these names."""
    found: set[str] = set()
    for file in sorted(NODES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in functions:
                texts = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
                found |= {text for text in texts[:1] if isinstance(text, str)}
    return found


def test_every_topic_and_service_is_documented() -> None:
    text = (DOCS / "reference" / "topics.md").read_text(encoding="utf-8")
    creators = (
        "create_publisher",
        "create_subscription",
        "create_service",
        "resolve_topic_name",
        "resolve_service_name",
        *("output", "heard", "service"),  # lines of components
    )
    names = first_arguments(*creators)
    assert {"tendon_states", "estop", "~/restart"} <= names
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_every_parameter_is_documented() -> None:
    text = (DOCS / "reference" / "parameters.md").read_text(encoding="utf-8")
    names = {name for name in first_arguments("declare") if name != "visualize"}
    assert {"rate_hz", "simulation_level", "autostart"} <= names
    composition_only = {
        "record", "controller", "contact", "tracker", "reaction", "force_sensor", "predictive", "force_port", "run_s"
    }  # fmt: skip
    assert {name for name in names - composition_only if f"| `{name}` |" not in text} == set()


def test_no_documented_topic_is_gone() -> None:
    text = (DOCS / "reference" / "topics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([\w/~]+)` \|", text, re.M))
    source = "".join(file.read_text(encoding="utf-8") for file in NODES.rglob("*.py"))
    assert {name for name in documented if f'"{name}"' not in source} == set()


def test_every_action_is_documented() -> None:
    text = (DOCS / "reference" / "topics.md").read_text(encoding="utf-8")
    for kind in (file.stem for file in (ROOT / "action").glob("*.action")):
        assert f"| {kind} |" in text


@pytest.mark.parametrize("file", sorted(NODES.rglob("*.py")), ids=lambda file: file.name)
def test_no_absolute_topic_names(file: Path) -> None:
    conventional = {"/diagnostics", "/tf", "/rosout", "/clock"}
    absolute = set(re.findall(r'(?:create_publisher|create_subscription)\(\s*[\w\[\]., ]*?"(/\w+)"', file.read_text()))
    assert absolute <= conventional
