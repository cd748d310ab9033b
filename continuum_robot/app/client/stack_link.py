# SPDX-License-Identifier: Apache-2.0
"""What a program needs to steer a running stack: services, newest messages, and the turn to write references.

Names
-----
kind : type of message, service or action
topic, service : name, relative to the namespace
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import QoSProfile
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from continuum_robot.action import LearnFloor
from continuum_robot.app.client.newest_messages import NewestMessages
from continuum_robot.app.client.state import RobotState, state_of
from continuum_robot.app.running.domain import absolute_namespace
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import DeviceError, ParameterError, RobotFaultError, RobotTimeoutError
from continuum_robot.msg import ClarkeState, Contact, DriverStatus, Shape, StackStatus, TendonStates, TipState
from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.base.spinning import Spinner, dds_error, initialize, wait_for
from continuum_robot.nodes.base.waiting import AGAIN_S, action_client, call_service
from continuum_robot.nodes.recordings.mcap_file import EPISODE
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.base_stage import AXES
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.srv import ManageStack, SwitchController, TakeReference

Vector = NDArray[np.float64]

SOURCE = "reference_source"
STAGE_STATE, STAGE_STATUS = "base_stage/state", "base_stage/status"
TIP_TARGET, PREDICTIVE_TARGET = "tip_target", "predictive_target"
TARGETS = {
    TIP_TARGET: "its robot has no tip control",
    PREDICTIVE_TARGET: "start it with predictive, as up --predictive does",
}
"""Topics of targets of the tip, and why nobody may listen."""
DIAGNOSTICS = "/diagnostics"
CALL_TIMEOUT_S = 10.0
ESTOP_TIMEOUT_S = 1.0
"""For the service ``estop`` to appear, and again for its answer, s; then the topic is used."""
OPERATION_TIMEOUT_S = 120.0
REFERENCE_PERIOD_S = 0.01
POLL_S = 0.01
LONGEST_SILENCE_S = 3.0
"""After so long without a state of the tendons a motion is given up, s: the stack is gone, or the network to it."""

_TOPICS: dict[str, tuple[Any, QoSProfile]] = {
    "tendon_states_decimated": (TendonStates, qos.newest_state()),
    "clarke_state": (ClarkeState, qos.newest_state()),
    "clarke_reference": (ClarkeState, qos.newest_state()),
    "shape": (Shape, qos.newest_state()),
    "contact": (Contact, qos.newest_state()),
    "tip_state": (TipState, qos.newest_state()),
    "stack_status": (StackStatus, qos.latched()),
    "driver_status": (DriverStatus, qos.latched()),
    "reference_writer": (String, qos.latched()),
    EPISODE: (String, qos.latched()),
    STAGE_STATE: (JointState, qos.newest_state()),
    STAGE_STATUS: (DiagnosticStatus, qos.latched()),
    "simulated_contact": (Contact, qos.newest_state()),
    "obstacles": (MarkerArray, qos.latched()),
    DIAGNOSTICS: (DiagnosticArray, qos.events()),
}
STATE_TOPICS = tuple(_TOPICS)[:12]
"""What the state of a robot is made of, but for what only the page shows."""
ALL_TOPICS = tuple(_TOPICS)


class StackLink:
    """Two nodes beside a stack: one that asks and answers, and one that keeps the newest messages.

    Parameters
    ----------
    namespace : of the stack, "" for none
    name : of the node, and as writer of references
    topics : that :attr:`messages` keeps, of :data:`ALL_TOPICS`
    context : of rclpy, whose owner shuts it down; None: one of its own
    numbered : a random number stands behind the name. References are admitted by the writer's name, and neither a
        program's name nor its process id is unique: two containers have the same
    listens_only : the node that asks and writes is made when it is first needed
    services : types by name, of which the clients are made at once: then no call waits for its service to appear

    Attributes
    ----------
    name : of the node
    messages : the newest of each topic

    Raises
    ------
    DeviceError : DDS cannot be joined
    """

    def __init__(
        self,
        namespace: str = "",
        name: str = "robot_client",
        *,
        topics: Iterable[str] = STATE_TOPICS,
        context: Context | None = None,
        numbered: bool = True,
        listens_only: bool = False,
        services: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.namespace = absolute_namespace(namespace)
        self.name = f"{name}_{uuid.uuid4().hex[:12]}" if numbered else name
        self._owns_context, self.closed = context is None, False
        self.context = Context() if context is None else context
        if context is None:
            initialize([], self.context)
        self._lock = threading.Lock()
        self._asking: Node | None = None
        self._references: Any = None
        self._switch: Any = None
        self._stage: Any = None
        self._switch_pressed = False
        self._tip_targets: dict[str, Any] = {}
        self._sequence = 0
        self._clients: dict[str, Any] = {}
        self._waits_for_servers = not services
        self._spinner: Spinner | None = None
        self._driver = f"{self.namespace.rstrip('/')}/tendon_driver: "
        self._driver_values: dict[str, str] = {}
        self._driver_reports = 0
        try:
            self.messages = NewestMessages(self._node(f"{self.name}_listener"))
            for topic in topics:
                self.messages.listen(topic, *_TOPICS[topic])
            if not listens_only:
                _ = self.node
            for service, kind in services.items():
                self.client(kind, service)
        except Exception as error:
            self.close()
            raise dds_error(error) from error

    @property
    def node(self) -> Node:
        """The node that asks and writes; its executor is another thread."""
        with self._lock:
            if self._asking is None:
                self._asking = node = self._node(self.name)
                # As lock-step wants it; who listens in real time hears it as well.
                self._references = node.create_publisher(ClarkeState, "clarke_reference", qos.latched())
                self._switch = node.create_publisher(Bool, "estop", qos.latched())
                self._stage = node.create_publisher(JointState, "base_stage/command", qos.latched())
                for topic in TARGETS:
                    self._tip_targets[topic] = node.create_publisher(PointStamped, topic, qos.command_publisher())
                self._spinner = Spinner([node], self.context)
                self._spinner.start()
            return self._asking

    def _node(self, name: str) -> Node:
        return Node(
            name, context=self.context, namespace=self.namespace, cli_args=[],
            start_parameter_services=False, enable_rosout=False,
        )  # fmt: skip

    def close(self) -> None:
        """Leave DDS. Safe to call twice."""
        if not self.context.ok() or self.closed:
            return
        self.closed = True
        if self._spinner is not None and self._asking is not None:
            self._spinner.stop()
            self._asking.destroy_node()
        if "messages" in vars(self):
            self.messages.close()
        if self._owns_context:
            self.context.try_shutdown()

    @property
    def failed(self) -> bool:
        """Whether a callback of the node that asks ended its executor."""
        return self._spinner is not None and self._spinner.failed

    def make(self, function: Callable[[], Any]) -> Any:
        """Make or destroy something of :attr:`node`, in its executor's thread: the EventsExecutor does not take it
        well when entities come and go while it looks at them.

        Parameters
        ----------
        function : does it; its result is returned
        """
        _, spinner = self.node, self._spinner
        return function() if spinner is None else spinner.run(function)

    def listen(self, kind: Any, topic: str, take: Callable[[Any], None], profile: QoSProfile | None = None) -> None:
        """Have every message of a topic taken by a function, in the executor's thread.

        Parameters
        ----------
        take : gets each message
        profile : quality of service, None for a queue of every message
        """
        self.make(lambda: self.node.create_subscription(kind, topic, take, profile or qos.every_state()))

    @contextlib.contextmanager
    def publisher(self, kind: Any, topic: str, profile: QoSProfile | None = None) -> Iterator[Any]:
        """A publisher, while the block lasts.

        Parameters
        ----------
        profile : quality of service, None for that of commands
        """
        made = self.make(lambda: self.node.create_publisher(kind, topic, profile or qos.command_publisher()))
        try:
            yield made
        finally:
            self.make(lambda: self.node.destroy_publisher(made))

    # State

    def state(
        self, robot: RobotDescription | None = None, *, fresh_s: float = math.inf, status_fresh_s: float = math.inf
    ) -> RobotState:
        """The newest of everything that is known, at once.

        Parameters
        ----------
        robot : of the stack: what is unknown gets its sizes and NaN; None: is empty
        fresh_s : coordinates, reference and contact count as unknown when taken longer ago, s
        status_fresh_s : the same of the supervisor's status, s
        """
        loop = self.driver_values() if DIAGNOSTICS in self.messages else {}
        return state_of(self.messages, loop, robot, fresh_s, status_fresh_s)

    def driver_values(self) -> dict[str, str]:
        """What the driver reports on /diagnostics, by key, of all its statuses; empty before the first."""
        with self._lock:
            for message in self.messages.drain(DIAGNOSTICS):
                own = [status for status in message.status if status.name.startswith(self._driver)]
                for status in own:
                    self._driver_values |= values_of(status)
                self._driver_reports += bool(own)
            return self._driver_values

    def wait_for_driver_values(self, timeout_s: float) -> bool:
        """Whether the driver reported its numbers once more within a time."""

        def reports() -> int:
            self.driver_values()
            return self._driver_reports

        before = reports()
        return wait_for(lambda: reports() > before, timeout_s)

    def check_up(self) -> None:
        """Raises RobotFaultError where the stack is at fault."""
        state = self.state()
        if state.estop:
            raise RobotFaultError("robot", "the e-stop is latched", "Remove the cause, then call reset()")
        if state.stack == "fault" or state.faults:
            faults = ", ".join(state.faults) or state.last_fault or "a node failed"
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
        DeviceError : the link was closed, also while this call waited
        """
        closed = DeviceError(service, "cannot be asked: the link to the stack is closed", "Make another")
        if self.closed:
            raise closed
        try:
            client = self.client(kind, service)
            if not self._waits_for_servers and not client.service_is_ready():
                raise RobotTimeoutError(client.srv_name, "is served by no node", "Is the stack up, and its namespace?")
            return call_service(client, request or kind.Request(), timeout_s, again_s)
        except InvalidHandle as error:  # it asks again, and the client went meanwhile
            if not self.closed:
                raise
            raise closed from error

    def client(self, kind: Any, service: str) -> Any:
        """The client of a service, made where there is none yet: its server is found a moment later."""

        def make() -> None:  # one after the other: all in one thread
            if service not in self._clients:
                self._clients[service] = self.node.create_client(kind, service)

        if service not in self._clients:
            self.make(make)
        return self._clients[service]

    def estop(self) -> str:
        """Latch the driver's e-stop; where its service gives no answer within a second, press the topic ``estop``.

        Returns
        -------
        the driver's answer; or a sentence for the operator: nothing confirms that the robot stops
        """
        try:
            return self.trigger("estop", ESTOP_TIMEOUT_S)
        except RobotTimeoutError as error:
            self.hold_estop(True)
            problem = str(error).rstrip(".")
        return f"not confirmed, sent on the topic estop as well: {problem}. Use the hardware's stop if the robot moves"

    def hold_estop(self, pressed: bool) -> None:
        """Press or let go the topic ``estop``, which the driver obeys as it does the service.

        Parameters
        ----------
        pressed : until it is let go the e-stop cannot be reset
        """
        _ = self.node
        self._switch_pressed = pressed
        self._switch.publish(Bool(data=pressed))

    def release_own_estop(self) -> None:
        """Let the topic ``estop`` go if this program pressed it; call it before a reset."""
        if self._switch_pressed:
            self.hold_estop(False)

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

    def mark_episode(self, mark: str) -> str:
        """Have the recorder mark an episode of a data set, and return its sentence.

        Parameters
        ----------
        mark : ``begin``, ``end``, which keeps it, or ``discard``

        Raises
        ------
        DeviceError : nothing is recorded, or no episode is under way
        RobotTimeoutError : there is no recorder
        """
        services = {one: f"recorder/{one}_episode" for one in ("begin", "end", "discard")}
        return self.ask(services[mark], Trigger, None, again_s=None)

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
        """Switch to another controller, or ask which one commands. Returns the driver's answer. Raises DeviceError.

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
        if command == ManageStack.Request.RESET:
            self.release_own_estop()
        request = ManageStack.Request(command=command)
        response = self.call(ManageStack, "manage_stack", request, timeout_s, again_s=None)
        return _accepted("supervisor", response)

    def run_action(
        self, kind: Any, name: str, goal: Any, timeout_s: float, on_feedback: Callable[[Any], None] | None = None
    ) -> Any:
        """Run an action to its end, and return its result; it is cancelled where that takes too long or the wait is
        interrupted.

        Parameters
        ----------
        kind : type of the action
        goal : the goal's message
        on_feedback : gets every feedback, in a thread of the link

        Raises
        ------
        DeviceError : there is no server, it refused, or it failed
        RobotTimeoutError : it took too long
        """
        heard = None if on_feedback is None else (lambda message: on_feedback(message.feedback))
        with action_client(self.node, kind, name) as client:
            if not wait_for(client.server_is_ready, CALL_TIMEOUT_S):
                raise RobotTimeoutError(name, "is not there", "Is the stack running?")
            handle = self.wait_for_future(client.send_goal_async(goal, feedback_callback=heard), CALL_TIMEOUT_S, name)
            if not handle.accepted:
                raise DeviceError(name, "was refused", "The driver's log reports why")
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

    def learn_floor(
        self,
        duration_s: float,
        *,
        only_if_missing: bool = False,
        on_feedback: Callable[[LearnFloor.Feedback], None] | None = None,
    ) -> LearnFloor.Result:
        """Let the contact monitor learn the floor of its residual from the motion under way; nothing may touch it.

        Parameters
        ----------
        duration_s : of free motion, s
        only_if_missing : return at once where a floor is in use
        on_feedback : gets the progress

        Raises
        ------
        DeviceError : something touches, nothing moves; the floor of before is in use
        RobotTimeoutError : no contact monitor answers
        """
        goal = LearnFloor.Goal(duration=float(duration_s), only_if_missing=only_if_missing)
        # The monitor itself gives up before.
        timeout_s = CALL_TIMEOUT_S + 5.0 * duration_s
        return self.run_action(LearnFloor, "contact_monitor/learn_floor", goal, timeout_s, on_feedback)

    def get_parameter(self, node: str, name: str, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Value of a node's parameter; None where it is not declared. Raises RobotTimeoutError."""
        response = self.call(GetParameters, f"{node}/get_parameters", GetParameters.Request(names=[name]), timeout_s)
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
        service = f"{node}/set_parameters_atomically"
        result = self.call(SetParametersAtomically, service, set_request(values)).result
        if not result.successful:
            raise ParameterError(node, dict(values), result.reason)

    # References

    @property
    def writer(self) -> str:
        """Who writes clarke_reference, as the reference source reports; "" where there is none."""
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
        """After a bring-up: only what the stack reports from now on counts, not where the reference stood before."""
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

    def publish_reference(self, reference: ClarkeReference, stamp_ns: int | None = None) -> None:
        """Publish on clarke_reference.

        Parameters
        ----------
        stamp_ns : ns since the epoch, None: now
        """
        self._sequence += 1
        message = ClarkeState(sequence=self._sequence, writer=self.name)
        conversions.set_stamp(message.header.stamp, time.time_ns() if stamp_ns is None else stamp_ns)
        message.position = conversions.float_array(reference.position)
        message.velocity = conversions.float_array(reference.velocity)
        message.acceleration = conversions.float_array(reference.acceleration)
        self._references.publish(message)

    def publish_stage(self, position: Vector) -> None:
        """Have the base stage go on to a place; it holds where nobody says so for its command_timeout_s.

        Parameters
        ----------
        position : insertion and rotation, (2,), m and rad
        """
        message = JointState(name=list(AXES), position=conversions.float_array(position))
        conversions.set_stamp(message.header.stamp, time.time_ns())
        self._stage.publish(message)

    def takes_targets(self, topic: str) -> bool:
        """Whether a node of the stack brings the tip to targets on ``topic``, one of ``TARGETS``."""
        return int(self._tip_targets[topic].get_subscription_count()) > 0

    def publish_tip_target(
        self, position_m: Vector, timeout_s: float = CALL_TIMEOUT_S, topic: str = TIP_TARGET
    ) -> None:
        """Ask for the tip at a position. Raises RobotTimeoutError where nobody listens.

        Parameters
        ----------
        position_m : base frame, or the stage's of a robot that has one, shape (3,), m
        timeout_s : how long to wait for a listener, s
        topic : one of ``TARGETS``
        """
        if not wait_for(lambda: self.takes_targets(topic), timeout_s):
            problem = "No node of this stack brings the tip to a target"
            raise RobotTimeoutError(topic, "has no listener", f"{problem}: {TARGETS[topic]}")
        message = PointStamped(point=conversions.point_message(position_m))
        conversions.set_stamp(message.header.stamp, time.time_ns())
        self._tip_targets[topic].publish(message)


def set_request(values: Mapping[str, Any]) -> SetParametersAtomically.Request:
    """The request that sets parameters together: all are taken or none.

    Parameters
    ----------
    values : new value by the parameter's name
    """
    parameters = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
    return SetParametersAtomically.Request(parameters=parameters)


def _accepted(what: str, response: Any) -> str:
    if not response.success:
        problem = str(response.message).rstrip(".") or "it did not say why"
        raise DeviceError(what, problem, "Remove the cause and try again")
    return str(response.message)
