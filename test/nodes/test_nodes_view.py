# SPDX-License-Identifier: Apache-2.0
"""The page in the browser beside a running stack: over DDS without a browser, then in a headless Chromium."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from continuum_robot.msg import ClarkeState
from continuum_robot.srv import TakeReference
from page_hands import joined, look, send_value
from pages.browser import Browser, find_browser
from pages.page_picture import HIDE_NOTICES, READY
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe, patient_robot
from std_msgs.msg import String
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from continuum_robot.app.view.controls.parameters import PRETENSION, STRATEGY
from continuum_robot.app.view.controls.steering import HOLDS, PLANE, PLAYS, SLIDERS, TIP, TRAJECTORY
from continuum_robot.app.view.guarded_server import HOST
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.page import Page, robot_of_stack
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics import qos
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
    with ComposedStack(StackOptions(robot=patient_robot(ROBOT), contact=True, parameters=parameters)) as running:
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
        clarke = self.page.snapshot.clarke_m
        return 1e3 * float(clarke[0]) if clarke.size else float("nan")

    @property
    def moves(self) -> bool:
        return bool(self.page.snapshot.coefficients.size) and self.page.snapshot.stack == "up"

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def shown(stack: ComposedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with Page(ViewOptions(folder=tmp_path_factory.mktemp("runs")), load_robot(ROBOT)) as page:
        page.draws_unseen = True
        drawing = Shown(page)
        drawing.wait(lambda: drawing.moves, "the page does not hear the stack")
        yield drawing
        drawing.end()


@pytest.fixture(autouse=True)
def up(shown: Shown, probe: Probe) -> None:
    probe.bring_up()
    shown.wait(lambda: shown.page.snapshot.stack == "up", "the page does not see that the stack is up")


def test_page_is_served_to_this_computer_only(shown: Shown) -> None:
    address = urlsplit(shown.page.address)
    assert (address.scheme, address.hostname) == ("http", HOST)
    assert HOST == "127.0.0.1"
    assert len(address.query) > 30


def test_robot_of_the_stack_is_found() -> None:
    assert load_robot(robot_of_stack("", LONG_S)).name == ROBOT


def test_scene_and_words_follow_the_robot(shown: Shown) -> None:
    page = shown.page
    before = page.frames
    shown.wait(lambda: page.frames > before + 5, "no frames are drawn")
    snapshot = page.snapshot
    assert snapshot.alive
    assert snapshot.tension_n.shape == (5,)
    assert snapshot.simulated
    assert snapshot.driver == "active"
    shown.wait(lambda: page.snapshot.contact.state, "nothing of the contact monitor")
    shown.wait(lambda: np.isfinite(page.snapshot.loop.rate_hz), "nothing of the loop's timing")


def desired_mm(reference: ClarkeState) -> float:
    return round(1e3 * reference.position[0], 1)


def at_rest(reference: ClarkeState, place_mm: float) -> bool:
    return desired_mm(reference) == place_mm and not any(reference.velocity)


def test_slider_takes_the_reference_and_moves_the_robot(shown: Shown, probe: Probe) -> None:
    steering = shown.page.panel.steering
    steering.sliders[0].value = 4.0
    assert steering.mode.value == SLIDERS
    shown.wait(lambda: abs(shown.clarke_mm - 4.0) < 0.5, "the robot does not follow the slider")
    probe.wait(lambda: probe.newest("reference_writer").data.startswith("view_"), LONG_S)
    probe.wait(lambda: at_rest(probe.newest("clarke_reference"), 4.0), LONG_S, "the reference does not arrive")
    probe.received["clarke_reference"].clear()
    probe.wait(lambda: len(probe.received["clarke_reference"]) > 50, LONG_S, "the page falls silent")
    assert {desired_mm(message) for message in probe.received["clarke_reference"]} == {4.0}, "two writers fight"
    steering.mode.value = TRAJECTORY
    probe.wait(lambda: probe.newest("reference_writer").data == "reference_source", LONG_S)


def test_another_program_takes_the_turn_and_the_page_takes_it_back(shown: Shown, probe: Probe) -> None:
    page, mode = shown.page, shown.page.panel.steering.mode

    def writes(name: str) -> None:
        probe.wait(lambda: probe.newest("reference_writer").data.startswith(name), LONG_S, f"{name} does not write")

    with joined(page) as connection:
        look(connection)
        for choice, writer in ((SLIDERS, "view_"), (TRAJECTORY, "reference_source"), (PLANE, "view_")):
            send_value(mode, choice, connection)
            writes(writer)
            probe.call(TakeReference, "reference_source/take", TakeReference.Request(writer="a_program"))
            shown.wait(lambda: mode.value == "a_program steers", "the page does not name who steers")
        send_value(mode, TRAJECTORY, connection)
        writes("reference_source")
        shown.wait(lambda: mode.value == PLAYS, "the page does not name the trajectory")
        probe.trigger("reference_source/hold")
        shown.wait(lambda: mode.value == HOLDS, "the page does not show that the robot holds")
        send_value(mode, TRAJECTORY, connection)
        shown.wait(lambda: mode.value == PLAYS and not page.snapshot.holding, "nothing plays again")


def test_target_of_the_tip_is_reached(shown: Shown) -> None:
    page, panel = shown.page, shown.page.panel
    target = np.array([0.06, 0.03, 0.18])
    panel.steering.mode.value = TIP
    panel.tip.aim(target)
    arrived_m = 0.015
    shown.wait(
        lambda: np.linalg.norm(page.snapshot.tip_position_m - target) < arrived_m, "the tip does not come to its target"
    )
    panel.steering.mode.value = TRAJECTORY


def test_gains_and_pretension_are_set_within_the_nodes_ranges(shown: Shown, probe: Probe) -> None:
    folder = shown.page.panel.folders["gains"]
    shown.wait(lambda: folder.controls, "the controller's parameters are not found")
    pretension = folder.controls[PRETENSION]
    robot = load_robot(ROBOT)
    assert robot.limits is not None
    assert pretension.max == robot.limits.maximum_n
    pretension.value = 4.0
    probe.wait(lambda: probe.get_parameter("clarke_controller", "pretension_n") == 4.0, LONG_S)
    name, slider = next(item for item in folder.controls.items() if item[0].startswith("gains."))
    assert slider.min <= slider.value <= slider.max
    slider.value = 1.1 * slider.value
    probe.wait(lambda: probe.get_parameter("clarke_controller", name) == pytest.approx(slider.value), LONG_S)


def test_what_it_does_when_something_touches_is_chosen(shown: Shown, probe: Probe) -> None:
    touching = shown.page.panel.folders["touching"]
    shown.wait(lambda: touching.controls, "the reference source's parameters are not found")
    dropdown = touching.controls[STRATEGY]
    assert dropdown.value == "ignore"

    def is_asked(strategy: str) -> bool:
        return probe.get_parameter("reference_source", "reaction.strategy") == strategy

    for strategy in ("comply", "ignore"):
        dropdown.value = strategy
        probe.wait(partial(is_asked, strategy), LONG_S)


def test_push_moves_the_simulated_robot_and_ends(shown: Shown, probe: Probe) -> None:
    page, pushing = shown.page, shown.page.panel.pushing
    shown.wait(lambda: not pushing.push.disabled, "nobody listens to pushes")
    # The pretension goes to another value slowly.
    pretension_n = probe.get_parameter("clarke_controller", "pretension_n")
    shown.wait(lambda: abs(page.snapshot.commanded_n.min() - pretension_n) < 0.01, "the pretension is not reached")
    shown.wait(lambda: np.abs(page.snapshot.velocity_m_per_s).max() < 1e-4, "the robot does not come to rest")
    before_n = page.snapshot.tension_n

    def change_n() -> float:
        return float(np.abs(page.snapshot.tension_n - before_n).max())

    pushing.force.value = 0.5
    pushing.push.value = True
    shown.wait(lambda: change_n() > 1.5, "the push is not detected in the tendons")
    shown.wait(lambda: change_n() < 0.8, "the push does not end")


def test_recording_of_a_stack_without_recorder(shown: Shown) -> None:
    """The page says that it records once the recorder does."""
    recording, out = shown.page.panel.recording, shown.page.options.folder
    recording.record.value = True
    shown.wait(lambda: "nothing is written yet" in recording._note.content, "the page does not say that it waits")
    shown.wait(lambda: "All topics are written" in recording._note.content, "nothing is recorded")
    assert list(out.glob("*/*.mcap"))
    recording.record.value = False
    shown.wait(lambda: list(out.glob("*/metadata.yaml")), "the recording is not closed")


def forge(page: Page, onlooker: ClientConnection) -> None:
    """Send what moves the robot, as others than the page's users would."""
    for headers in (
        {"Origin": "https://evil.example"},
        {"Host": "evil.example:8080"},
        {"query": ""},
        {"query": "token=of_an_earlier_start"},
    ):
        with pytest.raises(InvalidStatus, match="403"):
            joined(page, **headers)
    panel = page.panel
    for button in (panel.status.stop, panel.status.reset, panel.status.start, panel.pushing.push):
        send_value(button, True, onlooker)
    for slider in panel.steering.sliders:
        send_value(slider, 8.0, onlooker)
    send_value(panel.steering.mode, SLIDERS, onlooker)


def test_emergency_stop_latches_and_nobody_resets_or_steers_but_a_user(
    shown: Shown, probe: Probe, tmp_path: Path
) -> None:
    page, status = shown.page, shown.page.panel.status
    options = ViewOptions(robot=ROBOT, folder=tmp_path, view_only=True)
    with Page(options, load_robot(ROBOT)) as seen, joined(seen) as onlooker:
        seen.frame()
        refused, asked = page.refusals.count, []
        seen._commander._ask = lambda *call: asked.append(call)
        forge(page, onlooker)
        assert page.refusals.count == refused + 4
        assert probe.faults() == []
        status.stop.value = True
        probe.wait_for_fault("estop", LONG_S)
        shown.wait(lambda: page.snapshot.estop, "the page does not report it")
        shown.wait(lambda: "latched" in status.stop.label and not status.reset.disabled, "the button is silent")
        forge(page, onlooker)
        look(onlooker)  # comes last: what was sent before is through
        shown.wait(lambda: seen.clients == 1, "the onlooker is not seen")
        assert seen.refusals.count == 2 * (5 + len(page.panel.steering.sliders))
        assert asked == []
    assert "estop" in probe.faults()
    assert probe.newest("reference_writer").data == "reference_source"
    # The same messages of one who has the address: it was not the messages that were wrong.
    with joined(page) as user:
        look(user)
        send_value(status.reset, True, user)
        probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", LONG_S)
        shown.wait(lambda: not page.snapshot.estop and status.reset.disabled, "the page does not report it")
        shown.wait(lambda: page.snapshot.driver == "active", "the page does not see that the robot can be steered")
        shown.wait(lambda: page.snapshot.holding and not status.start.disabled, "it does not hold")
        send_value(status.start, True, user)
        shown.wait(lambda: not page.snapshot.holding and status.start.disabled, "no motion is started")
        send_value(page.panel.steering.mode, SLIDERS, user)
        probe.wait(lambda: probe.newest("reference_writer").data.startswith("view_"), LONG_S)
    page.panel.steering.mode.value = TRAJECTORY
    probe.wait(lambda: probe.newest("reference_writer").data == "reference_source", LONG_S)


# In a browser

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


def test_browser_shows_the_robot(browser: Browser, shown: Shown) -> None:
    shown.page._server.scene.set_global_visibility(False)
    shown.wait(lambda: dark(picture(browser)) < 50, "the scene does not become empty", LONG_S)
    nothing = picture(browser)
    shown.page._server.scene.set_global_visibility(True)
    shown.wait(lambda: difference(picture(browser), nothing) > 1500, "no robot is seen", LONG_S)


SOCKET = (
    "const socket = new WebSocket('ws://{0}');"
    " socket.onopen = () => {1}('opened', '*'); socket.onerror = () => {1}('refused', '*');"
)
OF_OTHERS = (
    "new Promise(done => {{ addEventListener('message', e => typeof e.data === 'string' && done(e.data));"
    " const frame = document.createElement('iframe'); frame.sandbox = 'allow-scripts';"
    " frame.srcdoc = `<script>{}<\\/script>`; document.body.append(frame) }})"
)


def test_browser_keeps_the_token_from_the_address_bar_and_from_other_pages(browser: Browser, shown: Shown) -> None:
    host = urlsplit(shown.page.address).netloc
    assert browser.run("location.href") == f"http://{host}/"
    assert browser.run("document.cookie") == ""
    assert browser.run(f"new Promise(done => {{ {SOCKET.format(host, 'done')} }})") == "opened"
    before = shown.page.refusals.count
    assert browser.run(OF_OTHERS.format(SOCKET.format(host, "parent.postMessage"))) == "refused"
    assert shown.page.refusals.count == before + 1


def test_robot_without_control_settings_is_shown_and_not_steered(tmp_path: Path) -> None:
    options = ViewOptions(robot="rucker_helical", namespace="helical", folder=tmp_path)
    with Page(options, load_robot("rucker_helical").changed(control=None)) as page:
        page.draws_unseen = True
        page.frame()
        assert page.frames == 1
        assert page.panel.steering is None
        assert not page.panel.folders


def test_slow_drawing_leaves_time_to_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ViewOptions(robot=ROBOT, namespace="slow", folder=tmp_path)
    with Page(options, load_robot(ROBOT)) as page:
        page.draws_unseen = True
        draw_s = 0.1
        monkeypatch.setattr(page.scene, "draw", lambda *_arguments: time.sleep(draw_s))
        assert page.frame() >= draw_s


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    resize = partial(browser.call, "Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, mobile=False)
    resize(width=390, height=844)
    yield browser
    resize(width=1280, height=800)


def test_on_a_phone_the_stop_is_on_top_and_the_panel_below_the_robot(phone: Browser) -> None:
    found = phone.wait_for(
        "(() => { const box = e => e.getBoundingClientRect();"
        " const stop = box([...document.querySelectorAll('button')].find(e => e.innerText === 'EMERGENCY STOP'));"
        " const panel = box(document.querySelector('[style*=\"20em\"]'));"
        " return panel.width >= 389 && [stop.top, stop.right, panel.top] })()",
        LONG_S,
    )
    top, right, panel_top = found
    assert 0 <= top < 60
    assert right <= 390
    assert panel_top > 0.45 * 844
