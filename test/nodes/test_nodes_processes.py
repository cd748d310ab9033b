# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: signals end them in good order, a killed one is noticed."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from robot_files import robot_file
from ros_probe import PATIENT, Probe, patient_robot, pause
from ros_processes import Processes

from continuum_robot.nodes.supervision import HEARTBEAT_TIMEOUT_S
from continuum_robot.nodes.topics.driver_status import fault_names, state_name

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = f"robot:={patient_robot()}"
DRIVER = ["rate_hz:=250.0", *(f"{name}:={value}" for name, value in PATIENT.items())]
CORE = ("simulator", "tendon_driver", "clarke_controller", "reference_source")


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
        processes.start(node, ROBOT, *(DRIVER if node == "tendon_driver" else []))
    processes.start("supervisor", f"node_names:=[{', '.join(CORE)}]")
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 120.0, "did not come up")


@pytest.mark.long
def test_a_killed_controller_and_its_recovery_without_restarting_the_driver(processes, probe):
    bring_up(processes, probe)
    processes.stop("clarke_controller", signal.SIGKILL)
    # The supervisor notices that the node is gone, names it, and releases the tendons.
    lost = "node_lost: clarke_controller"
    probe.wait(lambda: lost in probe.newest("stack_status").faults)
    probe.wait(lambda: probe.lifecycle_state("tendon_driver") == "inactive")
    probe.wait(lambda: probe.stack_state() == "fault")
    driver = processes.running["tendon_driver"]
    processes.start("clarke_controller", ROBOT)
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


def test_a_supervisor_that_stood_still_declares_nobody_lost(processes, probe):
    """And sigterm to the reference source pauses the stack."""
    bring_up(processes, probe)
    supervisor = processes.running["supervisor"]
    supervisor.send_signal(signal.SIGSTOP)
    pause(HEARTBEAT_TIMEOUT_S + 1.0)  # nobody was heard for so long
    probe.received["stack_status"].clear()
    supervisor.send_signal(signal.SIGCONT)
    probe.wait(lambda: len(probe.received["stack_status"]) >= 4, what="the supervisor does not go on")
    assert {message.state for message in probe.received["stack_status"]} == {"up"}
    assert not any(message.faults for message in probe.received["stack_status"])
    assert "stood still" in processes.log("supervisor")
    assert probe.driver_state() == "active"
    assert processes.stop("reference_source") == 0
    probe.wait(lambda: "node_lost: reference_source" in probe.newest("stack_status").faults)
    probe.wait(lambda: probe.driver_state() == "inactive", what="the tendons were not released")
    # SIGTERM to the supervisor brings the rest down.
    assert processes.stop("supervisor") == 0
    probe.wait(lambda: probe.lifecycle_state("tendon_driver") == "unconfigured")


def test_a_signal_to_all_at_once_is_no_fault(processes, probe):
    """Ctrl-C, launch and systemd signal so: simulator and controller wait for the driver's ramp."""
    bring_up(processes, probe)
    for process in processes.running.values():
        process.send_signal(signal.SIGINT)
    codes = {name: process.wait(60.0) for name, process in processes.running.items()}
    assert set(codes.values()) == {0}, codes
    assert not any(message.faults for message in probe.received["stack_status"])
    logs = "".join(processes.log(name) for name in codes)
    assert not any(word in logs for word in ("Traceback", "[ERROR]", "safe state")), logs


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_signal_to_the_driver_releases_the_tensions(processes, probe, number):
    processes.start("simulator", ROBOT, "activate:=true")
    probe.wait(lambda: "/simulator: lifecycle" in probe.diagnostics, 90.0)
    probe.wait(lambda: probe.lifecycle_state("simulator") == "active", 90.0)
    processes.start("tendon_driver", ROBOT, "activate:=true", *DRIVER)
    driver = processes.running["tendon_driver"]
    probe.wait(lambda: probe.driver_state() == "active" or driver.poll() is not None, 90.0)
    assert driver.poll() is None, processes.log("tendon_driver")
    pause(0.3)
    probe.received["driver_status"].clear()
    assert processes.stop("tendon_driver", number) == 0
    assert "inactive" in map(state_name, probe.received["driver_status"])
    assert not probe.newest("driver_status").powered
    assert "Traceback" not in processes.log("tendon_driver")


HANGS_WHERE = """
import pathlib, numpy as np

class Hangs:
    def __init__(self, robot):
        self.count = robot.tendon_count

    def reset(self, reading, tension, reference):
        pass

    def update(self, reading, reference, dt):
        while pathlib.Path({file!r}).exists():
            pass
        return np.full(self.count, 3.0)
"""


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A robot under a controller of another package that does not return while a file is there."""
    package, file = tmp_path / "hangs-1.0.dist-info", tmp_path / "hang"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: hangs\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[continuum_robot.controllers]\nhangs = hangs:Hangs\n")
    (tmp_path / "hangs.py").write_text(HANGS_WHERE.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    own = robot_file(tmp_path, {"control.law": "hangs"}, patient_robot())
    return f"robot:={own}", file


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_signal_ends_a_driver_whose_cycle_hangs_and_lets_the_tendons_go(processes, probe, hanging, number):
    robot, file = hanging
    processes.start("simulator", robot, "activate:=true")
    probe.wait(lambda: probe.lifecycle_state("simulator") == "active", 90.0)
    processes.start("control_loop", robot, "activate:=true", *DRIVER)
    loop = processes.running["control_loop"]
    probe.wait(lambda: probe.driver_state() == "active" or loop.poll() is not None, 90.0)
    assert loop.poll() is None, processes.log("control_loop")
    file.touch()
    probe.wait(lambda: probe.faults() == ["loop_hangs"], 30.0, "nobody notices that the cycle hangs")
    probe.received["driver_status"].clear()
    assert processes.stop("control_loop", number) == 1
    told = probe.received["driver_status"]
    assert all("loop_hangs" in fault_names(status) for status in told), told
    assert not any(status.powered for status in told)
    log = processes.log("control_loop")
    assert "the devices are closed past it" in log
    assert not any(word in log for word in ("Traceback", "terminate called", "Fatal")), log


def test_the_composed_program_comes_up_and_ends_on_sigint(processes, probe):
    processes.start("composition", f"robot:={patient_robot('two_segment')}", "visualize:=false", *DRIVER)
    probe.wait(lambda: probe.stack_state() == "up", 120.0)
    assert len(probe.wait_for_message("clarke_state").position) == 4
    pause(0.5)
    assert processes.stop("composition", signal.SIGINT) == 0
    assert probe.driver_state() in ("inactive", "unconfigured")
    assert "Traceback" not in processes.log("composition")
