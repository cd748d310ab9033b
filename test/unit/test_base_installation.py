# SPDX-License-Identifier: Apache-2.0
"""The library works with the base installation alone, and what needs an extra says which."""

from __future__ import annotations

import subprocess
import sys

import pytest

from continuum_robot.errors import _EXTRAS

BLOCKED = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in MODULES or top == "rclpy" or top.endswith("_msgs") or name == "continuum_robot.msg":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""
LIBRARY = """
import importlib
import numpy as np
from continuum_robot import Rod, load_robot
from continuum_robot.errors import MissingPackageError
from continuum_robot.testing import VirtualStack
for name in ("control.policy", "control.tip.predictive", "drivers.backends", "estimation.contact.monitor", "mechanisms",
             "identification.procedures.record", "models.making", "simulation.wire.hardware", "simulation.plant"):
    importlib.import_module(f"continuum_robot.{name}")
print(Rod(load_robot("two_segment")).equilibria([[4.0] + 9 * [0.5]]).c.shape)
for level in ("dynamics", "wire"):
    with VirtualStack("opencr_five_tendon", level=level) as stack:
        stack.activate(take_up=False)
        stack.run(0.005)
        print(stack.faults)
def refused(ask):
    try:
        ask()
    except MissingPackageError as error:
        print(error)
refused(lambda: importlib.import_module("continuum_robot.envs"))
refused(lambda: importlib.import_module("continuum_robot.client"))
from continuum_robot.control.tip.predictive_problem import ca
refused(lambda: ca.DM())
from continuum_robot.drivers.can_bus import bus_of
refused(lambda: bus_of("slcan", "nowhere", 1_000_000))
refused(lambda: bus_of("socketcan", "nowhere", 1_000_000))
from continuum_robot.drivers.serial_port import ports
refused(ports)
"""
PROGRAM = """
from continuum_robot.app import main
sys.exit(main())
"""


def run(code: str, *allowed: str) -> subprocess.CompletedProcess[str]:
    """A program that finds none of the extras' modules but those of the ones ``allowed``."""
    modules = {module for extra, names in _EXTRAS.items() if extra not in allowed for module in names}
    code = BLOCKED.replace("MODULES", repr(modules)) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def library() -> list[str]:
    done = run(LIBRARY)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_statics_and_a_virtual_stack_need_no_extra(library):
    assert library[:3] == ["(1, 4)", "[]", "[]"]


def test_what_needs_an_extra_says_which_in_a_sentence(library):
    extras = ("learn", "ros", "predictive", "devices", "devices", "devices")
    assert len(library) == 3 + len(extras)
    for sentence, extra in zip(library[3:], extras, strict=True):
        assert f"pip install 'continuum-robot[{extra}]'" in sentence


@pytest.mark.parametrize(("arguments", "allowed", "extra"), [
    (["--help"], (), "app"), (["demo"], ("app", "devices"), "ros"),
])  # fmt: skip
def test_the_command_line_says_what_to_install(arguments, allowed, extra):
    done = run(f"sys.argv[1:] = {arguments}" + PROGRAM, *allowed)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("continuum-robot: this needs")
    assert f"pip install 'continuum-robot[{extra}]'" in done.stderr
