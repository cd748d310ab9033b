# SPDX-License-Identifier: Apache-2.0
"""Every service that the page, the client and the commands ask is one that a node offers, by name and type."""

from __future__ import annotations

import ast
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from continuum_robot.app.client import stack_link
from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.view import commander as commander_module
from continuum_robot.app.view.commander import Commander
from continuum_robot.control.motion import motion_limits
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.loading import load_robot

PACKAGE = Path(commander_module.__file__).parents[2]
# Methods that ask a service -> places of the name and of the type among their arguments.
ASKS = {"call": (1, 0), "client": (1, 0), "ask": (0, 1), "trigger": (0, None), "_trigger": (0, None)}
PARAMETERS = {"get_parameters", "set_parameters_atomically", "describe_parameters"}
OF_RCLPY = {"change_state": "ChangeState", "get_state": "GetState"}


def calls(folder: str) -> Iterator[tuple[Path, ast.Call]]:
    for file in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield file, node


def name_of(node: ast.expr) -> str | None:
    """The last part of a service's name; None where it is no literal."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[-1]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition("/")[2]
    return None


def kind_of(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) and node.id[0].isupper() else None


def offered() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, call in calls("nodes"):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("create_service", "service"):
            kind, name = kind_of(call.args[0]), call.args[1]
            if isinstance(name, ast.Call):  # resolve_service_name(...)
                name = name.args[0]
            text = name_of(name)
            for one in [text] if text else ["manage_stack", "manage"]:  # the supervisor's has two names
                found.setdefault(one, set()).add(kind or "")
    return found


def test_every_service_that_is_asked_is_offered() -> None:
    there = offered()
    assert {"estop", "hold", "resume", "take", "manage_stack"} <= set(there)
    asked = 0
    for file, call in calls("app"):
        places = ASKS.get(call.func.attr) if isinstance(call.func, ast.Attribute) else None
        if places is None or len(call.args) <= places[0]:
            continue
        name = name_of(call.args[places[0]])
        if name is None or name in PARAMETERS or name in OF_RCLPY or file.name == "browser.py":
            continue
        assert name in there, f"{file.name}:{call.lineno} asks {name}, which no node offers"
        kind = "Trigger" if places[1] is None else kind_of(call.args[places[1]])
        if kind:
            assert kind in there[name], f"{file.name}:{call.lineno} asks {name} as {kind}, it is {there[name]}"
        asked += 1
    assert asked > 15


def test_services_of_the_page_have_their_types_and_every_one_that_is_called_is_in_its_table() -> None:
    there = offered()
    for service, kind in commander_module.SERVICES.items():
        name = service.rpartition("/")[2]
        if name in PARAMETERS:
            continue
        assert kind.__name__ in there.get(name, {OF_RCLPY.get(name)}), service
    link = StackLink.__new__(StackLink)
    link.name, link.closed, link._switch_pressed, link._waits_for_servers = "page", False, False, False
    requested: list[tuple[str, Any]] = []

    def client(kind: Any, service: str) -> Any:
        requested.append((service, kind))
        raise DeviceError(service, "is not there", "This is a test.")

    link.client = client
    page, answers = Commander.__new__(Commander), Answers()
    page._link, page._lock, page._reference_timer = link, threading.Lock(), SimpleNamespace(cancel=lambda: None)
    for method in (page.stop_robot, page.reset, page.play, page.hold, page.resume, page.hand_back,
                   page.reset_contact_monitor, page.ask_recorder):  # fmt: skip
        method(answers)
        assert answers.next() == (False, "is not there")
    page.record(True, answers)
    page.set_parameters("clarke_controller", {}, answers)
    assert [answers.next() for _ in range(2)] == [(False, "is not there")] * 2
    page.describe("reference_source", [], answers)
    assert wait_for(lambda: len(requested) == 11, 60.0)
    assert all(commander_module.SERVICES[service] is kind for service, kind in requested)
    assert {"estop", "manage_stack", "reference_source/resume"} <= {service for service, _ in requested}


class Answers:
    """Takes answers, each of which comes in a thread of its own."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[bool, str]] = queue.Queue()

    def __call__(self, success: bool, sentence: str) -> None:
        self._queue.put((success, sentence))

    def next(self) -> tuple[bool, str]:
        return self._queue.get(timeout=60.0)


class DeadClient:
    """Of a service whose node is there and does not answer."""

    srv_name = "/estop"

    def __init__(self, answers: bool = False) -> None:
        self.pending: list[Future[Any]] = []
        self._answers = answers

    def service_is_ready(self) -> bool:
        return True

    def call_async(self, _request: Any) -> Future[Any]:
        self.pending.append(Future())
        if self._answers:
            self.pending[-1].set_result(Trigger.Response(success=True, message="latched"))
        return self.pending[-1]

    def remove_pending_request(self, future: Future[Any]) -> None:
        self.pending.remove(future)


def link_to(client: DeadClient) -> Any:
    link = StackLink.__new__(StackLink)
    link._clients = {"estop": client}
    pressed: list[bool] = []
    link._asking, link._lock, link._switch_pressed = object(), threading.Lock(), False
    link._waits_for_servers = link.closed = False
    link._switch = SimpleNamespace(publish=lambda message: pressed.append(message.data))
    return link, pressed


def test_an_e_stop_of_the_page_that_is_not_answered_is_sent_by_the_topic_and_let_go_by_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stack_link, "ESTOP_TIMEOUT_S", 0.01)
    client = DeadClient()
    link, pressed = link_to(client)
    link._clients["manage_stack"] = DeadClient(answers=True)
    page, answers = Commander.__new__(Commander), Answers()
    page._link = link
    page.stop_robot(answers)
    _, sentence = answers.next()
    assert sentence.startswith("not confirmed, sent on the topic estop as well: /estop: did not answer within 0.01 s")
    assert pressed == [True]
    assert client.pending == []
    page.reset(answers)
    assert answers.next() == (True, "latched")
    assert pressed == [True, False]


def test_an_order_for_a_service_that_no_node_serves_is_answered_without_waiting(monkeypatch) -> None:
    absent = DeadClient()
    monkeypatch.setattr(absent, "service_is_ready", lambda: False)
    link, _ = link_to(absent)
    link._clients["reference_source/hold"] = absent
    page, answers = Commander.__new__(Commander), Answers()
    page._link, page._lock, page._reference_timer = link, threading.Lock(), SimpleNamespace(cancel=lambda: None)
    page.hold(answers)
    assert answers.next() == (False, "/estop: is served by no node. Is the stack up, and its namespace?")


OWN, OTHER, ANSWER = "view_0", "a_program", "the answer"


@pytest.mark.parametrize(
    ("heard", "steers"),
    [
        ([ANSWER], True),
        ([OWN, ANSWER], True),
        ([ANSWER, OWN], True),
        ([OTHER, OWN, ANSWER], True),
        ([OTHER, ANSWER, OWN], True),
        ([ANSWER, OTHER, OWN], True),  # a name of before, however late
        ([OWN, ANSWER, OTHER], False),
        ([ANSWER, OWN, OTHER], False),
        ([OTHER, ANSWER, OWN, OTHER], False),
        ([OWN, OTHER, ANSWER], False),  # taken before its answer came
    ],
)
@pytest.mark.parametrize("before", [[], [OWN], [OWN, OTHER]])
def test_a_turn_of_the_page_is_lost_where_another_name_comes_after_its_own(
    before: list[str], heard: list[str], steers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference source announces every turn before it answers; both ways are of different lengths."""
    timer = SimpleNamespace(cancel=lambda: None, reset=lambda: None)
    monkeypatch.setattr(Commander, "_reference_timer", timer, raising=False)
    monkeypatch.setattr(Commander, "_stage_timer", timer, raising=False)
    monkeypatch.setattr(Commander, "_push_timer", timer, raising=False)
    requested: list[Any] = []
    link = SimpleNamespace(name=OWN, listen=lambda *_: None, make=lambda _: None)
    page, answers = Commander(link), []
    monkeypatch.setattr(page, "_ask", lambda answer, _ask: requested.append(answer))
    limits = motion_limits(load_robot("opencr_five_tendon"))

    def take() -> None:
        page.take_reference(np.zeros(2), limits, lambda success, _sentence: answers.append(success))

    def hear(words: list[str]) -> None:
        for word in words:
            if word == ANSWER:
                requested.pop(0)(True, "yours")
            else:
                page._on_writer(String(data=word))

    if before:  # an earlier turn, which was given up, and of which not all was heard when the next was asked for
        take()
        hear([ANSWER])
        page.drop_reference()
    take()
    hear([*before, *heard])
    assert page.steering is steers
    assert answers[-1] is (heard != [OWN, OTHER, ANSWER])


def test_a_turn_that_is_refused_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Commander.__new__(Commander)
    page._link, page._lock, page._unannounced = SimpleNamespace(name=OWN), threading.RLock(), 0
    limits = motion_limits(load_robot("opencr_five_tendon"))
    monkeypatch.setattr(page, "_ask", lambda taken, _ask: taken(False, "refused"))
    page.take_reference(np.zeros(2), limits, lambda *_: None)
    assert page._unannounced == 0
