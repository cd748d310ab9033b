# SPDX-License-Identifier: Apache-2.0
"""Recordings: readable by rosbags and by mcap, after a kill, and when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

import yaml
from continuum_robot.msg import ClarkeState, TendonStates
from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader, make_reader
from rclpy.serialization import serialize_message
from ros_probe import Probe, pause
from rosbags.highlevel import AnyReader

from continuum_robot.errors import RecordingError
from continuum_robot.nodes import recording
from continuum_robot.nodes.composition import ComposedStack, StackOptions
from continuum_robot.nodes.recording import BagRecorder

pytestmark = [pytest.mark.ros]

TYPE = "continuum_robot/msg/TendonStates"


def state(sequence: int) -> bytes:
    five = [float(sequence)] * 5
    return serialize_message(
        TendonStates(
            sequence=sequence,
            displacement=five,
            velocity=five,
            tension=five,
            current=five,
            temperature=five,
            age=five,
            commanded_tension=five,
            limited=[0] * 5,
        )
    )


def sequences(folder: Path) -> list[int]:
    with AnyReader([folder]) as reader:
        return [reader.deserialize(raw, connection.msgtype).sequence for connection, _, raw in reader.messages()]


def test_a_recording_is_read_back_by_rosbags_and_mcap(tmp_path):
    folder = tmp_path / "bag"
    recorder = BagRecorder(folder, {"robot": "opencr", "robot_file": "name: opencr\n"})
    recorder.add_topic("/tendon_states", TYPE)
    recorder.add_topic("/clarke_state", "continuum_robot/msg/ClarkeState")
    recorder.add_topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    for index in range(3000):
        recorder.write("/tendon_states", state(index), 1_000_000 * index)
    recorder.write("/clarke_state", serialize_message(ClarkeState(sequence=7, **full_clarke())), 5)
    report = recorder.close()
    assert (report.written, report.dropped, report.problem) == (3001, 0, "")
    with AnyReader([folder]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        assert counts == {"/tendon_states": 3000, "/clarke_state": 1, "/diagnostics": 0}
    with (folder / "bag.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_summary().statistics.message_count == 3001
        assert sum(1 for _ in reader.iter_messages()) == 3001
    information = yaml.safe_load((folder / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["message_count"] == 3001
    assert information["custom_data"]["robot_file"] == "name: opencr\n"


def full_clarke() -> dict[str, list[float]]:
    return {name: [0.0, 0.0] for name in ("position", "velocity", "acceleration", "generalized_force")}


def test_an_existing_folder_is_not_overwritten(tmp_path):
    with pytest.raises(RecordingError, match="cannot be written"):
        BagRecorder(tmp_path)


def test_an_unwritable_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match=r"cannot be written.*another folder"):
        BagRecorder(tmp_path / "file" / "bag")


def test_an_unknown_type_is_named(tmp_path):
    recorder = BagRecorder(tmp_path / "bag")
    with pytest.raises(RecordingError, match="nonsense_msgs/msg/Nothing"):
        recorder.add_topic("/x", "nonsense_msgs/msg/Nothing")
    recorder.close()


def test_a_full_disk_leaves_a_readable_recording(tmp_path, monkeypatch):
    """The disk is full after 700 kB, also for the summary."""
    written = {"bytes": 0}
    real = os.write

    def limited(descriptor: int, data: memoryview) -> int:
        if len(data) and written["bytes"] + len(data) > 700_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written["bytes"] += len(data)
        return real(descriptor, data)

    def cut(descriptor: int, length: int) -> None:
        written["bytes"] = length
        real_cut(descriptor, length)

    real_cut = os.ftruncate
    monkeypatch.setattr(recording.os, "write", limited)
    monkeypatch.setattr(recording.os, "ftruncate", cut)
    problems: list[str] = []
    recorder = BagRecorder(tmp_path / "bag", on_problem=problems.append)
    recorder.add_topic("/tendon_states", TYPE)
    for index in range(5000):
        recorder.write("/tendon_states", state(index), index)
    report = recorder.close()
    monkeypatch.undo()
    assert "No space left" in report.problem
    assert problems == [report.problem]
    assert 500 < report.written < 2000
    assert sequences(tmp_path / "bag") == list(range(report.written))
    with (tmp_path / "bag" / "bag.mcap").open("rb") as stream:
        assert make_reader(stream).get_summary().statistics.message_count == report.written


CHILD = """
import os, resource, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from continuum_robot.nodes.recording import BagRecorder
from test_nodes_recording import TYPE, state
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
recorder = BagRecorder(Path(sys.argv[1]))
recorder.add_topic("/tendon_states", TYPE)
for index in range(4000):
    recorder.write("/tendon_states", state(index), index)
if not limit:
    import time
    time.sleep(1.5)
    os._exit(9)
print(recorder.close().problem)
"""


def run_child(folder: Path, limit: int) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(CHILD.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-c", program, str(folder), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_file_size_limit_ends_the_recording_not_the_process(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = run_child(tmp_path / "bag", 600_000)
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout
    read = sequences(tmp_path / "bag")
    assert len(read) > 300
    assert read == list(range(len(read)))


def test_after_a_kill_everything_older_than_a_second_is_there(tmp_path):
    done = run_child(tmp_path / "bag", 0)
    assert done.returncode == 9, done.stderr
    read = []
    with (tmp_path / "bag" / "bag.mcap").open("rb") as stream, contextlib.suppress(EndOfFile):
        # The end of the file is missing, as it must be after a kill.
        read += (message for _, _, message in NonSeekingReader(stream).iter_messages(log_time_order=False))
    assert len(read) == 4000


def test_the_recorder_node_records_the_stack(domain, tmp_path):
    options = StackOptions(visualize=False, record_directory=tmp_path, record_name="run")
    with ComposedStack(options) as stack:
        stack.wait_until_up(60.0)
        pause(1.5)
        folder = stack.recording
    assert folder == tmp_path / "run"
    with AnyReader([folder]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        for topic in ("/tendon_states", "/tendon_commands", "/clarke_state", "/clarke_reference", "/stack_status"):
            assert counts[topic] > 0, topic
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)  # every message of every type
    information = yaml.safe_load((folder / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    custom = information["custom_data"]
    assert custom["simulated"] == "true"
    assert "opencr_five_tendon" in custom["robot_file"]


def test_the_stack_goes_on_when_the_disk_is_not_writable(domain, tmp_path):
    (tmp_path / "file").write_text("")
    options = StackOptions(visualize=False, record_directory=tmp_path / "file" / "runs")
    with ComposedStack(options) as stack, Probe() as probe:
        assert stack.wait_until_up(60.0).state == "up"
        name = "/recorder: recording"
        probe.wait(lambda: name in probe.diagnostics and probe.diagnostics[name].level == b"\x02")
        assert "cannot be written" in probe.diagnostics[name].message
        assert stack.driver.faults == ()
        time.sleep(0.2)
        assert stack.status().state == "up"
