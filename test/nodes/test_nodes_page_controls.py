# SPDX-License-Identifier: Apache-2.0
"""Every control of the page, moved by a mouse in a headless Chromium, against its effect on a stack in lock-step."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from continuum_robot.msg import ClarkeState, Contact, StackStatus, TipState
from diagnostic_msgs.msg import DiagnosticStatus
from ros_probe import Probe
from std_msgs.msg import String
from viser import TransformControlsHandle
from viser.transforms import SO3

from continuum_robot.app.view.browser import Browser, find_browser
from continuum_robot.app.view.controls.steering import PLANE, SLIDERS, TIP, TRAJECTORY
from continuum_robot.app.view.page import Page, ViewOptions
from continuum_robot.app.view.screenshot import DRAWN, HIDE_NOTICES
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.simulated.external_force import EXTERNAL_FORCE_TOPIC
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot

WITHOUT_BROWSER = pytest.mark.skipif(
    find_browser() is None, reason="no chromium is installed: the page is not tested in a browser"
)
pytestmark = [pytest.mark.ros, pytest.mark.long, WITHOUT_BROWSER]

ROBOT = "opencr_five_tendon"
OPTIONS = StackOptions(
    robot=ROBOT,
    contact=True,
    predictive=True,
    clock="lockstep",
    seed=1,
    parameters={"predictive_tip": {"world": str(shipped_file("worlds/post.yaml"))}},
)
LATCHED = {
    "stack_status": StackStatus,
    "driver_status": DiagnosticStatus,
    "reference_writer": String,
    "reaction_state": String,
}
LONG_S = 120.0
AGAIN_S = 15.0
OF_VISER = {"", "Collapse panel area", "What you see"}
"""Its icons, and the handles of its panels."""
TABS = ("Steer", "Tune", "Push", "Record")

# What a mouse can move is found by what it is, and named by the words beside it.
SCRIPT = """
const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0 };
const all = query => [...document.querySelectorAll(query)].filter(seen);
const row = e => { for (let n = e.parentElement; n; n = n.parentElement)
    if (n.matches('.mantine-Flex-root') && n.querySelector('label')) return n; return null };
const named = e => e.matches('button, [role=button], [role=tab], a') ? e.innerText.trim() || e.ariaLabel || ''
    : row(e)?.querySelector('label').innerText.trim() ?? `unnamed ${e.tagName}`;
const MOVABLE = 'button, input:not([type=hidden]), select, textarea, a[href], [role=slider], [role=tab], [role=button]';
const part = (label, query) => all(query).find(e => named(e) === label && !e.disabled);
const place = (e, part = 0.5) => { e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();
    return [r.x + part * r.width, r.y + r.height / 2] };
"""


def script(expression: str) -> str:
    return f"(() => {{ {SCRIPT} return {expression} }})()"


class Hand:
    """Moves controls with the mouse until it has the effect that is waited for: a page that changes may move them."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self.browser, self.page = browser, page
        self.moved: set[str] = set()
        self.seen: set[str] = set()

    def look(self) -> None:
        self.seen |= set(self.browser.run(script("all(MOVABLE).map(named)")))

    def place(self, label: str, query: str, part: float = 0.5) -> tuple[float, float]:
        return self.rest(f"place(part({json.dumps(label)}, {json.dumps(query)}), {part})")

    def rest(self, place: str) -> tuple[float, float]:
        """Where something is that no longer moves: what comes and goes beside it moves it."""
        before = None
        while before != (before := self.browser.wait_for(script(place), LONG_S)):
            time.sleep(0.05)
        return before[0], before[1]

    def until(self, done: Callable[[], Any], what: str, move: Callable[[], None]) -> None:
        end_s = time.monotonic() + LONG_S
        while time.monotonic() < end_s:
            move()
            if wait_for(done, AGAIN_S):
                return
        pytest.fail(f"{what} has no effect: {self.browser.run('document.body.innerText')}; {self.page.snapshot}")

    def open(self, tab: str) -> None:
        selected = f"part({json.dumps(tab)}, '[role=tab]').ariaSelected === 'true'"
        click = partial(self._click, tab, "[role=tab]")
        self.until(lambda: self.browser.run(script(selected)), tab, click)
        self.moved.add(tab)
        self.look()

    def press(self, label: str, done: Callable[[], Any]) -> None:
        self.until(done, label, partial(self._click, label, "button"))
        self.moved.add(label)

    def tick(self, label: str, done: Callable[[], Any]) -> None:
        self.until(done, label, partial(self._click, label, "input[type=checkbox]"))
        self.moved.add(label)

    def choose(self, label: str, word: str, done: Callable[[], Any]) -> None:
        option = f"all('[role=option]').find(e => e.innerText.trim() === {json.dumps(word)})"

        def move() -> None:
            self._click(label, "[role=combobox]")
            if wait_for(lambda: self.browser.run(script(f"!!{option}")), AGAIN_S):
                self.browser.click(*self.rest(f"place({option})"))

        self.until(done, f"{label}: {word}", move)
        self.moved.add(label)
        self.look()

    def slide(self, label: str, part: float, done: Callable[[float], Any]) -> float:
        """Click at a part of a slider's length; gives the value that the page then has."""
        self.until(
            lambda: done(self.handle(label).value), label, partial(self._click, label, ".mantine-Slider-root", part)
        )
        self.moved.add(label)
        return float(self.handle(label).value)

    def type(self, label: str, value: float, done: Callable[[], Any]) -> None:
        """Write a number into the box beside a slider."""

        def move() -> None:
            box = f"part({json.dumps(label)}, 'input.mantine-NumberInput-input')"
            self._click(label, "input.mantine-NumberInput-input")
            self.browser.run(script(f"({box}.select(), true)"))
            self.browser.call("Input.insertText", text=f"{value:g}")
            self.browser.run(script(f"({box}.blur(), true)"))

        self.until(done, f"{label} as a number", move)

    def drag(self, name: str, axis: tuple[float, float, float], by: float, done: Callable[[], Any]) -> None:
        """Pull at an arrow of axes in the scene, ``by`` units of the scene along it."""
        handle = self.page._server.scene._handle_from_node_name[name]
        direction = np.array(axis)

        def move() -> None:
            parent = self.page._server.scene._handle_from_node_name.get(name.rpartition("/")[0])
            origin = np.asarray(handle.position) + (0.0 if parent is None else np.asarray(parent.position))
            scale = {"/target": 0.22, "/plane/target": 0.16}[name]
            grip = origin + 0.6 * scale * direction
            self.browser.drag([self.pixel(grip + part * by * direction) for part in (0.0, 0.25, 0.5, 0.75, 1.0)])

        self.until(done, name, move)
        self.moved.add(name)

    def pixel(self, point: np.ndarray) -> tuple[float, float]:
        """Where a point of the scene is seen."""
        (client,) = self.page._server.get_clients().values()
        camera = client.camera
        x, y, z = SO3(camera.wxyz).as_matrix().T @ (point - camera.position)
        left, top, width, height = self.browser.run(
            script("(r => [r.x, r.y, r.width, r.height])(all('canvas')[0].getBoundingClientRect())")
        )
        focal = height / 2 / np.tan(camera.fov / 2)
        return left + width / 2 + focal * x / z, top + height / 2 + focal * y / z

    def handle(self, label: str) -> Any:
        return controls(self.page)[label]

    def _click(self, label: str, query: str, part: float = 0.5) -> None:
        self.browser.click(*self.place(label, query, part))


def controls(page: Page) -> dict[str, Any]:
    """All controls of the page by label, as its server lists them."""
    found = list(page._server.gui._gui_input_handle_from_uuid.values())
    labels = {str(handle.label): handle for handle in found}
    assert len(labels) == len(found), "two controls have one label"
    return labels


def gizmos(page: Page) -> set[str]:
    """What a mouse can drag in the scene."""
    handles = page._server.scene._handle_from_node_name.items()
    return {name for name, handle in handles if isinstance(handle, TransformControlsHandle)}


@pytest.fixture(scope="module")
def stack(domain: int) -> Iterator[ComposedStack]:
    with ComposedStack(OPTIONS) as running:
        running.wait_until_up(LONG_S)
        yield running


@pytest.fixture(scope="module")
def probe(stack: ComposedStack) -> Iterator[Probe]:
    with Probe() as listening:
        for topic, kind in LATCHED.items():
            listening.listen(kind, topic, qos.latched())
        listening.listen(ClarkeState, "clarke_reference")
        listening.listen(TipState, "tip_state")
        listening.listen(Contact, EXTERNAL_FORCE_TOPIC, qos.newest_state())
        listening.listen(Contact, "contact", qos.newest_state())
        yield listening


@pytest.fixture(scope="module")
def page(stack: ComposedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    stop = threading.Event()
    with Page(ViewOptions(out=tmp_path_factory.mktemp("runs")), load_robot(ROBOT)) as served:

        def draw() -> None:
            while not stop.wait(served.frame()):
                pass

        drawing = threading.Thread(target=draw)
        drawing.start()
        yield served
        stop.set()
        drawing.join()


@pytest.fixture(scope="module")
def hand(page: Page) -> Iterator[Hand]:
    with Browser((1000, 700), gives_way=False) as opened:
        opened.open(page.address)
        opened.wait_for(DRAWN, LONG_S)
        opened.run(HIDE_NOTICES)
        yield Hand(opened, page)


def test_every_control_has_its_effect_on_the_stack(
    hand: Hand, page: Page, probe: Probe, stack: ComposedStack
) -> None:
    """A control that the page shows and that is not moved here fails the test."""
    panel = page.panel
    lazy = (panel.trajectory, panel.gains, panel.drives, panel.touching)
    assert wait_for(
        lambda: lazy[0].play and lazy[1].pretension and lazy[2].dropdown and lazy[3].resume, LONG_S
    ), "controls are missing"

    def parameter(node: str, name: str) -> Any:
        return probe.get_parameter(node, name)

    def writes(name: str) -> bool:
        return probe.newest("reference_writer").data.startswith(name)

    def reference(place: int) -> float:
        return 1e3 * float(probe.newest("clarke_reference").position[place])

    def tip_at(*states: str) -> float:
        """Where the target of the tip is, x, while it is in one of these states; NaN else."""
        state = probe.received["tip_state"][-1] if probe.heard["tip_state"] else None
        return float(state.target.x) if state is not None and state.state in states else np.nan

    # Steer
    hand.open("Steer")
    hand.choose("kind", "circle", lambda: panel.trajectory.kind.value == "circle")
    amplitude = hand.slide("amplitude, mm", 0.3, lambda value: 2.0 < value < 5.0)
    frequency = hand.slide("frequency, Hz", 0.4, lambda value: 0.15 < value < 0.3)
    hand.press("Play", lambda: probe.received["clarke_reference"] and any(probe.newest("clarke_reference").velocity))
    assert parameter("reference_source", "reference.kind") == "circle"
    assert max(parameter("reference_source", "reference.amplitude_m")) == pytest.approx(1e-3 * amplitude)
    assert set(parameter("reference_source", "reference.frequency_hz")) == {frequency}
    hand.choose("Steer", SLIDERS, lambda: writes("view_"))
    for place, slider in enumerate(panel.steering.sliders):
        value = hand.slide(slider.label, 0.7, lambda value: 2.0 < value < 8.0)
        probe.wait(partial(is_near, reference, place, value), LONG_S, f"{slider.label} has no effect")
    hand.type(panel.steering.sliders[0].label, -3.0, lambda: is_near(reference, 0, -3.0))
    hand.choose("Steer", PLANE, lambda: panel.steering.mode.value == PLANE)
    before = reference(1)
    hand.drag("/plane/target", (0.0, 1.0, 0.0), -0.15, lambda: reference(1) < before - 2.0)
    hand.choose("Steer", TIP, lambda: writes("reference_source"))
    hand.drag("/target", (1.0, 0.0, 0.0), 0.15, lambda: tip_at("moving", "reached") > 0.01)
    asked = tip_at("moving", "reached")
    hand.tick("round obstacles", lambda: panel.tip._planned.value)
    hand.drag("/target", (1.0, 0.0, 0.0), 0.1, lambda: writes("predictive_tip"))
    probe.wait(lambda: tip_at("moving", "reached") > asked, LONG_S, "it does not go to the new target")
    hand.choose("Steer", SLIDERS, lambda: writes("view_"))  # whatever a pause for the plan made of the choice
    hand.choose("Steer", TRAJECTORY, lambda: writes("reference_source"))
    # Tune
    hand.open("Tune")
    hand.choose("feed cogging forward", "off", lambda: parameter("tendon_driver", "cogging") == "off")
    value = hand.slide("pretension, N", 0.25, lambda value: 4.0 < value < 6.0)
    probe.wait(lambda: parameter("clarke_controller", "pretension_n") == pytest.approx(value), LONG_S)
    for name, slider in panel.gains.gains.items():
        value = hand.slide(slider.label, 0.2, lambda value, most=slider.max: 0.15 * most < value < 0.24 * most)
        probe.wait(partial(is_gain, parameter, name, value), LONG_S, f"{name} is not set")
    # Push
    hand.open("Push")
    hand.choose(
        "the robot should", "hold", lambda: parameter("reference_source", "reaction.strategy") == "hold"
    )
    place_mm = hand.slide("place, mm from base", 0.95, lambda value: 180 < value < 200)
    force_n = hand.slide("force, N", 0.98, lambda value: value > 0.45)
    angle = np.deg2rad(hand.slide("direction, ° from +x", 0.25, lambda value: 70 < value < 110))
    hand.slide("for, s", 0.4, lambda value: 3.0 < value < 6.0)
    probe.received["reaction_state"].clear()
    hand.press("Push", lambda: page._commander.pushed is not None)
    probe.wait(lambda: probe.received[EXTERNAL_FORCE_TOPIC], LONG_S, "nothing pushes")
    push = probe.received[EXTERNAL_FORCE_TOPIC][0]
    assert push.wrench_arc_length == pytest.approx(1e-3 * place_mm)
    assert list(push.wrench[:3]) == pytest.approx([force_n * np.cos(angle), force_n * np.sin(angle), 0.0], abs=1e-9)
    probe.wait(lambda: probe.newest("reaction_state").data != "following", LONG_S, "it does not hold when touched")
    held = probe.newest("reaction_state").data
    assert wait_for(lambda: page._commander.pushed is None, LONG_S), "the push does not end"
    hand.press("Go on", lambda: probe.newest("reaction_state").data != held)
    stack._spinner.run(lambda: stack.nodes["contact_monitor"]._latch("a test latches it", None))
    probe.wait(lambda: probe.newest("contact").state == "invalid", LONG_S)
    hand.press("Reset contact monitor", lambda: probe.newest("contact").state != "invalid")
    # Record
    hand.open("Record")
    hand.tick("record", lambda: list(page.options.out.glob("*/*.mcap")))
    hand.tick("record", lambda: list(page.options.out.glob("*/metadata.yaml")))
    # Stop, reset, start
    hand.press("EMERGENCY STOP", lambda: "estop" in probe.faults())
    probe.wait_for_fault("estop", LONG_S)
    hand.browser.wait_for("document.body.innerText.includes('EMERGENCY STOP IS LATCHED')", LONG_S)
    hand.press("Reset", lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    assert wait_for(lambda: page.snapshot.holding, LONG_S), "it does not hold after a reset"
    hand.press("Start", lambda: not page.snapshot.holding)
    assert wait_for(lambda: panel.status.stop.label == "EMERGENCY STOP", LONG_S), "the stop cannot be pressed again"
    assert probe.faults() == []
    hand.look()
    assert hand.seen - OF_VISER == hand.moved - gizmos(page)
    assert set(controls(page)) | set(TABS) | gizmos(page) == hand.moved


def is_near(reference: Callable[[int], float], place: int, value_mm: float) -> bool:
    return abs(reference(place) - value_mm) < 0.06


def is_gain(parameter: Callable[[str, str], Any], name: str, value: float) -> bool:
    return bool(parameter("clarke_controller", name) == pytest.approx(value))
