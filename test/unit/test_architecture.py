# SPDX-License-Identifier: Apache-2.0
"""The house: which folder may import which, where rclpy may be, licence lines and docstrings, by the syntax trees."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "continuum_robot"
# Higher numbers may import lower ones.
LEVELS = {
    "__init__": 0,
    "errors": 0,
    "workers": 1,
    "geometry": 1,
    "robot": 2,
    "rod": 3,
    "mechanisms": 3,
    "estimation": 4,
    "control": 4,
    "stepped": 1,
    "drivers": 5,
    "runtime": 6,
    "simulation": 6,
    "models": 6.5,
    "identification": 6,
    "nodes": 7,
    "experiments": 7,
    "app": 7,
    "client": 8,  # what a user imports; hands on what app/ has
}
# Arrows between folders of the same level that are natural.
SIDEWAYS = {
    ("simulation", "runtime"),  # its clocks
    ("runtime", "identification"),  # the driver's loop runs procedures
    ("mechanisms", "rod"),  # its code generation and statics
    ("app", "nodes"),
    ("app", "experiments"),
}
ROS = {"rclpy", "rcl_interfaces", "launch", "launch_ros"} | {
    f"{name}_msgs" for name in ("std", "geometry", "nav", "sensor", "diagnostic", "lifecycle", "tf2", "visualization")
}
WITH_ROS = {"nodes", "app"}
GENERATED = {"msg", "srv", "action"}
SKIPPED = {"build", "install", "log", "runs"}


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imported_modules(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every import, wherever it stands in the file, those for type checking too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def folder_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else file.stem


def wrong_imports(file: Path, source: str) -> list[str]:
    """What a file of the package may not import, as sentences."""
    folder = folder_of(file)
    package = ".".join(["continuum_robot", *file.relative_to(PACKAGE).parts[:-1]])
    problems = []
    for line, name in imported_modules(ast.parse(source), package):
        top, *rest = name.split(".")
        place = f"{file.relative_to(ROOT)}:{line}"
        if top in ROS and folder not in WITH_ROS:
            problems.append(f"{place}: {top} belongs to nodes/ and app/")
        if top != "continuum_robot" or not rest:
            continue
        if rest[0] in GENERATED:
            if folder not in WITH_ROS:
                problems.append(f"{place}: messages belong to nodes/ and app/")
        elif rest[0] in LEVELS and rest[0] != folder:
            allowed = LEVELS[rest[0]] < LEVELS[folder] or (folder, rest[0]) in SIDEWAYS
            if not allowed:
                problems.append(f"{place}: {folder}/ may not import {rest[0]}/")
    return problems


@pytest.mark.parametrize("file", python_files(PACKAGE), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_follow_the_arrows_of_the_house(file: Path) -> None:
    assert wrong_imports(file, file.read_text()) == []


@pytest.mark.parametrize(
    ("file", "source", "problems"),
    [
        ("rod/a.py", "import rclpy", 1),
        ("rod/a.py", "from continuum_robot.control import pid", 1),
        ("rod/a.py", "def f():\n    from continuum_robot.nodes import qos", 1),
        ("rod/a.py", "from continuum_robot.robot.loading import load_robot", 0),
        ("rod/a.py", "from .. import app", 1),
        ("rod/a.py", "from continuum_robot.msg import TendonStates", 1),
        ("rod/a.py", "from ..geometry import so3", 0),
        ("rod/a.py", "import importlib\nimportlib.import_module('rclpy')", 1),
        ("simulation/a.py", "from continuum_robot.drivers import protocols", 0),
        ("drivers/a.py", "from continuum_robot.simulation import plant", 1),
        ("nodes/a.py", "import rclpy\nfrom continuum_robot.msg import Shape", 0),
        ("geometry/a.py", "from continuum_robot.errors import ParameterError", 0),
        ("experiments/a.py", "from std_msgs.msg import Header", 1),
    ],
)
def test_the_walk_sees_wrong_arrows(file: str, source: str, problems: int) -> None:
    assert len(wrong_imports(PACKAGE / file, source)) == problems


def test_every_folder_of_the_package_has_its_place_in_the_house() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert folders <= LEVELS.keys()


# Who may step the safety logic: the cycle of the driver alone, and what the safety logic itself is made of.
STEPS_SAFETY = {"runtime/driver_cycle.py", "drivers/safety_cycle.py", "drivers/tendon_safety.py"}


def safety_steps(source: str) -> list[int]:
    """Lines that step the safety logic: a method of what is called safety, or of a TendonSafety made on the spot."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("step", "step_once", "update")
        ):
            owner = ast.unparse(node.func.value).lower()
            if owner.rpartition(".")[2].strip("_") == "safety" or "safety(" in owner:
                found.append(node.lineno)
    return found


def test_nothing_steps_the_safety_logic_outside_of_the_drivers_cycle() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in python_files(PACKAGE)
        if str(file.relative_to(PACKAGE)) not in STEPS_SAFETY
        for line in safety_steps(file.read_text(encoding="utf-8"))
    }
    assert found == set()
    assert safety_steps((PACKAGE / "runtime" / "driver_cycle.py").read_text(encoding="utf-8"))


def test_the_walk_sees_who_steps_the_safety_logic() -> None:
    source = "safety.step(1)\nself._safety.update(2)\nTendonSafety(robot).step_once(3)\nsafety.reset()\nplant.step(4)\n"
    assert safety_steps(source) == [1, 2, 3]


def source_files() -> list[Path]:
    patterns = ("*.py", "*.cmake", "CMakeLists.txt", "*.yaml", "*.rviz", "Makefile")
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not (name.startswith(".") or name in SKIPPED)]
        kept = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
        found += [Path(folder, name) for name in kept if not name.startswith(".") and name not in SKIPPED]
    return sorted(file for file in found if not file.relative_to(ROOT).parts[0].endswith(".egg-info"))


@pytest.mark.parametrize("file", source_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_source_files_begin_with_their_licence(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    first = lines[1] if lines and lines[0].startswith("#!") else lines[0] if lines else ""
    assert first == "# SPDX-License-Identifier: Apache-2.0"


def undocumented(tree: ast.Module) -> list[str]:
    """Public classes, functions and methods without a docstring, by line and name."""
    missing = [] if ast.get_docstring(tree) else ["the module"]

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            decorators = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
            told_elsewhere = any(name.endswith((".setter", "overload", "override")) for name in decorators)
            if node.name.startswith("_") or told_elsewhere:
                continue
            if not ast.get_docstring(node):
                missing.append(f"line {node.lineno}: {prefix}{node.name}")
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return missing


@pytest.mark.parametrize("file", python_files(PACKAGE), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_public_names_have_docstrings(file: Path) -> None:
    assert undocumented(ast.parse(file.read_text())) == []


def test_the_walk_sees_missing_docstrings() -> None:
    source = '"""m"""\nclass A:\n    """a"""\n    def b(self): ...\n    def _c(self): ...\ndef d(): ...\n'
    assert undocumented(ast.parse(source)) == ["line 4: A.b", "line 6: d"]


def test_the_tendon_driver_imports_nothing_of_the_simulation() -> None:
    """On hardware nothing simulated is loaded, directly or by what it imports."""
    pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
    program = (
        "import sys, continuum_robot.nodes.tendon_driver\n"
        # What only fits of records need takes a fourth of the time in which a driver's process starts.
        "unwanted = ('continuum_robot.simulation', 'scipy.signal', 'scipy.stats')\n"
        "sys.exit(', '.join(name for name in sys.modules if name.startswith(unwanted)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, cwd=ROOT)


def test_algorithms_import_without_ros() -> None:
    """Everything below nodes/ loads where rclpy and the messages do not exist."""
    modules = [
        ".".join(["continuum_robot", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        for file in python_files(PACKAGE)
        if LEVELS.get(folder_of(file), 0) < LEVELS["nodes"] or folder_of(file) == "experiments"
    ]
    program = f"import sys; sys.modules['rclpy'] = None\nfor name in {modules!r}: __import__(name)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, cwd=ROOT)


# What a robot is made of is asked where parts are made, and nowhere else: robot/traits.py tells what it can do, the
# model in models/ gives its parts.
KIND = re.compile(r"\.mechanism\b|beyond_bending\(|isinstance\([^)]*\b(RollingJoint|EquilibriumModulation)\b")
MAKES_PARTS = {
    "app/fake_level.py",  # how long a general rod takes here
    "estimation/contact_channels.py",
    "estimation/shape.py",
    "mechanisms/equilibrium_modulation/building.py",
    "mechanisms/rolling_joint/building.py",
    "rod/contact_functions.py",
    "rod/feedforward.py",
    "rod/tendons.py",
    "simulation/plant.py",
}


def test_a_robot_is_asked_for_its_kind_where_its_parts_are_made() -> None:
    asking = {
        str(file.relative_to(PACKAGE))
        for file in python_files(PACKAGE)
        if file.relative_to(PACKAGE).parts[0] != "robot" and KIND.search(file.read_text(encoding="utf-8"))
    }
    assert asking == MAKES_PARTS
