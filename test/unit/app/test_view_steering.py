# SPDX-License-Identifier: Apache-2.0
"""The list under Steer: every entry that can be chosen acts, and the one in view names who steers."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the page needs ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

import viser
from rcl_interfaces.msg import ParameterDescriptor

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Described
from continuum_robot.app.view.controls.parameters import Trajectory
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.controls.steering import (
    CHOICES,
    HOLDS,
    NOBODY,
    PLANE,
    PLAYS,
    SLIDERS,
    TIP,
    TRAJECTORY,
    Steering,
)
from continuum_robot.robot.loading import load_robot

UP = RobotState(
    stack="up",
    driver="active",
    silent_s=0.0,
    reference_m=np.zeros(2),
    clarke_m=np.zeros(2),
    nodes={"reference_source": "active", "predictive_tip": "active"},
)


class Orders:
    """A commander that notes what is asked of the stack; a test answers."""

    def __init__(self) -> None:
        self.name, self.writer, self.steering = "view_0", "reference_source", False
        self.asked: list[str] = []
        self.answers: list[Any] = []

    def __getattr__(self, order: str) -> Any:
        def ask(*arguments: Any) -> None:
            self.asked.append(order)
            self.answers.append(arguments[-1])

        return ask

    def aim(self, _target: Any) -> None:
        self.asked.append("aim")

    def drop_reference(self) -> None:
        self.steering = False

    def answer(self, success: bool = True) -> None:
        if success and self.asked[-1] == "take_reference":
            self.writer, self.steering = self.name, True
        elif success:
            self.writer = "reference_source"
        self.answers.pop()(success, "a sentence")


class Controls:
    def __init__(self, server: viser.ViserServer) -> None:
        self.orders = Orders()
        self.status = Status(server, self.orders)
        self.steering = Steering(server, self.orders, load_robot("opencr_five_tendon"), self.status)
        self.mode = self.steering.mode
        self.steering.add_sliders()
        self.trajectory = Trajectory(server, self.orders, self.steering, self.status)
        kinds = ParameterDescriptor(additional_constraints="one of hold, circle")
        values = {"reference.kind": "hold", "reference.amplitude_m": [3e-3], "reference.frequency_hz": [0.1]}
        self.trajectory._fill({name: Described(value, kinds) for name, value in values.items()})
        self.see()

    def see(self, **changed: Any) -> str:
        """Update with a snapshot; gives what the list shows, which is one of its entries."""
        self.steering.update(dataclasses.replace(UP, **changed))
        assert self.mode.value in self.mode.options
        assert self.mode.options[-4:] == CHOICES
        return str(self.mode.value)

    def hand(self, value: str) -> None:
        """A choice as a browser sends it, before its callback is called."""
        assert value in self.mode.options
        assert value != self.mode.value, "an entry that is in view cannot be chosen"
        self.mode._impl.value = value

    def call(self) -> None:
        for callback in self.mode._impl.update_cb:
            callback(None)

    def choose(self, value: str) -> None:
        self.hand(value)
        self.call()


@pytest.fixture(scope="module")
def server() -> Iterator[viser.ViserServer]:
    served = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield served
    served.stop()


@pytest.fixture
def controls(server: viser.ViserServer) -> Iterator[Controls]:
    yield Controls(server)
    server.gui.reset()


def test_the_list_names_who_steers(controls: Controls) -> None:
    assert controls.see() == PLAYS
    assert controls.see(holding=True) == HOLDS
    controls.orders.writer = "robot_client_1"
    assert controls.see() == "robot_client_1 steers"
    assert controls.see(driver="safe") == controls.see(stack="fault") == controls.see(silent_s=9.0) == NOBODY
    assert controls.orders.asked == []


@pytest.mark.parametrize("mode", [SLIDERS, PLANE, TIP])
def test_after_the_turn_is_lost_every_choice_acts(controls: Controls, mode: str) -> None:
    orders = controls.orders
    controls.choose(mode)
    orders.answer()
    assert controls.see() == mode
    assert controls.mode.options == CHOICES
    orders.writer, orders.steering = "robot_client_1", False
    assert controls.see() == "robot_client_1 steers"
    for choice, order in ((TRAJECTORY, "play"), (SLIDERS, "take_reference"), (TIP, "hold"), (PLANE, "take_reference")):
        orders.writer, orders.steering = "robot_client_1", False
        controls.see()
        controls.choose(choice)
        assert orders.asked[-1] == order
        orders.answer()
        assert controls.see() == (PLAYS if choice == TRAJECTORY else choice)


def test_a_trajectory_that_ends_can_be_chosen_again(controls: Controls) -> None:
    for success, holding in ((True, True), (False, True), (True, False), (True, True)):
        controls.choose(TRAJECTORY)
        assert controls.see(holding=holding) == TRAJECTORY
        controls.orders.answer(success)
        assert controls.see(holding=holding) == (HOLDS if holding else PLAYS)
    assert controls.orders.asked == 4 * ["play"]


def test_start_ends_the_choice_of_the_tip(controls: Controls) -> None:
    controls.choose(TIP)
    controls.orders.answer()
    assert controls.see(holding=True) == TIP
    controls.steering._status.start.value = True
    assert controls.see() == PLAYS
    controls.choose(TIP)
    assert controls.orders.asked[-1] == "hold"


def test_a_node_that_plans_for_the_page_takes_nothing_from_it(controls: Controls) -> None:
    controls.choose(TIP)
    controls.orders.answer()
    controls.orders.writer = "predictive_tip"
    assert controls.see() == TIP


def test_a_choice_stays_while_its_callback_and_its_answer_are_late(controls: Controls) -> None:
    """On a busy computer the page is drawn between a choice, its callback, and the answer."""
    controls.hand(SLIDERS)
    assert controls.see() == SLIDERS
    controls.call()
    for _ in range(3):
        assert controls.see() == SLIDERS
    controls.orders.answer()
    assert controls.see() == SLIDERS
    assert controls.orders.asked == ["take_reference"]


def test_in_lockstep_a_time_that_waits_is_no_silence(controls: Controls) -> None:
    """A node that plans takes seconds, in which no state comes."""
    waiting = {"in_lockstep": True, "silent_s": 9.0}
    assert controls.see(**waiting) == PLAYS
    controls.choose(SLIDERS)
    controls.orders.answer()
    assert controls.see(**waiting) == SLIDERS
    assert controls.see(**waiting, stack="") == NOBODY


def test_the_answer_to_an_earlier_choice_changes_nothing(controls: Controls) -> None:
    controls.choose(SLIDERS)
    late = controls.orders.answers.pop()
    controls.choose(TIP)
    late(False, "too late")
    assert controls.see() == TIP
    controls.orders.answer()
    assert controls.see() == TIP


def test_what_is_refused_is_no_choice(controls: Controls) -> None:
    controls.choose(SLIDERS)
    controls.orders.answer(False)
    assert controls.see() == PLAYS
    controls.see(driver="safe")
    controls.choose(PLANE)
    assert controls.see(driver="safe") == NOBODY


def test_a_slider_that_moves_before_the_answer_counts(controls: Controls) -> None:
    """The announcement that the page writes may come before the answer that it may."""
    controls.choose(SLIDERS)
    controls.orders.writer = controls.orders.name
    controls.steering.sliders[0].value = 2.0
    controls.orders.answer()
    assert controls.orders.asked == ["take_reference", "aim", "aim"]


def test_a_slider_takes_the_reference_from_the_program(controls: Controls) -> None:
    slider = controls.steering.sliders[0]
    slider.value = 2.0
    assert controls.see() == SLIDERS
    assert controls.orders.asked[-1] == "take_reference"
    controls.orders.answer()
    assert controls.orders.asked[-1] == "aim"
    controls.orders.writer, controls.orders.steering = "robot_client_1", False
    controls.see()
    slider.value = 3.0
    assert controls.see() == "robot_client_1 steers"


@pytest.mark.parametrize("answered", [0, 1])
def test_what_play_is_answered_after_a_choice_changes_nothing(controls: Controls, answered: int) -> None:
    """On a busy computer the answer that it plays comes after a hand has gone on to the sliders."""
    orders = controls.orders
    controls.trajectory.play.value = True
    for _ in range(answered):
        orders.answer()
    late = orders.answers.pop()
    assert orders.asked == ["set_parameters", "play"][: 1 + answered]
    controls.choose(SLIDERS)
    controls.steering.sliders[0].value = 2.0
    late(True, "plays circle")
    orders.steering = True
    orders.answer()
    assert orders.asked[1 + answered :] == ["take_reference", "aim", "aim"]
    assert controls.see() == SLIDERS


def test_a_choice_waits_while_an_answer_is_taken(controls: Controls, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = controls.orders
    hand = threading.Thread(target=controls.choose, args=(SLIDERS,))

    def show(_sentence: str) -> None:
        if hand.ident is None:
            hand.start()
            hand.join(0.2)

    monkeypatch.setattr(controls.status, "show", show)
    controls.trajectory.play.value = True
    orders.answer()
    orders.answer()
    hand.join()
    orders.answer()
    assert orders.asked == ["set_parameters", "play", "take_reference"]
    assert controls.see() == SLIDERS


def test_a_slider_that_moves_before_the_page_is_announced_counts(controls: Controls) -> None:
    controls.orders.writer = "robot_client_1"
    controls.see()
    controls.choose(SLIDERS)
    controls.steering.sliders[0].value = 2.0
    assert controls.orders.asked == ["take_reference", "aim"]


def test_the_page_s_own_name_of_before_takes_the_tip_from_nobody(controls: Controls) -> None:
    controls.choose(TIP)
    controls.orders.answer()
    controls.orders.writer = controls.orders.name
    assert controls.see() == TIP


def test_a_choice_that_comes_while_the_list_changes_stays(controls: Controls) -> None:
    """A frame that leaves, since the robot stopped, is slow: the hand's choice falls into its middle."""
    controls.choose(TIP)
    controls.orders.answer()
    assert controls.see() == TIP
    options = type(controls.mode).options

    def set_slowly(mode: Any, new: Any) -> None:
        options.fset(mode, new)
        controls.mode._impl.value = SLIDERS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(controls.mode), "options", options.setter(set_slowly))
        assert controls.see(stack="fault") == SLIDERS
    controls.call()
    assert controls.orders.asked[-1] == "take_reference"
