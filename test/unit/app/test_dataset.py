# SPDX-License-Identifier: Apache-2.0
"""Recordings whose numbers are known as DataFrames, and as data sets of episodes in each format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from recordings import SyntheticRun

from continuum_robot import load_recording
from continuum_robot.app.command_line import main
from continuum_robot.app.recordings.dataset import LEROBOT, DataSet, Episode, marked_episodes
from continuum_robot.csv_table import read_csv_table
from continuum_robot.errors import DeviceError, MissingPackageError, ParameterError, RecordingError

NAMES = "tendon_states.tension,clarke_state.position"
TARGET = (0.01, 0.02, 0.2)


def run_with(folder: Path, *marks: tuple[float, str], namespace: str = "") -> Path:
    run = SyntheticRun(duration_s=0.5)
    run.marks, run.target_m = marks, TARGET
    return run.write(folder, namespace)


def test_a_topic_is_a_data_frame_with_columns_named_as_its_fields(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: it is of the extra learn")
    recording = load_recording(run_with(tmp_path / "bag"))
    states = recording.frame("tendon_states")
    assert len(states) == 501
    assert states.index.name == "time_s"
    assert states.index[-1] == pytest.approx(0.5)
    assert states["tendon_states.tension[4]"].iloc[0] == pytest.approx(1.4)
    assert list(states["tendon_states.sequence"]) == list(range(1, 502))
    assert "tendon_states.LIMITED_MINIMUM" not in states
    assert set(recording.frame("tendon_commands")["tendon_commands.writer"]) == {"clarke_controller"}
    assert list(recording.frame("tip_target").iloc[0]) == list(TARGET)
    assert list(recording.frame("tip_target")) == ["tip_target.x", "tip_target.y", "tip_target.z"]
    with pytest.raises(RecordingError, match="no messages on shape"):
        recording.frame("shape")


def test_joined_topics_hold_the_newest_value_until_the_next(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: it is of the extra learn")
    run = SyntheticRun(duration_s=0.5)
    run.referred_from_s = 0.1
    joined = load_recording(run.write(tmp_path / "bag")).joined(500.0, ["clarke_reference.position", "tendon_states"])
    reference = joined["clarke_reference.position[0]"]
    assert np.isnan(reference[joined.index < 0.1 - 1e-6]).all()
    for time_s in (0.1, 0.102, 0.348, 0.5):  # references come every 4 ms
        k = round(500 * time_s)
        assert joined.index[k] == pytest.approx(time_s)
        assert reference.iloc[k] == pytest.approx(run.desired(0.004 * (2 * k // 4))[0])
    with pytest.raises(RecordingError, match=r"no numbers named 'tendon_states.tensions'.*tendon_states.tension,"):
        load_recording(tmp_path / "bag").joined(100.0, ["tendon_states.tensions"])


def test_pandas_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    recording = load_recording(run_with(tmp_path / "bag"), ["tip_target"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match=r"pandas.*continuum-robot\[learn\]"):
        recording.frame("tip_target")


def test_marks_split_a_recording(tmp_path):
    marks = ((0.02, "success"), (0.05, "begin"), (0.15, "success"), (0.2, "begin"), (0.25, "discard"), (0.26, "begin"),
             (0.3, "begin"), (0.4, "success"), (0.45, "begin"))  # fmt: skip
    found = marked_episodes(load_recording(run_with(tmp_path / "bag", *marks)))
    assert found is not None
    np.testing.assert_allclose(found.spans, [(0.05, 0.15), (0.3, 0.4)], atol=1e-9)
    assert (found.discarded, found.unfinished) == (2, 1)
    assert marked_episodes(load_recording(run_with(tmp_path / "none"))) is None
    with pytest.raises(RecordingError, match=r"mark 'good' on episode.*begin, success and discard"):
        marked_episodes(load_recording(run_with(tmp_path / "other", (0.1, "good"))))


def test_csv_has_the_frames_of_all_episodes(tmp_path, capsys):
    one = run_with(tmp_path / "one", (0.05, "begin"), (0.15, "success"), (0.2, "begin"), (0.3, "discard"))
    two = run_with(tmp_path / "two", namespace="/left")
    out = tmp_path / "new" / "frames.csv"
    arguments = ["export", str(one), str(two), "--to", "csv", "--rate", "100", "--observations", NAMES]
    assert main([*arguments, "--out", str(out)]) == 0
    assert "2 episodes, 62 frames at 100 Hz" in capsys.readouterr().out
    table = read_csv_table(out, ["timestamp", "frame_index", "episode_index"], further=lambda _name: True)
    assert table.header[3:] == (*(f"tendon_states.tension[{k}]" for k in range(5)), *POSITION)
    frames = table.numbers(table.header)
    assert list(frames[:, 2]) == [0] * 11 + [1] * 51
    assert list(frames[:, 1]) == [*range(11), *range(51)]
    np.testing.assert_allclose(frames[:, 0], 0.01 * frames[:, 1], atol=1e-12)
    run = SyntheticRun()
    np.testing.assert_allclose(frames[3, -2:], run.desired(0.08) - run.error_m, atol=1e-9)
    given = ["--action", "clarke_reference.position", "--rate", "100", "--observations", NAMES]
    assert main(["export", str(one), "--to", "csv", "--out", str(tmp_path / "asked.csv"), *given]) == 0
    columns = [f"action.clarke_reference.position[{k}]" for k in range(2)]
    asked = read_csv_table(tmp_path / "asked.csv", columns, further=lambda _name: True).numbers(columns)
    np.testing.assert_allclose(asked[3], run.desired(0.088), atol=1e-9)  # the newest at the next frame, at 0.09 s
    assert main([*arguments, "--out", str(out)]) == 2
    assert "expected a name that nothing has yet" in capsys.readouterr().err


POSITION = ("clarke_state.position[0]", "clarke_state.position[1]")


def test_parquet_says_what_it_is(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: it is of the extra learn")
    bag = run_with(tmp_path / "bag")
    out = tmp_path / "frames.parquet"
    assert main(["export", str(bag), "--to", "parquet", "--out", str(out)]) == 0
    table = parquet.read_table(out)
    assert table.num_rows == 26
    assert {"timestamp", "episode_index", "tip_target.z", "tendon_states.displacement[4]"} <= {*table.column_names}
    about = json.loads(table.schema.metadata[b"continuum_robot"])
    assert about["rate_hz"] == 50.0
    assert about["episodes"] == ["bag from 0.000 s to 0.500 s"]
    assert {"robot", "continuum_robot_version", "recorded_by_version", "units"} <= about.keys()


def made(frames: tuple[int, ...] = (4, 3)) -> DataSet:
    rng = np.random.default_rng(1)
    episodes = [Episode(rng.normal(size=(count, 3)), rng.normal(size=(count, 2)), f"run {count}") for count in frames]
    return DataSet("two_segment", 25.0, ["a.x", "a.y", "b"], ["c[0]", "c[1]"], episodes)


def test_lerobot_files_have_the_published_schema(tmp_path):
    """As lerobot 0.4 writes LeRobotDataset v3.0: src/lerobot/datasets/utils.py and lerobot_dataset.py."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: it is of the extra learn")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: it is of the extra learn")
    data = made()
    folder = data.write(tmp_path / "set", LEROBOT, "reach")
    info = json.loads((folder / "meta/info.json").read_text())
    counts = {name: info[f"total_{name}"] for name in ("episodes", "frames", "tasks")}
    assert counts == {"episodes": 2, "frames": 7, "tasks": 1}
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", 25, "two_segment")
    assert (info["splits"], info["video_path"]) == ({"train": "0:2"}, None)
    assert info.keys() >= {"chunks_size", "data_files_size_in_mb", "video_files_size_in_mb"}
    scalar = {"shape": [1], "names": None}
    assert info["features"] == {
        "observation.state": {"dtype": "float32", "shape": [3], "names": ["a.x", "a.y", "b"]},
        "action": {"dtype": "float32", "shape": [2], "names": ["c[0]", "c[1]"]},
        "timestamp": {"dtype": "float32", **scalar},
        **{f"{name}index": {"dtype": "int64", **scalar} for name in ("frame_", "episode_", "", "task_")},
    }
    frames = parquet.read_table(folder / info["data_path"].format(chunk_index=0, file_index=0))
    assert frames.column_names == list(info["features"])
    assert str(frames.schema.field("observation.state").type).startswith("fixed_size_list<")
    state = np.stack(frames["observation.state"].to_numpy())
    np.testing.assert_array_equal(state, np.concatenate([one.observation for one in data.episodes]).astype("f4"))
    assert frames["index"].to_pylist() == list(range(7))
    assert frames["episode_index"].to_pylist() == [0] * 4 + [1] * 3
    np.testing.assert_allclose(frames["timestamp"], [0, 0.04, 0.08, 0.12, 0, 0.04, 0.08], atol=1e-7)
    episodes = parquet.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [one["tasks"] for one in episodes] == [["reach"]] * 2
    assert [(one["dataset_from_index"], one["dataset_to_index"], one["length"]) for one in episodes] == [
        (0, 4, 4),
        (4, 7, 3),
    ]
    assert {one[f"{of}/{what}_index"] for one in episodes for of in ("data", "meta/episodes") for what in
            ("chunk", "file")} == {0}  # fmt: skip
    assert pandas.read_parquet(folder / "meta/tasks.parquet").loc["reach"].task_index == 0
    stats = json.loads((folder / "meta/stats.json").read_text())
    assert stats.keys() == info["features"].keys()
    kinds = {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}
    assert all(one.keys() == kinds for one in stats.values())
    np.testing.assert_allclose(stats["observation.state"]["std"], state.std(axis=0), rtol=1e-5)
    assert {f"stats/action/{kind}" for kind in kinds} <= episodes[0].keys()
    assert episodes[1]["stats/action/count"] == [3]


def test_lerobot_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    module = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="lerobot is not installed")
    data = made()
    root = data.write(tmp_path / "set", LEROBOT, "reach")
    ahead = {"action": [0.0, 0.04]}
    read = module.LeRobotDataset("local/set", root=root, episodes=[1], delta_timestamps=ahead)
    assert (read.fps, read.num_episodes, len(read), read[0]["task"]) == (25, 1, 3, "reach")
    for k in range(3):
        np.testing.assert_allclose(read[k]["observation.state"], data.episodes[1].observation[k], rtol=1e-6)
        np.testing.assert_allclose(read[k]["action"][0], data.episodes[1].action[k], rtol=1e-6)
    assert read[2]["action_is_pad"].tolist() == [False, True]


def test_the_action_of_a_frame_is_what_was_asked_for_until_the_next(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: it is of the extra learn")
    parquet = pytest.importorskip("pyarrow.parquet")
    bag = run_with(tmp_path / "bag", (0.1, "begin"), (0.3, "success"))
    arguments = ["export", str(bag), "--to", "lerobot", "--out", str(tmp_path / "set"), "--rate", "25"]
    assert main(arguments) == 0
    frames = parquet.read_table(tmp_path / "set/data/chunk-000/file-000.parquet")
    assert frames["observation.state"].type.list_size == 12
    asked = [SyntheticRun().desired(0.1 + 0.04 * (k + 1)) for k in range(6)]
    np.testing.assert_allclose(np.stack(frames["action"].to_numpy()), asked, rtol=1e-5)


@pytest.mark.parametrize("to", ["csv", LEROBOT])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, to):
    if to == LEROBOT:
        pytest.importorskip("pandas", reason="pandas is not installed: it is of the extra learn")
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: it is of the extra learn")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(DeviceError, match=r"/out: cannot be written \(No space left on device\)"):
        made().write(tmp_path / "out", to)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_a_data_set_is_refused_and_leaves_nothing(tmp_path, capsys):
    bag = run_with(tmp_path / "bag", (0.1, "begin"), (0.101, "success"))

    def refused(*arguments: str) -> str:
        assert main(["export", str(bag), "--out", str(tmp_path / "out"), *arguments]) == 2
        return capsys.readouterr().err

    assert "less than two frames" in refused("--to", "csv")
    assert "temperature[0] is unknown (NaN) at 0.100 s" in refused(
        "--to", "lerobot", "--rate", "1000", "--observations", "tendon_states.temperature"
    )
    assert "--task" in refused("--to", "csv", "--task", "reach")
    with pytest.raises(ParameterError, match="whole number of frames"):
        DataSet("robot", 2.5, ["a"], ["b"], made().episodes).write(tmp_path / "out", LEROBOT)
    with pytest.raises(ParameterError, match="csv, parquet or lerobot"):
        made().write(tmp_path / "out", "hdf5")
    with pytest.raises(ParameterError, match="at least one"):
        DataSet("robot", 2.0, ["a"]).write(tmp_path / "out", "csv")
    assert [one.name for one in tmp_path.iterdir()] == ["bag"]


def test_recordings_that_do_not_go_together_are_named(tmp_path, capsys):
    one, two = run_with(tmp_path / "one"), SyntheticRun(duration_s=0.1).write(tmp_path / "two")
    assert main(["export", str(one), str(two), "--to", "csv", "--out", str(tmp_path / "out")]) == 2
    assert "tip_target.x, tip_target.y, tip_target.z is in one of them only" in capsys.readouterr().err
