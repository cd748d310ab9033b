# SPDX-License-Identifier: Apache-2.0
"""A component is made at configure and dropped at cleanup; what it raises is its own, and ends with it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from rclpy.parameter import Parameter
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.spinning import Spinner, wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.schema import quantity

pytestmark = [pytest.mark.ros]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    rate_hz: float = quantity("how often it is read", "Hz", default=100.0, ge=1, le=1000)
    gain: float = quantity("of what is read", default=2.0, ge=0, le=10, live=True)


class Scale(node.Component):
    name, about = "scale", "scale"
    parameters = Parameters()
    values = node.output(Float64, "scaled")
    numbers = node.heard(Float64, "number", node.plain, profile=qos.newest_state())
    ask = node.service(Trigger, "~/ask")
    read = node.Loop("rate_hz")
    tick = node.timer()

    error: Exception | None = None
    ticks = 0
    opened: list[str] = []  # noqa: RUF012 - of the class: it outlives the object

    def __init__(self, host, robot):
        super().__init__(host, robot)
        self.taken, self.changes = [], []
        self.opened.append("device")
        host.closing.callback(self.opened.clear)
        if robot.name != "opencr_five_tendon":
            raise node.NothingToDoError("nothing to weigh")
        if self.parameters.gain == 0:
            raise ParameterError("gain", 0.0, "more")

    def parameters_changed(self, names=()):
        self.changes.append((sorted(names), self.parameters.gain))

    @numbers
    def take(self, message):
        if self.error is not None:
            raise self.error
        if message.data < 0:
            return node.SKIPPED
        self.taken.append(self.parameters.gain * message.data)
        return None

    @ask
    def answer(self, _request):
        if not self.taken:
            raise DeviceError("scale", "is empty", "Put something on it")
        return f"{self.taken[-1]:g}"

    @tick
    def count(self):
        self.ticks += 1

    @read
    def cycle(self, _now_s, _elapsed_s):
        if self.error is not None:
            raise self.error


@pytest.fixture
def scale(make):
    return make(node.as_node(Scale), clock="lockstep")


def hear(scale, value):
    (subscription,) = [one for one in scale.subscriptions if one.topic_name == "/number"]
    subscription.callback(Float64(data=float(value)))


def answer(scale):
    (service,) = [one for one in scale.services if one.srv_name.endswith("/ask")]
    return service.callback(Trigger.Request(), Trigger.Response())


def status(scale):
    return scale.diagnostics.status("scale")


def test_it_is_made_at_configure_and_dropped_at_cleanup(scale):
    hear(scale, 1)
    assert answer(scale).message == "refused: configure the scale first"
    assert scale.component is None
    scale.trigger_configure()
    first = scale.component
    hear(scale, 3)
    assert first.taken == [6.0]
    assert (answer(scale).success, answer(scale).message) == (True, "6")
    assert Scale.opened
    scale.trigger_cleanup()
    assert not Scale.opened
    scale.trigger_configure()
    assert scale.component is not first
    assert scale.component.taken == []


def test_what_it_opened_is_closed_where_its_constructor_raises(make):
    scale = make(node.as_node(Scale), gain=0.0)
    scale.trigger_configure()
    assert scale.state == "unconfigured"
    assert "gain" in scale.last_error
    assert not Scale.opened


def test_a_robot_for_which_there_is_nothing_to_do_makes_none(make):
    scale = make(node.as_node(Scale), robot="rolling_five_link")
    scale.trigger_configure()
    scale.trigger_activate()
    assert scale.state == "active"
    assert (scale.component, status(scale).message) == (None, "nothing to weigh")


def test_parameters_are_a_dataclass_and_change_as_a_whole(scale):
    scale.trigger_configure()
    assert scale.set_parameters([Parameter("gain", value=3.0)])[0].successful
    assert scale.component.changes == [(["gain"], 3.0)]
    assert "read-only" in scale.set_parameters([Parameter("rate_hz", value=3.0)])[0].reason
    assert not scale.set_parameters([Parameter("gain", value=11.0)])[0].successful
    assert scale.component.parameters == Parameters(gain=3.0)


def test_an_error_of_ours_is_a_problem_until_the_next_success(scale):
    scale.trigger_configure()
    scale.component.error = DeviceError("scale", "is tilted", "Level it")
    hear(scale, 1)
    assert "is tilted" in status(scale).message
    assert scale.defect == ""
    scale.component.error = None
    hear(scale, -1)  # left out
    assert "is tilted" in status(scale).message
    hear(scale, 1)
    assert status(scale).message != ""
    assert "is tilted" not in status(scale).message


def test_the_refusal_of_a_service_is_its_callers_alone(scale):
    scale.trigger_configure()
    assert "is empty" in answer(scale).message
    assert "is empty" not in status(scale).message


def test_a_defect_makes_it_deaf_until_it_is_made_anew(scale):
    scale.trigger_configure()
    scale.component.error = ZeroDivisionError("a defect")
    hear(scale, 1)
    assert "a defect" in scale.defect
    scale.component.error = None
    hear(scale, 1)
    assert scale.component.taken == []
    assert "a defect" in answer(scale).message
    assert int.from_bytes(status(scale).level, "little") == 2
    scale.trigger_activate()
    assert scale.state == "inactive"
    scale.trigger_cleanup()
    scale.trigger_configure()
    hear(scale, 1)
    assert (scale.defect, scale.component.taken) == ("", [2.0])


def test_errors_of_a_loop_are_counted_and_end_it_not(make):
    scale = make(node.as_node(Scale))
    scale.trigger_configure()
    scale.component.error = DeviceError("scale", "is tilted", "Level it")

    def errors():
        return int({item.key: item.value for item in status(scale).values}["read_errors"])

    assert wait_for(lambda: errors() > 2, 30.0)
    assert "is tilted" in scale.problems["read"]
    scale.component.error = None
    assert wait_for(lambda: not scale.problems, 30.0)


def test_a_timer_calls_its_method_with_nothing(make):
    scale = make(node.as_node(Scale))
    scale.trigger_configure()
    spinner = Spinner([scale], scale.context)
    spinner.start()
    try:
        spinner.run(lambda: scale.component.tick.start(0.01))
        assert wait_for(lambda: scale.component.ticks or scale.defect, 30.0)
        assert scale.defect == ""
    finally:
        spinner.stop()
