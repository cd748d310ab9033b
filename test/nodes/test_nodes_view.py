# SPDX-License-Identifier: Apache-2.0
"""The page in the browser beside a running stack: over DDS without a browser, then in a headless Chromium."""

from __future__ import annotations

import io
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from continuum_robot.msg import ClarkeState
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe
from std_msgs.msg import String

from continuum_robot.app.view.browser import Browser, find_browser
from continuum_robot.app.view.controls.steering import SLIDERS, TIP, TRAJECTORY
from continuum_robot.app.view.page import HOST, Page, ViewOptions, robot_of_stack
from continuum_robot.app.view.screenshot import HIDE_NOTICES, READY
from continuum_robot.nodes import qos
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.spinning import wait_for
from continuum_robot.nodes.stack_options import StackOptions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = "opencr_five_tendon"
LONG_S = 120.0


@pytest.fixture(scope="module")
def stack(domain: int) -> Iterator[ComposedStack]:
    parameters = {
        "tendon_driver": {"rate_hz": 250.0, **PATIENT},
        "clarke_controller": PATIENT_CONTROLLER,
        "reference_source": {"reference.kind": "hold"},
    }
    with ComposedStack(StackOptions(robot=ROBOT, contact=True, parameters=parameters)) as running:
        running.wait_until_up(LONG_S)
        yield running


@pytest.fixture(scope="module")
def probe(stack: ComposedStack) -> Iterator[Probe]:
    with Probe() as listening:
        listening.listen_to_stack()
        listening.listen(String, "reference_writer", qos.latched())
        yield listening


class Shown:
    """A page whose frames are drawn in a thread, as the command does."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw)
        self._thread.start()

    def _draw(self) -> None:
        while not self._stop.wait(self.page.frame()):
            pass

    def wait(self, condition: Callable[[], Any], what: str, timeout_s: float = LONG_S) -> None:
        end_s = time.monotonic() + timeout_s
        while not condition():
            assert self._thread.is_alive(), "the page's loop ended"
            assert time.monotonic() < end_s, f"{what}: {self.page.snapshot}"
            time.sleep(0.02)

    @property
    def clarke_mm(self) -> float:
        """First Clarke coordinate."""
        clarke = self.page.snapshot.clarke
        return 1e3 * float(clarke[0]) if clarke.size else float("nan")

    @property
    def moves(self) -> bool:
        return bool(self.page.snapshot.coefficients.size) and self.page.snapshot.stack.state == "up"

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def shown(stack: ComposedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with Page(ViewOptions(out=tmp_path_factory.mktemp("runs")), load_robot(ROBOT)) as page:
        page.draws_unseen = True
        drawing = Shown(page)
        drawing.wait(lambda: drawing.moves, "the page does not hear the stack")
        yield drawing
        drawing.end()


@pytest.fixture(autouse=True)
def up(shown: Shown, probe: Probe) -> None:
    probe.bring_up()
    shown.wait(lambda: shown.page.snapshot.stack.state == "up", "the page does not see that the stack is up")


def test_page_is_served_to_this_computer_only(shown: Shown) -> None:
    assert shown.page.address.startswith(f"http://{HOST}:")
    assert HOST == "127.0.0.1"
    with urllib.request.urlopen(shown.page.address, timeout=30) as reply:
        assert b"<html" in reply.read().lower()


def test_robot_of_the_stack_is_found() -> None:
    assert load_robot(robot_of_stack("", LONG_S)).name == ROBOT


def test_scene_and_words_follow_the_robot(shown: Shown) -> None:
    page = shown.page
    before = page.frames
    shown.wait(lambda: page.frames > before + 5, "no frames are drawn")
    snapshot = page.snapshot
    assert snapshot.alive
    assert snapshot.tension_n.shape == (5,)
    assert snapshot.stack.simulated
    assert snapshot.stack.driver == "active"
    shown.wait(lambda: page.snapshot.contact is not None, "nothing of the contact monitor")
    shown.wait(lambda: np.isfinite(page.snapshot.loop.rate_hz), "nothing of the loop's timing")


def wanted_mm(reference: ClarkeState) -> float:
    return round(1e3 * reference.position[0], 1)


def at_rest(reference: ClarkeState, place_mm: float) -> bool:
    return wanted_mm(reference) == place_mm and not any(reference.velocity)


def test_slider_takes_the_reference_and_moves_the_robot(shown: Shown, probe: Probe) -> None:
    steering = shown.page.panel.steering
    steering.sliders[0].value = 4.0
    assert steering.mode.value == SLIDERS
    shown.wait(lambda: abs(shown.clarke_mm - 4.0) < 0.5, "the robot does not follow the slider")
    probe.wait(lambda: probe.newest("reference_writer").data == "view", LONG_S)
    probe.wait(lambda: at_rest(probe.newest("clarke_reference"), 4.0), LONG_S, "the reference does not arrive")
    probe.received["clarke_reference"].clear()
    probe.wait(lambda: len(probe.received["clarke_reference"]) > 50, LONG_S, "the page falls silent")
    assert {wanted_mm(message) for message in probe.received["clarke_reference"]} == {4.0}, "two writers fight"
    steering.mode.value = TRAJECTORY
    probe.wait(lambda: probe.newest("reference_writer").data == "reference_source", LONG_S)


def test_target_of_the_tip_is_reached(shown: Shown) -> None:
    page, panel = shown.page, shown.page.panel
    target = np.array([0.06, 0.03, 0.18])
    panel.steering.mode.value = TIP
    panel.tip.aim(target)
    shown.wait(lambda: np.linalg.norm(page.snapshot.tip_m - target) < 0.015, "the tip does not come to its target")
    panel.steering.mode.value = TRAJECTORY


def test_gains_and_pretension_are_set_within_the_nodes_ranges(shown: Shown, probe: Probe) -> None:
    controls = shown.page.panel.gains
    shown.wait(lambda: controls.pretension is not None, "the controller's parameters are not found")
    assert controls.gains
    robot = load_robot(ROBOT)
    assert robot.limits is not None
    assert controls.pretension.max == robot.limits.maximum_n
    controls.pretension.value = 4.0
    probe.wait(lambda: probe.get_parameter("clarke_controller", "pretension_n") == 4.0, LONG_S)
    name, slider = next(iter(controls.gains.items()))
    assert slider.min <= slider.value <= slider.max
    slider.value = 1.1 * slider.value
    probe.wait(lambda: probe.get_parameter("clarke_controller", name) == pytest.approx(slider.value), LONG_S)


def test_push_moves_the_simulated_robot_and_ends(shown: Shown) -> None:
    page, pushing = shown.page, shown.page.panel.pushing
    shown.wait(lambda: not pushing.push.disabled, "nobody listens to pushes")
    shown.wait(lambda: np.ptp(page.snapshot.tension_n) < 1.0, "the robot does not come to rest")
    pushing.force.value = 0.5
    pushing.push.value = True
    shown.wait(lambda: np.ptp(page.snapshot.tension_n) > 2.0, "the push is not felt in the tendons")
    shown.wait(lambda: np.ptp(page.snapshot.tension_n) < 1.0, "the push does not end")


def test_recording_of_a_stack_without_recorder(shown: Shown) -> None:
    recording, out = shown.page.panel.recording, shown.page.options.out

    def recorded() -> list[Path]:
        return list(out.glob("*/*.mcap"))

    recording.record.value = True
    shown.wait(recorded, "nothing is recorded")
    recording.record.value = False
    shown.wait(lambda: list(out.glob("*/metadata.yaml")), "the recording is not closed")


def test_emergency_stop_latches_and_reset_clears_it(shown: Shown, probe: Probe) -> None:
    page, status = shown.page, shown.page.panel.status
    status.stop.value = True
    probe.wait_for_fault("estop", LONG_S)
    shown.wait(lambda: page.snapshot.stack.estop, "the page does not say so")
    shown.wait(lambda: "latched" in status.stop.label and not status.reset.disabled, "the button does not say so")
    status.reset.value = True
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", LONG_S)
    shown.wait(lambda: not page.snapshot.stack.estop and status.reset.disabled, "the page does not say so")


# In a browser

BUTTON = (
    "(t => {{ const e = [...document.querySelectorAll('button')].find(x => x.innerText.trim() === t && !x.disabled);"
    " if (!e) return null; const r = e.getBoundingClientRect();"
    " return [r.x + r.width / 2, r.y + r.height / 2] }})({0!r})"
)
SLIDER = (
    "(() => { const r = document.querySelector('[role=slider]').getBoundingClientRect();"
    " return [r.x + r.width / 2, r.y + r.height / 2] })()"
)
MIDDLE = (slice(150, 650), slice(400, 860))


@pytest.fixture(scope="module")
def browser(shown: Shown) -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("no chromium is installed: the page is not tested in a browser")
    with Browser((1280, 800), gives_way=False) as opened:
        opened.open(shown.page.address)
        opened.wait_for(READY, LONG_S)
        opened.run(HIDE_NOTICES)
        yield opened


def picture(browser: Browser) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pictures cannot be compared")
    return np.asarray(image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=int)


def difference(first: np.ndarray, second: np.ndarray) -> int:
    """Pixels in the middle that differ clearly."""
    return int(np.count_nonzero(np.abs(first[MIDDLE] - second[MIDDLE]).max(axis=-1) > 60))


def dark(image: np.ndarray) -> int:
    """Dark pixels in the middle: of an empty scene there are none."""
    return int(np.count_nonzero(image[MIDDLE].max(axis=-1) < 100))


def press(browser: Browser, label: str, done: Callable[[], bool]) -> None:
    """Click a button, again where the page moved under the mouse meanwhile."""
    for _ in range(10):
        browser.click(*browser.wait_for(BUTTON.format(label), LONG_S))
        if wait_for(done, 10.0):
            return
    pytest.fail(f"the button {label} has no effect")


def test_browser_shows_the_robot(browser: Browser, shown: Shown) -> None:
    shown.page.show_robot(False)
    shown.wait(lambda: dark(picture(browser)) < 50, "the scene does not become empty", LONG_S)
    nothing = picture(browser)
    shown.page.show_robot(True)
    shown.wait(lambda: difference(picture(browser), nothing) > 1500, "no robot is seen", LONG_S)


def test_browser_moves_a_slider_and_the_robot(browser: Browser, shown: Shown) -> None:
    before = shown.clarke_mm
    x, y = browser.wait_for(SLIDER, LONG_S)
    browser.drag([(x, y), (x + 15, y), (x + 45, y)])
    shown.wait(lambda: shown.clarke_mm > before + 1.0, "the robot does not follow the slider in the browser")


def test_browser_stops_the_robot(browser: Browser, shown: Shown, probe: Probe) -> None:
    press(browser, "EMERGENCY STOP", lambda: "estop" in probe.faults())
    assert probe.driver_state() == "safe"
    browser.wait_for("document.body.innerText.includes('EMERGENCY STOP IS LATCHED')", LONG_S)
    press(browser, "Reset", lambda: "estop" not in probe.faults())
    shown.wait(lambda: shown.page.snapshot.stack.state == "up", "the stack does not come up")
    browser.wait_for(BUTTON.format("EMERGENCY STOP"), LONG_S)


def test_robot_without_clarke_coordinates_is_shown_and_not_steered(tmp_path: Path) -> None:
    options = ViewOptions(robot="rucker_helical", namespace="helical", out=tmp_path)
    with Page(options, load_robot("rucker_helical")) as page:
        page.draws_unseen = True
        page.frame()
        assert page.frames == 1
        assert page.panel.steering is None
        assert page.panel.gains is None


def test_slow_drawing_leaves_time_to_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ViewOptions(robot=ROBOT, namespace="slow", out=tmp_path)
    with Page(options, load_robot(ROBOT)) as page:
        page.draws_unseen = True
        draw_s = 0.1
        monkeypatch.setattr(page.scene, "draw", lambda *_arguments: time.sleep(draw_s))
        assert page.frame() >= draw_s
