# SPDX-License-Identifier: Apache-2.0
"""What the page asks of the stack: calls of its link in threads, and references, pushes and the stage by timers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from numpy.typing import NDArray
from rcl_interfaces.msg import ParameterDescriptor
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParametersAtomically
from rclpy.clock import Clock, ClockType
from rclpy.parameter import parameter_value_to_python
from std_msgs.msg import String
from std_srvs.srv import Trigger

from continuum_robot.app.client.motions import STAGE_PERIOD_S, STAGE_THERE
from continuum_robot.app.client.stack_link import (
    ALL_TOPICS,
    PREDICTIVE_TARGET,
    REFERENCE_PERIOD_S,
    SOURCE,
    TIP_TARGET,
    StackLink,
)
from continuum_robot.control.motion import LONGEST_STEP_S, LimitedMotion, MotionLimits
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError, RobotTimeoutError
from continuum_robot.msg import Contact
from continuum_robot.nodes.base.diagnostics import StatusBuilder
from continuum_robot.nodes.simulated.external_force import EXTERNAL_FORCE_TOPIC, external_force_message
from continuum_robot.nodes.topics import qos
from continuum_robot.srv import ManageStack, TakeReference

Vector = NDArray[np.float64]
Answer = Callable[[bool, str], None]

EXTERNAL_FORCE_PERIOD_S = 0.05
SERVICES = {
    "estop": Trigger,
    "manage_stack": ManageStack,
    f"{SOURCE}/take": TakeReference,
    f"{SOURCE}/restart": Trigger,
    f"{SOURCE}/hold": Trigger,
    f"{SOURCE}/resume": Trigger,
    "recorder/change_state": ChangeState,
    "recorder/get_state": GetState,
    "recorder/begin_episode": Trigger,
    "recorder/end_episode": Trigger,
    "recorder/discard_episode": Trigger,
    "shape_estimator/reset": Trigger,
    "contact_monitor/reset": Trigger,
    **{
        f"{node}/{service}": kind
        for node in ("clarke_controller", "tendon_driver", SOURCE)
        for service, kind in (
            ("describe_parameters", DescribeParameters),
            ("get_parameters", GetParameters),
            ("set_parameters_atomically", SetParametersAtomically),
        )
    },
}


@dataclass(frozen=True)
class Described:
    """A parameter of a node: its value now and what is allowed."""

    value: Any
    descriptor: ParameterDescriptor

    @property
    def range(self) -> tuple[float, float] | None:
        """Least and greatest value, None where only the type is checked."""
        for ranges in (self.descriptor.floating_point_range, self.descriptor.integer_range):
            if ranges:
                return float(ranges[0].from_value), float(ranges[0].to_value)
        return None

    @property
    def choices(self) -> tuple[str, ...]:
        """Allowed words, empty where there is no list of them."""
        start, _, words = self.descriptor.additional_constraints.partition("one of ")
        return tuple(words.split(", ")) if words and not start else ()


def page_link(namespace: str) -> StackLink:
    """The link of a page: its clients are made at once, since a server is found a moment later."""
    return StackLink(namespace, "view", topics=ALL_TOPICS, services=SERVICES)


class Commander:
    """Orders of the page. Its methods may be called from any thread, and none waits: an answer comes in its own."""

    def __init__(self, link: StackLink) -> None:
        self._link = link
        self._lock = threading.RLock()
        self._motion: LimitedMotion | None = None
        self._turn: object = None
        self._unannounced = 0  # turns asked for of which the reference source has not been heard yet
        self._target: Vector = np.zeros(0)
        self._stepped_s = 0.0
        self._push: tuple[float, Vector, float] | None = None
        self._stage: Vector | None = None
        link.make(self._make)
        self._reference_timer.cancel()
        self._push_timer.cancel()
        self._stage_timer.cancel()
        # Last: its message is there at once, and is answered in another thread.
        link.listen(String, "reference_writer", self._on_writer, qos.latched_queue())

    def _ask(self, answer: Answer, ask: Callable[[], object]) -> None:
        """Ask the stack in a thread: ``answer`` gets whether it agreed, and its sentence."""

        def wait() -> None:
            agreed = False
            try:
                sentence = str(ask() or "")
                agreed = True
            except ParameterError as error:
                sentence = error.expected
            except RobotTimeoutError as error:
                sentence = str(error)
            except DeviceError as error:
                sentence = error.problem
            except ContinuumRobotError as error:
                sentence = str(error)
            if not self._link.closed:  # else the page is gone that would show it
                answer(agreed, sentence)

        threading.Thread(target=wait, daemon=True).start()

    def _trigger(self, service: str, answer: Answer) -> None:
        self._ask(answer, lambda: self._link.trigger(service))

    def _make(self) -> None:
        node, steady = self._link.node, Clock(clock_type=ClockType.STEADY_TIME)
        self._pushes = node.create_publisher(Contact, EXTERNAL_FORCE_TOPIC, qos.state_publisher())
        self._health = node.create_publisher(DiagnosticArray, "/diagnostics", qos.events())
        self._reference_timer = node.create_timer(REFERENCE_PERIOD_S, self._publish_reference, clock=steady)
        self._stage_timer = node.create_timer(STAGE_PERIOD_S, self._publish_stage, clock=steady)
        self._push_timer = node.create_timer(EXTERNAL_FORCE_PERIOD_S, self._publish_push, clock=steady)

    # Stop and reset

    def stop_robot(self, answer: Answer) -> None:
        """Latch the driver's e-stop; if its service does not answer, by the topic that every driver listens to."""
        self._ask(answer, self._link.estop)

    def reset(self, answer: Answer) -> None:
        """Have the supervisor clear the faults and bring the stack up."""
        self._ask(answer, lambda: self._link.manage(ManageStack.Request.RESET))

    # Reference

    @property
    def writer(self) -> str:
        """Who writes clarke_reference, as the reference source reports; empty before it was heard."""
        return self._link.writer

    @property
    def name(self) -> str:
        """The page's own name as a writer."""
        return self._link.name

    @property
    def namespace(self) -> str:
        """ROS namespace of the stack."""
        return self._link.namespace

    @property
    def tip_words(self) -> str:
        """How far the tip is on its way to its target; empty before one was asked for."""
        message = self._link.messages["tip_state"]
        if message is None:
            return ""
        return f"{message.state}: {message.message}" if message.message else message.state

    @property
    def steering(self) -> bool:
        """Whether the page writes clarke_reference."""
        return self._motion is not None

    def take_reference(self, start: Vector, limits: MotionLimits, answer: Answer) -> None:
        """Have the reference source fall silent, then write references that start where the last one stood."""
        with self._lock:
            turn = self._turn = object()
            self._unannounced += 1

        def taken(success: bool, sentence: str) -> None:
            with self._lock:
                if not success:
                    self._unannounced -= self._unannounced > 0
                elif self._turn is not turn:
                    success, sentence = False, "another order came before the answer"
                if success:
                    self._motion, self._target = LimitedMotion(limits, start), np.array(start, dtype=float)
                    self._stepped_s = time.monotonic()
                    self._reference_timer.reset()
            answer(success, sentence)

        self._take(self._link.name, taken)

    def aim(self, target: Vector) -> None:
        """Where the reference shall go, shape (coordinates,), m; nothing while the page does not steer."""
        with self._lock:
            if self._motion is not None:
                self._target = np.array(target, dtype=float)

    @property
    def plans_tip(self) -> bool:
        """Whether a node of the stack plans to targets of the tip round obstacles."""
        return self._link.takes_targets(PREDICTIVE_TARGET)

    def aim_tip(self, place_m: Vector, answer: Answer, *, planned: bool = False) -> None:
        """Ask for the tip at a place, base frame, shape (3,), m; a node of the stack brings it there."""
        self.drop_reference()
        self.drop_stage()
        try:
            self._link.publish_tip_target(place_m, 0.0, PREDICTIVE_TARGET if planned else TIP_TARGET)
        except RobotTimeoutError:
            answer(False, "no node of this stack brings the tip to a target")

    def drop_reference(self) -> None:
        """Fall silent; the controller holds the position."""
        with self._lock:
            self._reference_timer.cancel()
            self._motion = self._turn = None

    def play(self, answer: Answer) -> None:
        """Fall silent and have the reference source play its trajectory from the beginning, blended in."""
        self.drop_reference()
        self._trigger(f"{SOURCE}/restart", answer)

    def hold(self, answer: Answer) -> None:
        """Fall silent and have the reference source bring the robot to rest where it is."""
        self.drop_reference()
        self._trigger(f"{SOURCE}/hold", answer)

    def resume(self, answer: Answer) -> None:
        """Have the reference source go on after a contact."""
        self._trigger(f"{SOURCE}/resume", answer)

    def hand_back(self, answer: Answer) -> None:
        """Fall silent and have the reference source hold the robot where it is."""
        self.drop_reference()
        self._take("", answer)

    def _take(self, writer: str, answer: Answer) -> None:
        request = TakeReference.Request(writer=writer)
        self._ask(answer, lambda: self._link.ask(f"{SOURCE}/take", TakeReference, request))

    def _on_writer(self, message: String) -> None:
        """The source announces every turn before it answers: until it has, a name is one of before, however late."""
        with self._lock:
            if message.data == self._link.name:
                self._unannounced -= self._unannounced > 0
            elif not self._unannounced:
                self.drop_reference()

    def _publish_reference(self) -> None:
        with self._lock:
            motion = self._motion
            if motion is None:
                return
            now_s = time.monotonic()
            step_s = min(max(now_s - self._stepped_s, 1e-4), LONGEST_STEP_S)
            reference = motion.towards(self._target, step_s)
            self._stepped_s = now_s
        self._link.publish_reference(reference)

    # Base stage

    def aim_stage(self, position: Vector, answer: Answer) -> None:
        """Have the stage go to a place, until it is there or :meth:`drop_stage`; the tip's control lets go of it first.

        It does not move where the reference source refuses that, or is not found; ``answer`` is told.
        """

        def held(success: bool, sentence: str) -> None:
            if not success:
                self.drop_stage()
                answer(False, f"the stage stays where it is: {sentence}")
            elif self._stage is not None:
                self._stage_timer.reset()

        begins, self._stage = self._stage is None, position
        if begins and self.steering:
            held(True, "")
        elif begins:
            self.hold(held)

    def moves_stage(self, position: Vector) -> bool:
        """Whether the page moves the stage, which is at ``position``, (2,), m and rad."""
        if self._stage is not None and (np.abs(self._stage - position) < STAGE_THERE).all():
            self.drop_stage()
        return self._stage is not None

    def drop_stage(self) -> None:
        """Fall silent; the stage holds."""
        self._stage = None
        self._stage_timer.cancel()

    def _publish_stage(self) -> None:
        if (stage := self._stage) is not None:
            self._link.publish_stage(stage)

    # Push

    @property
    def can_push(self) -> bool:
        """Whether a simulated robot listens to pushes."""
        return self._pushes.get_subscription_count() > 0

    @property
    def pushed(self) -> tuple[float, Vector] | None:
        """Arc length (m) and force in the base frame (N) of the push under way."""
        push = self._push
        return None if push is None else push[:2]

    def push(self, arc_length_m: float, force_in_base_n: Vector, duration_s: float) -> None:
        """Push on the simulated robot for a while; a push under way is replaced."""
        self._push = (arc_length_m, np.array(force_in_base_n, dtype=float), time.monotonic() + duration_s)
        self._push_timer.reset()

    def _publish_push(self) -> None:
        push = self._push
        if push is None:
            return
        place_m, force, end_s = push
        if time.monotonic() >= end_s:
            self._push = None
            self._push_timer.cancel()
            force = np.zeros(3)
        self._pushes.publish(external_force_message(place_m, force))

    def reset_contact_monitor(self, answer: Answer) -> None:
        """End a latched invalid state: of the shape estimator, then of the contact monitor."""

        def reset() -> str:
            self._link.trigger("shape_estimator/reset")
            return self._link.trigger("contact_monitor/reset")

        self._ask(answer, reset)

    # Recorder

    @property
    def has_recorder(self) -> bool:
        """Whether the stack has a recorder."""
        return bool(self._link.client(ChangeState, "recorder/change_state").service_is_ready())

    def record(self, desired: bool, answer: Answer) -> None:
        """Have the stack's recorder begin a recording, or end it."""
        request = ChangeState.Request()
        request.transition.id = Transition.TRANSITION_ACTIVATE if desired else Transition.TRANSITION_DEACTIVATE

        def change() -> None:
            if not self._link.call(ChangeState, "recorder/change_state", request, again_s=None).success:
                raise DeviceError("recorder", "refused", "See its log")

        self._ask(answer, change)

    def ask_recorder(self, answer: Answer) -> None:
        """Ask for the recorder's state, such as "active"; one that is there and does not answer yet is a refusal."""
        self._ask(answer, lambda: self._link.call(GetState, "recorder/get_state").current_state.label)

    def mark_episode(self, mark: str, answer: Answer) -> None:
        """Have the recorder ``begin`` an episode, ``end`` it, which keeps it, or ``discard`` it."""
        self._ask(answer, lambda: self._link.mark_episode(mark))

    # Parameters

    def describe(self, node: str, names: list[str], take: Callable[[dict[str, Described]], None]) -> None:
        """Ask for parameters of a node; ``take`` gets those that it has, where it is there."""
        call = self._link.call

        def ask() -> None:
            request = DescribeParameters.Request(names=names)
            described = call(DescribeParameters, f"{node}/describe_parameters", request)
            descriptors = {one.name: one for one in described.descriptors}
            values = call(GetParameters, f"{node}/get_parameters", GetParameters.Request(names=names)).values
            take(
                {
                    name: Described(parameter_value_to_python(value), descriptors[name])
                    for name, value in zip(names, values, strict=False)
                    if value.type and name in descriptors
                }
            )

        self._ask(lambda _success, _sentence: None, ask)

    def set_parameters(self, node: str, values: Mapping[str, Any], answer: Answer) -> None:
        """Set parameters of a node together: all are taken or none."""
        self._ask(answer, lambda: self._link.set_parameters(node, values))

    # Health of the page itself

    def report(self, frames_hz: float, clients: int, refused: int) -> None:
        """Tell on /diagnostics how often the page is drawn, for how many, and how often it refused somebody."""
        status = StatusBuilder(f"{self._link.node.get_fully_qualified_name()}: page", "browser")
        status.add("frames_hz", frames_hz)
        status.add("clients", clients)
        status.add("refused", refused)
        message = DiagnosticArray(status=[status.to_message()])
        message.header.stamp = self._link.node.get_clock().now().to_msg()
        self._health.publish(message)
