# SPDX-License-Identifier: Apache-2.0
"""The launch files: arguments read like a manual, nodes come up, Ctrl-C leaves nothing. Needs launch_ros."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.launch,
    pytest.mark.real_time,
    pytest.mark.skipif(
        importlib.util.find_spec("launch_ros") is None or importlib.util.find_spec("ros2launch") is None,
        reason="launch_ros is not installed (it is not on PyPI): source a ROS 2 installation to test the launch files",
    ),
]

FILES = ("sim.launch.py", "hardware.launch.py", "rviz.launch.py")
ARGUMENTS = {
    "robot", "use_fake_hardware", "use_mock_hardware", "simulation_level", "controller", "activate", "rviz", "record",
    "namespace", "prefix", "can_interface", "serial_port", "force_sensor", "force_port", "params_file", "log_level",
    "composed", "respawn",
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_domain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", os.environ.get("CONTINUUM_ROBOT_TEST_DOMAIN_LAUNCH", "56"))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "log"))


def launch(*arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ros2", "launch", "continuum_robot", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.parametrize("file", FILES)
def test_arguments_are_explained(file: str) -> None:
    result = launch(file, "--show-args")
    assert result.returncode == 0, result.stderr
    described = dict(re.findall(r"'(\w+)':\n\s+(\S.*)", result.stdout))
    assert all(len(text) > 15 for text in described.values())
    if file != "rviz.launch.py":
        assert described.keys() >= ARGUMENTS
        assert "['true', 'false']" in described["use_fake_hardware"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("robot:=no_such_robot", "opencr_five_tendon"),
        (f"robot:={Path(__file__).parents[1] / 'robots/bare_rod.yaml'}", "actuators, limits, control"),
        ("controller:=magic", "clarke_controller"),
        ("use_fake_hardware:=perhaps", "true"),
        ("params_file:=/no/such/file.yaml", "a readable file of ROS parameters"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_allowed(argument: str, words: str) -> None:
    result = launch("sim.launch.py", argument)
    assert result.returncode != 0
    assert words in result.stdout + result.stderr
    assert "process started" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("robot", "composed", "namespace"),
    [
        ("opencr_five_tendon", "false", ""),
        ("opencr_five_tendon", "false", "left"),
        ("opencr_five_tendon", "true", ""),
        ("opencr_five_tendon", "true", "left"),
        ("rolling_five_link", "true", ""),
        ("crem_segment", "true", ""),
    ],
)
def test_the_stack_comes_up_and_ctrl_c_leaves_nothing(
    robot: str, composed: str, namespace: str, tmp_path: Path
) -> None:
    log = tmp_path / "launch.txt"
    command = ["ros2", "launch", "continuum_robot", "sim.launch.py", f"robot:={robot}", f"composed:={composed}"]
    command += [f"namespace:={namespace}"] if namespace else []
    command += ["prefix:=p_", "record:=true", f"record_directory:={tmp_path / 'runs'}"]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + 90
        while "the stack is up" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        time.sleep(1.0)
        # As a terminal does: to the whole foreground group.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = log.read_text()
    assert len(re.findall("process started", text)) == len(re.findall("process has finished cleanly", text)) > 0
    assert "Traceback" not in text
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert list(tmp_path.glob("runs/*/metadata.yaml"))
