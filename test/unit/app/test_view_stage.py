# SPDX-License-Identifier: Apache-2.0
"""The base stage for people and programs: the page's sliders and scene, and the client's motion."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the page needs ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from continuum_robot.app.client import motions
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.stage import StageSliders
from continuum_robot.app.view.scene import Scene
from continuum_robot.errors import RobotFaultError, RobotTimeoutError
from continuum_robot.models.making import robot_model
from continuum_robot.robot.base_stage import BaseStage
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("three_segment_servo_stage")
STATUS = SimpleNamespace(show_if_refused=lambda _success, _sentence: None)
UP = RobotState(stack="up", driver="active", silent_s=0.0)


class Slider(SimpleNamespace):
    """As viser's: a new value calls back, whoever sets it."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "value" and hasattr(self, "call"):
            self.call(None)


class Server:
    """Takes whatever is added, and keeps a handle of it by name."""

    def __init__(self):
        self.gui = self.scene = self
        self.handles = {}

    def add_slider(self, name, **options):
        slider = Slider(value=options["initial_value"], **options)
        slider.on_update = lambda call: object.__setattr__(slider, "call", call)
        return slider

    def __getattr__(self, _name):
        def add(name="", *_values, **_looks):
            self.handles[name] = SimpleNamespace(visible=True, content="", position=None, points=None)
            return self.handles[name]

        return add


class Orders:
    """A commander that notes where the stage is told to go."""

    def __init__(self):
        self.goal = None

    def aim_stage(self, position, _answer):
        self.goal = position

    def moves_stage(self, position):
        return self.goal is not None and not np.allclose(self.goal, position)

    def drop_stage(self):
        self.goal = None


def at(*position, **changes):
    return dataclasses.replace(UP, stage=np.array(position), **changes)


def test_the_sliders_follow_the_stage_until_a_hand_moves_one():
    orders = Orders()
    controls = StageSliders(Server(), orders, STATUS, ROBOT.base_stage)
    insertion, rotation = controls.sliders[0], controls.sliders[1]
    assert (insertion.min, insertion.max) == (0.0, 300.0)
    assert (rotation.min, rotation.max) == (-180.0, 180.0)
    controls.update(at(0.0502, 0.101))
    assert (insertion.value, rotation.value) == (50.0, 6.0)
    assert orders.goal is None
    insertion.value = 80.0
    assert orders.goal == pytest.approx([0.08, 0.101])  # the other axis stays where it is, not where it is shown
    controls.update(at(0.06, 0.101))
    assert insertion.value == 80.0
    controls.update(at(0.06, 0.101, stage_problem="at fault: following_error"))
    assert orders.goal is None
    rotation.value = 10.0
    controls.update(at(0.06, 0.101, driver="safe"))
    assert orders.goal is None


def test_a_slide_is_not_lost_to_a_frame_that_comes_before_its_callback():
    orders = Orders()
    slider = StageSliders(Server(), orders, STATUS, ROBOT.base_stage)
    insertion = slider.sliders[0]
    slider.update(at(0.01, 0.0))
    object.__setattr__(insertion, "value", 60.0)  # as viser takes a hand's value, before it calls back
    slider.update(at(0.01, 0.0))
    insertion.call(None)
    assert orders.goal == pytest.approx([0.06, 0.0])
    orders.goal = None
    slider.update(at(0.06, 0.0))
    slider.update(at(0.02, 0.0))
    assert insertion.value == 20.0


def test_the_stage_moves_once_the_reference_source_holds_and_a_refusal_is_answered():
    timer = SimpleNamespace(cancel=lambda: None, reset=lambda: running.append(True))
    running, answers, asked = [], [], []
    page = Commander.__new__(Commander)
    page._lock, page._motion, page._stage = threading.RLock(), None, None
    page._reference_timer = page._stage_timer = timer
    page._ask = lambda answer, _ask: asked.append(answer)
    page.aim_stage(np.array([0.05, 0.0]), lambda *answer: answers.append(answer))
    asked.pop()(False, "no node serves hold")
    assert answers == [(False, "the stage stays where it is: no node serves hold")]
    assert not page.moves_stage(np.zeros(2))
    page.aim_stage(np.array([0.05, 0.0]), lambda *answer: answers.append(answer))
    page.aim_stage(np.array([0.06, 0.0]), lambda *answer: answers.append(answer))
    assert page.moves_stage(np.zeros(2))
    assert not running
    (held,) = asked
    held(True, "holds")
    assert running
    assert page._stage == pytest.approx([0.06, 0.0])


def test_an_axis_that_is_not_there_has_no_slider():
    controls = StageSliders(Server(), Orders(), STATUS, BaseStage(rotation=ROBOT.base_stage.rotation))
    assert list(controls.sliders) == [1]


def test_the_scene_carries_the_robot_on():
    server = Server()
    scene = Scene(server, ROBOT, robot_model(ROBOT).drawing(), 10.0)
    scene.draw(at(0.06, 0.5, coefficients=np.zeros(ROBOT.coefficient_count)), None, 10.0, None)
    root = server.handles["/robot"]
    assert root.position == pytest.approx([0.0, 0.0, 0.06 / ROBOT.length_m])
    assert root.wxyz == pytest.approx([np.cos(0.25), 0.0, 0.0, np.sin(0.25)])


class Link:
    """A stack whose stage jumps by a centimetre with each command, or does not move."""

    def __init__(self, step_m=0.01, problem=""):
        self.messages = SimpleNamespace(forget=lambda _topic: None)
        self.stage, self.step_m, self.problem = np.zeros(2), step_m, problem
        self.check_up = self.check_heard = lambda: None

    def state(self):
        return at(*self.stage, stage_problem=self.problem)

    def publish_stage(self, goal):
        self.stage = np.array([min(self.stage[0] + self.step_m, goal[0]), goal[1]])


def test_a_motion_of_the_client_ends_where_it_was_asked_for_or_says_why_not(monkeypatch):
    monkeypatch.setattr(motions, "STAGE_PERIOD_S", 1e-3)
    task, goal = SimpleNamespace(check=lambda: None), np.array([0.045, 0.2])
    assert motions.move_stage(Link(), task, goal, 10.0) == pytest.approx(goal)
    with pytest.raises(RobotFaultError, match="following_error"):
        motions.move_stage(Link(problem="at fault: following_error"), task, goal, 10.0)
    with pytest.raises(RobotTimeoutError, match=r"stands at \[0\.0, 0\.2\]"):
        motions.move_stage(Link(step_m=0.0), task, goal, 0.02)
