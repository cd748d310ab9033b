# SPDX-License-Identifier: Apache-2.0
"""Coroutines that wait for a service whose answers come late, or never."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from rclpy.task import Future

from continuum_robot.errors import RobotTimeoutError
from continuum_robot.nodes.base.waiting import Waiting, call_service


class LateClient:
    """The service takes a request only when the next one comes."""

    def __init__(self):
        self.calls = []
        self.removed = []

    def call_async(self, request):
        if self.calls:
            self.calls[-1].set_result(f"answer to {request} {len(self.calls)}")
        self.calls.append(Future())
        return self.calls[-1]

    def remove_pending_request(self, call):
        self.removed.append(call)


def run(waiting, coroutine):
    try:
        while True:
            coroutine.send(None)
            waiting._tick()
            time.sleep(0.001)
    except StopIteration as end:
        return end.value


def made():
    return Waiting(SimpleNamespace(create_timer=lambda *_args, **_options: None), 0.001)


def test_asking_again_brings_the_answer_to_the_request_that_was_lost():
    waiting, client = made(), LateClient()
    assert run(waiting, waiting.call(client, "reset", 5.0, 0.02)) == "answer to reset 1"
    assert client.removed == client.calls[1:]


def test_asked_once_a_lost_request_has_no_answer_in_time():
    waiting, client = made(), LateClient()
    assert run(waiting, waiting.call(client, "reset", 0.03)) is None
    assert client.removed == client.calls
    assert len(client.calls) == 1


class ForgetfulClient(LateClient):
    """The answer to the first request is lost."""

    srv_name = "reset"

    def service_is_ready(self):
        return True

    def call_async(self, request):
        self.calls.append(Future())
        if len(self.calls) > 1:
            self.calls[-1].set_result(f"answer {len(self.calls)}")
        return self.calls[-1]


def test_a_thread_asks_again_where_that_does_no_harm():
    client = ForgetfulClient()
    assert call_service(client, "reset", 5.0, 0.01) == "answer 2"
    assert client.removed == client.calls[:1]


def test_a_thread_that_may_ask_once_says_that_there_was_no_answer():
    client = ForgetfulClient()
    with pytest.raises(RobotTimeoutError, match=r"reset: did not answer within 0\.02 s"):
        call_service(client, "reset", 0.02)
    assert client.removed == client.calls
    assert len(client.calls) == 1
