# SPDX-License-Identifier: Apache-2.0
"""Lock-step over DDS: two runs give the same bytes, in one process or several, loaded or not; who hangs is named."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
from lockstep_script import CYCLE_NS, DECIMATION, ScriptedDriver, heard_of, in_processes, in_this_process, stand_still
from rosbags.rosbag2 import Reader

from continuum_robot.errors import DeviceError
from continuum_robot.runtime.clock import START_NS

pytestmark = [pytest.mark.ros]

NAMES = ["string_encoder", "shape_estimator", "contact_monitor", "reference_source", "recorder"]
CYCLES = 700
ROBOT = "opencr_five_tendon"
# The demo with contacts compares the recordings of two runs of this one, in processes: test_nodes_demo.py.
SEGMENT = pytest.param("vanderbilt_segment", marks=pytest.mark.long)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lockstep")


def parameters(folder: Path, **more: dict) -> dict:
    return {"recorder": {"directory": str(folder)}, **more}


@pytest.fixture(scope="module", params=[ROBOT, SEGMENT])
def reference(request, folder, domain) -> tuple[str, dict[str, list[bytes]]]:
    """A robot, and what the nodes publish in one process."""
    with in_this_process(request.param, parameters(folder), NAMES) as driver:
        driver.run(CYCLES)
        return request.param, heard_of(driver)


def test_all_nodes_publish(reference):
    robot, heard = reference
    strings = {"string_lengths"} if robot == ROBOT else set()
    assert {"shape", "contact", "clarke_reference"} | strings <= set(heard)
    assert len(heard["shape"]) == CYCLES // DECIMATION


def test_two_runs_give_the_same_bytes_with_a_busy_program_beside(reference, folder):
    robot, heard = reference
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with in_this_process(robot, parameters(folder), NAMES) as driver:
            driver.run(CYCLES)
            assert heard_of(driver) == heard
    finally:
        busy.kill()
        busy.wait()


def test_processes_of_their_own_give_the_same_bytes(reference, folder):
    robot, heard = reference
    with in_processes(robot, parameters(folder), NAMES) as (driver, _processes):
        driver.run(CYCLES)
        assert heard_of(driver) == heard


def test_a_step_of_the_wall_clock_changes_nothing(reference, folder, monkeypatch):
    robot, heard = reference
    with in_this_process(robot, parameters(folder), NAMES) as driver:
        driver.run(CYCLES // 2)
        wall_ns, wall = time.time_ns, time.time
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - 3600 * 10**9)
        monkeypatch.setattr(time, "time", lambda: wall() - 3600)
        driver.run(CYCLES - CYCLES // 2)
        assert heard_of(driver) == heard


def test_a_simulated_board_behind_its_port_keeps_lockstep(folder):
    runs = []
    for _ in range(2):
        with in_this_process(ROBOT, {"string_encoder": {"simulation_level": "wire"}}, NAMES[:2]) as driver:
            driver.run(400)
            runs.append(heard_of(driver))
    assert runs[0] == runs[1]
    assert len(runs[0]["string_lengths"]) == 40


def test_the_recording_lacks_nothing_and_its_times_are_simulated(folder):
    with in_this_process(ROBOT, parameters(folder, recorder={"directory": str(folder)}), NAMES) as driver:
        driver.run(CYCLES)
        # What came since the recorder's last turn is written with the next one.
        driver.run(100)
        recording = driver.nodes["recorder"].folder
    with Reader(recording) as reader:
        times: dict[str, list[int]] = {}
        for connection, time_ns, _data in reader.messages():
            times.setdefault(connection.topic, []).append(time_ns)
    assert times["/tendon_states"] == [START_NS + k * CYCLE_NS for k in range(1, CYCLES + 101)]
    assert len(times["/shape"]) == (CYCLES + 100) // DECIMATION


def test_a_stopped_process_is_named_after_the_limit(folder):
    with in_processes(ROBOT, {}, ["shape_estimator"], limit_s=2.0) as (driver, processes):
        driver.run(20)
        stand_still(processes["shape_estimator"])
        try:
            with pytest.raises(DeviceError, match=r"shape_estimator did not answer .* of /tendon_states_decimated"):
                driver.run(20)
        finally:
            processes["shape_estimator"].send_signal(signal.SIGCONT)


def test_a_callback_that_hangs_is_named_and_a_close_ends_the_wait(folder, monkeypatch):
    free = threading.Event()
    # The driver is spun elsewhere: the node hangs alone.
    with in_processes(ROBOT, {}, ["shape_estimator"], limit_s=60.0) as (driver, processes):
        driver.run(20)
        stand_still(processes["shape_estimator"])
        ended: list[bool] = []

        def run() -> None:
            ended.append(driver.coordinator.run_due(START_NS + 30 * CYCLE_NS))
            free.set()

        driver.count_decimated()
        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert not free.wait(0.2)
            driver.coordinator.close()
            thread.join(10)
        finally:
            processes["shape_estimator"].send_signal(signal.SIGCONT)
        assert ended == [False]


def test_who_is_not_there_is_named():
    driver = ScriptedDriver(ROBOT)
    try:
        with pytest.raises(DeviceError, match="no answer of nobody within"):
            driver.coordinator.wait_for(["nobody"], 0.5)
    finally:
        driver.close()
