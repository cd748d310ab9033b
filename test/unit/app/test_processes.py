# SPDX-License-Identifier: Apache-2.0
"""The starter of processes: order, exit codes, stubborn processes, and no orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from continuum_robot.app.running.processes import ProcessGroup, node_command, parameter_text
from continuum_robot.errors import MISCONFIGURED, ParameterError

POLITE = """
import signal, sys, time
def end(*_):
    open({log!r}, "a").write({name!r} + "\\n"); sys.exit(0)
signal.signal(signal.SIGINT, end)
open({log!r} + ".{name}", "w").close()
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({log!r} + ".{name}", "w").close()
time.sleep(60)
"""


def command(program: str, log: Path, name: str) -> list[str]:
    return [sys.executable, "-c", program.format(log=str(log), name=name)]


def wait_until(condition, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ready(log: Path, *names: str) -> None:
    wait_until(lambda: all(Path(f"{log}.{name}").exists() for name in names))


def test_processes_end_in_reverse_order_with_their_exit_codes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = ProcessGroup({name: command(POLITE, log, name) for name in ("driver", "controller", "supervisor")})
    group.start()
    ready(log, "driver", "controller", "supervisor")
    assert group.ended() == {}
    assert set(group.pids) == {"driver", "controller", "supervisor"}
    assert group.stop() == {"driver": 0, "controller": 0, "supervisor": 0}
    assert log.read_text().split() == ["supervisor", "controller", "driver"]


def test_a_process_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = ProcessGroup({"deaf": command(STUBBORN, log, "deaf")}, grace_s=0.2)
    group.start()
    ready(log, "deaf")
    assert group.stop() == {"deaf": -signal.SIGKILL}


def test_a_process_that_ends_is_seen_and_not_restarted() -> None:
    group = ProcessGroup({"short": [sys.executable, "-c", "raise SystemExit(3)"]})
    group.start()
    wait_until(lambda: group.ended() == {"short": 3})
    assert group.stop() == {"short": 3}
    with pytest.raises(ParameterError):
        group.start()


def test_a_process_that_ends_is_started_again_after_a_while_and_not_for_ever() -> None:
    ends = {
        "short": [sys.executable, "-c", "raise SystemExit(3)"],
        "other": [sys.executable, "-c", "import time; time.sleep(60)"],
    }
    group = ProcessGroup(ends, grace_s=1.0)
    group.start()
    pid = group.pids["short"]
    for number in (1, 2):
        wait_until(lambda: group.ended() == {"short": 3})
        assert group.start_again(most=2, delay_s=3600.0) == {}
        assert group.start_again(most=2, delay_s=0.0) == {"short": 3}
        assert group.restarts == {"short": number}
        assert group.pids["short"] != pid
    wait_until(lambda: group.ended() == {"short": 3})
    assert group.start_again(most=2, delay_s=0.0) == {}
    group.stop()


def test_a_program_that_cannot_use_its_parameters_is_not_started_again() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
    from continuum_robot.nodes.stack.group import group_command  # noqa: PLC0415 - needs rclpy

    group = ProcessGroup({"display": group_command({"robot_visualizer": {"robot": "no_such_robot"}}, "clarke")})
    group.start()
    wait_until(lambda: group.ended() == {"display": MISCONFIGURED})
    assert group.ended_for_good("display", MISCONFIGURED, 5)
    assert group.start_again(most=5, delay_s=0.0) == {}
    group.stop()


def test_one_of_several_can_be_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = ProcessGroup({name: command(POLITE, log, name) for name in ("first", "second")})
    group.start()
    ready(log, "first", "second")
    assert group.stop(["first"]) == {"first": 0}
    assert group.exit_codes()["second"] is None
    group.stop()


def test_a_program_that_is_not_there_ends_with_a_code() -> None:
    group = ProcessGroup({"missing": ["/no/such/program"]})
    group.start()
    wait_until(lambda: bool(group.ended()))
    assert group.ended()["missing"] != 0


def test_children_end_when_their_starter_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import sys, time; from continuum_robot.app.running.processes import ProcessGroup\n"
        f"group = ProcessGroup({{'child': {command(POLITE, log, 'child')!r}}}); group.start()\n"
        "print(group.pids['child'], flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    child = int(starter.stdout.readline())
    ready(log, "child")
    starter.kill()
    starter.communicate()
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "zombie" in Path(f"/proc/{child}/status").read_text())


def test_node_command_says_parameters_and_namespace() -> None:
    words = node_command(
        "tendon_driver", {"robot": "1", "rate_hz": 500.0, "activate": True}, "left", ["--log-level", "warn"]
    )
    assert words[0] == sys.executable
    assert words[1:] == [
        "-m",
        "continuum_robot.nodes.tendon_driver",
        "--ros-args",
        "-p",
        'robot:="1"',
        "-p",
        "rate_hz:=500.0",
        "-p",
        "activate:=true",
        "-r",
        "__ns:=/left",
        "--log-level",
        "warn",
    ]
    assert parameter_text('a "b" \\c') == '"a \\"b\\" \\\\c"'


def test_environment_reaches_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTINUUM_ROBOT_TEST", "seen")
    out = tmp_path / "out"
    program = f"import os; open({str(out)!r}, 'w').write(os.environ['CONTINUUM_ROBOT_TEST'] + str(os.getppid()))"
    group = ProcessGroup({"reader": [sys.executable, "-c", program]})
    group.start()
    wait_until(lambda: bool(group.ended()))
    assert out.read_text() == f"seen{os.getpid()}"
