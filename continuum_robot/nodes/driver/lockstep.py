# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle in lock-step: it is the clock of the stack, and moves the simulated robot and the other nodes."""

from __future__ import annotations

import concurrent.futures
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rosgraph_msgs.msg import Clock as ClockMessage

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.lifecycle import ONE_PROCESS, ManagedNode
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.runtime.control_thread import PendingCalls
from continuum_robot.runtime.pace import Cycle, UntimedPace

Result = TypeVar("Result")
CLOCK_EVERY = 10
"""Cycles from one message on /clock to the next."""
SLICE_S = 0.005
"""Wall-clock time of cycles after which services, actions and status over DDS have their chance, s."""
LOOK_EVERY = 10
"""Slices from one look at who listens outside to the next."""


class LockstepPace(UntimedPace):
    """Cycles in the time of the simulated robot, in the thread that spins the nodes: services come between them.

    While the stack is up, or in its safe state since then, every node gets its turn in each cycle, and what cycles did
    is published; before and after that time passes for the driver and its devices alone, while somebody waits for it.
    So runs are the same on every machine.
    """

    def __init__(self, node: ManagedNode, period_s: float, run_s: float) -> None:
        if node.bus is None:
            raise ParameterError("clock", "lockstep", ONE_PROCESS)
        self.period_s, self.done, self.up = period_s, False, False
        self._node, self._bus, self._run_ns = node, node.bus, round(run_s * 1e9)
        self._bus.on_ready = self._arm
        self._period_ns = round(period_s * 1e9)
        self._time_ns, self._end_ns = node.clock.monotonic_ns(), 0
        self._calls = PendingCalls("tendon_driver")
        self._waits: deque[tuple[Callable[[], bool], int, concurrent.futures.Future[bool]]] = deque()
        self._cycle: Cycle | None = None
        self._on_failure: Callable[[BaseException], None] = lambda _error: None
        self._thread_id = 0
        self._armed = self._turning = self._turn_is_open = self._in_cycle = False
        self._slices, self._clock_heard = 0, False
        self._cycles, self._began_wall_s, self.real_time_factor = 0, 0.0, math.nan
        self._clock_message = ClockMessage()
        self._clocks = node.create_publisher(ClockMessage, "/clock", qos.state_publisher())
        self.on_done: Callable[[], None] = lambda: None
        subscribe_to_owner(node, StackStatus, "stack_status", self._on_stack_status)

    def connect(self) -> None:
        """Take hold of the simulated robot's time. Raises :class:`DeviceError` where there is none in this process."""
        self._advance(self._time_ns)

    # What actuators need

    def now_s(self) -> float:
        """Simulated time, s."""
        return self._time_ns * 1e-9

    def sleep(self, duration_s: float) -> None:
        """Let simulated time pass: cycles run meanwhile, but within one and where none runs."""
        if self.running and not self._in_cycle:
            self.wait(lambda: False, duration_s)
        else:
            self._advance(self._time_ns + round(duration_s * 1e9))

    # As Pace

    @property
    def running(self) -> bool:
        """Whether cycles run when time passes."""
        return self._cycle is not None

    def start(
        self,
        cycle: Cycle,
        *,
        on_failure: Callable[[BaseException], None],
        free: Callable[[], bool] = lambda: True,  # noqa: ARG002
        on_rows: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> None:
        """As :class:`~continuum_robot.runtime.pace.Pace`; every cycle is followed by the turns of the others."""
        self._on_failure, self._cycle = on_failure, cycle
        self._thread_id = threading.get_ident()

    def stop(self) -> bool:
        """As :class:`~continuum_robot.runtime.pace.Pace`."""
        self._cycle, self._turning = None, False
        self._refuse()
        return True

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:  # noqa: ARG002
        """As :class:`~continuum_robot.runtime.pace.Pace`."""
        if not self.running or self._spun_here():
            return function()
        future = self._calls.add(function)
        self._arm()
        if not self.running:
            self._calls.refuse()
        return future.result()

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """As :class:`~continuum_robot.runtime.pace.Pace`, in simulated time; no other node has a turn meanwhile."""
        if not self.running:
            return condition()
        future: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self._waits.append((condition, self._time_ns + round(timeout_s * 1e9), future))
        if self._spun_here():
            while not future.done():
                self._go_on()
        else:
            self._arm()
            if not self.running:
                self._refuse()
        return future.result()

    def run_for(self, duration_s: float) -> None:
        """Let time pass for so long beyond what was asked for, while the stack is up; :attr:`done` is true once it has.

        For the thread that spins the nodes.
        """
        if not self._run_ns:
            raise ParameterError("lockstep.run_s", 0.0, "above 0: time passes without end already")
        self._end_ns = max(self._end_ns, self._time_ns) + round(duration_s * 1e9)
        self.done = self._time_ns >= self._end_ns
        self._turning = self.up and not self.done
        self._arm()

    @property
    def turning(self) -> bool:
        """Whether the nodes get their turns."""
        return self._turning and not self._waits

    # In the thread that spins the nodes

    def _spun_here(self) -> bool:
        """Whether this is the thread in which cycles run: where no executor spins the node, that of who asks."""
        return self._node.executor is None or threading.get_ident() == self._thread_id

    def _arm(self) -> None:
        """Have cycles run soon. From any thread."""
        executor = self._node.executor
        if not self._armed and executor is not None:
            self._armed = True
            executor.create_task(self._run_slice)

    def _run_slice(self) -> None:
        self._armed = False
        self._slices += 1
        if self._slices % LOOK_EVERY == 0:
            self._bus.looks += 1
            self._clock_heard = self._clocks.get_subscription_count() > 0
        end_s = time.monotonic() + SLICE_S
        while self._go_on():
            if time.monotonic() > end_s:
                self._arm()
                return

    def _go_on(self) -> bool:
        """Do the next thing; False where there is none now, or the loop has ended."""
        try:
            self._calls.answer()
            if self._waits:
                self._end_waits()
                if self._waits:
                    self._run_cycle()
                return self.running
            if not self._turn_is_open:
                if not self._turning or not self.running:
                    return False
                self._run_cycle()
                self._turn_is_open = True
            return self._give_turns()
        except Exception as error:
            self._cycle, self._turning = None, False
            self._on_failure(error)
            self._refuse()
            return False

    def _end_waits(self) -> None:
        for wait in list(self._waits):
            condition, end_ns, waiting = wait
            if (held := condition()) or self._time_ns >= end_ns:
                self._waits.remove(wait)
                waiting.set_result(held)

    def _run_cycle(self) -> None:
        cycle = self._cycle
        if cycle is not None:
            self._in_cycle = True
            try:
                self._advance(self._time_ns + self._period_ns)
                cycle(self.now_s(), self.period_s, 0)
            finally:
                self._in_cycle = False

    def _give_turns(self) -> bool:
        """All that is due at this time; False where an answer is waited for, or the time is over."""
        bus, now_ns = self._bus, self._time_ns
        over = bool(self._run_ns) and now_ns >= self._end_ns
        if not bus.run_due(now_ns) or (over and not bus.run_due(now_ns, everybody=True)):
            return False
        self._turn_is_open = False
        self._cycles += 1
        if over or (self._clock_heard and self._cycles % CLOCK_EVERY == 0):
            conversions.set_stamp(self._clock_message.clock, now_ns)
            self._clocks.publish(self._clock_message)
        if over:
            # What the driver still does after this is for itself.
            self.done, self._turning = True, False
            self.real_time_factor = self._run_ns * 1e-9 / (time.monotonic() - self._began_wall_s)
            self.on_done()
        return not over

    def _advance(self, time_ns: int) -> None:
        world = self._bus.world
        if world is None:
            raise DeviceError("simulator", "is not configured in this process", "Bring the stack up again")
        self._time_ns = time_ns
        self._bus.clock.set_ns(time_ns)
        world(time_ns)

    def _refuse(self) -> None:
        self._calls.refuse()
        while self._waits:
            *_, waiting = self._waits.popleft()
            waiting.set_result(False)

    def _on_stack_status(self, message: StackStatus) -> None:
        """Time passes for all while the stack is up, and goes on after a fault."""
        up = message.state == StackStatus.UP or (message.state == StackStatus.FAULT and self.up)
        if up == self.up:
            return
        self.up = self._turning = up
        if up:
            self.done, self._end_ns, self._began_wall_s = False, self._time_ns + self._run_ns, time.monotonic()
        self._arm()
