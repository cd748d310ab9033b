# SPDX-License-Identifier: Apache-2.0
"""A node's side of lock-step: it acts in its turns only, after it has heard everything that was published before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.task import Future

from continuum_robot.msg import LockstepDone, LockstepGo
from continuum_robot.nodes.lockstep.flow import FlowLoop, FlowPublisher, FlowTimer
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import CanonicalBytes, FlatLayout
from continuum_robot.runtime.clock import SteppedClock
from continuum_robot.runtime.control_thread import Result
from continuum_robot.runtime.timing import LoopStatistics
from continuum_robot.runtime.turns import SteppedTimers

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

GO_TOPIC = "lockstep_go"
"""Below the name of the node whose turn it is."""
DONE_TOPIC = "lockstep_done"
UNASKED = 2**64 - 1
"""Step of an answer that nobody asked for: something changed outside of a turn."""
LAG_S = 0.1
"""What a node may be behind with topics that do not make it its turn, s."""


class CountedPublisher:
    """A publisher in lock-step."""

    def __init__(self, node: Any, kind: Any, topic: str, on_publish: Callable[[CountedPublisher], None]) -> None:
        self._publisher = node.create_publisher(kind, topic, qos.lockstep())
        self._on_publish, self._bytes = on_publish, CanonicalBytes()
        self.topic = str(self._publisher.topic_name)
        self.count = 0

    def publish(self, msg: Any) -> None:
        """Publish a message, ``msg``, or the bytes of a serialised one."""
        self._publisher.publish(self._bytes.of(msg))
        self.count += 1
        self._on_publish(self)

    def get_subscription_count(self) -> int:
        """How many listen."""
        return int(self._publisher.get_subscription_count())


class Inbox:
    """Messages of a topic that wait to be handled."""

    def __init__(
        self,
        node: Any,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        *,
        raw: bool,
        on_heard: Callable[[], None],
        with_gid: bool = False,
    ) -> None:
        self.topic = str(node.resolve_topic_name(topic))
        self.heard = 0
        self._kind, self._callback, self._raw, self._on_heard = kind, callback, raw, on_heard
        self._waiting: deque[tuple[bytes, ...]] = deque()
        if with_gid:
            node.subscribe_with_publisher(kind, topic, self._take, qos.lockstep(), raw=True)
        else:
            node.create_subscription(kind, topic, self._take, qos.lockstep(), raw=True)

    def handle(self) -> None:
        """Hand what has come to the callback, in the order in which it came."""
        waiting = self._waiting
        while waiting:
            data, *publisher = waiting.popleft()
            message = data if self._raw else conversions.message_of(data, self._kind)
            if message is not None:
                self._callback(message, *publisher)

    def _take(self, data: bytes, *publisher: bytes) -> None:
        self._waiting.append((data, *publisher))
        self.heard += 1
        self._on_heard()


class SteppedLoop:
    """A loop whose cycles are called in the node's turns."""

    def __init__(
        self,
        participant: LockstepParticipant,
        period_s: float,
        cycle: Callable[[float, float], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.period_s = period_s
        self.statistics = LoopStatistics()
        self._clock, self._cycle, self._on_failure = participant.clock, cycle, on_failure
        self._timer = participant.create_timer(self._step)
        self._before_s = 0.0

    def start(self) -> None:
        """Start."""
        self.statistics.reset()
        self._before_s = self._clock.monotonic_s()
        self._timer.start(self.period_s)

    def stop(self, timeout_s: float = 2.0) -> bool:  # noqa: ARG002
        """End; True, it cannot hang."""
        self._timer.cancel()
        return True

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:  # noqa: ARG002
        """Run ``function`` at once: cycles and callbacks share a thread."""
        return function()

    def _step(self) -> None:
        now_s, now_ns, began_ns = self._clock.monotonic_s(), self._clock.monotonic_ns(), time.monotonic_ns()
        self.statistics.begin(now_ns, 0)
        try:
            self._cycle(now_s, now_s - self._before_s)
        except Exception as error:
            self._timer.cancel()
            self._on_failure(error)
        self._before_s = now_s
        self.statistics.end(now_ns + time.monotonic_ns() - began_ns)


class LockstepParticipant:
    """The flow of a node in lock-step; see :class:`~continuum_robot.nodes.lockstep.flow.Flow`.

    A turn: the node waits until it has received all messages that the coordinator counted as published, handles them
    in the order of its subscriptions, calls its timers that are due, and answers. What it publishes, and timers that it
    starts, outside of its turns, in a service for instance, are reported at once.
    """

    def __init__(self, node: ManagedNode, clock: SteppedClock) -> None:
        self.clock = clock
        self._node = node
        self._publishers: list[CountedPublisher] = []
        self._inboxes: list[Inbox] = []
        self._woken_by: list[str] = []
        self._timers = SteppedTimers(clock, self._on_change)
        self._lag: FlowTimer | None = None
        self._layout: FlatLayout | None = None
        self._go_layout: FlatLayout | None = None
        self._turn: tuple[int, int] | None = None
        self._missing: list[tuple[Inbox, int]] = []
        self._holds: list[Future[Any]] = []
        self._answering = 0
        self._busy = self._joined = False
        self._done = node.create_publisher(LockstepDone, DONE_TOPIC, qos.lockstep_turns())
        node.create_subscription(LockstepGo, f"~/{GO_TOPIC}", self._on_go, qos.lockstep_turns(), raw=True)

    def create_publisher(self, kind: Any, topic: str, profile: QoSProfile) -> FlowPublisher:  # noqa: ARG002
        """See :meth:`Flow.create_publisher`; ``profile`` is that of lock-step."""
        publisher = CountedPublisher(self._node, kind, topic, self._on_publish)
        self._publishers.append(publisher)
        self._layout = None
        return publisher

    def create_subscription(
        self,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        profile: QoSProfile,  # noqa: ARG002
        *,
        raw: bool = False,
        lazy: bool = False,
        with_gid: bool = False,
    ) -> None:
        """See :meth:`Flow.create_subscription`; ``profile`` is that of lock-step."""
        callback = self._node.guarded(callback)
        inbox = Inbox(self._node, kind, topic, callback, raw=raw, with_gid=with_gid, on_heard=self._on_heard)
        self._inboxes.append(inbox)
        if lazy and self._lag is None:
            # Lest the middleware keeps more than it can.
            self._lag = self._timers.create(_nothing)
            self._lag.start(LAG_S)
        if not lazy:
            self._woken_by.append(inbox.topic)
        self._layout = self._go_layout = None
        self._on_change()

    def create_timer(self, callback: Callable[[], None]) -> FlowTimer:
        """See :meth:`Flow.create_timer`."""
        return self._timers.create(self._node.guarded(callback))

    def create_loop(
        self,
        name: str,  # noqa: ARG002
        period_s: float,
        cycle: Callable[[float, float], None],
        on_failure: Callable[[BaseException], None],
    ) -> FlowLoop:
        """See :meth:`Flow.create_loop`; there is no thread for the ``name``."""
        return SteppedLoop(self, period_s, cycle, on_failure)

    def hold(self, future: Future[Any]) -> None:
        """See :meth:`Flow.hold`."""
        if self._busy:
            self._holds.append(future)

    # A turn

    def _on_go(self, data: bytes) -> None:
        layout = self._go_layout
        numbers = layout.numbers(data) if layout is not None else ()
        if layout is None or not numbers:
            layout = self._learn(data)
            numbers = layout.numbers(data)
        place = layout.place
        counts = numbers[place["published"]]
        self._turn = numbers[place["step"]], numbers[place["time_ns"]]
        self._missing = [(inbox, counts[index]) for inbox, index in self._counted]
        self._on_heard()

    def _learn(self, data: bytes) -> FlatLayout:
        """The layout of turns as this one, until further topics come."""
        go = deserialize_message(data, LockstepGo)
        index = {topic: i for i, topic in enumerate(go.topics)}
        self._counted = [(inbox, index[inbox.topic]) for inbox in self._inboxes if inbox.topic in index]
        layout = self._go_layout = FlatLayout(go)
        return layout

    def _on_heard(self) -> None:
        turn = self._turn
        if turn is None or self._busy:
            return
        for inbox, count in self._missing:
            if inbox.heard < count:
                return
        self._turn = None
        step, time_ns = turn
        self.clock.set_ns(time_ns)
        if step == 0:
            self._joined = True
            self._answer(0)
            return
        self._busy, self._answering = True, step
        try:
            for inbox in self._inboxes:
                inbox.handle()
            self._timers.fire(time_ns)
        finally:
            # Also after a defect, which is handled elsewhere: the others go on.
            self._end()

    def _end(self) -> None:
        self._holds = [future for future in self._holds if not future.done()]
        if self._holds:
            self._holds[0].add_done_callback(lambda _future: self._end())
            return
        self._busy = False
        self._answer(self._answering)
        self._on_heard()

    def _answer(self, step: int) -> None:
        layout = self._layout
        if layout is None:
            layout = self._layout = FlatLayout(
                LockstepDone(
                    participant=self._node.get_name(),
                    topics=[publisher.topic for publisher in self._publishers],
                    published=[0] * len(self._publishers),
                    heard=list(dict.fromkeys(self._woken_by)),
                )
            )
            self._numbers = layout.editable()
        numbers, place = self._numbers, layout.place
        numbers[place["step"]] = step
        numbers[place["published"]] = [publisher.count for publisher in self._publishers]
        numbers[place["next_due_ns"]] = self._timers.next_due_ns
        self._done.publish(layout.to_bytes(numbers))

    def _on_publish(self, _publisher: CountedPublisher) -> None:
        self._on_change()

    def _on_change(self) -> None:
        if self._joined and not self._busy:
            self._answer(UNASKED)


def _nothing() -> None:
    """What has come is handled before the timers."""
