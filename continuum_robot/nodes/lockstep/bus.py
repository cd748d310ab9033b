# SPDX-License-Identifier: Apache-2.0
"""Lock-step: time comes from the simulated robot, and the nodes of a stack act one after the other in one thread.

All nodes that answer in the flow of time are in one process and share a :class:`LockstepBus`. The driver's pace moves
the time (nodes/driver/lockstep.py); at each time the nodes with messages or a timer that is due get turns, in the order
in which they were made, until none has anything left to do. Nothing else runs in between, so two runs publish the same
bytes on any computer. Messages are handed over as their bytes. They go out over DDS where a program outside listens,
and references and commands of programs outside come in: these are no part of what can be repeated.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future

from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes.lockstep.flow import FlowLoop, FlowPublisher
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import CanonicalBytes, copy_of
from continuum_robot.nodes.topics.owned_topic import publishers
from continuum_robot.runtime.clock import Clock, SteppedClock
from continuum_robot.runtime.control_thread import Result
from continuum_robot.runtime.timing import LoopStatistics

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

FROM_OUTSIDE = ("clarke_reference", "tendon_commands", "base_stage/command", "base_stage/state", "tracked_pose")
"""Topics on which programs outside of the stack are heard."""
LAG_S = 0.1
"""After so long a node deals with messages that do not make it its turn, s."""
NEVER_NS = 2**63 - 1
_MOST_ROUNDS = 1000


class LockstepBus:
    """Messages, timers and turns of the nodes of one stack. For the thread that spins them."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.world: Callable[[int], None] | None = None
        """Moves the simulated robot up to a time, ns; None without one."""
        self.accept: Callable[[], None] = lambda: None
        """Has the simulated robot answer who has just connected."""
        self.actuators: Callable[..., TendonActuators] | None = None
        """The simulated robot's own, for the driver, as of ``Simulator.own_actuators``."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when a turn that waited for an answer has ended, or something came from outside."""
        self.looks = 0
        """Counted up now and then; publishers look at each count whether somebody listens outside."""
        self._flows: list[BusFlow] = []
        self._inboxes: dict[str, list[_Inbox]] = defaultdict(list)
        self._own: dict[str, set[bytes]] = defaultdict(set)
        self._foreign: dict[str, set[bytes]] = defaultdict(set)
        self._ears: Counter[str] = Counter()
        self._held: list[Future[Any]] = []

    def flow(self, node: ManagedNode) -> BusFlow:
        """Have a node take part; its turns come after those of the nodes before."""
        flow = BusFlow(self, node)
        self._flows.append(flow)
        return flow

    def leave(self, flow: BusFlow) -> None:
        """A node is destroyed."""
        self._flows.remove(flow)
        for topic, inboxes in self._inboxes.items():
            self._inboxes[topic][:] = [inbox for inbox in inboxes if inbox.flow is not flow]

    def tap(self, topic: str, take: Callable[[bytes], None]) -> None:
        """Hand every message of a topic, by its full name, to ``take`` at once."""
        self._inboxes[topic].append(_Inbox(None, None, take, lazy=True))

    def add(self, inbox: _Inbox, node: ManagedNode, kind: Any, topic: str) -> None:
        """Let a node hear a topic, from programs outside too where they may publish it."""
        name = str(node.resolve_topic_name(topic))
        self._inboxes[name].append(inbox)
        if topic in FROM_OUTSIDE and name not in self._ears:
            self.ear(name)
            take = partial(self._come, name, node)
            node.subscribe_with_publisher(kind, topic, take, qos.lockstep(), raw=True)

    def ear(self, topic: str) -> None:
        """A subscription over DDS to a topic, by its full name, is the stack's own: nothing is published for it."""
        self._ears[topic] += 1

    def ears(self, topic: str) -> int:
        """Subscriptions over DDS to a topic that are the stack's own."""
        return self._ears[topic]

    def inboxes(self, topic: str) -> list[_Inbox]:
        """Who hears a topic, by its full name; a list that is kept up."""
        return self._inboxes[topic]

    def hand(self, inboxes: list[_Inbox], post: _Post) -> None:
        """Hand a message to those that hear its topic."""
        for inbox in inboxes:
            if inbox.flow is None:
                inbox.callback(post.data())
                continue
            inbox.waiting.append(post)
            if not inbox.lazy:
                inbox.flow.woken = True

    def run_due(self, now_ns: int, *, everybody: bool = False) -> bool:
        """Give turns until nobody has anything to do at this time; False where a turn waits for an answer.

        ``everybody``: those too that let messages wait.
        """
        self.clock.set_ns(now_ns)
        if self._holds():
            return False
        if everybody:
            for flow in self._flows:
                flow.woken = True
        for _ in range(_MOST_ROUNDS):
            somebody = False
            for flow in self._flows:
                if flow.woken or flow.next_due_ns <= now_ns:
                    somebody = True
                    flow.turn(now_ns)
                    if self._holds():
                        return False
            if not somebody:
                return True
        due = ", ".join(flow.name for flow in self._flows if flow.woken or flow.next_due_ns <= now_ns)
        raise DeviceError(
            "lock-step", f"{due} have turns without end at {now_ns * 1e-9:.6f} s", "They answer each other endlessly"
        )

    def hold(self, future: Future[Any]) -> None:
        """The turn under way lasts until this is done."""
        self._held.append(future)
        future.add_done_callback(lambda _future: self.on_ready())

    def _come(self, topic: str, node: ManagedNode, data: bytes, gid: bytes) -> None:
        """A message over DDS: this stack's own come back where somebody else listens too."""
        own, foreign = self._own[topic], self._foreign[topic]
        if gid not in own and gid not in foreign:
            names = {(flow.node.get_name(), flow.node.get_namespace()) for flow in self._flows}
            for known, one in publishers(node, topic).items():
                (own if (one.node_name, one.node_namespace) in names else foreign).add(known)
        if gid not in own:
            self.hand(self._inboxes[topic], _Post(data, gid))
            self.on_ready()

    def _holds(self) -> bool:
        if self._held:
            self._held = [future for future in self._held if not future.done()]
        return bool(self._held)


class _Post:
    """A message under way, as bytes and as an object that all who hear it share, whichever of both is asked for."""

    __slots__ = ("_bytes", "_data", "_message", "gid")

    def __init__(self, given: Any, gid: bytes, to_bytes: CanonicalBytes | None = None) -> None:
        """``given``: bytes, or a message that nobody changes any more, which ``to_bytes`` serialises."""
        self.gid, self._bytes = gid, to_bytes
        self._message: Any = None if isinstance(given, bytes) else given
        self._data: bytes = given if isinstance(given, bytes) else b""

    def data(self) -> bytes:
        """As bytes."""
        if not self._data and self._bytes is not None:
            self._data = self._bytes.of(self._message)
        return self._data

    def message(self, kind: Any) -> Any:
        """As an object; None where the bytes are none."""
        if self._message is None:
            read = conversions.message_of if self._bytes is None else self._bytes.message
            self._message = read(self._data, kind)
        return self._message


class _Inbox:
    """What hears a topic, and its messages that wait; ``flow`` None: they do not wait."""

    __slots__ = ("callback", "flow", "kind", "lazy", "unread", "waiting", "with_gid")

    def __init__(
        self, flow: BusFlow | None, kind: Any, callback: Callable[..., None], *, lazy: bool, with_gid: bool = False
    ) -> None:
        self.flow, self.kind, self.callback, self.lazy, self.with_gid = flow, kind, callback, lazy, with_gid
        self.unread, self.waiting = False, deque[_Post]()

    def handle(self) -> None:
        """Hand what has come to the callback, in the order in which it came."""
        waiting, kind = self.waiting, self.kind
        while waiting:
            post = waiting.popleft()
            message = post if self.unread else post.data() if kind is None else post.message(kind)
            if message is None:
                continue
            if self.with_gid:
                self.callback(message, post.gid)
            else:
                self.callback(message)


class BusPublisher:
    """Publishes on the bus, and over DDS while a program outside listens."""

    def __init__(self, bus: LockstepBus, node: Node, kind: Any, topic: str) -> None:
        self._bus, self._node, self._bytes = bus, node, CanonicalBytes()
        self._publisher = node.create_publisher(kind, topic, qos.lockstep())
        self.topic = str(self._publisher.topic_name)
        self._inboxes, self._looked, self._outside, self._gid = bus.inboxes(self.topic), -1, 0, b""

    def publish(self, msg: Any) -> None:
        """Publish a message, ``msg``, or the bytes of a serialised one."""
        outside = self.listeners_outside
        if not (outside or self._inboxes):
            return
        given = self._bytes.of(msg) if isinstance(msg, bytes) else copy_of(msg)
        post = _Post(given, self._gid or self._learn_gid(), self._bytes)
        self._bus.hand(self._inboxes, post)
        if outside:
            self._publisher.publish(post.data())

    @property
    def listeners_outside(self) -> int:
        """How many listen over DDS, as of the last look."""
        if self._looked != self._bus.looks:
            self._looked = self._bus.looks
            self._outside = self._publisher.get_subscription_count() - self._bus.ears(self.topic)
        return self._outside

    def get_subscription_count(self) -> int:
        """How many listen."""
        return len(self._inboxes) + self.listeners_outside

    def _learn_gid(self) -> bytes:
        own = self._node.get_name(), self._node.get_namespace()
        for gid, one in publishers(self._node, self.topic).items():
            if (one.node_name, one.node_namespace) == own:
                self._gid = gid
        return self._gid


class SteppedTimer:
    """A timer on simulated time; stopped until :meth:`start`."""

    def __init__(self, clock: Clock, callback: Callable[[], None], on_change: Callable[[], None]) -> None:
        self._clock, self.callback, self._on_change = clock, callback, on_change
        self._period_ns = 0
        self.due_ns = NEVER_NS

    def start(self, period_s: float) -> None:
        """Be due a period from now, and then periodically."""
        period_ns = round(period_s * 1e9)
        if period_ns < 1:
            raise ParameterError("period_s", period_s, "at least 1e-9 s")
        self._period_ns = period_ns
        self.due_ns = self._clock.monotonic_ns() + period_ns
        self._on_change()

    def cancel(self) -> None:
        """Be not due any more."""
        self.due_ns = NEVER_NS
        self._on_change()

    def advance(self, now_ns: int) -> None:
        """To the next due time after ``now_ns``, ns, on the grid of periods: what was missed is skipped."""
        self.due_ns += self._period_ns * (1 + (now_ns - self.due_ns) // self._period_ns)


class SteppedLoop:
    """A loop whose cycles are called in the node's turns."""

    def __init__(
        self,
        flow: BusFlow,
        period_s: float,
        cycle: Callable[[float, float], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.period_s = period_s
        self.statistics = LoopStatistics()
        self._clock, self._cycle, self._on_failure = flow.clock, cycle, on_failure
        self._timer = flow.create_timer(self._step)
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


class BusFlow:
    """The flow of a node on the bus; see :class:`~continuum_robot.nodes.lockstep.flow.Flow`."""

    def __init__(self, bus: LockstepBus, node: ManagedNode) -> None:
        self.bus, self.node, self.clock, self.name = bus, node, bus.clock, node.get_name()
        self.woken, self.next_due_ns = False, NEVER_NS
        self._inboxes: list[_Inbox] = []
        self._timers: list[SteppedTimer] = []
        self._lags = False

    def create_publisher(self, kind: Any, topic: str, profile: QoSProfile) -> FlowPublisher:  # noqa: ARG002
        """See :meth:`Flow.create_publisher`; over DDS with the profile of lock-step."""
        return BusPublisher(self.bus, self.node, kind, topic)

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
        """See :meth:`Flow.create_subscription`; every message comes."""
        inbox = _Inbox(self, None if raw else kind, self.node.guarded(callback), lazy=lazy, with_gid=with_gid)
        inbox.unread = raw and lazy
        self._inboxes.append(inbox)
        self.bus.add(inbox, self.node, kind, topic)
        if lazy and not self._lags:
            self._lags = True
            self.create_timer(_nothing).start(LAG_S)

    def create_timer(self, callback: Callable[[], None]) -> SteppedTimer:
        """See :meth:`Flow.create_timer`."""
        timer = SteppedTimer(self.clock, self.node.guarded(callback), self._plan)
        self._timers.append(timer)
        return timer

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
        self.bus.hold(future)

    def turn(self, now_ns: int) -> None:
        """Handle messages in the order of their subscriptions, then what is due, in the order of due times."""
        self.woken = False
        for inbox in self._inboxes:
            if inbox.waiting:
                inbox.handle()
        while self.next_due_ns <= now_ns:
            timer = min(self._timers, key=_due_ns)  # the first of equals
            timer.advance(now_ns)
            self._plan()
            timer.callback()

    def _plan(self) -> None:
        self.next_due_ns = min(map(_due_ns, self._timers))


def _due_ns(timer: SteppedTimer) -> int:
    return timer.due_ns


def _nothing() -> None:
    """What has come is handled before the timers."""
