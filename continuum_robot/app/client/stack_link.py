# SPDX-License-Identifier: Apache-2.0
"""What a program needs to steer a running stack: services, newest messages, and the turn to write references."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from continuum_robot.app.domain import absolute_namespace
from continuum_robot.app.newest_messages import NewestMessages
from continuum_robot.app.reference_writer import ReferenceWriter
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import DeviceError, ParameterError, RobotFaultError, RobotTimeoutError
from continuum_robot.msg import ClarkeState, Contact, Shape, StackStatus, TendonStates, TipState
from continuum_robot.nodes import qos
from continuum_robot.nodes.calling import AGAIN_S, action_client, call_service
from continuum_robot.nodes.spinning import dds_error, initialize, wait_for
from continuum_robot.srv import ManageStack, SwitchController, TakeReference

Vector = NDArray[np.float64]

SOURCE = "reference_source"
CALL_TIMEOUT_S = 10.0
OPERATION_TIMEOUT_S = 120.0
REFERENCE_PERIOD_S = 0.01
POLL_S = 0.01
MATCH_S = 0.2
"""A goal is not sent twice, so the server is given this time to find the new client's readers before it answers, s."""
LONGEST_SILENCE_S = 3.0
"""After so long without a state of the tendons a motion is given up, s: the stack is gone, or the network to it."""

_TOPICS = {
    "tendon_states_decimated": TendonStates,
    "clarke_state": ClarkeState,
    "clarke_reference": ClarkeState,
    "shape": Shape,
    "contact": Contact,
    "tip_state": TipState,
    "stack_status": StackStatus,
    "driver_status": DiagnosticStatus,
    "reference_writer": String,
}
_LATCHED = ("stack_status", "driver_status", "reference_writer")
_numbers = itertools.count(1)


class StackLink:
    """Two nodes beside a stack: one that asks and answers, and one that keeps the newest messages.

    Parameters
    ----------
    namespace : of the stack, "" for none
    name : of the node, and as writer of references; a number is put behind it

    Attributes
    ----------
    name : of the node
    messages : the newest of each topic

    Raises
    ------
    DeviceError : DDS cannot be joined
    """

    def __init__(self, namespace: str = "", name: str = "robot_client") -> None:
        self.namespace = absolute_namespace(namespace)
        self.name = f"{name}_{os.getpid()}_{next(_numbers)}"
        self.context = Context()
        initialize([], self.context)
        try:
            self.node = Node(
                self.name,
                context=self.context,
                namespace=self.namespace,
                start_parameter_services=False,
                enable_rosout=False,
            )
            profiles = {topic: qos.latched() for topic in _LATCHED}
            self.messages = NewestMessages(self.context, self.namespace, f"{self.name}_listener", _TOPICS, profiles)
        except Exception as error:
            self.context.try_shutdown()
            raise dds_error(error) from error
        self._references = ReferenceWriter(self.node)
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        # Services come and go while it spins, which the EventsExecutor does not take well; there is little to spin.
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, name=self.name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave DDS. Safe to call twice."""
        if not self.context.ok():
            return
        self._executor.shutdown()
        self._thread.join(5.0)
        self.messages.close()
        self.node.destroy_node()
        self.context.try_shutdown()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except (ExternalShutdownException, RuntimeError):
            return  # closed

    # State

    def check_up(self) -> None:
        """Raises RobotFaultError where the stack is at fault."""
        status = self.messages["stack_status"]
        if status is None:
            return
        if status.estop:
            raise RobotFaultError("robot", "the e-stop is latched", "Remove the cause, then call reset()")
        if status.state == "fault" or status.faults:
            faults = ", ".join(status.faults) or status.last_fault or "a node failed"
            raise RobotFaultError("robot", f"at fault: {faults}", "Remove the cause, then call reset()")

    def check_heard(self) -> None:
        """Raises RobotTimeoutError where the states of the tendons have ended: what is known of the robot is old."""
        if self.messages["tendon_states_decimated"] is None:
            return  # it never was heard: who waits for that has a timeout
        silent_s = self.messages.silent_s("tendon_states_decimated")
        if silent_s > LONGEST_SILENCE_S:
            raise RobotTimeoutError(
                "robot",
                f"was not heard for {silent_s:.0f} s",
                "It holds where it heard this program last; see that the network is joined and the stack runs, "
                "then ask for the motion again",
            )

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, failure: str) -> None:
        """Wait for something while the stack is not at fault.

        Parameters
        ----------
        condition : whether it has come
        failure : what the robot did not do, where it does not come

        Raises
        ------
        RobotFaultError : the stack is at fault
        RobotTimeoutError : it did not come
        """
        end_s = time.monotonic() + timeout_s
        while not condition():
            self.check_up()
            if time.monotonic() > end_s:
                raise RobotTimeoutError("robot", f"{failure} after {timeout_s:g} s", "See the log of the stack")
            time.sleep(POLL_S)

    # Questions and answers

    def call(
        self,
        kind: Any,
        service: str,
        request: Any = None,
        timeout_s: float = CALL_TIMEOUT_S,
        again_s: float | None = AGAIN_S,
    ) -> Any:
        """Call a service and wait for its response.

        Parameters
        ----------
        kind : type of the service
        service : name, relative to the namespace
        request : None for an empty one
        timeout_s : for the service to appear, and again for its response, s
        again_s : ask again after so long, s; None where to be asked twice does harm

        Raises
        ------
        RobotTimeoutError : it is not there, or does not answer
        """
        with self._lock:
            client = self._clients.get(service)
            if client is None:
                client = self._clients[service] = self.node.create_client(kind, service)
        return call_service(client, request or kind.Request(), timeout_s, again_s)

    def trigger(self, service: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Call a std_srvs/Trigger, and return its message.

        Parameters
        ----------
        service : its name

        Raises
        ------
        DeviceError : it refused, with its reason
        """
        return self.ask(service, Trigger, None, timeout_s)

    def ask(
        self,
        service: str,
        kind: Any,
        request: Any,
        timeout_s: float = CALL_TIMEOUT_S,
        again_s: float | None = AGAIN_S,
    ) -> str:
        """Call a service that answers with success and message, and return its message.

        Parameters
        ----------
        service, kind, request, timeout_s, again_s : as of :meth:`call`

        Raises
        ------
        DeviceError : it refused, with its reason
        """
        return _accepted(service, self.call(kind, service, request, timeout_s, again_s))

    def switch_controller(self, controller: str = "") -> str:
        """Switch to another controller, or ask which one commands. Returns what the driver said. Raises DeviceError.

        Parameters
        ----------
        controller : its name; empty: only ask
        """
        return self.ask("switch_controller", SwitchController, SwitchController.Request(controller=controller))

    def manage(self, command: int, timeout_s: float = OPERATION_TIMEOUT_S) -> str:
        """Have the supervisor operate the stack: a constant of ManageStack.Request. Raises DeviceError.

        Parameters
        ----------
        command : which operation
        """
        request = ManageStack.Request(command=command)
        response = self.call(ManageStack, "manage_stack", request, timeout_s, again_s=None)
        return _accepted("supervisor", response)

    def run_action(self, kind: Any, name: str, goal: Any, timeout_s: float) -> Any:
        """Run an action to its end, and return its result; it is cancelled where that takes too long or the wait is
        interrupted.

        Parameters
        ----------
        kind : type of the action
        goal : the goal's message

        Raises
        ------
        DeviceError : there is no server, it refused, or it failed
        RobotTimeoutError : it took too long
        """
        with action_client(self.node, kind, name) as client:
            if not wait_for(client.server_is_ready, CALL_TIMEOUT_S):
                raise RobotTimeoutError(name, "is not there", "Is the stack running?")
            handle = self.wait_for_future(client.send_goal_async(goal), CALL_TIMEOUT_S, name)
            if not handle.accepted:
                raise DeviceError(name, "was refused", "The driver's log says why")
            try:
                result = self.wait_for_future(handle.get_result_async(), timeout_s, name).result
            except BaseException:
                handle.cancel_goal_async()
                raise
        if not result.success:
            raise DeviceError(name, result.message.rstrip("."), "Remove the cause and try again")
        return result

    def wait_for_future(self, future: Future[Any], timeout_s: float, what: str) -> Any:
        """The result of a future that this node's executor completes. Raises RobotTimeoutError.

        Parameters
        ----------
        what : is waited for, for the error
        """
        done = threading.Event()
        future.add_done_callback(lambda _future: done.set())
        if not done.wait(timeout_s):
            raise RobotTimeoutError(what, f"did not answer within {timeout_s:g} s", "Look at the log of its node")
        return future.result()

    def get_parameter(self, node: str, name: str) -> Any:
        """Value of a node's parameter; None where it is not declared. Raises RobotTimeoutError."""
        response = self.call(GetParameters, f"{node}/get_parameters", GetParameters.Request(names=[name]))
        return parameter_value_to_python(response.values[0]) if response.values else None

    def set_parameters(self, node: str, values: Mapping[str, Any]) -> None:
        """Set parameters of a node, all or none.

        Parameters
        ----------
        values : new value by the parameter's name

        Raises
        ------
        ParameterError : refused, with the node's reason
        RobotTimeoutError : the node does not answer
        """
        parameters = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        request = SetParametersAtomically.Request(parameters=parameters)
        result = self.call(SetParametersAtomically, f"{node}/set_parameters_atomically", request).result
        if not result.successful:
            raise ParameterError(node, dict(values), result.reason)

    # References

    @property
    def writer(self) -> str:
        """Who writes clarke_reference, as the reference source says; "" where there is none."""
        message = self.messages["reference_writer"]
        return "" if message is None else str(message.data)

    def take_reference(self) -> None:
        """Have everybody else fall silent on clarke_reference. Raises DeviceError where that is refused."""
        request = TakeReference.Request(writer=self.name)
        _accepted(SOURCE, self.call(TakeReference, f"{SOURCE}/take", request))
        self._wait_for_writer(self.name)

    def give_back(self) -> None:
        """Have the reference source write again: it holds where the last reference stopped. Raises DeviceError."""
        _accepted(SOURCE, self.call(TakeReference, f"{SOURCE}/take", TakeReference.Request()))
        self._wait_for_writer(SOURCE)

    def end_turn(self) -> None:
        """Give the reference back, unless another program has taken it meanwhile. Raises DeviceError."""
        if self.writer == self.name:
            self.give_back()

    def hold(self, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Have the reference source come to rest where the reference is, and write it. Raises DeviceError."""
        self.trigger(f"{SOURCE}/hold", timeout_s)

    def restart(self) -> None:
        """Have the reference source play its trajectory from the beginning, blended in. Raises DeviceError."""
        self.trigger(f"{SOURCE}/restart")

    def forget_before(self) -> None:
        """After a bring-up: only what the stack says from now on counts, not where the reference stood before."""
        for topic in ("stack_status", "clarke_reference"):
            self.messages.forget(topic)

    def _wait_for_writer(self, name: str) -> None:
        if not wait_for(lambda: self.writer == name, CALL_TIMEOUT_S):
            raise RobotTimeoutError(SOURCE, f"did not announce that {name} writes", "Another program took its turn")

    def check_turn(self) -> None:
        """Raises RobotFaultError where another program writes the references meanwhile."""
        writer = self.writer
        if writer != self.name:
            raise RobotFaultError("reference", f"{writer or 'nobody'} writes clarke_reference now", "Take it again")

    def publish_reference(self, reference: ClarkeReference) -> None:
        """Publish on clarke_reference, stamped now."""
        self._references.write(reference)

    def publish_tip_target(self, place_m: Vector) -> None:
        """Ask for the tip at a place, base frame, shape (3,), m. Raises RobotTimeoutError where nobody listens.

        Parameters
        ----------
        place_m : base frame, shape (3,), m
        """
        if not wait_for(lambda: self._references.tip_is_listened_to, CALL_TIMEOUT_S):
            raise RobotTimeoutError("tip_target", "has no listener", "No node of this stack brings the tip to a target")
        self._references.write_tip_target(place_m)


def _accepted(what: str, response: Any) -> str:
    if not response.success:
        problem = str(response.message).rstrip(".") or "it did not say why"
        raise DeviceError(what, problem, "Remove the cause and try again")
    return str(response.message)
