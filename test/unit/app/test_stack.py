# SPDX-License-Identifier: Apache-2.0
"""Commands that bring nodes up: real nodes over DDS on the loopback, each file of tests in a domain of its own."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from robot_files import documented_robot

from continuum_robot.app.running.domain import BusyDomainError, claimed_domain
from continuum_robot.app.view.page_process import PageProcess
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.loading import find_robot_file

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

COMMAND = [sys.executable, "-m", "continuum_robot.app.command_line"]
LONG_S = 180.0
"""For what takes seconds: a machine that is busy with other things takes a minute."""

DOMAINS = itertools.cycle(range(4))


@pytest.fixture(autouse=True)
def own_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    first = int(os.environ["CONTINUUM_ROBOT_TEST_DOMAIN_APP"])
    monkeypatch.setenv("ROS_DOMAIN_ID", str(first + next(DOMAINS)))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")


class Program:
    """A command of this project as a process, stopped at the end of the test whatever happens."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log.txt"
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=os.environ | {"COLUMNS": "200"},
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, words: str, timeout_s: float = LONG_S) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.text:
            assert self.process.poll() is None, self.text
            assert "startup failed" not in self.text, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)

    def end(self, timeout_s: float = LONG_S) -> int:
        return self.process.wait(timeout_s)


def reports(out: Path) -> list[Path]:
    return sorted(out.glob("*/metrics.json"))


def test_demo_leaves_a_report(tmp_path: Path) -> None:
    # In lock-step a stall of the machine is no fault that ends the motion.
    built = shutil.copy(find_robot_file("opencr_five_tendon"), tmp_path / "built.yaml")
    options = ("--no-view", "--clock", "lockstep", "--duration", "4", "--folder", "runs", "--truth", str(built))
    with Program(tmp_path, "demo", *options) as demo:
        demo.end()
    assert f"simulated is {built}" in demo.text
    assert f"truth     {built}" in demo.text
    assert reports(tmp_path / "runs"), demo.text
    (file,) = reports(tmp_path / "runs")
    numbers = json.loads(file.read_text())
    desired = {
        "loop_rate_hz", "missed_cycles_percent", "rmse_q_re_m", "rmse_q_im_m", "min_tension_n", "max_tension_n",
        "simulated", "duration_s", "robot", "faults",
    }  # fmt: skip
    assert desired <= numbers.keys()
    assert not any(isinstance(value, dict) for value in numbers.values())
    assert numbers["simulated"] is True
    assert (numbers["robot"], numbers["truth"]) == ("opencr_five_tendon", str(built))
    assert numbers["rmse_q_re_m"] < 0.005
    assert numbers["min_tension_n"] > 0
    assert {path.name for path in file.parent.glob("*.png")} == {
        "tracking.png", "tensions.png", "tip.png", "shapes.png",
    }  # fmt: skip
    assert list(file.parent.glob("recording/*.mcap"))
    assert (demo.process.returncode == 0) == (not numbers["faults"])


def test_demo_refuses_company_and_stopped_early_reports_what_there_is(tmp_path: Path) -> None:
    robot = ("--robot", documented_robot(tmp_path))
    long = ("--no-view", "--clock", "lockstep", "--duration", "3600", "--folder", "runs")
    with Program(tmp_path, "demo", *robot, *long) as demo:
        demo.wait_for("the stack is up")
        second = subprocess.run(
            [*COMMAND, "demo", "--no-view", "--duration", "2", "--folder", "others"],
            capture_output=True, text=True, cwd=tmp_path, timeout=LONG_S, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "is busy" in second.stderr
        assert "ROS_DOMAIN_ID" in second.stderr
        assert not (tmp_path / "others").exists()
        time.sleep(1.0)
        demo.process.send_signal(signal.SIGINT)
        assert demo.end() == 130, demo.text
    (file,) = reports(tmp_path / "runs")
    numbers = json.loads(file.read_text())
    assert 0 < numbers["duration_s"] < 3600
    assert (numbers["robot"], numbers["faults"]) == ("my_robot", [])
    assert "shutdown: the stack is down" in demo.text
    assert "Traceback" not in demo.text


def test_demo_stopped_before_it_began_ends_cleanly(tmp_path: Path) -> None:
    with Program(tmp_path, "demo", "--no-view", "--duration", "60", "--folder", "runs") as demo:
        maps = Path(f"/proc/{demo.process.pid}/maps")
        deadline = time.monotonic() + LONG_S
        while "_rclpy_pybind11" not in maps.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        demo.process.send_signal(signal.SIGINT)
        assert demo.end() == 130, demo.text
    assert demo.text.strip().splitlines()[-1] == "continuum-robot: stopped by Ctrl-C"
    assert "Traceback" not in demo.text
    assert not reports(tmp_path / "runs")


def test_up_in_processes_leaves_none_behind(tmp_path: Path) -> None:
    # In lock-step no slow machine drowns in what is recorded.
    recorded = ("--record", "--folder", "runs", "--clock", "lockstep")
    with Program(tmp_path, "up", "opencr_five_tendon", "--no-view", "--processes", *recorded) as up:
        up.wait_for("the stack is up")
        started = dict(re.findall(r"(\w+): process (\d+)", up.text))
        assert started.keys() == {"lockstep", "display"}
        pids = [int(pid) for pid in started.values()]
        up.process.send_signal(signal.SIGTERM)
        assert up.end() == 143, up.text
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert "shutdown: the stack is down" in up.text
    assert "Traceback" not in up.text
    assert list(tmp_path.glob("runs/*/metadata.yaml"))


@pytest.mark.long
def test_up_starts_a_process_that_died_again_and_fails_where_it_dies_too_often(tmp_path: Path) -> None:
    with Program(tmp_path, "up", "opencr_five_tendon", "--no-view", "--processes", "--respawn", "1") as up:
        up.wait_for("the stack is up")
        pids = dict(re.findall(r"(\w+): process (\d+)", up.text))
        os.kill(int(pids["sensing"]), signal.SIGKILL)
        up.wait_for("sensing ended with code -9: started again as process")
        up.wait_for("fault")
        pids["again"] = re.search(r"started again as process (\d+)", up.text)[1]
        os.kill(int(pids["again"]), signal.SIGKILL)
        up.wait_for("sensing ended with code -9\n")
        up.process.send_signal(signal.SIGINT)
        assert up.end() == 1, up.text
    assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]


def test_one_domain_holds_one_stack_a_namespace() -> None:
    with claimed_domain("left", discovery_s=0.2):
        busy = pytest.raises(BusyDomainError, match=f"process {os.getpid()} runs a stack in namespace /left")
        with busy, claimed_domain("/left/", discovery_s=0.2):
            pass
        with claimed_domain("right", discovery_s=0.2):
            pass
    with claimed_domain("left", discovery_s=0.2):
        pass


DRIVER_OF_A_LAUNCH_FILE = """
import rclpy
from continuum_robot.msg import TendonStates
rclpy.init()
node = rclpy.create_node("tendon_driver", namespace="left")
node.create_publisher(TendonStates, "tendon_states", 1)
input()
"""


def test_the_stack_of_a_launch_file_is_company_too() -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER_OF_A_LAUNCH_FILE], stdin=subprocess.PIPE) as driver:
        try:
            busy = pytest.raises(BusyDomainError, match=r"(tendon_driver|a node) publishes tendon_states")
            with busy, claimed_domain("left", discovery_s=30.0):
                pass
        finally:
            driver.kill()


@pytest.mark.parametrize("domain", ["abc", "100000"])
def test_a_domain_that_does_not_exist_is_named(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    with pytest.raises(ContinuumRobotError, match=f"(?i)domain.*{domain}"), claimed_domain(""):
        pass


def page_of(program: Program) -> int:
    """Process id of the page that the program started."""
    children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
    (pid,) = [int(pid) for pid in children if b"view" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    return pid


def test_page_is_told_and_ends_with_its_stack_however_that_ends(tmp_path: Path) -> None:
    pytest.importorskip("viser", reason="viser is not installed: there is no page without the extra viz")
    looked_at = ("--view-only", "--allow-origin", "http://127.0.0.1:9000", "--allow-origin", "https://robot.example")
    for number, code, options, kind in (
        (signal.SIGINT, 130, (), ""),
        (signal.SIGKILL, -signal.SIGKILL, looked_at, " (view only)"),
    ):
        with Program(
            tmp_path, "up", "opencr_five_tendon", "--simulation-level", "dynamics", "--no-contact", *options
        ) as up:
            up.wait_for(f"page in the browser{kind}: http://127.0.0.1:", 120.0)
            pid = page_of(up)
            token = up.text.partition("/?token=")[2].split()[0]
            assert len(token) == 32
            for process in (pid, up.process.pid):
                for file in ("cmdline", "environ"):
                    assert token.encode() not in Path(f"/proc/{process}/{file}").read_bytes()
            up.process.send_signal(number)
            assert up.end() == code, up.text
            deadline = time.monotonic() + LONG_S
            while Path(f"/proc/{pid}").exists():
                assert time.monotonic() < deadline, "the page is still there"
                time.sleep(0.05)
        assert "Traceback" not in up.text
        assert up.text.count(token) == 1


def test_missing_extra_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    console = Console(record=True, width=200)
    with PageProcess("opencr_five_tendon", console, folder=tmp_path) as page:
        page.tell()
    (line,) = console.export_text().strip().splitlines()
    assert "continuum-robot[viz]" in line
