# SPDX-License-Identifier: Apache-2.0
"""What the stack records gives its own report again, and goes through the nodes again with the same answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from robot_files import robot_file

from continuum_robot.app.command_line import main
from continuum_robot.app.recordings.reading import read_recording
from continuum_robot.app.recordings.replay_run import run_replay_of_run
from continuum_robot.app.recordings.run import open_run

pytestmark = [pytest.mark.ros]

COMMAND = [sys.executable, "-m", "continuum_robot.app.command_line"]


def short_demo(out: Path, *options: str) -> Path:
    """The folder of a short demo, in lock-step."""
    level = ("--simulation-level", "dynamics", "--no-view")
    command = [*COMMAND, "demo", "--clock", "lockstep", "--seed", "1", "--duration", "2", "--folder", str(out), *level]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=400, check=False)
    (folder,) = out.iterdir()
    assert (folder / "metrics.json").is_file(), done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def run(domain, tmp_path_factory) -> Path:
    return short_demo(tmp_path_factory.mktemp("demo"))


def numbers_of(file: Path) -> dict:
    return json.loads(file.read_text())


def replayed(run: Path, out: Path, robot: str | None = None) -> tuple[Path, dict]:
    assert run_replay_of_run(run, robot, realtime=False, out=out) == 0
    folder = max(out.iterdir())
    return folder, numbers_of(folder / "replay.json")


def test_the_report_is_that_of_the_demo(run, tmp_path):
    assert main(["report", str(run), "--folder", str(tmp_path / "again")]) == 0
    again, first = numbers_of(tmp_path / "again" / "metrics.json"), numbers_of(run / "metrics.json")
    assert again == first
    assert {"rmse_q_re_m", "processor_percent", "faults"} <= first.keys()
    pictures = {picture.name for picture in run.glob("*.png")}
    assert pictures == {picture.name for picture in (tmp_path / "again").glob("*.png")}


def test_a_replay_gives_the_same_answers(run, tmp_path):
    folder, numbers = replayed(run, tmp_path / "first")
    assert numbers["nodes"] == ["shape_estimator", "clarke_controller"]
    assert numbers["states_played"] == numbers["states"]
    for topic in ("tendon_commands", "clarke_state", "shape"):
        assert numbers[f"{topic}_recorded"] > 100
        assert numbers[f"{topic}_compared"] >= 0.98 * numbers[f"{topic}_recorded"]
    assert numbers["clarke_state_position_largest_difference_m"] == 0
    for field in ("tendon_commands_tension", "clarke_state_position", "shape_coefficients", "shape_coefficient_rates"):
        assert numbers[f"{field}_agree_to_rounding_percent"] == 100, field

    # In a replay everything comes in a known order: played again, every number is the same.
    again, numbers = replayed(folder, tmp_path / "second")
    for topic in ("tendon_commands", "clarke_state", "shape"):
        assert numbers[f"{topic}_compared"] == numbers[f"{topic}_recorded"] > 100
    for field in ("tendon_commands_tension", "clarke_state_position", "shape_coefficients", "shape_coefficient_rates"):
        assert numbers[f"{field}_agree_to_rounding_percent"] == 100, field
    with open_run(again) as second, open_run(folder) as first:
        assert second.note["robot_file"] == first.note["robot_file"]
        assert json.loads(second.note["replay_of"])["run"] == folder.name
        then, now = (read_recording(one.bag, ("tendon_states",)).series("tendon_states") for one in (first, second))
    assert (then["displacement"] == now["displacement"]).all()
    assert then.stamp_s.tolist() == now.stamp_s.tolist()


@pytest.mark.long
def test_curvatures_of_a_fibre_go_through_again(domain, tmp_path):
    fiber = {"gratings_m": [0.01, 0.07, 0.13, 0.19]}
    file = robot_file(tmp_path, {"segments[0].basis": {"kind": "chebyshev_bending", "order": 1}, "fiber": fiber})
    _, numbers = replayed(short_demo(tmp_path / "demo", "--robot", file), tmp_path / "replays")
    assert numbers["shape_compared"] > 100
    assert numbers["shape_coefficients_agree_to_rounding_percent"] == 100


def test_another_file_says_what_would_have_been_different(run, tmp_path):
    _, numbers = replayed(run, tmp_path / "out", robot_file(tmp_path, {"control.pretension_n": 4.0}))
    assert numbers["clarke_state_position_largest_difference_m"] == 0
    assert numbers["tendon_commands_tension_largest_difference_n"] > 0.5


def test_a_replay_of_another_robot_or_of_nothing_is_refused(run, tmp_path, capsys):
    assert main(["replay", str(run), "--robot", "two_segment", "--folder", str(tmp_path)]) == 2
    assert "has 5 tendons, the robot two_segment has" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "nothing"), "--folder", str(tmp_path)]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["replay", "some.csv"]) == 2
    assert "--robot" in capsys.readouterr().err


def runs(pid: str) -> bool:
    """Whether a process is there; one that ended and that nobody waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_stack_that_was_killed_leaves_a_run_to_report_and_to_replay(domain, tmp_path):
    log = tmp_path / "log.txt"
    command = [*COMMAND, "up", "opencr_five_tendon", "--record", "--folder", str(tmp_path / "runs")]
    with log.open("w") as stream:
        program = subprocess.Popen(
            [*command, "--simulation-level", "dynamics", "--clock", "lockstep", "--no-contact", "--no-view"],
            stdout=stream,
            stderr=stream,
        )
    try:
        deadline_s = time.monotonic() + 180
        while "the stack is up" not in log.read_text():
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.1)
        (folder,) = (tmp_path / "runs").iterdir()
        while (folder / f"{folder.name}.mcap").stat().st_size < 1_000_000:
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.1)
    finally:
        # The process of the recorder too: it would end in order once its parent is gone.
        for recording in re.findall(r"lockstep: process (\d+)", log.read_text()):
            os.kill(int(recording), signal.SIGKILL)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    # The others notice that their parent is gone and end in order; until then the domain is theirs.
    deadline_s = time.monotonic() + 60
    while any(runs(pid) for pid in re.findall(r"\w+: process (\d+)", log.read_text())):
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.1)
    assert not (folder / "metadata.yaml").exists()
    assert main(["report", str(folder)]) == 0
    numbers = numbers_of(folder / "report" / "metrics.json")
    assert numbers["duration_s"] > 0.5
    assert numbers["recorded_states"] > 400
    assert "processor_percent" not in numbers
    _, numbers = replayed(folder, tmp_path / "replays")
    assert numbers["clarke_state_position_largest_difference_m"] == 0
