# SPDX-License-Identifier: Apache-2.0
"""Recordings on the page: what a hand at the slider changes, several runs on one time, and what is missing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: messages are taken apart with ROS 2's packages")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from pages.browser import Browser, find_browser
from recordings import write_bent_run

from continuum_robot.app.command_line import main
from continuum_robot.app.recordings.playback import read_playback
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.recorded_page import RecordedPage

LONG_S = 120.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bent_run(tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bent_run(tmp_path_factory.mktemp("runs") / "second", robot="two_segment", duration_s=2.0)


@pytest.fixture
def page(run: Path) -> Iterator[RecordedPage]:
    with RecordedPage(ViewOptions(), [read_playback(run)]) as served:
        served.draws_unseen = True
        yield served


def wait(page: RecordedPage, condition: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + LONG_S
    while not condition():
        page.frame()
        assert time.monotonic() < end_s, f"{what}: {page.snapshot}"
        time.sleep(0.01)


def handle(page: RecordedPage, name: str) -> Any:
    return page._server.scene._handle_from_node_name[name]


PARTS = (
    ("backbone", "vertices"), ("disks", "batched_positions"), ("desired", "vertices"), ("tip", "points"),
    ("tendons", "points"), ("tendons", "colors"),
)  # fmt: skip


def test_the_slider_moves_everything(page: RecordedPage) -> None:
    seen = []
    for time_s, touched in ((2.5, False), (1.5, True), (0.5, False)):
        page.panel.player.slider.value = time_s
        page.frame()
        assert page.snapshot.time_s == time_s
        np.testing.assert_allclose(page.snapshot.coefficients, [0.0, 2.0 * time_s])
        assert handle(page, "/robot/force").visible == touched
        seen.append([np.array(getattr(handle(page, f"/robot/{part}"), what), float) for part, what in PARTS])
        expected = ([time_s, 0.0], 5 * [1.0 + time_s])
        for plot, newest in zip(page._curves._plots, expected, strict=False):
            times_s, values = plot.history.last(time_s, 15.0)
            assert times_s[-1] == pytest.approx(0.0, abs=1e-9)
            assert times_s[0] == pytest.approx(-time_s)
            np.testing.assert_allclose(values[-1, : len(newest)], newest, atol=1e-9)
    for before, after in pairwise(seen):
        for one, other in zip(before, after, strict=True):
            assert np.abs(one - other).max() > 1e-3


def test_it_plays_at_the_chosen_speed_to_the_end_and_again(page: RecordedPage) -> None:
    player = page.panel.player
    player.times_s(100.0)
    player.speed.value = "2"
    player._switch()
    assert player.times_s(100.5) == [1.0]
    assert player.times_s(101.0) == [2.0]
    player.update(101.0)
    assert (player.slider.value, player.play.label) == (2.0, "Pause")
    assert player.times_s(109.0) == [3.0]
    assert not player.plays
    player._switch()
    assert player.times_s(109.0) == [0.0]
    player._switch()
    assert player.times_s(110.0) == [0.0]


def test_nothing_on_it_moves_a_robot(page: RecordedPage) -> None:
    labels = {one.label for one in page._server.gui._gui_input_handle_from_uuid.values()}
    assert labels == {"time, s", "Play", "speed"}
    page.panel.player.time_s = 1.0
    page.frame()
    words = " ".join(handle.content for handle in page.panel._words)
    assert "UP · simulated" in words
    assert "Reset" not in words


def test_two_runs_stand_beside_each_other_on_one_time(run: Path, other: Path) -> None:
    with RecordedPage(ViewOptions(), [read_playback(run), read_playback(other)]) as page:
        page.draws_unseen = True
        player = page.panel.player
        player.time_s = 1.0
        page.frame()
        assert [one.time_s for one in page.snapshots] == [1.0, 1.0]
        places = [np.array(handle(page, f"/{number}").position) for number in (1, 2)]
        assert np.linalg.norm(places[1] - places[0]) > 0.5
        tips = [np.array(handle(page, f"/{number}/robot/tip").points)[0, 0] for number in (1, 2)]
        # The longer robot fills the scene; the other one is as much smaller as it is.
        lengths = [one.drawing.length_m for one in page.shown]
        assert max(np.linalg.norm(tip) for tip in tips) < 1.01
        assert tips[0][2] / tips[1][2] == pytest.approx(lengths[0] / lengths[1], rel=0.1)
        tensions = page._curves._plots[1]
        np.testing.assert_allclose(tensions.history.last(1.0, 15.0)[1][-1], 2.0)
        assert len(tensions.handle.data) == 1 + 5 + page.shown[1].robot.tendon_count
        player.shifts[0].value = 0.5
        page.frame()
        assert [one.time_s for one in page.snapshots] == [1.0, 0.5]
        np.testing.assert_allclose(
            tensions.history.last(1.0, 15.0)[1][-1], 5 * [2.0] + page.shown[1].robot.tendon_count * [1.5]
        )


def test_states_are_unknown_where_nothing_was_recorded_for_a_second(tmp_path: Path) -> None:
    played = read_playback(write_bent_run(tmp_path / "run", duration_s=1.0, left_out=("contact", "stack_status")))
    assert played.duration_s == pytest.approx(1.0)
    assert played.state(-0.5).coefficients.size == 0
    assert played.state(1.0).clarke_m.size == 2
    assert played.state(2.5).clarke_m.size == 0
    assert (played.state(0.5).contact.state, played.state(0.5).stack) == ("", "")


@pytest.mark.parametrize(
    ("left_out", "arguments", "sentence"),
    [
        (("shape",), [], "no messages on shape"),
        (("robot_file",), [], "Give the robot file with --robot"),
        ((), ["--view-only"], "to be left out with a recording"),
        ((), ["--namespace", "left"], "no messages on shape"),
        ((), ["--folder", "elsewhere"], "to be left out with a recording"),
        ((), ["two_segment"], "a recording like the others"),
        ((), ["no/such/run"], "does not exist"),
    ],
)
def test_what_cannot_be_shown_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], left_out: tuple[str, ...], arguments: list[str], sentence: str
) -> None:
    folder = write_bent_run(tmp_path / "run", duration_s=0.1, left_out=left_out)
    assert main(["view", str(folder), *arguments]) == 2
    assert sentence in " ".join(capfd.readouterr().err.split())


def test_another_robot_file_takes_the_place_of_the_recorded_one(tmp_path: Path) -> None:
    folder = write_bent_run(tmp_path / "run", duration_s=0.1, left_out=("robot_file",))
    assert read_playback(folder, "opencr_five_tendon").robot.name == "opencr_five_tendon"


def test_a_mouse_on_the_slider_moves_the_robot_in_chromium(page: RecordedPage) -> None:
    if find_browser() is None:
        pytest.skip("no chromium is installed: the page is not tested in a browser")
    box = "document.querySelector('.mantine-Slider-root').getBoundingClientRect()"
    with Browser(gives_way=False) as browser:
        browser.open(page.address)
        place = f"(() => {{ const r = {box}; return r.width > 0 && [r.x, r.y + r.height / 2, r.width] }})()"
        x, y, width = browser.wait_for(place, LONG_S)
        for part, time_s in ((0.5, 1.5), (0.9, 2.7)):
            browser.click(x + part * width, y)
            wait(page, lambda at_s=time_s: abs(page.panel.player.time_s - at_s) < 0.15, "the slider does not move")
            page.frame()
            np.testing.assert_allclose(page.snapshot.coefficients[1], 2.0 * page.panel.player.time_s, atol=0.04)
        page._words_s = -1.0
        page.frame()
        shown = f"document.body.innerText.includes({json.dumps('opencr_five_tendon')})"
        browser.wait_for(shown, LONG_S)
