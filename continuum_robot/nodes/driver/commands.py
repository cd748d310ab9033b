# SPDX-License-Identifier: Apache-2.0
"""``tendon_commands`` on their way to the driver's loop: which state each answers, and who may write them."""

from __future__ import annotations

import math
from collections.abc import Callable

from continuum_robot.msg import TendonCommands
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.lockstep.flow import Flow
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import commands_layout
from continuum_robot.nodes.topics.topic_claim import TopicClaim
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.reports import RoundTripReport
from continuum_robot.runtime.round_trips import RoundTripStatistics, WriterWatch
from continuum_robot.runtime.writer_claim import NOBODY

TOPIC = "tendon_commands"
SILENCE_FRACTION = 0.5
"""Fraction of limits.command_timeout_s after which a silent writer has given the commands back: who follows it is heard
before they time out."""


class CommandInput:
    """Hands commands to the loop while the tendons are under power. In the executor's thread.

    The first program that writes has the commands while it writes; another one is refused, counted and named. Where the
    middleware does not identify the publisher of a message, :class:`WriterWatch` looks at sequence numbers instead.
    """

    _heard_s = -math.inf

    def __init__(
        self, node: ManagedNode, flow: Flow, on_two_writers: Callable[[], None], *, listens: bool = True
    ) -> None:
        self.invalid = 0
        self.owner = TopicClaim(node, TOPIC, 0.0)
        self._on_two_writers = on_two_writers
        self._node, self._clock = node, node.clock
        self._loop: DriverLoop | None = None
        self._trips: RoundTripStatistics | None = None
        self._writers = WriterWatch()
        if listens:
            flow.create_subscription(
                TendonCommands, TOPIC, self._on_command, qos.owned_command(), raw=True, with_gid=True
            )

    def listen(self, loop: DriverLoop, trips: RoundTripStatistics | None) -> None:
        """Commands are for this loop from now on."""
        displacements, self._count = loop.robot.takes_displacements, loop.tendon_count
        self._layout = commands_layout(self._count, displacements=displacements)
        self._taken, self._refused = (
            conversions.command_field(displacements=kind) for kind in (displacements, not displacements)
        )
        self.owner = TopicClaim(self._node, TOPIC, SILENCE_FRACTION * loop.safety.limits.command_timeout_s)
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
        return self._node.count_publishers(TOPIC)

    @property
    def heard(self) -> bool:
        """Whether a program writes commands now; with the power off they are not obeyed."""
        loop = self._loop
        return loop is not None and self._clock.monotonic_s() - self._heard_s < loop.safety.limits.command_timeout_s

    def two_writers(self) -> bool:
        """Whether the commands since the last call came from two programs, by their sequence numbers alone."""
        return self._writers.two_writers(self.publishers)

    def _admits(self, gid: bytes) -> bool:
        owner = self.owner
        if gid == NOBODY:
            return True
        admitted = owner.admits(gid, self._clock.monotonic_s())
        if owner.claim.contested:
            owner.tell()
            owner.claim.settle()
            self._on_two_writers()
        return admitted

    def _on_command(self, data: bytes, gid: bytes) -> None:
        loop, trips = self._loop, self._trips
        if loop is None or trips is None:
            return
        self._heard_s = self._clock.monotonic_s()
        if not loop.powered or loop.procedure is not None:
            return
        if not self._admits(gid):
            return
        now_ns = self._clock.monotonic_ns()
        layout = self._layout
        numbers = layout.numbers(data)
        if numbers:
            sequence, command = numbers[layout.place["sequence"]], numbers[layout.place[self._taken]]
        else:
            message: TendonCommands = layout.message(data)
            other = getattr(message, self._refused)
            sequence, command = message.sequence, () if len(other) else tuple(getattr(message, self._taken))
        if gid == NOBODY:
            self._writers.command(sequence)
        trip_ns = trips.received(sequence, now_ns)
        if trip_ns is None:
            if sequence:
                return  # it answers a state that this driver does not remember
            trip_ns = 0
        if len(command) != self._count:
            self.invalid += 1
        loop.cycle.command(command, (now_ns - trip_ns) * 1e-9, sequence)
