# SPDX-License-Identifier: Apache-2.0
"""``tendon_commands`` and ``joint_commands`` on their way to the loop: which state each answers, and who may write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sensor_msgs.msg import JointState

from continuum_robot.msg import TendonCommands
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.lockstep.flow import Flow
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import FlatLayout, commands_layout
from continuum_robot.nodes.topics.owned_topic import Owner
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.reports import RoundTripReport
from continuum_robot.runtime.round_trips import RoundTripStatistics
from continuum_robot.srv import TakeCommands

TOPIC, JOINTS = "tendon_commands", "joint_commands"
SILENCE_FRACTION = 0.5
"""Fraction of limits.command_timeout_s after which a silent writer has given the commands back: who follows it is heard
before they time out."""


class CommandInput:
    """Hands commands to the loop while the tendons are under power. In the executor's thread.

    The first program that writes has the commands while it writes, and the service ``take_commands`` gives them to
    another one; the rest is refused, counted and named. The writer of ``joint_commands``, which carry no name, is
    called so.
    """

    _heard_s = -math.inf

    def __init__(
        self, node: ManagedNode, flow: Flow, on_two_writers: Callable[[], None], *, listens: bool = True
    ) -> None:
        self.invalid = 0
        self._on_two_writers = on_two_writers
        self._node, self._clock = node, node.clock
        self._loop: DriverLoop | None = None
        self._trips: RoundTripStatistics | None = None
        self._problem = self._asked = ""
        self.owner = self._make_owner(0.0)
        if listens:
            flow.create_subscription(
                TendonCommands, TOPIC, self._on_command, qos.owned_command(), raw=True, with_gid=True
            )
            if not node.clock.stepped:  # who writes these takes no turns
                node.subscribe_with_publisher(JointState, JOINTS, self._on_joints, qos.owned_command())
            node.create_service(TakeCommands, "take_commands", self._serve_take)

    def _make_owner(self, silence_s: float) -> Owner:
        return Owner(self._node, TOPIC, silence_s, "have it take over (service take_commands)")

    def listen(self, loop: DriverLoop, trips: RoundTripStatistics | None, prefix: str = "") -> None:
        """Commands are for this loop from now on."""
        displacements, self._count = loop.robot.takes_displacements, loop.tendon_count
        self._layout, self._layout_writer = commands_layout(self._count, displacements=displacements), ""
        self._taken, self._refused = (
            conversions.command_field(displacements=kind) for kind in (displacements, not displacements)
        )
        self._joint_field = "position" if displacements else "effort"
        self._joint_names = [f"{prefix}{name}" for name in loop.robot.tendon_names]
        self.owner = self._make_owner(SILENCE_FRACTION * loop.safety.limits.command_timeout_s)
        self._loop, self._trips = loop, trips

    def report(self) -> RoundTripReport | None:
        """Round trips since the last :meth:`reset`, None before the first configuration."""
        return None if self._trips is None else self._trips.report()

    def reset(self) -> None:
        """Start the statistics of the round trips over."""
        self.owner.forget_named()
        if self._trips is not None:
            self._trips.reset()

    @property
    def publishers(self) -> int:
        """Programs that could write commands, as the middleware counts."""
        return self._node.count_publishers(TOPIC) + self._node.count_publishers(JOINTS)

    @property
    def heard(self) -> bool:
        """Whether a program writes commands now; with the power off they are not obeyed."""
        loop = self._loop
        return loop is not None and self._clock.monotonic_s() - self._heard_s < loop.safety.limits.command_timeout_s

    def _on_command(self, data: bytes, gid: bytes) -> None:
        if not self._obeys():
            return
        layout = self._layout
        numbers = layout.numbers(data)
        if numbers:
            writer = self._layout_writer
            sequence, command = numbers[layout.place["sequence"]], numbers[layout.place[self._taken]]
        else:
            message: TendonCommands = layout.message(data)
            other = getattr(message, self._refused)
            writer, sequence = message.writer, message.sequence
            command = () if len(other) else tuple(getattr(message, self._taken))
            if len(command) == self._count:
                self._layout, self._layout_writer = FlatLayout(message), writer
        if self._admits(gid, writer):
            self._hand_on(command, sequence)

    def _on_joints(self, message: JointState, gid: bytes) -> None:
        if self._obeys() and self._admits(gid, JOINTS):
            self._hand_on(self._of_joints(message), 0)

    def _of_joints(self, message: JointState) -> Sequence[float]:
        """The tendons' commands in the robot file's order; empty where they are not what the actuators take."""
        values = getattr(message, self._joint_field)
        if sorted(message.name) == sorted(self._joint_names) and len(values) == len(message.name):
            by_name = dict(zip(message.name, values, strict=True))
            return tuple(by_name[name] for name in self._joint_names)
        problem = (
            f"{JOINTS} has {len(values)} values of {self._joint_field} for {list(message.name)}: it needs one for each"
            f" of {self._joint_names}"
        )
        if problem != self._problem:
            self._problem = problem
            self._node.get_logger().error(problem)
        return ()

    def _obeys(self) -> bool:
        loop = self._loop
        if loop is None or self._trips is None:
            return False
        self._heard_s = self._clock.monotonic_s()
        return loop.powered and loop.procedure is None

    def _admits(self, gid: bytes, writer: str) -> bool:
        owner = self.owner
        admitted = owner.admits(gid, self._clock.monotonic_s(), writer)
        if owner.contested:
            owner.tell()
            owner.settle()
            if owner.writer != self._asked:  # who took over by the service may be disturbed by the one before
                self._on_two_writers()
        return admitted

    def _hand_on(self, command: Sequence[float], sequence: int) -> None:
        loop, trips = self._loop, self._trips
        if loop is None or trips is None:
            return
        now_ns = self._clock.monotonic_ns()
        trip_ns = trips.received(sequence, now_ns)
        if trip_ns is None:
            if sequence:
                return  # it answers a state that this driver does not remember
            trip_ns = 0
        if len(command) != self._count:
            self.invalid += 1
        loop.cycle.command(command, (now_ns - trip_ns) * 1e-9, sequence)

    def _serve_take(self, request: TakeCommands.Request, response: TakeCommands.Response) -> TakeCommands.Response:
        name, before = check_request("TakeCommands", request).writer.strip(), self.owner.writer
        self._asked = name
        self.owner.give(name, self._clock.monotonic_s())
        response.success = True
        response.message = f"{name or 'the next program that does'} writes {TOPIC} instead of {before or 'nobody'}"
        return response
