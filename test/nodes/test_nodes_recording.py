# SPDX-License-Identifier: Apache-2.0
"""Recordings: readable by rosbags and by mcap, after a kill, and when the disk is full."""

from __future__ import annotations

import array
import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

import yaml
from continuum_robot.msg import ClarkeState, TendonStates
from hypothesis import HealthCheck, given, settings, strategies
from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader, make_reader
from mcap.writer import Writer as McapWriter
from rclpy.serialization import serialize_message
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe, patient_robot
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader, ReaderError

from continuum_robot.app.client.connection import recorded
from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.recordings.inputs import State, read_inputs
from continuum_robot.app.recordings.run import open_run
from continuum_robot.errors import RecordingError
from continuum_robot.nodes.base.parameter_snapshot import portable
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.recorder import LATCHED, TOPICS
from continuum_robot.nodes.recordings import writing
from continuum_robot.nodes.recordings.mcap_file import EPISODE, McapScan
from continuum_robot.nodes.recordings.repairing import repair
from continuum_robot.nodes.recordings.writing import BagRecorder, find_definition
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics.flat_messages import CanonicalBytes
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

TYPE = "continuum_robot/msg/TendonStates"


def state(sequence: int) -> bytes:
    five = [float(sequence)] * 5
    # As on the wire: rclpy's own bytes of empty arrays are followed by some that nobody wrote.
    return CanonicalBytes().of(
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
        reader = make_reader(stream, validate_crcs=True)
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


def test_definitions_come_from_the_package_that_is_named(tmp_path, monkeypatch):
    """As colcon installs them: share/PACKAGE/msg below a prefix. Types of others never get a definition of ours."""
    installed = tmp_path / "share" / "other_msgs" / "msg" / "Other.msg"
    installed.parent.mkdir(parents=True)
    installed.write_text("float64 x\n", encoding="utf-8")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    assert find_definition("other_msgs/msg/Other") == installed
    assert find_definition("other_msgs/msg/Contact") is None
    assert find_definition("continuum_robot/msg/Contact").parts[-2:] == ("msg", "Contact.msg")


def test_an_unknown_type_is_named(tmp_path):
    recorder = BagRecorder(tmp_path / "bag")
    with pytest.raises(RecordingError, match="nonsense_msgs/msg/Nothing"):
        recorder.add_topic("/x", "nonsense_msgs/msg/Nothing")
    recorder.close()


def test_a_full_disk_leaves_a_readable_recording(tmp_path, monkeypatch):
    """The disk is full after 700 kB, but for the room of the ballast."""
    room = {"bytes": 700_000}
    real, real_temporary = os.write, tempfile.TemporaryFile

    def limited(descriptor: int, data: memoryview) -> int:
        if not room["bytes"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(descriptor, data[: room["bytes"]])  # what still fits is written, as a disk does
        room["bytes"] -= done
        return done

    def temporary(dir: Path):
        file = real_temporary(dir=dir)
        close = file.close

        def freed() -> None:
            if not file.closed:
                room["bytes"] += os.fstat(file.fileno()).st_size
            close()

        file.close = freed
        return file

    monkeypatch.setattr(writing.os, "write", limited)
    monkeypatch.setattr(writing.tempfile, "TemporaryFile", temporary)
    problems: list[str] = []
    recorder = BagRecorder(tmp_path / "bag", on_problem=problems.append)
    recorder.add_topic("/tendon_states", TYPE)
    for index in range(5000):
        recorder.write("/tendon_states", state(index), index)
    report = recorder.close()
    monkeypatch.undo()
    assert "No space left" in report.problem
    assert problems == [report.problem]
    # The chunk that was under way goes into the room of the ballast.
    assert 500 < report.written <= (700_000 + writing.CHUNK_BYTES) / len(state(0))
    assert report.written + report.dropped == 5000
    assert sequences(tmp_path / "bag") == list(range(report.written))
    with (tmp_path / "bag" / "bag.mcap").open("rb") as stream:
        assert make_reader(stream).get_summary().statistics.message_count == report.written
    assert sorted(file.name for file in (tmp_path / "bag").iterdir()) == ["bag.mcap", "metadata.yaml"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_that_vanishes_is_reported_while_it_records_and_nothing_of_it_counts(tmp_path, moved):
    told = threading.Event()
    recorder = BagRecorder(tmp_path / "bag", on_problem=lambda _sentence: told.set())
    recorder.add_topic("/tendon_states", TYPE)
    for index in range(100):
        recorder.write("/tendon_states", state(index), index)
    while recorder.report().written < 100:
        time.sleep(0.01)
    if moved:
        (tmp_path / "bag").rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(tmp_path / "bag")
    assert told.wait(60.0)
    recorder.write("/tendon_states", state(100), 100)
    report = recorder.close()
    assert "ended early (No such file" in report.problem
    assert report.written + report.dropped == 101
    if moved:
        assert sequences(tmp_path / "elsewhere" / "bag.mcap") == list(range(report.written))
    else:
        assert report.written == 0


def test_a_folder_that_vanishes_just_before_the_end_counts_as_lost(tmp_path):
    recorder = BagRecorder(tmp_path / "bag")
    recorder.add_topic("/tendon_states", TYPE)
    recorder._stop.set()
    recorder._thread.join()
    shutil.rmtree(tmp_path / "bag")
    recorder.write("/tendon_states", state(0), 0)
    recorder._drain()
    report = recorder.close()
    assert (report.written, report.dropped) == (0, 1)
    assert "was removed" in report.problem


CHILD = """
import os, resource, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from continuum_robot.nodes.recordings.writing import BagRecorder
from test_nodes_recording import TYPE, state
limit = int(sys.argv[2])
recorder = BagRecorder(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
recorder.add_topic("/tendon_states", TYPE)
for index in range(4000):
    recorder.write("/tendon_states", state(index), index)
print(recorder.close().problem)
"""


def run_child(folder: Path, limit: int) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(CHILD.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-c", program, str(folder), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def test_a_file_size_limit_ends_the_recording_not_the_process(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = run_child(tmp_path / "bag", 600_000)
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout
    with open_run(tmp_path / "bag") as run:  # no ballast makes the file longer: it has no end, as after a kill
        assert run.was_cut
        read = sequences(run.bag)
    assert len(read) > 300
    assert read == list(range(len(read)))


KILLED = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from continuum_robot.nodes.recordings.writing import BagRecorder
from test_nodes_recording import TYPE, state
recorder = BagRecorder(Path(sys.argv[1]), {{"robot_file": "name: killed\\n"}})
recorder.add_topic("/tendon_states", TYPE)
recorder.add_metadata({{"parameters/driver": "1"}})
for index in range(1_000_000):
    recorder.write("/tendon_states", state(index), index)
    if index % 100 == 0:
        print(index, flush=True)
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A recording whose recorder was killed while messages came, and the newest that was certainly handed to it."""
    folder = tmp_path_factory.mktemp("killed") / "bag"
    program = textwrap.dedent(KILLED.format(tests=str(Path(__file__).parent)))
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True) as child:
        printed = [0]
        for line in child.stdout:
            printed.append(int(line))
            # The second chunk in the file: at least one period of flushing is over.
            if (folder / "bag.mcap").stat().st_size > 2_000_000:
                child.send_signal(signal.SIGKILL)
                break
    assert child.returncode == -signal.SIGKILL
    return folder, printed


def test_after_a_kill_the_file_is_read_from_its_front(killed):
    folder, printed = killed
    assert not (folder / "metadata.yaml").exists()
    with pytest.raises(ReaderError), Reader(folder / "bag.mcap"):
        pass
    read = []
    with (folder / "bag.mcap").open("rb") as stream, contextlib.suppress(EndOfFile):
        # The end of the file is missing, as it must be after a kill.
        for schema, channel, message in NonSeekingReader(stream).iter_messages(log_time_order=False):
            assert (schema.name, channel.topic) == (TYPE, "/tendon_states")
            read.append(message.log_time)
    scan = McapScan(folder / "bag.mcap")
    assert [message.time_ns for message in scan.messages()] == read == list(range(len(read)))
    assert not scan.complete
    assert scan.metadata["continuum_robot"] == {"robot_file": "name: killed\n", "parameters/driver": "1"}
    # 5000 messages a second and less: what is missing was given within the last seconds.
    assert len(read) > 2000
    assert len(read) > printed[-1] - 15_000


def test_what_a_kill_left_is_repaired_for_every_reader(killed, tmp_path):
    folder, _ = killed
    before = (folder / "bag.mcap").read_bytes()
    report = repair([folder / "bag.mcap"], tmp_path / "whole")
    assert (folder / "bag.mcap").read_bytes() == before
    assert sequences(tmp_path / "whole") == list(range(report.messages))
    with (tmp_path / "whole" / "whole.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_summary().statistics.message_count == report.messages
        notes = [record.metadata for record in reader.iter_metadata() if record.name == "continuum_robot"]
    assert notes == [{"robot_file": "name: killed\n", "parameters/driver": "1"}]
    information = yaml.safe_load((tmp_path / "whole" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["custom_data"] == notes[0]
    assert information["topics_with_message_count"][0]["topic_metadata"]["type_description_hash"].startswith("RIHS01_")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fraction=strategies.floats(0.0, 1.0), zeros=strategies.integers(0, 300))
def test_a_file_that_ends_anywhere_gives_what_is_whole(killed, tmp_path_factory, fraction, zeros):
    """Wherever it is cut, and with zeros behind, as power failures leave them: a beginning of what was written."""
    folder, _ = killed
    data = (folder / "bag.mcap").read_bytes()[:900_000]
    file = tmp_path_factory.mktemp("cut") / "cut.mcap"
    file.write_bytes(data[: 8 + round(fraction * (len(data) - 8))] + bytes(zeros))
    scan = McapScan(file)
    read = [message.time_ns for message in scan.messages()]
    assert read == list(range(len(read)))
    assert not scan.complete


def test_what_is_no_recording_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "a.mcap").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(RecordingError, match="is no MCAP file"):
        repair([tmp_path / "a.mcap"], tmp_path / "out")
    with (tmp_path / "b.mcap").open("wb") as stream:
        writer = McapWriter(stream)
        writer.start("protobuf", "another program")
        writer.finish()
    with pytest.raises(RecordingError, match="profile 'protobuf'"):
        repair([tmp_path / "b.mcap"], tmp_path / "out")
    with pytest.raises(RecordingError, match="cannot be read"):
        repair([tmp_path / "c.mcap"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parameters_are_stored_without_this_computers_folders(tmp_path):
    (tmp_path / "robot.yaml").write_text("")
    assert portable(str(tmp_path / "robot.yaml")) == "robot.yaml"
    assert portable(["/tf", "/dev/null", "opencr_five_tendon"]) == ["/tf", "/dev/null", "opencr_five_tendon"]
    assert portable(array.array("d", [1.0, math.nan])) == [1.0, "nan"]
    assert portable(True) is True


def test_the_recorder_node_records_the_stack(domain, tmp_path):
    options = StackOptions(
        visualize=False, record_directory=tmp_path, record_name="run", clock="lockstep", seed=1, run_s=0.5
    )
    with ComposedStack(options) as stack:
        stack.wait_until_up(120.0)
        noted = {*options.node_names, "supervisor"}
        assert wait_for(lambda: noted <= stack.nodes["recorder"].noted_nodes, 60.0)
        assert wait_for(lambda: stack.time_is_over, 120.0)
        folder = stack.recording
    assert folder == tmp_path / "run"
    with AnyReader([folder]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        types = {connection.topic: connection.msgtype for connection in reader.connections}
        recorded = TOPICS | {EPISODE: "std_msgs/msg/String"}
        assert types == {f"/{topic.lstrip('/')}": kind for topic, kind in recorded.items()}
        for topic in ("/tendon_states", "/tendon_commands", "/clarke_state", "/clarke_reference", "/stack_status"):
            assert counts[topic] > 0, topic
        assert counts["/tendon_states"] == counts["/tendon_commands"] == 500
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)  # every message of every type
    with (folder / "run.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "ros2"
        assert sum(1 for _ in reader.iter_messages()) == sum(counts.values())
        for schema in reader.get_summary().schemas.values():
            assert (schema.encoding, bool(schema.data)) == ("ros2msg", True), schema.name
        for channel in reader.get_summary().channels.values():
            durability = yaml.safe_load(channel.metadata["offered_qos_profiles"])[0]["durability"]
            latched = channel.topic.lstrip("/") in (*LATCHED, EPISODE)
            assert (channel.message_encoding, durability == "transient_local") == ("cdr", latched), channel.topic
        note = {}
        for record in reader.iter_metadata():
            note |= record.metadata if record.name == "continuum_robot" else {}
    information = yaml.safe_load((folder / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["custom_data"] == note
    assert note["simulated"] == "true"
    assert "name: opencr_five_tendon" in note["robot_file"]
    assert note["robot_file_sha256"] == hashlib.sha256(note["robot_file"].encode()).hexdigest()
    assert len(note["calibration_sha256"]) == 64
    assert {"git_sha", "git_changed", "versions", "continuum_robot_version", "begun", "namespace"} <= note.keys()
    parameters = {name: json.loads(text) for name, text in note.items() if name.startswith("parameters/")}
    assert parameters["parameters/tendon_driver"]["simulation_level"] == "dynamics"
    assert parameters["parameters/clarke_controller"]["pretension_n"] > 0
    assert {f"parameters/{name}" for name in stack.options.node_names} <= parameters.keys()
    assert str(tmp_path) not in json.dumps(note)


def times_ns(folder: Path) -> dict[str, list[int]]:
    """Of the messages that are in the file by now, by topic."""
    times: dict[str, list[int]] = {}
    scan = McapScan(next(folder.glob("*.mcap")))
    for message in scan.messages():
        times.setdefault(message.channel.topic, []).append(message.time_ns)
    return times


def test_a_recorder_beside_a_stack_in_lockstep_takes_its_time_from_the_states(domain, tmp_path):
    """As the client and the page make it: the stack does not wait for it. What it wrote can be replayed."""
    robot = load_robot("opencr_five_tendon")
    options = StackOptions(robot=robot.name, visualize=False, clock="lockstep", seed=1, run_s=0.1, start_motion=True)
    with ComposedStack(options) as stack, Probe(stack=stack) as probe, contextlib.closing(StackLink()) as client:
        stack.wait_until_up(120.0)
        probe.wait(lambda: client.state().in_lockstep, 60.0)
        with recorded(client, robot, tmp_path / "run") as folder:
            probe.wait(lambda: "/tendon_states" in times_ns(folder), 60.0)
            probe.pause(0.3)
            end_ns = stack.driver.clock.now_ns()
            assert wait_for(lambda: times_ns(folder)["/tendon_states"][-1] == end_ns, 60.0, 0.2)
    times = times_ns(folder)
    assert {second - first for first, second in itertools.pairwise(times["/tendon_states"])} == {1_000_000}
    # Subscriptions are matched one after the other, meanwhile simulated time passes as fast as the machine computes.
    begin_ns = times["/tendon_states"][0] - 2_000_000_000
    assert all(begin_ns <= time_ns <= end_ns for topic in times.values() for time_ns in topic)
    steps = [step for step in read_inputs(folder).steps if isinstance(step, State)]
    answered = [step.time_ns for step in steps if "tendon_commands" in step.answers]
    assert len(answered) > 290
    assert set(answered) <= set(times["/tendon_states"])


@pytest.mark.real_time
def test_the_stack_goes_on_when_the_disk_is_not_writable(domain, tmp_path):
    (tmp_path / "file").write_text("")
    options = StackOptions(
        robot=patient_robot(),
        visualize=False,
        record_directory=tmp_path / "file" / "runs",
        parameters={"tendon_driver": PATIENT, "clarke_controller": PATIENT_CONTROLLER},
    )
    with ComposedStack(options) as stack, Probe() as probe:
        assert stack.wait_until_up(120.0).state == "up"
        name = "/recorder: recording"
        probe.wait(lambda: name in probe.diagnostics and probe.diagnostics[name].level == b"\x02")
        assert "cannot be written" in probe.diagnostics[name].message
        assert stack.driver.faults == ()
        assert stack.status().state == "up"
