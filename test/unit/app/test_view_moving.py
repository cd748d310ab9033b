# SPDX-License-Identifier: Apache-2.0
"""The moving picture of the page: every picture is in it, shown as long as the next one took."""

from __future__ import annotations

import io
import itertools
import time
from pathlib import Path

import pytest
from pages import page_picture
from PIL import Image


class SlowBrowser:
    """Takes 30 ms for a picture, each of another colour."""

    def __init__(self) -> None:
        self._colors = itertools.cycle([(200, 30, 30), (30, 200, 30), (30, 30, 200)])

    def screenshot(self) -> bytes:
        time.sleep(0.03)
        stream = io.BytesIO()
        Image.new("RGB", (1200, 600), next(self._colors)).save(stream, "PNG")
        return stream.getvalue()


class StillPage:
    def frame(self) -> float:
        return 0.01


class Going:
    """A request to stop that never comes, or comes at once."""

    def __init__(self, stopped: bool = False) -> None:
        self._stopped = stopped

    def wait(self, duration_s: float) -> bool:
        time.sleep(duration_s)
        return self._stopped


def test_all_pictures_are_in_it_and_last_as_long_as_they_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_picture, "_MOVING_S", 0.6)
    monkeypatch.setattr(page_picture, "_MOVING_PERIOD_S", 0.1)
    begun_s = time.monotonic()
    page_picture._write_moving(StillPage(), SlowBrowser(), Going(), tmp_path / "page.gif")
    took_s = time.monotonic() - begun_s
    with Image.open(tmp_path / "page.gif") as made:
        assert made.n_frames >= 2
        assert made.size == (900, 450)
        shown_s, colors = 0.0, []
        for k in range(made.n_frames):
            made.seek(k)
            shown_s += made.info["duration"] / 1000
            colors.append(made.convert("RGB").getpixel((5, 5)))
    assert 0.6 <= shown_s + 0.02 <= took_s + 0.1
    assert len(set(colors)) == min(3, len(colors))


def test_nothing_is_written_where_it_is_broken_off(tmp_path: Path) -> None:
    page_picture._write_moving(StillPage(), SlowBrowser(), Going(stopped=True), tmp_path / "page.gif")
    assert not (tmp_path / "page.gif").exists()
