# SPDX-License-Identifier: Apache-2.0
"""What one callback raises refuses that request, or is a defect of its node alone, which a reset heals."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, Shape, TendonStates
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from robot_files import robot_file
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base import parameters
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import Spinner, wait_for
from continuum_robot.nodes.base.waiting import call_service
from continuum_robot.nodes.clarke_controller import ClarkeControllerNode
from continuum_robot.nodes.contact_monitor import ContactMonitorNode
from continuum_robot.nodes.reference_source import ReferenceSource
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.flat_messages import FlatLayout
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.robot import doors
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")


def raising(error):
    def callback(*_arguments, **_named):
        raise error

    return callback


def test_an_error_of_this_project_in_a_callback_is_a_refusal(make):
    node = make(ManagedNode, "one")
    node.guarded(raising(ParameterError("pretension_n", 3.0, "less")))(Float64())
    assert node.defect == ""


def test_a_problem_of_a_coroutine_ends_with_its_next_success(make):
    node = make(ManagedNode, "one")
    answers = iter([ParameterError("pretension_n", 3.0, "less"), None])

    async def callback():
        error = next(answers)
        if error is not None:
            raise error

    guarded = node.guarded(callback)
    asyncio.run(guarded())
    assert list(node.problems) == [callback]
    asyncio.run(guarded())
    assert node.problems == {}


def test_an_exception_in_a_callback_is_a_defect_of_its_node_until_that_is_configured_again(make):
    node, other = make(ManagedNode, "one"), make(ManagedNode, "other")
    node.trigger_configure()
    spinner = Spinner([node, other], node.context, on_failure=other.on_defect)
    spinner.start()
    try:
        spinner.run(lambda: node.create_service(Trigger, "fails", raising(ValueError("a defect"))))
        spinner.run(lambda: node.create_timer(0.01, raising(KeyError("another"))))
        client = other.create_client(Trigger, "fails")
        answer = call_service(client, Trigger.Request(), 30.0, again_s=1.0)
        assert not answer.success
        assert "a defect" in answer.message
        assert wait_for(lambda: "another" in node.defect, 30.0)
        assert not spinner.failed
        assert other.defect == ""
    finally:
        spinner.stop()
    node.trigger_cleanup()
    node.trigger_configure()
    assert node.defect == ""


# A controller of another package


class Own:
    """All that docs/how-to/extending.md asks for."""

    def __init__(self, robot):
        self.count = robot.tendon_count

    def reset(self, reading, tension, reference):
        pass

    def update(self, reading, reference, dt):
        return np.full(self.count, 2.0)


class Picky(Own):
    def ask_pretension(self, pretension_n):
        raise KeyError(pretension_n)

    def set_settings(self, settings):
        raise RuntimeError("not these")


@pytest.mark.parametrize("law", [Own, Picky])
def test_what_an_own_controller_does_not_take_is_refused_before_it_is_taken(make, tmp_path, monkeypatch, law):
    offered = {doors.CONTROLLERS: [SimpleNamespace(name="own", value="", load=lambda: law)]}
    monkeypatch.setattr(doors, "entry_points", lambda *, group: offered.get(group, []))
    node = make(ClarkeControllerNode, robot=robot_file(tmp_path, {"control.law": "own"}))
    node.configure()
    before = node.parameters.get("pretension_n")
    gain = next(name for name in node._settings.leaves if name.endswith(".p"))
    for name, value in (("pretension_n", before + 1.0), (gain, 7.0)):
        result = node.set_parameters_atomically([Parameter(name, value=value)])
        assert not result.successful
        assert law.__name__ in result.reason
        assert node.parameters.get(name) != value
    node._on_tension_reference(Float64(data=before + 1.0))
    assert law.__name__ in node._problem
    assert node.defect == ""


# Messages of another size


def shape_message(size, **fields):
    message = Shape(coefficients=[0.0] * size, coefficient_rates=[0.0] * size, covariance=np.eye(size).ravel() * 1e-6)
    for name, value in fields.items():
        setattr(message, name, value)
    return message


@pytest.fixture
def monitor(make):
    node = make(ContactMonitorNode)
    node.configure()
    monitor = node.component
    monitor.settled = monitor.was_settled = True
    monitor.tensions.append((0, np.full(ROBOT.tendon_count, 3.0), np.zeros(ROBOT.tendon_count)))
    return monitor


@pytest.mark.parametrize("field", ["coefficients", "coefficient_rates", "covariance"])
def test_a_shape_of_another_size_is_refused_and_the_next_one_is_used(monitor, field):
    size = monitor.size
    monitor.work(shape_message(size, **{field: [0.0] * 3}))
    assert monitor.counts["inputs_of_another_size"] == 1
    assert monitor.host.defect == ""
    monitor.work(shape_message(size))
    assert monitor.counts["updates"] == 1


def test_a_defect_of_the_contact_monitor_latches_invalid_and_a_reset_heals_it(monitor, monkeypatch):
    message = shape_message(monitor.size)
    with monkeypatch.context() as patch:
        patch.setattr(monitor, "_take", raising(ZeroDivisionError("a defect")))
        monitor.work(message)
    assert "a defect" in monitor.host.defect
    assert monitor.estimate.state == "invalid"
    monitor.work(message)  # it goes on
    assert monitor.estimate.state == "invalid"
    assert monitor.restart(Trigger.Request())
    monitor.work(message)
    assert monitor.host.defect == ""
    assert monitor.estimate.state == "clear"


def test_states_of_another_size_are_refused_by_the_shape_estimator(make):
    node = make(ShapeEstimatorNode)
    node.configure()
    node.activate()
    count, see_states = ROBOT.tendon_count, partial(node._call, node.kind.states)
    for name in ("displacement", "velocity", "tension"):
        states = TendonStates(displacement=[0.0] * count, velocity=[0.0] * count, tension=[3.0] * count)
        setattr(states, name, [0.0] * (count + 1))
        node.problems.clear()
        node.component.thinning = Thinning()
        see_states(states)
        assert node.problems["states"].startswith(f"tendon_states has {count + 1} tendons")
    assert node.component.estimated == 0


# Too many requests


def test_a_node_takes_so_many_changes_of_parameters_a_second(make, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(parameters, "time", SimpleNamespace(monotonic=lambda: now[0]))
    node = make(ContactMonitorNode)
    budget = node.parameters._budget

    def taken(count):
        changes = [[Parameter("rate_hz", value=50.0 + number % 7)] for number in range(count)]
        return [node.set_parameters_atomically(change).successful for change in changes]

    assert sum(taken(2 * budget.at_once)) == budget.at_once
    result = node.set_parameters_atomically([Parameter("rate_hz", value=90.0)])
    assert "changes of parameters a second" in result.reason
    assert node.parameters.get("rate_hz") != 90.0
    now[0] += 0.5
    assert sum(taken(budget.at_once)) == round(0.5 * budget.per_s)


def test_of_many_tension_references_the_newest_is_handed_on(make):
    node = make(ClarkeControllerNode)
    node.configure()
    asked = []
    node._ask_pretension = asked.append
    for value in (3.0, 3.1, 3.2, 3.3):
        node._on_tension_reference(Float64(data=value))
    assert asked == [3.0]
    node._hand_pretension_on()  # as its timer does
    assert asked == [3.0, 3.3]
    node._hand_pretension_on()
    assert node._pretension_timer.is_canceled()


# Bytes that are no message


def test_bytes_that_are_no_message_are_none():
    message = ClarkeState(position=[1.0])
    assert conversions.message_of(serialize_message(message), ClarkeState) == message
    for data in (b"", b"\0\1\0\0", b"\xff" * 40, serialize_message(message)[:20]):
        assert conversions.message_of(data, ClarkeState) is None
        with pytest.raises(ParameterError):
            FlatLayout(message).message(data)


def test_a_reference_source_goes_on_after_a_state_that_cannot_be_read(make):
    node = make(ReferenceSource)
    node.configure()
    node.activate()
    count, source = ROBOT.coordinate_count, node.component
    for data in (b"\xff" * 40, serialize_message(ClarkeState(position=[0.0] * (count + 1)))):
        source.see_measurement(data)
        assert source._measured_now(node.clock.monotonic_s()) is None
        source.publish()
    source.see_measurement(serialize_message(ClarkeState(position=[0.0] * count)))
    source.publish()
    assert source.message.sequence == 1
