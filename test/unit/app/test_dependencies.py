# SPDX-License-Identifier: Apache-2.0
"""Whatever the package imports is declared: in package.xml or requirements/ros2.txt, and in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
# Name of a module's distribution, where it is another.
DISTRIBUTIONS = {
    "can": "python-can",
    "cython": "cython",
    "Cython": "cython",
    "dynamixel_sdk": "dynamixel-sdk",
    "ndicapy": "ndicapi",
    "PIL": "pillow",
    "serial": "pyserial",
    "yaml": "pyyaml",
}
ROSDEP = {name: f"python3-{name}" for name in ("numpy", "scipy", "yaml", "matplotlib", "serial", "can")} | {
    "PIL": "python3-pil"
}
# Of ROS 2, but not on PyPI: a copy is in cmake/, launch files need ROS 2 proper, and an action is served where it is.
NOT_ON_PYPI = {"tf2_msgs", "launch", "launch_ros", "control_msgs"}
WITH_RCLPY = {"ament_index_python"}
# Needed for a part only, and where it is missing the command reports what to install.
OPTIONAL = {"evdev": "evdev-binary"}
# Brought by those who use it: too large for an extra, and its functions name it where it is missing.
BROUGHT = {"stable_baselines3", "torch"}


def imported_modules() -> set[str]:
    """Top names of all modules that the package and its launch files import, except Python's own and its own."""
    found = set()
    for folder in ("continuum_robot", "launch"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"continuum_robot"} - BROUGHT


def launched_packages() -> set[str]:
    """ROS packages whose programs the launch files start by name."""
    text = (ROOT / "continuum_robot" / "app" / "launching" / "description.py").read_text(encoding="utf-8")
    return set(re.findall(r'package="(\w+)"', text))


IMPORTS = sorted(imported_modules())
PACKAGE_XML = ElementTree.parse(ROOT / "package.xml").getroot()
DECLARED = {element.text for kind in ("depend", "exec_depend") for element in PACKAGE_XML.iter(kind)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", one).group(0).lower() for one in requirements}


EXTRAS = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
ON_PYPI = names([*PROJECT["dependencies"], *EXTRAS])


IN_A_WORKSPACE = names(re.findall(r"^\w.*", (ROOT / "requirements" / "ros2.txt").read_text(), flags=re.MULTILINE))


def of_ros(module: str) -> bool:
    known = module in NOT_ON_PYPI | WITH_RCLPY or module.endswith("_msgs")
    return known or f"ros-{module.replace('_', '-')}" in ON_PYPI


@pytest.mark.parametrize("module", IMPORTS)
def test_what_is_imported_comes_with_an_installation_from_pypi(module):
    if module in NOT_ON_PYPI | WITH_RCLPY:
        return
    desired = f"ros-{module.replace('_', '-')}" if of_ros(module) else DISTRIBUTIONS.get(module, module)
    assert OPTIONAL.get(module, desired) in ON_PYPI, f"{module}: neither dependency nor extra in pyproject.toml"


@pytest.mark.parametrize("module", IMPORTS)
def test_what_is_imported_comes_with_an_installation_on_ros_2_proper(module):
    if of_ros(module):
        assert module in DECLARED, f"{module}: no exec_depend in package.xml"
    else:
        by_rosdep = ROSDEP.get(module) in DECLARED
        by_pip = DISTRIBUTIONS.get(module, module) in IN_A_WORKSPACE
        assert by_rosdep or by_pip, f"{module}: neither in package.xml nor in requirements/ros2.txt"


def test_programs_that_launch_files_start_are_declared():
    assert launched_packages() <= DECLARED
    assert "rviz2" in launched_packages()


def test_what_a_workspace_takes_from_pypi_is_imported():
    of_extras = {"evdev"}  # evdev-binary in the extra: a wheel
    assert IN_A_WORKSPACE - of_extras <= ON_PYPI
    assert {"casadi", "python-can", "pyserial", "websockets", "msgspec"} <= IN_A_WORKSPACE


def test_no_service_callback_is_a_coroutine():
    """rclpy's EventsExecutor before 7.1.11 (Jazzy) does not answer those."""
    for file in (ROOT / "continuum_robot").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "async def" not in text:
            continue
        tree = ast.parse(text)
        coroutines = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("create_service"):
                assert ast.unparse(node.args[2]).rpartition(".")[2] not in coroutines, file.name
