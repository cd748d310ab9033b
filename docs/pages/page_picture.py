# SPDX-License-Identifier: Apache-2.0
"""A picture of the page of a running stack as Chromium draws it, or eight seconds that move.

``PYTHONPATH=docs python -m pages.page_picture FILE.png --size 1280x800``, with FILE.gif a moving one; with
``--run RUN --at 3.5`` of recordings.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from PIL import Image

from continuum_robot.app.recordings.playback import read_playback
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.page import Page, robot_of_stack
from continuum_robot.app.view.recorded_page import RecordedPage
from continuum_robot.app.view.served_page import ServedPage
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.robot.loading import load_robot
from pages.browser import Browser

READY = "document.querySelector('canvas') && /EMERGENCY STOP|View only|time, s/.test(document.body.innerText)"
# The canvas is opaque once the browser has its lights; before, viser shows a ghost of what is drawn.
DRAWN = f"{READY} && [...document.querySelectorAll('canvas')].some(c => c.style.opacity === '1')"
_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
# Notices of the browser's own drawing hide the robot.
HIDE_NOTICES = (
    "(() => { const s = document.createElement('style'); s.textContent = '[class*=Notification]"
    "{display:none !important}'; document.head.append(s); return true })()"
)
_HEARD_S = 30.0
_CURVES_S = 16.0
_DRAWN_S = 180.0
_LEAST, _LARGEST = 100, 8000
MOVING = ".gif"
FORMATS = (".png", ".jpg", ".jpeg", MOVING)
_MOVING_S = 8.0
_MOVING_PERIOD_S = 0.2
_MOVING_WIDTH = 900
_COLORS = 64


def run_screenshot(
    options: ViewOptions, file: Path, size: str, runs: Sequence[Path] = (), at_s: float = 0.0
) -> int:  # fmt: skip
    """Serve the page, of a stack or of recordings, wait until its curves are filled, write a picture of it."""
    wide, high = picture_size(size)
    if file.suffix.lower() not in FORMATS:
        raise ParameterError("FILE", str(file), f"a file that ends in one of {', '.join(FORMATS)}")
    with StopRequest(last=True) as stop, _page(options, runs, at_s) as page:
        begun_s = time.monotonic()
        while not page.snapshot.alive and not stop.wait(page.frame()):
            if time.monotonic() - begun_s > _HEARD_S:
                raise DeviceError("view", f"no robot speaks within {_HEARD_S:g} s", "Start one: continuum-robot up")
        with Browser((wide, high)) as browser:
            browser.open(page.address)
            browser.wait_for(HIDE_NOTICES)  # a page that only begins to load has no head yet
            browser.wait_for(DRAWN, _DRAWN_S)  # first: no curve is filled while this waits
            end_s = time.monotonic() + _CURVES_S
            while time.monotonic() < end_s and not stop.wait(page.frame()):
                pass
            if not stop.signal_name:
                browser.run(HIDE_NOTICES)
                page.frame()
                browser.wait_for(page.mark(), _DRAWN_S)
                browser.run(_FRAME)
                if file.suffix.lower() == MOVING:
                    _write_moving(page, browser, stop, file)
                else:
                    _write_picture(browser.screenshot(), file)
    return {"": 0, "SIGTERM": 143}.get(stop.signal_name, 130)


def _page(options: ViewOptions, runs: Sequence[Path], at_s: float) -> ServedPage:
    if not runs:
        return Page(options, load_robot(options.robot or robot_of_stack(options.namespace)))
    page = RecordedPage(options, [read_playback(run) for run in runs])
    page.panel.player.time_s = at_s
    return page


def _write_picture(png: bytes, file: Path) -> None:
    if file.suffix.lower() == ".png":
        file.write_bytes(png)
    else:
        Image.open(io.BytesIO(png)).convert("RGB").save(file, quality=92)


def _write_moving(page: ServedPage, browser: Browser, stop: StopRequest, file: Path) -> None:
    """Pictures of the page one after the other, each shown as long as the next took."""
    pictures: list[Image.Image] = []
    taken_s = [time.monotonic()]
    while taken_s[-1] - taken_s[0] < _MOVING_S:
        whole = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
        whole.thumbnail((_MOVING_WIDTH, whole.height))
        pictures.append(whole.quantize(_COLORS, dither=Image.Dither.NONE))
        while True:
            if stop.wait(page.frame()):
                return
            if time.monotonic() >= taken_s[-1] + _MOVING_PERIOD_S:
                break
        taken_s.append(time.monotonic())
    shown_ms = [round(1000 * (end_s - begin_s)) for begin_s, end_s in pairwise(taken_s)]
    pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=shown_ms, loop=0, optimize=True)


def picture_size(text: str) -> tuple[int, int]:
    """``"1280x800"`` -> (1280, 800)."""
    parts = text.lower().split("x")
    if not all(part.isdecimal() and 100 <= int(part) <= _LARGEST for part in parts) or len(parts) != 2:
        raise ParameterError("--size", text, f"WIDTHxHEIGHT, each from 100 to {_LARGEST}")
    return int(parts[0]), int(parts[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", default="1280x800", help="WIDTHxHEIGHT, pixels")
    parser.add_argument("--namespace", default="", help="ROS namespace of the stack")
    parser.add_argument("--run", type=Path, action="append", default=[], help="a recording; may be given several times")
    parser.add_argument("--at", type=float, default=0.0, help="its time that is shown, s")
    given = parser.parse_args()
    sys.exit(run_screenshot(ViewOptions(namespace=given.namespace), given.file, given.size, given.run, given.at))
