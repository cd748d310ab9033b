# SPDX-License-Identifier: Apache-2.0
"""Every control of the page against its effect on a stack in lock-step: by messages, and by a mouse in Chromium."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from continuum_robot.msg import ClarkeState, Contact, DriverStatus, StackStatus, TipState
from page_hands import LONG_S, Hand, MessageHand, MouseHand, joined
from pages.browser import Browser, find_browser
from pages.page_picture import DRAWN, HIDE_NOTICES
from ros_probe import Probe
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from continuum_robot.app.recordings.dataset import load_recording, marked_episodes
from continuum_robot.app.view.controls.parameters import PRETENSION
from continuum_robot.app.view.controls.steering import PLANE, SLIDERS, TIP, TRAJECTORY
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.page import Page
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
pytestmark = [pytest.mark.ros]

ROBOT = "opencr_five_tendon"
OPTIONS = StackOptions(
    robot=ROBOT,
    contact=True,
    predictive=True,
    clock="lockstep",
    seed=1,
    parameters={"predictive_tip": {"world": str(shipped_file("worlds/post.yaml"))}},
)
ON_A_STAGE = StackOptions(robot="three_segment_servo_stage", clock="lockstep", seed=1, start_motion=False)
LATCHED = {
    "stack_status": StackStatus,
    "driver_status": DriverStatus,
    "reference_writer": String,
    "reaction_state": String,
}


@pytest.fixture
def options(request: pytest.FixtureRequest) -> StackOptions:
    return getattr(request, "param", OPTIONS)


@pytest.fixture
def stack(domain: int, options: StackOptions) -> Iterator[ComposedStack]:
    with ComposedStack(options) as running:
        running.wait_until_up(LONG_S)
        yield running


@pytest.fixture
def probe(stack: ComposedStack) -> Iterator[Probe]:
    with Probe() as listening:
        for topic, kind in LATCHED.items():
            listening.listen(kind, topic, qos.latched())
        listening.listen(ClarkeState, "clarke_reference")
        listening.listen(TipState, "tip_state")
        listening.listen(Contact, EXTERNAL_FORCE_TOPIC, qos.newest_state())
        listening.listen(Contact, "contact", qos.newest_state())
        yield listening


@pytest.fixture
def page(stack: ComposedStack, options: StackOptions, tmp_path: Path) -> Iterator[Page]:
    stop = threading.Event()
    with Page(ViewOptions(folder=tmp_path), load_robot(options.robot)) as served:

        def draw() -> None:
            while not stop.wait(served.frame()):
                pass

        drawing = threading.Thread(target=draw)
        drawing.start()
        yield served
        stop.set()
        drawing.join()


@contextlib.contextmanager
def messages(page: Page) -> Iterator[Hand]:
    with joined(page) as connection:
        yield MessageHand(page, connection)


@contextlib.contextmanager
def mouse(page: Page) -> Iterator[Hand]:
    with Browser((1000, 700), gives_way=False) as opened:
        opened.open(page.address)
        opened.wait_for(DRAWN, LONG_S)
        opened.run(HIDE_NOTICES)
        yield MouseHand(page, opened)


BY = pytest.mark.parametrize("by", [messages, pytest.param(mouse, marks=[pytest.mark.long, WITHOUT_BROWSER])])


@BY
def test_every_control_has_its_effect_on_the_stack(
    by: Callable[[Page], AbstractContextManager[Hand]], page: Page, probe: Probe, stack: ComposedStack
) -> None:
    with by(page) as hand:
        move_every_control(hand, page, probe, stack)


def move_every_control(hand: Hand, page: Page, probe: Probe, stack: ComposedStack) -> None:
    """A control that the page has and that is not moved here fails the test."""
    panel = page.panel
    folders = panel.folders.values()
    assert wait_for(lambda: panel.trajectory.play and all(one.controls for one in folders), LONG_S), (
        "controls are missing"
    )

    def parameter(node: str, name: str) -> Any:
        return probe.get_parameter(node, name)

    def writes(name: str) -> bool:
        return probe.newest("reference_writer").data.startswith(name)

    def reference(place: int) -> float:
        return 1e3 * float(probe.newest("clarke_reference").position[place])

    def goes_to_the_axes() -> bool:
        """Whether the tip moves, or has come, to where the axes are in the scene."""
        state = probe.received["tip_state"][-1] if probe.heard["tip_state"] else None
        if state is None or state.state not in ("moving", "reached"):
            return False
        place = np.array([state.target.x, state.target.y, state.target.z])
        return bool(np.allclose(place, np.asarray(page.panel.tip._gizmo.position) / page.scene.scale, atol=1e-4))

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
    hand.drag("/target", (1.0, 0.0, 0.0), 0.15, goes_to_the_axes)
    hand.tick("round obstacles", lambda: panel.tip._planned.value)
    hand.drag("/target", (1.0, 0.0, 0.0), 0.1, lambda: writes("predictive_tip"))
    probe.wait(goes_to_the_axes, LONG_S, "it does not go to the new target")
    hand.choose("Steer", SLIDERS, lambda: writes("view_"))  # whatever a pause for the plan made of the choice
    hand.choose("Steer", TRAJECTORY, lambda: writes("reference_source"))
    # Tune
    hand.open("Tune")
    hand.choose("feed cogging forward", "off", lambda: parameter("tendon_driver", "cogging") == "off")
    value = hand.slide("pretension, N", 0.25, lambda value: 4.0 < value < 6.0)
    probe.wait(lambda: parameter("clarke_controller", "pretension_n") == pytest.approx(value), LONG_S)
    for name, slider in panel.folders["gains"].controls.items():
        if name == PRETENSION:
            continue
        value = hand.slide(slider.label, 0.2, lambda value, most=slider.max: 0.15 * most < value < 0.24 * most)
        probe.wait(partial(is_gain, parameter, name, value), LONG_S, f"{name} is not set")
    # Push
    hand.open("Push")
    hand.choose("the robot should", "hold", lambda: parameter("reference_source", "reaction.strategy") == "hold")
    place_mm = hand.slide("place, mm", 0.95, lambda value: 180 < value < 200)
    force_n = hand.slide("force, N", 0.98, lambda value: value > 0.45)
    angle = np.deg2rad(hand.slide("direction, °", 0.25, lambda value: 70 < value < 110))
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
    stack._spinner.run(lambda: stack.nodes["contact_monitor"].component._latch("a test latches it", None))
    probe.wait(lambda: probe.newest("contact").state == "invalid", LONG_S)
    hand.press("Reset contact monitor", lambda: probe.newest("contact").state != "invalid")
    # Record
    hand.open("Record")
    hand.tick("record", lambda: list(page.options.folder.glob("*/*.mcap")))
    assert wait_for(lambda: not panel.recording.marks["begin"].disabled, LONG_S), "the page does not see the recorder"
    hand.press("Begin episode", lambda: page.snapshot.episode)
    hand.press("Keep episode", lambda: not page.snapshot.episode)
    hand.press("Begin episode", lambda: page.snapshot.episode)
    hand.press("Discard episode", lambda: not page.snapshot.episode)
    hand.tick("record", lambda: list(page.options.folder.glob("*/metadata.yaml")))
    (recorded,) = page.options.folder.glob("*/metadata.yaml")
    marks = marked_episodes(load_recording(recorded.parent))
    assert (len(marks.spans), marks.discarded, marks.unfinished) == (1, 1, 0)
    # Stop, reset, start
    hand.press("EMERGENCY STOP", lambda: "estop" in probe.faults())
    probe.wait_for_fault("estop", LONG_S)
    assert wait_for(lambda: not panel.status.reset.disabled, LONG_S), "the page does not show the e-stop"
    hand.press("Reset", lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    assert wait_for(lambda: page.snapshot.holding, LONG_S), "it does not hold after a reset"
    hand.press("Start", lambda: not page.snapshot.holding)
    assert wait_for(lambda: panel.status.stop.label == "EMERGENCY STOP", LONG_S), "the stop cannot be pressed again"
    assert probe.faults() == []
    hand.assert_all_moved()


@BY
@pytest.mark.parametrize("options", [ON_A_STAGE], indirect=True)
def test_the_sliders_of_a_stage_move_it(
    by: Callable[[Page], AbstractContextManager[Hand]], page: Page, probe: Probe
) -> None:
    probe.listen(JointState, "base_stage/state")
    probe.listen(JointState, "base_stage/command")
    with by(page) as hand:
        hand.open("Steer")
        sliders = page.panel.stage.sliders
        assert sorted(sliders) == [0, 1]
        hold = page._link.client(Trigger, "reference_source/hold")
        assert wait_for(hold.service_is_ready, LONG_S), "the page does not find the reference source"
        places = [1e-3 * hand.slide(sliders[0].label, 0.2, lambda value: 40 < value < 80)]
        probe.wait(lambda: is_at(probe, 0, places[0], 5e-4), LONG_S, "the stage does not insert the robot")
        places.append(np.deg2rad(hand.slide(sliders[1].label, 0.6, lambda value: 20 < value < 60)))
        probe.wait(lambda: is_at(probe, 1, places[1], 5e-3), LONG_S, "the stage does not turn the robot")
        assert is_at(probe, 0, places[0], 5e-4)
        hand.type(sliders[0].label, 20.0, lambda: is_at(probe, 0, 0.02, 5e-4))
        # They follow what others make of the stage, and do not move it for that.
        assert wait_for(lambda: sliders[1].value == pytest.approx(np.rad2deg(places[1]), abs=0.6), LONG_S)
        assert probe.faults() == []


def test_a_slide_is_over_when_the_page_has_the_value_that_was_sent() -> None:
    """A slider that follows the reference passes values that look like it."""
    slider = SimpleNamespace(label="q", min=-12.0, max=12.0, step=0.1, value=2.2, _impl=SimpleNamespace(uuid="q"))
    handles = SimpleNamespace(_gui_input_handle_from_uuid={"q": slider})
    page: Any = SimpleNamespace(_server=SimpleNamespace(gui=handles), snapshot=None)
    late = threading.Timer(0.2, setattr, (slider, "value", 4.8))
    connection: Any = SimpleNamespace(send=lambda _message: None)
    hand = MessageHand(page, connection)
    connection.send = lambda _message: late.start()
    assert hand.slide("q", 0.7, lambda value: 2.0 < value < 8.0) == pytest.approx(4.8)
    assert slider.value == pytest.approx(4.8)


def is_at(probe: Probe, axis: int, place: float, within: float) -> bool:
    heard = probe.received["base_stage/state"]
    return bool(heard) and bool(abs(heard[-1].position[axis] - place) < within)


def is_near(reference: Callable[[int], float], place: int, value_mm: float) -> bool:
    return abs(reference(place) - value_mm) < 0.06


def is_gain(parameter: Callable[[str, str], Any], name: str, value: float) -> bool:
    return bool(parameter("clarke_controller", name) == pytest.approx(value))
