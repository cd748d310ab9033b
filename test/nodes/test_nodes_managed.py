# SPDX-License-Identifier: Apache-2.0
"""What the supervisor believes of a node whose service seems to be gone for a moment."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from lifecycle_msgs.msg import State, Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.calling import call_service
from continuum_robot.nodes.base.spinning import Spinner, initialize, wait_for
from continuum_robot.nodes.supervision import managed
from continuum_robot.nodes.supervision.manage_service import ASKERS
from continuum_robot.nodes.supervision.managed import Managed
from continuum_robot.nodes.supervisor import Supervisor

pytestmark = [pytest.mark.ros]


class Waits:
    """Answers at once, that a transition was made or not, None: that answer is lost; time passes by itself."""

    def __init__(self, label, made):
        self.label, self.made = label, made

    async def sleep(self, duration_s):
        pass

    async def call(self, _client, request, _timeout_s):
        if isinstance(request, ChangeState.Request):
            return None if self.made is None else SimpleNamespace(success=self.made)
        return SimpleNamespace(current_state=SimpleNamespace(label=self.label))


class Client:
    """Seems not to be there for so many looks."""

    def __init__(self, hidden):
        self.hidden = hidden

    def service_is_ready(self):
        self.hidden -= 1
        return self.hidden < 0


def make(label, hidden, made=True):
    supervisor = SimpleNamespace(
        create_client=lambda _kind, _name: Client(hidden), create_subscription=lambda *_args: None
    )
    return Managed(supervisor, "clarke_controller", Waits(label, made), lambda: None)


def run(coroutine):
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_node_that_says_that_it_made_its_transition_is_asked_no_more():
    node = make("unknown", hidden=10**9)
    run(node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0))
    assert node.state == "inactive"


@pytest.mark.parametrize("made", [None, False])
def test_a_node_whose_answer_is_lost_or_that_was_there_already_is_asked_for_its_state(made):
    node = make("inactive", hidden=3, made=made)
    run(node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0))
    assert node.state == "inactive"


@pytest.mark.parametrize(
    ("made", "words"), [(None, "did not become inactive within 1 s"), (False, "is unknown instead of inactive")]
)
def test_a_node_that_stays_away_after_a_transition_is_told(monkeypatch, made, words):
    monkeypatch.setattr(managed, "VANISHED_S", 0.02)
    node = make("inactive", hidden=10**9, made=made)
    with pytest.raises(DeviceError, match=words):
        node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0).send(None)


def test_a_node_that_is_not_there_yet_is_unknown_at_once():
    node = make("inactive", hidden=1)
    run(node.refresh())
    assert node.state == "unknown"


def test_a_process_in_place_of_a_dead_one_is_noticed_although_its_services_never_vanish(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(managed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    node = make("active", hidden=0)
    run(node.change(Transition.TRANSITION_ACTIVATE, "active", 1.0))
    # A report that was under way when the node was configured counts as none, nor do those of a second stack.
    for state in ("unconfigured", "active", "unconfigured", "active", "unconfigured", "active"):
        now[0] += 0.5
        node.heard("", state)
        assert not node.lose()
    for _ in range(3):
        now[0] += 1.0
        node.heard("", "unconfigured")
        assert not node.lose()
    now[0] += 1.0
    node.heard("", "unconfigured")
    assert node.lose()
    assert (node.lost, node.state) == (True, "unknown")
    assert not node.lose()


def test_a_process_in_place_of_a_dead_one_is_noticed_although_it_was_asked_for_its_state_before(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(managed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    node = make("active", hidden=0)
    run(node.change(Transition.TRANSITION_ACTIVATE, "active", 1.0))
    # Another node was found gone first, and the stack is paused: each is asked for its state.
    node._waiting.label = "unconfigured"
    now[0] += 0.1
    run(node.refresh())
    assert node.state == "unconfigured"
    for _ in range(3):
        now[0] += 1.0
        node.heard("", "unconfigured")
    assert node.lose()
    # Once it is configured and counts as there again, all is as it was.
    node._waiting.label = "inactive"
    run(node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0))
    node.back()
    for _ in range(5):
        now[0] += 1.0
        node.heard("", "inactive")
        assert not node.lose()


def test_a_node_that_somebody_cleans_up_is_not_lost(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(managed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    node = make("active", hidden=0)
    run(node.change(Transition.TRANSITION_ACTIVATE, "active", 1.0))
    node._on_transition(TransitionEvent(goal_state=State(id=State.PRIMARY_STATE_UNCONFIGURED)))
    node._waiting.label = "unconfigured"
    run(node.refresh())
    for _ in range(5):
        now[0] += 1.0
        node.heard("", "unconfigured")
        assert not node.lose()


def test_a_node_that_was_lost_counts_as_there_again():
    node = make("unconfigured", hidden=0)
    node.heard("")
    node._presence.lost = True
    node.back()
    assert not node.lost


class Broken(Supervisor):
    """A supervisor with a defect in a task, and in an operation."""

    async def _resume(self):
        raise AttributeError("a defect")


def test_a_defect_in_a_task_of_the_supervisor_is_reported_and_does_not_end_the_process(domain):
    context = Context()
    initialize([], context)
    node = Broken(context=context, overrides={"node_names": ["tendon_driver"], "autostart": False})
    spinner = Spinner([node], context)
    spinner.start()
    try:

        async def fails():
            raise AttributeError("another defect")

        task = spinner.run(lambda: node._spawn(fails()))
        assert wait_for(task.done, 30.0)
        assert "another defect" in node.defect

        asked = spinner.run(lambda: node._spawn(node._asked(ManageStack.Request.RESUME)))
        assert wait_for(asked.done, 30.0)
        succeeded, message = asked.result()
        assert not succeeded
        assert "a defect" in message
        assert "resume_failed" in node.status().faults
    finally:
        spinner.stop()
        node.destroy_node()
        context.try_shutdown()


class Slow(Node):
    """A node that is active; it answers no question about its state for a while."""

    def __init__(self, context, silent_s):
        super().__init__("tendon_driver", context=context)
        self.label, self._silent_s, self.let_go = "active", silent_s, threading.Event()
        self.create_service(GetState, "~/get_state", self._get)
        self.create_service(ChangeState, "~/change_state", self._change)

    def _get(self, _request, response):
        silent_s, self._silent_s = self._silent_s, 0.0
        self.let_go.wait(silent_s)
        response.current_state.label = self.label
        return response

    def _change(self, request, response):
        assert request.transition.id == Transition.TRANSITION_DEACTIVATE
        self.label, response.success = "inactive", True
        return response


@pytest.mark.parametrize(("silent_s", "timeout_s", "paused"), [(0.8, 60.0, True), (6.0, 0.2, False)])
def test_a_driver_that_is_slow_to_answer_is_not_left_active(domain, monkeypatch, silent_s, timeout_s, paused):
    monkeypatch.setattr(managed, "ANSWER_TIMEOUT_S", 0.2)
    context = Context()
    initialize([], context)
    overrides = {"node_names": ["tendon_driver"], "autostart": False, "transition_timeout_s": timeout_s}
    node, slow = Supervisor(context=context, overrides=overrides), Slow(context, silent_s)
    monkeypatch.setattr(node, "_longest_ramp_s", lambda: 0.0)
    spinners = [Spinner([one], context) for one in (node, slow)]
    for spinner in spinners:
        spinner.start()
    try:
        assert wait_for(lambda: spinners[0].run(node._nodes["tendon_driver"]._get.service_is_ready), 30.0)
        asked = spinners[0].run(lambda: node._spawn(node._asked(ManageStack.Request.PAUSE)))
        assert wait_for(asked.done, 60.0)
        succeeded, message = asked.result()
        assert succeeded == paused
        if paused:
            assert slow.label == "inactive"
        else:
            assert "tendon_driver" in message
            assert "may be active still" in message
            assert node.stack_state == "fault"
            assert "pause_failed" in node.status().faults
    finally:
        slow.let_go.set()  # a spinner whose callback does not return is not stopped, and aborts the process at its end
        for spinner in spinners:
            spinner.stop()
        slow.destroy_node()
        node.destroy_node()
        context.try_shutdown()


def test_programs_that_ask_at_the_same_time_take_no_new_threads(domain):
    context = Context()
    initialize([], context)
    node = Supervisor(context=context, overrides={"node_names": ["tendon_driver"], "autostart": False})
    asking = Node("asking", context=context)
    spinner = Spinner([node, asking], context)
    spinner.start()
    try:
        assert wait_for(lambda: threading.active_count() >= ASKERS, 30.0)
        client = asking.create_client(ManageStack, "supervisor/manage")
        refused = ManageStack.Request(command=200)
        assert not call_service(client, refused, 30.0, 1.0).success
        before = set(threading.enumerate())
        answers = [client.call_async(refused) for _ in range(ASKERS)]
        assert wait_for(lambda: all(answer.done() for answer in answers), 30.0)
        assert set(threading.enumerate()) <= before
    finally:
        spinner.stop()
        asking.destroy_node()
        node.destroy_node()
        context.try_shutdown()
