# SPDX-License-Identifier: Apache-2.0
"""No file of more than 400 lines without a reason, no folder of more than 20 files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "continuum_robot"
LINES = 400
FILES = 20
ONE_CLASS = "one class: its methods share a state that would have to be handed over"
ONE_NODE = "one node: parameters, topics and lifecycle of one class, mostly declarations; the algorithm is elsewhere"
STEPPED = "one compiled class: Cython binds its attributes and methods only within a module"
LONG_FILES = {
    "app/client/robot.py": "the client's public methods, a few lines each: what users look for in one class",
    "app/client/stack_link.py": "the one link to a stack: a method for each topic, service and action",
    "app/commands/running.py": "signatures and help texts of commands; what they do is elsewhere",
    "control/contact_reaction.py": ONE_CLASS,
    "control/tip/predictive.py": ONE_CLASS,
    "drivers/dynamixel/actuators.py": ONE_CLASS,
    "estimation/contact/monitor.py": ONE_CLASS,
    "experiments/fault_campaign/virtual_robot.py": ONE_CLASS,
    "experiments/johnston/segment.py": "one robot and the expressions of its model",
    "nodes/clarke_controller.py": ONE_NODE,
    "nodes/contact_monitor.py": ONE_NODE,
    "nodes/driver/lockstep.py": ONE_CLASS,
    "nodes/reference_source.py": ONE_NODE,
    "nodes/supervisor.py": "one state machine: every operation reads and sets the stack's state",
    "nodes/tendon_driver.py": ONE_NODE,
    "rod/cosserat/boundary_value.py": ONE_CLASS,
    "rod/step.py": "the formulas of one step of a rod, each a generated function that others call",
    "runtime/cycle/driver_cycle.py": STEPPED,
    "runtime/cycle/driver_loop.py": ONE_CLASS,
    "simulation/devices/tendon_actuators.py": ONE_CLASS,
    "simulation/wire/hardware.py": ONE_CLASS,
    "simulation/wire/odri_board.py": ONE_CLASS,
}


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_a_long_file_has_a_reason() -> None:
    lengths = {file.relative_to(PACKAGE).as_posix(): len(file.read_text("utf-8").splitlines()) for file in _files()}
    assert {name for name, length in lengths.items() if length > LINES} == set(LONG_FILES)


def test_a_folder_has_few_files() -> None:
    counts = Counter(file.parent for file in _files())
    assert {folder.name: count for folder, count in counts.items() if count > FILES} == {}
