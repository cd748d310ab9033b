# SPDX-License-Identifier: Apache-2.0
"""Nodes as programs: each ends in good order on a signal, and bad input gets one clear sentence."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from continuum_robot.errors import MISCONFIGURED

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import Probe
from ros_processes import Processes

pytestmark = [pytest.mark.ros]

LONG_S = 300.0
"""For what takes a second: they give way to the files in real time, and those to whatever else the machine does."""


def long(*cases):
    """A program takes seconds to start: what others show of each node, or of the refusals, is left to LONG=1."""
    return [pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.long) for one in cases]


@pytest.fixture
def processes(domain, tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.close()


@pytest.fixture
def probe(domain):
    with Probe() as probe:
        yield probe


@pytest.mark.parametrize(
    "node",
    [
        "simulator",
        "recorder",
        "supervisor",
        *long(
            "clarke_controller",
            "string_encoder",
            "shape_estimator",
            "contact_monitor",
            "reference_source",
            "robot_visualizer",
        ),
    ],
)
def test_every_node_ends_cleanly_on_sigterm(processes, probe, node, tmp_path):
    parameters = {
        "supervisor": ["node_names:=[tendon_driver]", "discovery_timeout_s:=30.0"],
        "recorder": [f"directory:={tmp_path / 'runs'}"],
    }.get(node, ["activate:=true"])
    processes.start(node, *parameters)
    probe.wait(lambda: f"/{node}: lifecycle" in probe.diagnostics, LONG_S)
    assert processes.stop(node, timeout_s=LONG_S) == 0
    assert "Traceback" not in processes.log(node)
    if node == "recorder":
        assert list((tmp_path / "runs").glob("*/metadata.yaml"))


@pytest.mark.parametrize("node", ["tendon_driver", *long("clarke_controller", "composition")])
def test_a_missing_robot_file_is_one_sentence_and_a_failure(processes, node):
    assert processes.start(node, "robot:=no_such_robot").wait(LONG_S) == MISCONFIGURED
    lines = [line for line in processes.log(node).splitlines() if line.strip()]
    assert len(lines) == 1
    assert "no_such_robot" in lines[0]
    assert "opencr_five_tendon" in lines[0]  # what there is instead


def test_a_malformed_robot_file_names_file_line_and_key(processes, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("schema_version: 1\nname: bad\nsegmentz: []\n")
    assert processes.start("composition", f"robot:={file}").wait(LONG_S) == MISCONFIGURED
    log = processes.log("composition")
    assert "bad.yaml:3" in log
    assert "segmentz" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("parameter", "words", "code"),
    [
        ("rate_hz:=1000", ("rate_hz", "decimal number"), MISCONFIGURED),
        *long(
            ("rate_hz:=1.0e9", ("rate_hz", "4000"), MISCONFIGURED),
            ("simulation_level:=magic", ("simulation_level", "dynamics"), MISCONFIGURED),
            ("limits.maximum_n:=1.0", ("minimum_n", "maximum_n"), 1),
        ),
        # Refused when the node is configured, which a supervisor may ask for again.
        ("limits.maximum_n:=25.0", ("limits.maximum_n", "25", "at most 20 N", "the robot file's"), 1),
    ],
)
def test_bad_start_values_are_one_sentence(processes, parameter, words, code):
    assert processes.start("tendon_driver", parameter, "activate:=true").wait(LONG_S) == code
    log = processes.log("tendon_driver")
    for word in words:
        assert word in log
    assert "Traceback" not in log


def test_a_late_node_that_is_refused_takes_the_earlier_ones_with_it(processes):
    """The visualizer is made behind the driver, whose threads end before the interpreter does."""
    assert processes.start("composition", "rate_hz:=200.0").wait(LONG_S) == MISCONFIGURED
    lines = [line for line in processes.log("composition").splitlines() if line.strip()]
    assert len(lines) == 1
    assert "rate_hz" in lines[0]


def test_hardware_that_is_not_there_is_named_and_ends_the_program(processes):
    assert processes.start("tendon_driver", "use_fake_hardware:=false", "activate:=true").wait(LONG_S) == 1
    log = processes.log("tendon_driver")
    assert "can0" in log
    assert "Traceback" not in log
    assert processes.start("string_encoder", "use_fake_hardware:=false", "activate:=true").wait(LONG_S) == 1
    assert "/dev/continuum_robot_strings" in processes.log("string_encoder")


@pytest.mark.long
@pytest.mark.parametrize(
    ("node", "parameter", "word"),
    [
        ("tendon_driver", "use_mock_hardware:=false", "can0"),
        ("simulator", "use_fake_hardware:=false", "use_fake_hardware"),
    ],
)
def test_the_other_name_of_it_and_a_simulator_of_it(processes, node, parameter, word):
    assert processes.start(node, parameter, "activate:=true").wait(LONG_S) == 1
    assert word in processes.log(node)


def test_hardware_that_the_file_does_not_describe_is_refused(processes):
    arguments = ("robot:=two_segment", "use_fake_hardware:=false", "activate:=true")
    assert processes.start("tendon_driver", *arguments).wait(LONG_S) == 1
    assert "hardware section" in processes.log("tendon_driver")


def test_a_domain_that_does_not_exist_is_one_sentence(processes, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "9999")
    assert processes.start("tendon_driver").wait(LONG_S) == MISCONFIGURED
    log = processes.log("tendon_driver")
    assert "ROS_DOMAIN_ID" in log
    assert "9999" in log
    assert "Traceback" not in log


HANGING_AT_ITS_END = """
import sys, threading
from continuum_robot.nodes.base import spinning
from continuum_robot.nodes.base.component import ComponentNode
from continuum_robot.nodes.shape_estimator import ShapeFromSensors

spinning.EXIT_LIMIT_S = 1.0

class Hanging(ComponentNode):
    def destroy_node(self):
        threading.Event().wait()

sys.exit(spinning.run_node(lambda: Hanging(ShapeFromSensors)))
"""


def test_a_program_that_hangs_at_its_end_says_where_and_ends(probe, tmp_path):
    log = tmp_path / "hanging.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING_AT_ITS_END, "--ros-args", "-p", "activate:=true"], stdout=file, stderr=file
        )
    try:
        probe.wait(lambda: "/shape_estimator: lifecycle" in probe.diagnostics, LONG_S)
        process.terminate()
        assert process.wait(LONG_S) == 1
    finally:
        process.kill()
        process.wait()
    assert "in destroy_node" in log.read_text()


def test_each_program_that_is_installed_finds_its_main() -> None:
    text = (Path(__file__).parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    names = re.search(r"foreach\(node ([^)]*)\)", text)
    assert names is not None
    programs = names[1].split()
    assert "tendon_driver" in programs
    for name in programs:
        assert callable(importlib.import_module(f"continuum_robot.nodes.{name}").main), name
