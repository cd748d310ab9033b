# SPDX-License-Identifier: Apache-2.0
"""Recordings for Foxglove and rerun, read back by what knows nothing of this package."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: markers are messages of ROS 2")

from mcap.reader import make_reader
from recordings import write_bent_run
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from continuum_robot.app.command_line import main
from continuum_robot.app.recordings.playback import read_playback

TIP_AT_2_S = (1.0 - np.cos(4.0 * 0.2)) / 4.0
"""Of an arc of 4 /m, 0.2 m long, m to the side."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bent_run(tmp_path_factory.mktemp("runs") / "bent")


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    out = run.parent / "out" / "bent.mcap"
    assert main(["export", str(run), "--to", "foxglove", "--out", str(out)]) == 0
    return out


@functools.cache
def messages(file: Path) -> dict[str, list[tuple[int, Any]]]:
    """Times, ns, and messages by topic, decoded with nothing but the definitions in the file."""
    store, found = get_typestore(Stores.EMPTY), {}
    with file.open("rb") as stream:
        for schema, channel, message in make_reader(stream, validate_crcs=True).iter_messages():
            assert (schema.encoding, channel.message_encoding) == ("ros2msg", "cdr")
            if schema.name not in store.types:
                types = get_types_from_msg(schema.data.decode(), schema.name)
                store.register({name: kind for name, kind in types.items() if name not in store.types})
            decoded = store.deserialize_cdr(message.data, schema.name)
            found.setdefault(channel.topic, []).append((message.log_time, decoded))
    return found


def test_foxglove_file_explains_itself_and_draws_the_robot(run: Path, exported: Path) -> None:
    before, after = messages(run / "recording" / "recording.mcap"), messages(exported)
    assert {topic: len(of) for topic, of in before.items()} == {
        topic: len(of) for topic, of in after.items() if topic != "/markers"
    }
    drawn = after["/markers"]
    assert len(drawn) == 91
    first_ns, at_2_s = drawn[0][0], {marker.ns: marker for marker in drawn[60][1].markers}
    assert drawn[60][0] - first_ns == 2_000_000_000
    tip = at_2_s["backbone"].points[-1]
    assert (tip.x, tip.y) == pytest.approx((TIP_AT_2_S, 0.0), abs=1e-6)
    assert at_2_s["contact"].header.frame_id == "base"
    hues = [{(one.r, one.g, one.b) for one in marker.colors} for _, all_ in drawn for marker in all_.markers[:1]]
    assert hues[0] != hues[-1]
    assert all(len(hue) == 1 for hue in hues)  # all tendons are pulled alike, more and more
    touched = [any(m.ns == "contact" and m.type == 0 and m.action == 0 for m in all_.markers) for _, all_ in drawn]
    assert (touched[29], touched[31], touched[59], touched[62]) == (False, True, True, False)


def test_foxglove_file_is_a_recording_as_well(exported: Path) -> None:
    played = read_playback(exported)
    assert played.robot.name == "opencr_five_tendon"
    np.testing.assert_allclose(played.state(1.0).tension_n, 2.0)


def test_foxglove_layout_names_what_is_in_the_file(run: Path, exported: Path, tmp_path: Path) -> None:
    panels = json.loads(exported.with_suffix(".json").read_text())["configById"]
    assert not [name for name in panels if name.startswith("CallService")]
    topics = messages(exported)
    paths = [path["value"] for panel in panels.values() for path in panel.get("paths", [])]
    for path in paths:
        topic, *fields = path.lstrip("/").split(".")
        if f"/{topic}" in topics:
            value = topics[f"/{topic}"][0][1]
            for field in fields:
                value = getattr(value, re.sub(r"\[\d+\]", "", field))
    assert {f"/tendon_states.tension[{k}]" for k in range(5)} <= set(paths)
    assert "/tendon_states.tension[5]" not in paths
    assert "/markers" in next(panel for name, panel in panels.items() if name.startswith("3D!"))["topics"]
    # As many curves as another robot has tendons.
    other = tmp_path / "two.mcap"
    folder = write_bent_run(tmp_path / "two", robot="two_segment", duration_s=0.1)
    assert main(["export", str(folder), "--to", "foxglove", "--out", str(other)]) == 0
    assert "/tendon_states.tension[9]" in other.with_suffix(".json").read_text()


def test_another_reader_of_ros_decodes_it(exported: Path) -> None:
    reader = pytest.importorskip("mcap_ros2.reader", reason="mcap-ros2-support is not installed")
    found = [one.ros_msg for one in reader.read_ros2_messages(str(exported), topics=["/markers"])]
    assert [marker.ns for marker in found[-1].markers][:2] == ["tendons", "backbone"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--to", "foxglove", "--out", "bent.txt"], "a file that ends in .mcap"),
        (["--to", "foxglove", "--out", "bent.mcap", "--task", "reach"], "no effect"),
        (["--to", "foxglove", "--out", "bent.mcap", "--rate", "20"], "no effect"),
        (["--to", "csv", "--out", "bent.csv", "--robot", "two_segment"], "no effect"),
    ],
)
def test_wrong_options_are_said(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    arguments: list[str], sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run), *arguments]) == 2
    assert sentence in " ".join(capfd.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_rerun_file_holds_the_robot_its_numbers_and_how_to_show_them(run: Path, tmp_path: Path) -> None:
    chunks = pytest.importorskip("rerun.chunk", reason="rerun-sdk (0.41 or later) is not installed: the extra rerun")
    out = tmp_path / "bent.rrd"
    assert main(["export", str(run), "--to", "rerun", "--out", str(out)]) == 0
    reader = chunks.RrdReader(out)
    assert (len(reader.recordings()), len(reader.blueprints())) == (1, 1)
    rows: dict[str, list[dict[str, Any]]] = {}
    for chunk in reader.stream():
        rows.setdefault(chunk.entity_path, []).extend(chunk.to_record_batch().to_pylist())

    def by_time(path: str, column: str) -> dict[float, Any]:
        own = [row for row in rows[path] if row.get("time") is not None]
        return {round(row["time"].total_seconds(), 3): row.get(column) for row in own}

    assert np.array(by_time("/robot/backbone", "LineStrips3D:strips")[2.0])[0, -1, 0] == pytest.approx(TIP_AT_2_S)
    tendons = by_time("/robot/tendons", "LineStrips3D:colors")
    assert len(tendons) == 91
    assert len(tendons[2.0]) == 5
    assert tendons[0.0] != tendons[3.0]
    tension = by_time("/tendon_states/tension", "Scalars:scalars")
    assert len(tension) == 151
    assert tension[2.0] == [3.0] * 5
    arrows = by_time("/robot/contact", "Arrows3D:vectors")
    assert [bool(arrows.get(at_s)) for at_s in (0.5, 1.5, 2.5)] == [False, True, False]
