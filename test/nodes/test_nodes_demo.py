# SPDX-License-Identifier: Apache-2.0
"""Two runs of the demo in lock-step record the same bytes, whatever processors and clock of the computer do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
from mcap.reader import NonSeekingReader

pytestmark = [pytest.mark.ros]

DURATION_S = 1.5
COMMAND = [sys.executable, "-m", "continuum_robot.app.command_line", "demo", "--clock", "lockstep", "--no-view"]
SAME = (
    *("/tendon_states", "/tendon_commands", "/clarke_state", "/clarke_reference", "/shape"),
    *("/contact", "/simulated_contact"),
)
# Every Python process that finds it on its path sets its wall clock back by an hour twice a second.
UNSTEADY_CLOCK = """
import threading, time

wall_ns, wall, back_s = time.time_ns, time.time, 0

def step():
    global back_s
    while True:
        time.sleep(0.5)
        back_s += 3600

time.time_ns = lambda: wall_ns() - back_s * 10**9
time.time = lambda: wall() - back_s
threading.Thread(target=step, daemon=True).start()
"""


def run_demo(out: Path, *arguments: str, path: str = "") -> dict[str, list[tuple[int, bytes]]]:
    """Run a demo to its end; times and bytes of what it recorded, by topic."""
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    command = [*COMMAND, "--seed", "1", "--duration", f"{DURATION_S:g}", "--folder", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.glob("*/recording/*.mcap")
    found = defaultdict(list)
    with file.open("rb") as stream:
        for _schema, channel, message in NonSeekingReader(stream).iter_messages(log_time_order=False):
            found[channel.topic].append((message.log_time, message.data))
    return found


def differences(first: dict[str, list], second: dict[str, list], topics: tuple[str, ...]) -> dict[str, str]:
    """Where two recordings differ, by topic."""
    found = {}
    for topic in topics:
        one, other = first[topic], second[topic]
        at = next((k for k, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
        if at is not None or len(one) != len(other):
            found[topic] = f"{len(one)} and {len(other)} messages, the first that differs: {at}"
    return found


# One computer for two demos and a busy program: test_nodes_lockstep has the same of the nodes alone.
@pytest.mark.long
def test_a_second_run_beside_a_busy_program_and_with_a_clock_that_jumps_gives_the_same_bytes(domain, tmp_path):
    first = run_demo(tmp_path / "first", "--contact")
    (tmp_path / "sitecustomize.py").write_text(UNSTEADY_CLOCK, encoding="utf-8")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        second = run_demo(tmp_path / "second", "--contact", path=str(tmp_path))
    finally:
        busy.kill()
        busy.wait()
    assert all(first[topic] for topic in SAME), {topic: len(first[topic]) for topic in SAME}
    assert len(first["/tendon_states"]) == len(first["/tendon_commands"]) == round(1000 * DURATION_S)
    assert differences(first, second, SAME) == {}
    (metrics,) = tmp_path.glob("first/*/metrics.json")
    numbers = json.loads(metrics.read_text(encoding="utf-8"))
    assert numbers["clock"] == "lockstep"
    assert numbers["faults"] == []


@pytest.mark.long
def test_the_robot_of_mujoco_tracks_beside_a_block_the_same_way_twice(domain, tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")
    runs = [run_demo(tmp_path / name, "--world", "box.yaml") for name in ("first", "second")]
    assert all(runs[0][topic] for topic in SAME), {topic: len(runs[0][topic]) for topic in SAME}
    assert differences(*runs, SAME) == {}
    (metrics,) = tmp_path.glob("first/*/metrics.json")
    numbers = json.loads(metrics.read_text(encoding="utf-8"))
    assert numbers["simulation_level"] == "mujoco"
    assert numbers["faults"] == []


@pytest.mark.long
def test_what_the_tip_carries_hangs_at_the_simulated_robot_and_at_its_model(domain, tmp_path):
    robot = "two_segment"
    bare = run_demo(tmp_path / "bare", "--robot", robot)
    loaded = run_demo(tmp_path / "loaded", "--robot", robot, "--payload-kg", "0.01")
    assert len(loaded["/tendon_states"]) == round(1000 * DURATION_S)
    assert differences(bare, loaded, ("/tendon_states",))
    errors = []
    for name in ("bare", "loaded"):
        (metrics,) = tmp_path.glob(f"{name}/*/metrics.json")
        numbers = json.loads(metrics.read_text(encoding="utf-8"))
        assert numbers["faults"] == []
        errors.append(max(numbers["rmse_q_re_m"], numbers["rmse_q_im_m"]))
    assert errors[1] < 1.5 * errors[0]  # the model knows of it
