# SPDX-License-Identifier: Apache-2.0
"""The house: what import-linter (pyproject.toml) does not see of it, and licence lines."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "continuum_robot"
WITH_ROS = {"nodes", "app", "client"}
# What import-linter does not see: messages are generated, and so no modules of the package, and imports by name.
UNSEEN = re.compile(
    r"\bcontinuum_robot(\.| import )(msg|srv|action)\b|(import_module|__import__)\(['\"](rclpy|continuum_robot)\b"
)
SKIPPED = {"build", "install", "log", "runs"}


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def folder_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else file.stem


def test_messages_and_imports_by_name_belong_to_nodes_and_app() -> None:
    found = {
        str(file.relative_to(PACKAGE))
        for file in python_files(PACKAGE)
        if folder_of(file) not in WITH_ROS and UNSEEN.search(file.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("from continuum_robot.msg import TendonStates", True),
        ("def f():\n    from continuum_robot import srv", True),
        ("import importlib\nimportlib.import_module('rclpy')", True),
        ("from continuum_robot.robot.loading import load_robot", False),
    ],
)
def test_they_are_seen(source: str, seen: bool) -> None:
    assert bool(UNSEEN.search(source)) == seen


# Who may step the safety logic: the cycle of the driver alone, and what the safety logic itself is made of.
STEPS_SAFETY = {"runtime/cycle/driver_cycle.py", "drivers/safety/cycle.py", "drivers/safety/tendon_safety.py"}


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
    assert safety_steps((PACKAGE / "runtime" / "cycle" / "driver_cycle.py").read_text(encoding="utf-8"))


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


def test_source_files_begin_with_their_licence() -> None:
    without = []
    for file in source_files():
        lines = file.read_text(encoding="utf-8").splitlines() or [""]
        if lines[lines[0].startswith("#!")] != "# SPDX-License-Identifier: Apache-2.0":
            without.append(str(file.relative_to(ROOT)))
    assert without == []


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
        if folder_of(file) not in WITH_ROS
    ]
    program = f"import sys; sys.modules['rclpy'] = None\nfor name in {modules!r}: __import__(name)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, cwd=ROOT)


# What a robot is made of is asked where parts are made, and nowhere else: robot/traits.py shows what it can do, the
# model in models/ gives its parts.
KIND = re.compile(
    r"\.mechanism\b|isinstance\([^)]*\b(RollingJoint|EquilibriumModulation|\w*Routing)\b"
    r"|\b(if|not|and|or) (self\.)?_?robot\.segments\b(?!\[)"
)
MAKES_PARTS = {
    "mechanisms/equilibrium_modulation/segment.py",
    "mechanisms/rolling_joint/building.py",
}


def test_a_robot_is_asked_for_its_kind_where_its_parts_are_made() -> None:
    asking = {
        str(file.relative_to(PACKAGE))
        for file in python_files(PACKAGE)
        if file.relative_to(PACKAGE).parts[0] != "robot" and KIND.search(file.read_text(encoding="utf-8"))
    }
    assert asking == MAKES_PARTS
