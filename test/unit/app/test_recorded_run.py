# SPDX-License-Identifier: Apache-2.0
"""Runs found by a path, whole, cut off and foreign, and the report that is drawn from the recording alone."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from mcap.writer import Writer as McapWriter
from recordings import SyntheticRun
from rosbags.rosbag2 import Reader

from continuum_robot.app.command_line import main
from continuum_robot.app.output import plain
from continuum_robot.app.recordings.inputs import read_inputs
from continuum_robot.app.recordings.reading import read_recording
from continuum_robot.app.recordings.run import find_recording, open_run, recorded_facts
from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.mcap_file import McapScan, find_mcap_files, note_of
from continuum_robot.nodes.recordings.writing import BagRecorder
from continuum_robot.robot.loading import find_robot_file

ROBOT = "opencr_five_tendon"
STATISTICS = {"round_trip_p50_us": 321.0, "processor_percent": math.nan, "faults": ["estop"], "loop_rate_hz": 998.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 4 s, recorded by the recorder, with all that it notes."""
    folder = tmp_path_factory.mktemp("run")
    source = SyntheticRun(duration_s=4.0).write(folder / "source")
    note = {
        "robot": ROBOT,
        "robot_file": find_robot_file(ROBOT).read_text(),
        "namespace": "/",
        "simulated": "true",
        "parameters/reference_source": json.dumps({"blend_s": 0.5}),
        "parameters/tendon_driver": json.dumps({"simulation_level": "dynamics"}),
    }
    recorder = BagRecorder(folder / "2026-01-31_12-00-00" / "recording", note)
    count = 0
    with Reader(source) as reader:
        for connection in reader.connections:
            recorder.add_topic(connection.topic, connection.msgtype)
        for connection, time_ns, data in reader.messages():
            recorder.write(connection.topic, data, time_ns)
            count += 1
    while recorder.report().written < count:  # the statistics come last, as at the end of a run
        time.sleep(0.01)
    recorder.add_metadata({"statistics": json.dumps(plain(STATISTICS))})
    assert recorder.close().problem == ""
    return folder / "2026-01-31_12-00-00"


def numbers_of(folder: Path) -> dict[str, object]:
    return json.loads((folder / "metrics.json").read_text())


def test_every_path_to_a_run_gives_the_same_report(run: Path, tmp_path: Path) -> None:
    reports = []
    for number, path in enumerate((run, run / "recording", run / "recording" / "recording.mcap")):
        assert main(["report", str(path), "--folder", str(tmp_path / str(number))]) == 0
        reports.append(numbers_of(tmp_path / str(number)))
    assert reports[0] == reports[1] == reports[2]
    assert reports[0]["rmse_q_re_m"] == pytest.approx(2e-4, rel=1e-6)
    assert reports[0]["left_out_at_start_s"] == pytest.approx(0.5, abs=0.005)
    assert reports[0]["loop_rate_hz"] == 998.5
    assert reports[0]["faults"] == ["estop"]
    assert reports[0]["processor_percent"] is None
    assert reports[0]["simulation_level"] == "dynamics"
    assert {path.name for path in (tmp_path / "0").iterdir()} >= {"metrics.json", "tracking.png", "tensions.png"}


def test_the_report_goes_to_the_runs_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run / "recording" / "recording.mcap")]) == 0
    assert (run / "metrics.json").is_file()
    assert f"metrics   {run / 'metrics.json'}" in capsys.readouterr().out


def test_what_was_cut_off_is_reported_as_far_as_it_goes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (run / "recording" / "recording.mcap").read_bytes()
    cut = tmp_path / "run" / "recording"
    cut.mkdir(parents=True)
    (cut / "recording.mcap").write_bytes(whole[: len(whole) // 2])
    assert main(["report", str(tmp_path / "run")]) == 0
    assert "could not end it" in capsys.readouterr().out
    numbers = numbers_of(tmp_path / "run")
    assert 1.0 < numbers["duration_s"] < 2.5
    assert numbers["rmse_q_re_m"] == pytest.approx(2e-4, rel=1e-6)
    assert numbers["left_out_at_start_s"] == pytest.approx(0.5, abs=0.005)
    # Noted at the end of a run only.
    assert "round_trip_p50_us" not in numbers
    assert numbers["loop_rate_hz"] == pytest.approx(1000, rel=1e-3)

    assert main(["repair", str(tmp_path / "run")]) == 0
    with open_run(cut.parent / "recording_repaired") as mended, open_run(cut) as damaged:
        assert (mended.was_cut, damaged.was_cut) == (False, True)
        assert mended.note == damaged.note
        assert mended.robot().name == ROBOT
    assert main(["repair", str(tmp_path / "run")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_recording_of_another_program_needs_the_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = SyntheticRun(duration_s=1.5).write(tmp_path / "bag")
    assert main(["report", str(bag)]) == 2
    assert "Give the robot file with --robot" in capsys.readouterr().err
    assert main(["report", str(bag), "--robot", "two_segment"]) == 2
    assert "has 5 tendons, the robot two_segment has" in capsys.readouterr().err
    assert main(["report", str(bag), "--robot", ROBOT]) == 0
    assert numbers_of(bag / "report")["left_out_at_start_s"] == pytest.approx(1.0, abs=0.005)
    with open_run(bag) as foreign:
        assert (foreign.note, foreign.was_cut, foreign.simulated) == ({}, False, False)
        assert recorded_facts(foreign) == {"faults": []}


def test_what_is_no_recording_is_refused_with_what_to_give(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="does not exist"):
        find_recording(tmp_path / "nothing")
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(RecordingError, match="is no recording"):
        find_recording(tmp_path / "metrics.json")
    with pytest.raises(RecordingError, match="holds no recording"):
        find_recording(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / run.name).symlink_to(run)
    with pytest.raises(RecordingError, match="one of the runs in it, such as 2026-01-31_12-00-00"):
        find_recording(tmp_path / "runs")
    with (tmp_path / "other.mcap").open("wb") as stream:
        writer = McapWriter(stream)
        writer.start("protobuf", "another program")
        writer.finish()
    with pytest.raises(RecordingError, match="profile 'protobuf'"), open_run(tmp_path / "other.mcap"):
        pass


def foreign_message(file: Path, topic: str, type_name: str, definition: str, data: bytes) -> Path:
    """An MCAP file of ROS 2 by another program, with one message."""
    with file.open("wb") as stream:
        writer = McapWriter(stream)
        writer.start("ros2", "another program")
        schema = writer.register_schema(type_name, "ros2msg", definition.encode())
        channel = writer.register_channel(topic, "cdr", schema)
        writer.add_message(channel, 10, data, 10)
        writer.finish()
    return file


@pytest.mark.parametrize(
    ("definition", "data"),
    [
        ("nowhere/Time stamp\nuint64 sequence", bytes(20)),  # a type that is nowhere
        ("uint64 sequence", bytes(20)),  # no header
        ("uint64[] sequence", b"\0\1\0\0" + b"\xff" * 8),  # longer than the file
        ("string sequence", b"\0\1\0\0\x02\0\0\0\xff\0"),  # no UTF-8
        ("uint64 sequence", b""),
    ],
)
def test_messages_that_cannot_be_read_or_are_of_another_stack_are_refused(
    tmp_path: Path, definition: str, data: bytes
) -> None:
    """Found by fuzzing: they ended in a KeyError, an AttributeError, a MemoryError and others."""
    file = foreign_message(tmp_path / "x.mcap", "/tendon_states", "continuum_robot/msg/TendonStates", definition, data)
    with open_run(file) as run:
        for read in (lambda: read_recording(run.bag, ["tendon_states"]), lambda: read_inputs(run.bag)):
            with pytest.raises(RecordingError, match=r"x\.mcap"):
                read()


def test_a_definition_that_cannot_be_read_is_refused_by_repair(tmp_path: Path) -> None:
    """Found by fuzzing: it ended in a KeyError."""
    file = foreign_message(tmp_path / "x.mcap", "/a", "a/msg/B", "nowhere/Time stamp", bytes(8))
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])  # cut off
    with pytest.raises(RecordingError, match=r"x\.mcap"), open_run(file):
        pass


@pytest.mark.parametrize(
    ("noted", "kept"),
    [
        ("{robot: 5, robot_file: 7, statistics: [1]}", {}),
        ("{robot: [x], namespace: /left}", {"namespace": "/left"}),
        ("[a, b]", {}),
        ("5", {}),
    ],
)
def test_notes_of_another_kind_than_text_do_not_count(tmp_path: Path, noted: str, kept: dict[str, str]) -> None:
    """Numbers stood where text is looked into: a TypeError."""
    bag = SyntheticRun(duration_s=0.01).write(tmp_path / "bag")
    description = bag / "metadata.yaml"
    before, put, after = description.read_text().partition("custom_data: null")
    assert put
    description.write_text(f"{before}custom_data: {noted}{after}")
    if kept == {} and not noted.startswith("{"):
        with pytest.raises(RecordingError, match="is not readable"), open_run(bag):
            pass
        return
    with open_run(bag) as run:
        assert run.note == kept
        assert run.statistics == {}


@pytest.mark.parametrize("robot", ["..", "a/b", "x" * 300, "a\0b", "😀" * 100, ""])
def test_whatever_is_noted_as_the_robots_name_its_file_is_written(tmp_path: Path, robot: str) -> None:
    recorder = BagRecorder(
        tmp_path / "run" / "recording", {"robot": robot, "robot_file": find_robot_file(ROBOT).read_text()}
    )
    recorder.close()
    with open_run(tmp_path / "run") as run:
        assert run.robot().name == ROBOT


def split(run: Path, folder: Path, count: int) -> list[Path]:
    """The recording of a run in parts, as ``ros2 bag record --max-bag-size`` leaves it, without metadata.yaml."""
    folder.mkdir(parents=True)
    (whole,) = find_mcap_files(run / "recording")
    messages = list(McapScan(whole).messages())
    parts = []
    for part in range(count):
        pieces = messages[len(messages) * part // count : len(messages) * (part + 1) // count]
        recorder = BagRecorder(folder / f"part{part}", note_of(whole) if part == 0 else {})
        for message in pieces:
            recorder.add_topic(message.channel.topic, message.channel.type_name)
            recorder.write(message.channel.topic, message.data, message.time_ns)
        assert recorder.close().written == len(pieces)
        (written,) = find_mcap_files(folder / f"part{part}")
        parts.append(written.rename(folder / f"{folder.name}_{part}.mcap"))
        shutil.rmtree(folder / f"part{part}")
    return parts


def test_a_split_recording_is_read_whole_and_a_cut_part_costs_its_end_only(run: Path, tmp_path: Path) -> None:
    parts = split(run, tmp_path / "bag", 12)
    assert [file.name for file in find_mcap_files(tmp_path / "bag")] == [file.name for file in parts]  # 10 behind 9
    with open_run(run) as whole:
        states = read_recording(whole.bag, ["tendon_states"]).topics["tendon_states"]
        with open_run(tmp_path / "bag") as of_parts:
            assert not of_parts.was_cut
            assert of_parts.note["robot"] == ROBOT
            found = read_recording(of_parts.bag, ["tendon_states"]).topics["tendon_states"]
        assert np.array_equal(found.sequence, states.sequence)
    for cut in (parts[3], parts[11]):
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (tmp_path / "bag" / "bag_12.mcap").touch()  # begun, when the power went
    with open_run(tmp_path / "bag") as of_parts:
        assert of_parts.lost_bytes
        assert of_parts.robot().name == ROBOT
        fewer = read_recording(of_parts.bag, ["tendon_states"]).topics["tendon_states"]
    assert set(fewer.sequence) < set(states.sequence)
    assert len(fewer) > 0.75 * len(states)
    assert main(["repair", str(tmp_path / "bag")]) == 0
    assert main(["report", str(tmp_path / "bag_repaired")]) == 0
    assert main(["report", str(tmp_path / "bag")]) == 0


def test_a_folder_of_several_loose_recordings_is_refused(run: Path, tmp_path: Path) -> None:
    (whole,) = find_mcap_files(run / "recording")
    for name in ("one", "two"):
        shutil.copy(whole, tmp_path / f"{name}.mcap")
    with pytest.raises(RecordingError, match="of several recordings"):
        find_recording(tmp_path)


def test_of_several_recordings_one_has_to_be_chosen(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(run / "recording")
    with pytest.raises(RecordingError, match=r"holds 2 recordings \(a, b\)"):
        find_recording(tmp_path)
    (tmp_path / "recording").symlink_to(run / "recording")
    assert find_recording(tmp_path) == tmp_path / "recording"
