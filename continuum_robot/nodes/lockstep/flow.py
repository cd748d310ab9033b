# SPDX-License-Identifier: Apache-2.0
"""What a node does in the flow of time: messages of the control loop, timers and loops; in real time or in lock-step.

Nodes ask their :class:`Flow` for these instead of rclpy. In real time it hands them on to rclpy; in lock-step
(nodes/lockstep/bus.py) it lets them wait for the node's turn. Services, parameters, transitions and latched
status stay with rclpy: they come while time stands still, or from people.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future

from continuum_robot.runtime.control_thread import ControlThread, Result
from continuum_robot.runtime.timing import LoopStatistics

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode


class FlowPublisher(Protocol):
    """A publisher of rclpy, or one that counts."""

    def publish(self, msg: Any) -> None:
        """Publish a message, ``msg``, or the bytes of a serialised one."""

    def get_subscription_count(self) -> int:
        """How many listen."""


class FlowTimer(Protocol):
    """A timer that is made once and started and stopped at will."""

    def start(self, period_s: float) -> None:
        """Be due a period from now, and then periodically; ``period_s`` in s."""

    def cancel(self) -> None:
        """Be not due any more."""


class FlowLoop(Protocol):
    """A cycle at a fixed rate: see :class:`~continuum_robot.runtime.control_thread.ControlThread`."""

    period_s: float
    statistics: LoopStatistics

    def start(self) -> None:
        """Start."""

    def stop(self, timeout_s: float = 2.0) -> bool:
        """End; False when it hangs."""

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:
        """Run ``function`` between two cycles and wait for its result."""


class Flow(Protocol):
    """Publishers, subscriptions, timers and loops of a node."""

    def create_publisher(self, kind: Any, topic: str, profile: QoSProfile) -> FlowPublisher:
        """A publisher."""

    def create_subscription(
        self,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        profile: QoSProfile,
        *,
        raw: bool = False,
        lazy: bool = False,
        with_gid: bool = False,
    ) -> None:
        """Subscribe for good. In lock-step, topics of a turn are handled in the order in which they were subscribed.

        ``raw``: as bytes; ``lazy`` and ``raw``: as what ``conversions.message_of`` makes a message of.
        """

    def create_timer(self, callback: Callable[[], None]) -> FlowTimer:
        """A timer, stopped."""

    def create_loop(
        self,
        name: str,
        period_s: float,
        cycle: Callable[[float, float], None],
        on_failure: Callable[[BaseException], None],
    ) -> FlowLoop:
        """A loop, stopped."""

    def hold(self, future: Future[Any]) -> None:
        """In lock-step the node's turn lasts until this is done."""


class RealTimer:
    """A timer of rclpy on the monotonic clock. One for good: the EventsExecutor does not take it well when a callback
    destroys what it listens to.
    """

    def __init__(self, node: Node, callback: Callable[[], None]) -> None:
        self._timer = node.create_timer(1.0, callback, clock=RosClock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()

    def start(self, period_s: float) -> None:
        """Be due a period from now, and then periodically; ``period_s`` in s."""
        self._timer.timer_period_ns = round(1e9 * period_s)
        self._timer.reset()

    def cancel(self) -> None:
        """Be not due any more."""
        self._timer.cancel()


class RealFlow:
    """The flow in real time: rclpy's own publishers and subscriptions, threads for loops."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node

    def create_publisher(self, kind: Any, topic: str, profile: QoSProfile) -> FlowPublisher:
        """See :meth:`Flow.create_publisher`."""
        publisher: FlowPublisher = self._node.create_publisher(kind, topic, profile)
        return publisher

    def create_subscription(
        self,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        profile: QoSProfile,
        *,
        raw: bool = False,
        lazy: bool = False,  # noqa: ARG002
        with_gid: bool = False,
    ) -> None:
        """See :meth:`Flow.create_subscription`; ``lazy`` means nothing here."""
        if with_gid:
            self._node.subscribe_with_publisher(kind, topic, callback, profile, raw=raw)
        else:
            self._node.create_subscription(kind, topic, callback, profile, raw=raw)

    def create_timer(self, callback: Callable[[], None]) -> FlowTimer:
        """See :meth:`Flow.create_timer`."""
        return RealTimer(self._node, callback)

    def create_loop(
        self,
        name: str,
        period_s: float,
        cycle: Callable[[float, float], None],
        on_failure: Callable[[BaseException], None],
    ) -> FlowLoop:
        """See :meth:`Flow.create_loop`."""

        def timed(now_s: float, elapsed_s: float, _missed: int) -> None:
            cycle(now_s, elapsed_s)

        return ControlThread(name, period_s, timed, on_failure=on_failure, on_refused=self._node.warn_of_all)

    def hold(self, future: Future[Any]) -> None:
        """Does nothing: real time waits for nobody."""
