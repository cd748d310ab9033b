# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: signals end them in good order, a killed one is noticed, bad input gets one clear sentence."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from ros_probe import PATIENT, Probe, pause

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

DRIVER = ["rate_hz:=250.0", *(f"{name}:={value}" for name, value in PATIENT.items())]
CORE = ("simulator", "tendon_driver", "clarke_controller", "reference_source")


class Processes:
    """Node programs, started as a user would; all are gone at the end."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str, *parameters: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"continuum_robot.nodes.{node}", "--ros-args"]
        for parameter in parameters:
            command += ["-p", parameter]
        log = (self.folder / f"{node}.log").open("ab")
        self.running[node] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        return self.running[node]

    def log(self, node: str) -> str:
        return (self.folder / f"{node}.log").read_text(errors="replace")

    def stop(self, node: str, number: int = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        process = self.running.pop(node)
        process.send_signal(number)
        return process.wait(timeout_s)

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
            process.kill()
            process.wait(5.0)


@pytest.fixture
def processes(domain, tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.close()


@pytest.fixture
def probe(domain):
    with Probe() as probe:
        probe.listen_to_stack()
        yield probe


def bring_up(processes: Processes, probe: Probe) -> None:
    for node in CORE:
        processes.start(node, *(DRIVER if node == "tendon_driver" else []))
    processes.start("supervisor", f"node_names:=[{', '.join(CORE)}]")
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 120.0, "did not come up")


def test_a_killed_controller_and_its_recovery_without_restarting_the_driver(processes, probe):
    bring_up(processes, probe)
    processes.stop("clarke_controller", signal.SIGKILL)
    # The supervisor notices that the node is gone, names it, and releases the tendons.
    lost = "node_lost: clarke_controller"
    probe.wait(lambda: lost in probe.newest("stack_status").faults)
    probe.wait(lambda: probe.lifecycle_state("tendon_driver") == "inactive")
    probe.wait(lambda: probe.stack_state() == "fault")
    driver = processes.running["tendon_driver"]
    processes.start("clarke_controller")
    pause(1.5)
    response = probe.manage(ManageStack.Request.RESET, 60.0)
    assert response.success, response.message
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    pause(1.0)  # the dead controller is still listed as a publisher: that alone is no second writer
    assert probe.faults() == []
    assert driver.poll() is None
    # Ctrl-C on the whole stack: all end with 0.
    for process in processes.running.values():
        process.send_signal(signal.SIGINT)
    codes = {name: process.wait(60.0) for name, process in processes.running.items()}
    assert set(codes.values()) == {0}, codes
    assert "Traceback" not in "".join(processes.log(name) for name in codes)


def test_sigterm_to_the_reference_source_pauses_the_stack(processes, probe):
    bring_up(processes, probe)
    assert processes.stop("reference_source") == 0
    probe.wait(lambda: "node_lost: reference_source" in probe.newest("stack_status").faults)
    probe.wait(lambda: probe.driver_state() == "inactive", what="the tendons were not released")
    # SIGTERM to the supervisor brings the rest down.
    assert processes.stop("supervisor") == 0
    probe.wait(lambda: probe.lifecycle_state("tendon_driver") == "unconfigured")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_driver_releases_the_tensions(processes, probe, number):
    processes.start("simulator", "activate:=true")
    probe.wait(lambda: "/simulator: lifecycle" in probe.diagnostics, 90.0)
    probe.wait(lambda: probe.lifecycle_state("simulator") == "active", 90.0)
    processes.start("tendon_driver", "activate:=true", *DRIVER)
    driver = processes.running["tendon_driver"]
    probe.wait(lambda: probe.driver_state() == "active" or driver.poll() is not None, 90.0)
    assert driver.poll() is None, processes.log("tendon_driver")
    pause(0.3)
    probe.received["driver_status"].clear()
    assert processes.stop("tendon_driver", number) == 0
    states = [next(v.value for v in m.values if v.key == "state") for m in probe.received["driver_status"]]
    assert "inactive" in states
    final = probe.newest("driver_status")
    assert next(v.value for v in final.values if v.key == "powered") == "false"
    assert "Traceback" not in processes.log("tendon_driver")


@pytest.mark.parametrize(
    "node",
    [
        "simulator",
        "string_encoder",
        "shape_estimator",
        "contact_monitor",
        "clarke_controller",
        "reference_source",
        "robot_visualizer",
        "recorder",
        "supervisor",
    ],
)
def test_every_node_ends_cleanly_on_sigterm(processes, probe, node, tmp_path):
    parameters = {
        "supervisor": ["node_names:=[tendon_driver]", "discovery_timeout_s:=30.0"],
        "recorder": [f"directory:={tmp_path / 'runs'}"],
    }.get(node, ["activate:=true"])
    processes.start(node, *parameters)
    probe.wait(lambda: f"/{node}: lifecycle" in probe.diagnostics, 90.0)
    assert processes.stop(node) == 0
    assert "Traceback" not in processes.log(node)
    if node == "recorder":
        assert list((tmp_path / "runs").glob("*/metadata.yaml"))


@pytest.mark.parametrize("node", ["tendon_driver", "clarke_controller", "composition"])
def test_a_missing_robot_file_is_one_sentence_and_a_failure(processes, node):
    assert processes.start(node, "robot:=no_such_robot").wait(90.0) == 1
    lines = [line for line in processes.log(node).splitlines() if line.strip()]
    assert len(lines) == 1
    assert "no_such_robot" in lines[0]
    assert "opencr_five_tendon" in lines[0]  # what there is instead


def test_a_malformed_robot_file_names_file_line_and_key(processes, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("schema_version: 1\nname: bad\nsegmentz: []\n")
    assert processes.start("composition", f"robot:={file}").wait(90.0) == 1
    log = processes.log("composition")
    assert "bad.yaml:3" in log
    assert "segmentz" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("rate_hz:=1000", ("rate_hz", "decimal number")),
        ("rate_hz:=1.0e9", ("rate_hz", "4000")),
        ("fake_level:=magic", ("fake_level", "mirror")),
        ("limits.minimum_n:=25.0", ("minimum_n", "maximum_n")),
    ],
)
def test_bad_start_values_are_one_sentence(processes, parameter, words):
    code = processes.start("tendon_driver", parameter, "activate:=true").wait(90.0)
    assert code == 1
    log = processes.log("tendon_driver")
    for word in words:
        assert word in log
    assert "Traceback" not in log


def test_a_late_node_that_is_refused_takes_the_earlier_ones_with_it(processes):
    """The visualizer is made behind the driver, whose threads end before the interpreter does."""
    assert processes.start("composition", "rate_hz:=200.0").wait(90.0) == 1
    lines = [line for line in processes.log("composition").splitlines() if line.strip()]
    assert len(lines) == 1
    assert "rate_hz" in lines[0]


def test_hardware_that_is_not_there_is_named_and_ends_the_program(processes):
    assert processes.start("tendon_driver", "use_fake_hardware:=false", "activate:=true").wait(90.0) == 1
    log = processes.log("tendon_driver")
    assert "can0" in log
    assert "Traceback" not in log
    assert processes.start("tendon_driver", "use_mock_hardware:=false", "activate:=true").wait(90.0) == 1
    assert processes.start("simulator", "use_fake_hardware:=false", "activate:=true").wait(90.0) == 1
    assert "use_fake_hardware" in processes.log("simulator")
    assert processes.start("string_encoder", "use_fake_hardware:=false", "activate:=true").wait(90.0) == 1
    assert "/dev/continuum_robot_strings" in processes.log("string_encoder")


def test_hardware_that_the_file_does_not_describe_is_refused(processes):
    arguments = ("robot:=two_segment", "use_fake_hardware:=false", "activate:=true")
    assert processes.start("tendon_driver", *arguments).wait(90.0) == 1
    assert "hardware section" in processes.log("tendon_driver")


def test_a_domain_that_does_not_exist_is_one_sentence(processes, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "9999")
    assert processes.start("tendon_driver").wait(90.0) == 1
    log = processes.log("tendon_driver")
    assert "ROS_DOMAIN_ID" in log
    assert "9999" in log
    assert "Traceback" not in log


def test_the_composed_program_comes_up_and_ends_on_sigint(processes, probe):
    processes.start("composition", "robot:=two_segment", "visualize:=false", *DRIVER)
    probe.wait(lambda: probe.stack_state() == "up", 120.0)
    assert len(probe.wait_for_message("clarke_state").position) == 4
    pause(0.5)
    assert processes.stop("composition", signal.SIGINT) == 0
    assert probe.driver_state() in ("inactive", "unconfigured")
    assert "Traceback" not in processes.log("composition")
