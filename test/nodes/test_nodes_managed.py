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
from rclpy.node import Node

from continuum_robot.app.running.demo import what_latched
from continuum_robot.errors import DeviceError
from continuum_robot.nodes import supervision
from continuum_robot.nodes.base.spinning import Spinner, wait_for
from continuum_robot.nodes.base.waiting import call_service
from continuum_robot.nodes.supervision import ASKERS, Managed
from continuum_robot.nodes.supervisor import Supervisor

pytestmark = [pytest.mark.ros]


class Waits:
    """Answers at once, that a transition was made or not, None: that answer is lost; time passes by itself."""

    def __init__(self, label, made):
        self.label, self.made = label, made

    async def sleep(self, duration_s):
        pass

    async def call(self, _client, request, _timeout_s, _again_s=None):
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
        create_client=lambda _kind, _name: Client(hidden),
        subscribe_with_publisher=lambda *_args: None,
        create_timer=lambda *_args, **_options: SimpleNamespace(cancel=lambda: None),
        resolve_topic_name=str,
        get_namespace=lambda: "/",
        get_node_names_and_namespaces=lambda: [("clarke_controller", "/")],
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
    monkeypatch.setattr(supervision, "VANISHED_S", 0.02)
    node = make("inactive", hidden=10**9, made=made)
    with pytest.raises(DeviceError, match=words):
        node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0).send(None)


def test_a_node_that_is_not_there_yet_is_unknown_at_once():
    node = make("inactive", hidden=1)
    run(node.refresh())
    assert node.state == "unknown"


@pytest.fixture
def active(monkeypatch):
    """A node that is active, and time that passes by its waits."""
    now = [100.0]
    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: now[0]))
    node = make("active", hidden=0)
    node.now = now

    async def sleep(duration_s):
        now[0] += duration_s

    node._waiting.sleep = sleep
    run(node.change(Transition.TRANSITION_ACTIVATE, "active", 1.0))
    return node


def passes(node, seconds, *states):
    """So many seconds, in each of which every one of these states is reported."""
    for _ in range(seconds):
        node.now[0] += 1.0
        for state in states:
            node.heard("", state)


def judged(node):
    """Whether it is found gone."""
    if not node.seems_gone():
        return False
    with pytest.raises(StopIteration) as ended:
        node.answers().send(None)
    return not ended.value.value


def test_a_node_that_is_only_silent_answers_and_is_not_lost(active):
    passes(active, 10)
    assert active.seems_gone()
    assert not judged(active)
    assert not active.seems_gone()


def test_a_node_that_gives_no_answer_is_lost(active):
    async def call(*_arguments):
        active.now[0] += 1.0

    active._waiting.call = call
    passes(active, 10)
    assert judged(active)
    active.lose()
    assert (active.lost, active.state) == (True, "unknown")
    assert not active.seems_gone()  # said once
    active.back()
    assert not active.lost


def test_a_node_that_has_left_the_graph_is_lost_without_a_question(active):
    async def call(*_arguments):
        pytest.fail("it was asked")

    active._waiting.call, active._in_graph = call, list
    active._change.hidden = 10**9
    passes(active, 1, "active")
    assert not active.seems_gone()
    passes(active, 2, "active")
    assert judged(active)


def test_a_process_in_place_of_a_dead_one_is_found_although_its_services_never_vanish(active):
    active._waiting.label = "unconfigured"
    passes(active, 3, "unconfigured")
    assert not judged(active)
    passes(active, 1, "unconfigured")
    assert judged(active)
    active.lose()
    # Once it is configured and counts as there again, all is as it was.
    active._waiting.label = "inactive"
    run(active.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0))
    active.back()
    passes(active, 5, "inactive")
    assert not judged(active)


def test_beside_a_second_stack_of_the_same_name_a_node_that_reports_now_and_then_is_not_lost(active):
    for _ in range(5):
        passes(active, 2, "unconfigured")
        assert not active.seems_gone()
        passes(active, 1, "unconfigured", "active", "unconfigured")
    # The second one's answers come first; its own comes once.
    passes(active, 4, "unconfigured")
    answers = iter(["unconfigured", "unconfigured", "active"])

    async def call(*_arguments):
        return SimpleNamespace(current_state=SimpleNamespace(label=next(answers)))

    active._waiting.call = call
    assert active.seems_gone()
    assert not judged(active)


def test_a_node_that_somebody_cleans_up_is_not_lost(active):
    active._on_transition(TransitionEvent(goal_state=State(id=State.PRIMARY_STATE_UNCONFIGURED)))
    active._waiting.label = "unconfigured"
    run(active.refresh())
    passes(active, 5, "unconfigured")
    assert not judged(active)


class Broken(Supervisor):
    """A supervisor with a defect in a task, and in an operation."""

    async def _resume(self):
        raise AttributeError("a defect")


def test_a_defect_in_a_task_of_the_supervisor_is_reported_and_does_not_end_the_process(context):
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
def test_a_driver_that_is_slow_to_answer_is_not_left_active(context, monkeypatch, silent_s, timeout_s, paused):
    monkeypatch.setattr(supervision, "ANSWER_TIMEOUT_S", 0.2)
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


def test_a_fault_is_named_once_with_what_is_known_of_it(context):
    node = Supervisor(context=context, overrides={"node_names": ["tendon_driver"], "autostart": False})
    try:
        node._set_state("fault")
        node._driver_faults, node._last_fault = ("loop_too_slow",), "loop_too_slow"
        assert what_latched(node.status().faults, node) == "faults latched: loop_too_slow"
        node._driver.defect = "KeyError('x')"
        assert what_latched(["internal_error"], node) == "faults latched: internal_error (KeyError('x'))"
    finally:
        node.destroy_node()


def test_programs_that_ask_at_the_same_time_take_no_new_threads(context):
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
