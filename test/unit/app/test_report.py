# SPDX-License-Identifier: Apache-2.0
"""The report's numbers from a recording whose numbers are known, and its files."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from recordings import SyntheticRun, typestore
from rosbags.rosbag2 import StoragePlugin, Writer

from continuum_robot.app.recordings import reading
from continuum_robot.app.recordings.reading import Bag, Recording, Series, read_recording
from continuum_robot.app.recordings.run import fault_moments
from continuum_robot.app.report.numbers import loop_numbers, metrics, track
from continuum_robot.app.report.plots import Events, draw_shapes, draw_tensions, seen_shapes
from continuum_robot.app.report.report import TOPICS, write_report
from continuum_robot.app.view.steering_range import reach_of
from continuum_robot.errors import DeviceError, RecordingError
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot


@pytest.mark.parametrize("cycles_a_reading", [1, 2, 3])
def test_missed_cycles_are_told_only_by_readings_that_are_new_in_each(cycles_a_reading: int) -> None:
    """Servos on a serial bus answer every few cycles, and a reading's stamp is when it was taken."""
    cycle = np.arange(3000)
    stamp_s = 0.001 * (cycle // cycles_a_reading * cycles_a_reading)
    numbers = loop_numbers(Series(stamp_s, stamp_s, cycle, {}, {}))
    assert numbers["loop_rate_hz"] == pytest.approx(1000.0, rel=1e-3)
    if cycles_a_reading == 1:
        assert numbers["missed_cycles_percent"] == 0.0
    else:
        assert np.isnan(numbers["missed_cycles_percent"])


def test_metrics_of_a_known_run(tmp_path: Path) -> None:
    run = SyntheticRun(duration_s=2.0, skipped=(500, 501, 502, 503, 1200), lost=(700,))
    bag = run.write(tmp_path / "bag")
    folder = tmp_path / "report"
    folder.mkdir()
    numbers, plots = write_report(bag, folder, load_robot("opencr_five_tendon"), {"faults": []}, blend_s=0.5)

    assert numbers["simulated"] is True
    assert numbers["duration_s"] == pytest.approx(2.0, abs=1e-9)
    assert numbers["missed_cycles_percent"] == pytest.approx(100 * 5 / 2000)
    assert numbers["loop_rate_hz"] == pytest.approx(1995 / 2.0)
    assert numbers["recording_lost_percent"] == pytest.approx(100 / 1996)
    assert numbers["response_p50_us"] == pytest.approx(300, abs=1)
    assert numbers["response_max_us"] == pytest.approx(300, abs=1)
    assert numbers["rmse_q_re_m"] == pytest.approx(2e-4, rel=1e-6)
    assert numbers["rmse_q_im_m"] == pytest.approx(1e-4, rel=1e-6)
    assert numbers["max_error_m"] == pytest.approx(2e-4, rel=1e-6)
    assert numbers["min_tension_n"] == pytest.approx(1.0)
    assert numbers["max_tension_n"] == pytest.approx(1.9)
    assert numbers["left_out_at_start_s"] == pytest.approx(0.5, abs=0.005)
    assert numbers["evaluated_s"] == pytest.approx(1.5, abs=0.01)

    written = json.loads((folder / "metrics.json").read_text())
    assert written.keys() == numbers.keys()
    assert all(not isinstance(value, dict) for value in written.values())
    assert [plot.name for plot in plots] == ["tracking.png", "tensions.png", "timing.png"]
    for plot in plots:
        picture = image.imread(plot)
        assert picture.shape[0] > 300
        assert picture.std() > 0.02


def test_facts_of_the_driver_win_over_the_recording(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.5).write(tmp_path / "bag")
    facts = {"loop_rate_hz": 999.5, "round_trip_p99_us": 700.0, "faults": ["stale_command"]}
    numbers, _ = write_report(bag, tmp_path, load_robot("opencr_five_tendon"), facts, blend_s=0.0)
    assert numbers["loop_rate_hz"] == 999.5
    assert numbers["faults"] == ["stale_command"]


def test_the_recorded_namespace_is_found(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.2).write(tmp_path / "bag", "/left")
    recording = read_recording(bag, TOPICS)
    assert recording.namespace == "/left"
    assert len(recording.series("tendon_states")) == 201


def test_a_long_recording_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour at 1 kHz would take some 6 GB as objects."""
    bag = SyntheticRun(duration_s=0.5).write(tmp_path / "bag")
    whole = read_recording(bag, TOPICS)
    alive = most = 0
    messages = Bag.messages

    def counted(self: Bag, wanted: Any) -> Iterator[Any]:
        nonlocal alive, most
        for row in messages(self, wanted):
            alive += 1
            most = max(most, alive)
            weakref.finalize(row[-1], gone)
            yield row

    def gone() -> None:
        nonlocal alive
        alive -= 1

    monkeypatch.setattr(Bag, "messages", counted)
    monkeypatch.setattr(reading, "BLOCK", 16)
    again = read_recording(bag, TOPICS)
    assert len(whole.series("tendon_states")) > 400
    assert most < 16 * len(TOPICS)
    for topic, series in whole.topics.items():
        assert sorted(series.fields) == sorted(set(TOPICS[topic]) & set(series.fields))
        np.testing.assert_array_equal(again.topics[topic].stamp_s, series.stamp_s)
        for name, values in series.fields.items():
            np.testing.assert_array_equal(again.topics[topic][name], values)


def test_reference_is_interpolated_to_the_stamps_of_the_state(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.4).write(tmp_path / "bag")
    recording = read_recording(bag, TOPICS)
    robot = load_robot("opencr_five_tendon")
    tracking = track(recording.series("clarke_state"), recording.series("clarke_reference"), robot, 0.0)
    shifted = recording.series("clarke_reference")
    sparse = type(shifted)(
        shifted.stamp_s[::2], shifted.received_s[::2], shifted.sequence[::2], {"position": shifted["position"][::2]}, {}
    )
    coarse = track(recording.series("clarke_state"), sparse, robot, 0.0)
    np.testing.assert_allclose(coarse.desired, tracking.desired[: len(coarse.desired)], atol=1e-7)


def test_a_run_without_references_has_the_loops_numbers_and_no_errors(tmp_path: Path) -> None:
    recording = read_recording(SyntheticRun(duration_s=0.2).write(tmp_path / "bag"), ("tendon_states",))
    numbers = metrics(recording, None)
    assert numbers["loop_rate_hz"] == pytest.approx(1000)
    assert "rmse_q_re_m" not in numbers
    assert np.isnan(numbers["response_p50_us"])


def test_a_run_that_ends_before_its_reference_begins_has_a_report_without_errors(tmp_path: Path) -> None:
    run = SyntheticRun(duration_s=0.4)
    run.controlled_until_s, run.referred_from_s = 0.2, 0.3
    numbers, plots = write_report(
        run.write(tmp_path / "bag"), tmp_path, load_robot("opencr_five_tendon"), {"faults": []}, blend_s=0.0
    )
    assert numbers["loop_rate_hz"] == pytest.approx(1000)
    assert "max_error_m" not in numbers
    assert [plot.name for plot in plots] == ["tensions.png", "timing.png"]


def test_shapes_are_drawn_of_the_moments_at_which_they_were_seen(tmp_path: Path) -> None:
    """A row that is not finite ended the report with an exception."""
    rows = np.array([[0.1, 0.2], [np.nan, np.nan], [1.0, 0.5]])
    stamp_s = np.arange(3) * 0.1

    class Seen:
        def __init__(self, chosen: slice) -> None:
            self.chosen, self.topics = chosen, ("shape",)

        def series(self, _topic: str) -> Series:
            at_s = stamp_s[self.chosen]
            return Series(at_s, at_s, np.arange(3), {"coefficients": rows[self.chosen]}, {})

    robot = load_robot("opencr_five_tendon")
    times_s, coefficients = seen_shapes(Seen(slice(None)))
    np.testing.assert_array_equal(coefficients, rows[[0, 2]])
    np.testing.assert_array_equal(times_s, stamp_s[[0, 2]])
    assert draw_shapes(Seen(slice(None)), robot, tmp_path).is_file()
    assert not len(seen_shapes(Seen(slice(1, 2)))[1])


@pytest.mark.parametrize("name", ["opencr_five_tendon", "rolling_five_link"])
def test_shapes_are_listed_in_the_order_of_time(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = robot_model(load_robot(name)).drawing()
    bends = np.array([0.0, 1.0, 0.5, 0.25, 0.75, 0.75])
    rows = np.outer(bends, drawing.coefficients(0.5 * reach_of(load_robot(name)).high_m))
    seen = Series(np.arange(6) * 0.1, np.arange(6) * 0.1, np.arange(6), {"coefficients": rows}, {})
    figures: list[Any] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, _file: figures.append(figure))
    draw_shapes(Recording(tmp_path, "/", {"shape": seen}, 0), load_robot(name), tmp_path)
    (figure,) = figures
    (legend,) = figure.legends or [axis.get_legend() for axis in figure.axes]
    assert [text.get_text() for text in legend.get_texts()] == ["0.0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s"]


@pytest.mark.parametrize("damage", ["missing", "no metadata", "garbage"])
def test_unusable_recordings_are_refused_by_name(tmp_path: Path, damage: str) -> None:
    bag = tmp_path / "bag"
    if damage != "missing":
        SyntheticRun(duration_s=0.05).write(bag)
    if damage == "no metadata":
        (bag / "metadata.yaml").unlink()
    if damage == "garbage":
        next(bag.glob("*.mcap")).write_bytes(b"not a recording")
    with pytest.raises(RecordingError, match="bag"):
        read_recording(bag, TOPICS)


def test_a_topic_without_messages_is_refused_with_those_that_have_some(tmp_path: Path) -> None:
    recording = read_recording(SyntheticRun(duration_s=0.05).write(tmp_path / "bag"), TOPICS)
    with pytest.raises(RecordingError, match=r"no messages on contact.*tendon_states"):
        recording.series("contact")


def test_a_report_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.2).write(tmp_path / "bag")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DeviceError, match="cannot be written"):
        write_report(bag, blocked / "report", load_robot("opencr_five_tendon"), {}, blend_s=0.0)
    (tmp_path / "report" / "tensions.png").mkdir(parents=True)
    with pytest.raises(RecordingError, match=r"tensions\.png: cannot be written"):
        write_report(bag, tmp_path / "report", load_robot("opencr_five_tendon"), {}, blend_s=0.0)
    shutil.rmtree(bag)


def test_faults_have_a_moment_in_the_pictures(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.5).write(tmp_path / "bag")
    store = typestore()
    kind, header = store.types["continuum_robot/msg/StackStatus"], store.types["std_msgs/msg/Header"]
    stamp = header(stamp=store.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0), frame_id="")
    words = dict.fromkeys(("state", "last_fault", "controller", "stop_action"), "")
    flags = dict.fromkeys(("simulated", "estop", "holding", "fallback"), False)
    with Writer(tmp_path / "faults", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/left/stack_status", "continuum_robot/msg/StackStatus", typestore=store)
        for at_s, faults in ((1, []), (2, ["estop"]), (3, ["estop", "node_lost"]), (4, []), (5, ["estop"])):
            message = kind(header=stamp, **words, **flags, node_names=[], node_states=[], faults=faults)
            writer.write(connection, at_s * 10**9, store.serialize_cdr(message, connection.msgtype))
    moments = fault_moments(tmp_path / "faults", 10**9, "/left")
    assert moments == [(1.0, "estop"), (2.0, "node_lost"), (4.0, "estop")]
    assert fault_moments(tmp_path / "faults", 10**9, "/") == []
    recording, robot = read_recording(bag, TOPICS), load_robot("opencr_five_tendon")
    plain = draw_tensions(recording, robot, tmp_path).read_bytes()
    for events in (Events([(0.2, "estop")]), Events(contacts=[(0.1, 0.3)])):
        assert draw_tensions(recording, robot, tmp_path, events).read_bytes() != plain
