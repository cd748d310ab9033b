# SPDX-License-Identifier: Apache-2.0
"""The command line: help, exit codes, one line for an error."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from robot_files import robot_file

from continuum_robot import __version__
from continuum_robot.app.command_line import main
from continuum_robot.app.commands import arguments as parts
from continuum_robot.app.commands import robots
from continuum_robot.app.commands.experiments import own_options
from continuum_robot.app.running.options import DemoOptions
from continuum_robot.errors import (
    ConvergenceError,
    DeviceError,
    IdentifiabilityError,
    MissingPackageError,
    ParameterError,
    RecordingError,
    RobotFaultError,
    RobotFileError,
    RobotTimeoutError,
)
from continuum_robot.robot.file.shipped_files import shipped_robots

COMMANDS = (
    "demo",
    "up",
    "view",
    "check",
    "devices",
    "home",
    "check-tendons",
    "calibrate-torque",
    "calibrate-cogging",
    "learn-floor",
    "weigh",
    "experiment",
    "identify",
    "identify-geometry",
    "calibrate",
    "replay",
    "report",
    "repair",
)


def test_an_interrupt_is_not_lost_in_an_import_that_swallows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(_name: str) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    monkeypatch.setattr(parts.importlib, "import_module", import_module)
    with pytest.raises(KeyboardInterrupt):
        parts.part("demo")


def plain(text: str) -> str:
    """Text without colours, boxes and line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = plain(capsys.readouterr().out)
    for command in COMMANDS:
        assert command in text
    assert "ROS_DOMAIN_ID" in text
    assert "Exit codes" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_explains_and_gives_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "-h"]) == 0
    text = plain(capsys.readouterr().out)
    assert f"Example: continuum-robot {command}" in text
    options = re.findall(r"--[a-z-]+", text)
    assert len(set(options)) >= 2
    assert len(text) > 300


def test_help_needs_neither_ros_nor_numpy() -> None:
    program = (
        "import sys; from continuum_robot.app.command_line import main; main(['--help']); "
        "sys.exit(sorted({'rclpy', 'numpy', 'casadi', 'matplotlib'} & set(sys.modules)) or None)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=300)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "no_such.yaml"], "no_such.yaml"),
        (["check"], "Missing argument"),
        (["nonsense"], "No such command"),
        (["demo", "--duration", "0"], "--duration"),
        (["demo", "--duration", "soon"], "--duration"),
        (["up", "two_segment", "--simulation-level", "wax"], "--simulation-level"),
        (["up", "two_segment", "--allow-origin", "robot.example"], "--allow-origin"),
        (["demo", "--allow-origin", "http://robot.example/page"], "--allow-origin"),
        (["view", "two_segment", "--allow-origin", "http://localhost:9000", "--allow-origin", "*"], "--allow-origin"),
        (["experiment", "muhmann.nothing"], "muhmann.nothing"),
        (["experiment", "muhmann.energies", "surplus"], "surplus"),
        (["replay", "no_such.csv", "--robot", "two_segment"], "no_such.csv"),
        (["replay", "no_such.csv"], "as identify-geometry and identify write it"),
        (["identify", "ftdcr_v4", "--data", "no_such.csv", "--out", "x.yaml"], "no_such.csv"),
        (["identify-geometry", "ftdcr_v4", "--data", "no_such.csv", "--out", "x.yaml"], "no_such.csv"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("duration_s", 0, "more"), 2),
        (RobotFileError(None, "rod", 1, "a rod"), 2),
        (RecordingError("a.mcap", "is empty", "Record again"), 2),
        (DeviceError("can0", "is not there", "Plug it in"), 1),
        (RobotFaultError("robot", "estop", "Reset it"), 1),
        (RobotTimeoutError("robot", "is silent", "Start it"), 1),
        (MissingPackageError("mujoco is not installed"), 1),
        (ConvergenceError("statics", 1.0, 0.1, 9), 1),
        (IdentifiabilityError(("mass",), "no motion", "Move it"), 1),
        (OSError(28, "No space left on device", "a.json"), 1),
    ],
)
def test_the_exit_code_follows_from_the_error(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong usage is 2; a device that is missing, and all else that fails, is 1, whatever the command."""

    def fail(_name: str) -> None:
        raise error

    monkeypatch.setattr(robots, "part", fail)
    assert main(["check", "two_segment"]) == code
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_error_of_the_project_is_a_single_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "no_such.yaml"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("continuum-robot: no_such.yaml")
    assert "opencr_five_tendon" in lines[0]


@pytest.mark.parametrize("robot", sorted(shipped_robots()))
def test_check_prints_every_shipped_robot(robot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "numbers.json"
    assert main(["check", robot, "--json", str(file)]) == 0
    text = plain(capsys.readouterr().out)
    assert robot in text
    assert "Assumed" in text
    numbers = json.loads(file.read_text())
    assert numbers["robot"] == robot
    if "links" in numbers:
        assert "roll on each other" in text
    elif "backbones" in numbers:
        assert "turns back" in text
    else:
        assert "Natural frequencies" in text
        assert numbers["mass_kg"] > 0


def test_check_names_the_line_and_key_of_a_wrong_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(robot_file(tmp_path, {"segments[0].tendons.count": 1}))
    line = next(number for number, row in enumerate(file.read_text().splitlines(), 1) if "tendons:" in row)
    assert main(["check", str(file)]) == 2
    message = capsys.readouterr().err
    assert f"robot.yaml:{line}" in message
    assert "segments[0].tendons.count" in message


def test_own_options_of_an_experiment() -> None:
    assert own_options(["--robot", "a.yaml", "--data=b.csv", "--fast", "--rest-time", "-1", "--sweep", "false"]) == {
        "robot": "a.yaml",
        "data": "b.csv",
        "fast": True,
        "rest_time": "-1",
        "sweep": False,
    }
    for wrong in (["a.yaml"], ["--"], ["--robot", "a", "--robot", "b"]):
        with pytest.raises(ParameterError):
            own_options(wrong)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], ("opencr_five_tendon", None)),
        (["--contact"], ("vanderbilt_segment", "")),
        (["--contact", "pushes.yaml"], ("vanderbilt_segment", "pushes.yaml")),
        (["--contact", "--duration", "5"], ("vanderbilt_segment", "")),
        (["--robot", "two_segment", "--contact"], ("two_segment", "")),
    ],
)
def test_demo_takes_no_argument_and_contact_no_value(
    arguments: list[str], asked: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: the demo needs ROS 2")
    from continuum_robot.app.running import demo  # noqa: PLC0415

    seen = []

    def run_demo(options: DemoOptions) -> int:
        seen.append((demo.robot_of(options), options.touched_by))
        return 0

    monkeypatch.setattr(demo, "run_demo", run_demo)
    assert main(["demo", *arguments]) == 0
    assert seen == [asked]


def test_a_demo_that_ends_before_the_first_contact_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: the demo needs ROS 2")
    assert main(["demo", "--contact", "--duration", "6", "--no-view"]) == 2
    assert "more than 6 s" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize("package", ["nodes", "app"])
def test_linear_algebra_has_one_thread_beside_the_loop(package: str) -> None:
    """A second one spins between two products: on two cores the loop of a robot with many coefficients was too slow."""
    code = (
        f"import continuum_robot.{package}, numpy, os\n"
        "numpy.ones((500, 500)) @ numpy.ones((500, 500))\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert int(found.stdout) == 1
