# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle in lock-step: it is the clock of the stack, and moves the simulated robot and the other nodes."""

from __future__ import annotations

import concurrent.futures
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rclpy.qos import QoSProfile

from continuum_robot.drivers.simulated_wires import SimulatorControl
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.lockstep.coordinator import LockstepCoordinator
from continuum_robot.nodes.lockstep.flow import FlowPublisher, FlowTimer
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.runtime.clock import SteppedClock
from continuum_robot.runtime.pace import Cycle, UntimedPace
from continuum_robot.runtime.pending_calls import PendingCalls

Result = TypeVar("Result")
CLOCK_EVERY = 10
"""Cycles from one message on /clock to the next."""
JOIN_TIMEOUT_S = 5.0


class DriverFlow:
    """How the driver, and the controller in its cycle, publish and listen in lock-step: counted by the coordinator."""

    def __init__(self, coordinator: LockstepCoordinator, node: ManagedNode) -> None:
        self._coordinator, self._node = coordinator, node

    def create_publisher(self, kind: Any, topic: str, profile: QoSProfile) -> FlowPublisher:  # noqa: ARG002
        """As :class:`~continuum_robot.nodes.lockstep.flow.Flow`."""
        return self._coordinator.create_publisher(kind, topic)

    def create_subscription(
        self,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        profile: QoSProfile,  # noqa: ARG002
        *,
        raw: bool = False,
        lazy: bool = False,  # noqa: ARG002
        with_gid: bool = False,
    ) -> None:
        """As :class:`~continuum_robot.nodes.lockstep.flow.Flow`; the callback comes in the loop's thread."""
        self._coordinator.listen(kind, topic, self._node.guarded(callback), raw=raw, with_gid=with_gid)

    def create_timer(self, callback: Callable[[], None]) -> FlowTimer:
        """Nothing in the driver's process is due by itself: raises :class:`ParameterError`."""
        raise ParameterError("create_timer", callback, "no timer: the driver's cycle is the clock")

    def create_loop(self, name: str, period_s: float, cycle: Any, on_failure: Any) -> Any:  # noqa: ARG002
        """As :meth:`create_timer`: raises :class:`ParameterError`."""
        raise ParameterError("create_loop", name, "no loop: the driver's cycle is the clock")

    def hold(self, future: Any) -> None:
        """As :meth:`create_timer`: raises :class:`ParameterError`."""
        raise ParameterError("hold", future, "nothing to wait for in the driver's cycle")


class LockstepPace(UntimedPace):
    """Cycles in the time of the simulated robot. Time passes while the stack is up, and while the driver waits for it.

    While the stack is up, or in its safe state since then, every node gets its turn in each cycle, and what cycles did
    is published; before and after that time passes for the driver and its devices alone. So runs are the same on every
    machine.
    """

    def __init__(self, node: ManagedNode, period_s: float, run_s: float) -> None:
        if not isinstance(node.clock, SteppedClock):
            raise ParameterError("clock", node.clock, "the clock of lock-step")
        self.period_s, self._turning, self.done = period_s, False, False
        self._node, self._clock, self._run_ns = node, node.clock, round(run_s * 1e9)
        self._period_ns = round(period_s * 1e9)
        self._calls = PendingCalls("tendon_driver")
        # Also where a turn is waited for: the thread that calls may be the one that answers.
        self._coordinator = LockstepCoordinator(
            node, node.clock, while_waiting=self._calls.answer, interrupted=lambda: bool(self._waits)
        )
        self.flow = DriverFlow(self._coordinator, node)
        self._control: SimulatorControl | None = None
        self._time_ns, self._end_ns = node.clock.monotonic_ns(), 0
        self._changed = threading.Condition()
        self._waits: deque[tuple[Callable[[], bool], int, concurrent.futures.Future[bool]]] = deque()
        self._names: tuple[str, ...] | None = None
        self._stopped = True
        self._thread: threading.Thread | None = None
        self._cycle: Cycle | None = None
        self._on_failure: Callable[[BaseException], None] = lambda _error: None
        self._cycles = 0
        self._up = self._began = False
        self._begun_wall_s, self.real_time_factor = 0.0, math.nan
        self.on_done: Callable[[], None] = lambda: None
        self.in_cycle: tuple[str, ...] = ()
        subscribe_to_owner(node, StackStatus, "stack_status", self._on_stack_status)

    def connect(self, robot: str) -> None:
        """Take hold of the simulated robot's time. Raises :class:`DeviceError` where there is none in lock-step."""
        self.disconnect()
        control = SimulatorControl(self._node.get_namespace(), robot)
        control.open()
        self._control = control
        self._advance(self._time_ns)

    def disconnect(self) -> None:
        """Let go of it. Safe to call at any time."""
        control, self._control = self._control, None
        if control is not None:
            control.close()

    # What actuators need

    def now_s(self) -> float:
        """Simulated time, s."""
        return self._time_ns * 1e-9

    def sleep(self, duration_s: float) -> None:
        """Let simulated time pass: cycles run meanwhile, but in the loop's own thread and where none runs."""
        if self.running and threading.current_thread() is not self._thread:
            self.wait(lambda: False, duration_s)
        else:
            self._advance(self._time_ns + round(duration_s * 1e9))

    # As Pace

    @property
    def running(self) -> bool:
        """Whether cycles run when time passes."""
        return self._thread is not None and self._thread.is_alive() and not self._stopped

    def start(
        self,
        cycle: Cycle,
        *,
        on_failure: Callable[[BaseException], None],
        free: Callable[[], bool] = lambda: True,  # noqa: ARG002
        on_rows: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> None:
        """As :class:`~continuum_robot.runtime.pace.Pace`; every cycle is followed by the turns of the others."""
        self._cycle, self._on_failure, self._stopped = cycle, on_failure, False
        self._coordinator.reopen()
        self._thread = threading.Thread(target=self._run, name="tendon_driver", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """As :class:`~continuum_robot.runtime.pace.Pace`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._coordinator.close()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(JOIN_TIMEOUT_S)
        self._turning = False
        return thread is None or not thread.is_alive()

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:  # noqa: ARG002
        """As :class:`~continuum_robot.runtime.pace.Pace`; for a turn of the others, too, is waited."""
        if not self.running or threading.current_thread() is self._thread:
            return function()
        with self._changed:
            future = self._calls.add(function)
            self._changed.notify_all()
        self._coordinator.wake()
        if not self.running:
            self._calls.refuse()
        return future.result()

    @property
    def turning(self) -> bool:
        """Whether the nodes get their turns."""
        return self._turning and not self._waits

    @property
    def up(self) -> bool:
        """Whether the stack is up, and all nodes take part."""
        return self._began

    def run_for(self, duration_s: float) -> None:
        """Let time pass for so long beyond what was asked for, while the stack is up; :attr:`done` is true
        once it has.
        """
        if not self._run_ns:
            raise ParameterError("lockstep.run_s", 0.0, "above 0: time passes without end already")
        with self._changed:
            self._end_ns = max(self._end_ns, self._time_ns) + round(duration_s * 1e9)
            self.done = self._time_ns >= self._end_ns
            self._turning = self._began and not self.done
            self._changed.notify_all()

    @property
    def published(self) -> Mapping[str, int]:
        """Messages of each topic of lock-step so far, by its full name."""
        return self._coordinator.published

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """As :class:`~continuum_robot.runtime.pace.Pace`, in simulated time.

        No other node has a turn meanwhile: the thread that waits may be the one in which they would answer.
        """
        if not self.running:
            return condition()
        future: concurrent.futures.Future[bool] = concurrent.futures.Future()
        with self._changed:
            self._waits.append((condition, self._time_ns + round(timeout_s * 1e9), future))
            self._changed.notify_all()
        self._coordinator.wake()
        if not self.running:
            self._refuse_waits()
        return future.result()

    # The thread

    def _run(self) -> None:
        try:
            while self._next():
                pass
        except BaseException as error:
            self._stopped = True
            self._on_failure(error)
        finally:
            self._stopped = True
            self._calls.refuse()
            self._refuse_waits()

    def _refuse_waits(self) -> None:
        while self._waits:
            try:
                *_, waiting = self._waits.popleft()
            except IndexError:  # another thread refused it
                return
            waiting.set_result(False)

    def _next(self) -> bool:
        """Do the next thing; False at the end."""
        with self._changed:
            while not (self._stopped or self._calls or self._waits or self._names is not None or self._may_turn()):
                self._changed.wait()
            if self._stopped:
                return False
            names = None
            if not self._waits:
                names, self._names = self._names, None
        self._calls.answer()
        if names is not None:
            self._begin_turns(names)
        if self._waits:
            for wait in list(self._waits):
                condition, end_ns, waiting = wait
                if (held := condition()) or self._time_ns >= end_ns:
                    self._waits.remove(wait)
                    waiting.set_result(held)
            if not self._waits:
                return True
        elif not self._may_turn():
            return True
        return self._step()

    def _may_turn(self) -> bool:
        return self._turning and (not self._run_ns or self._time_ns < self._end_ns)

    def _begin_turns(self, names: tuple[str, ...]) -> None:
        if names and self._coordinator.wait_for(names):
            self._turning, self.done, self._began = True, False, True
            self._begun_wall_s = time.monotonic()
            self._end_ns = self._time_ns + self._run_ns
        elif not names:
            self._turning = self._began = False
        elif self._waits and self._names is None:
            self._names = names

    def _step(self) -> bool:
        cycle, now_ns = self._cycle, self._time_ns + self._period_ns
        if cycle is None:
            return False
        self._advance(now_ns)
        cycle(now_ns * 1e-9, self.period_s, 0)
        if not self.turning:
            return True
        if not self._give_turns(self._coordinator.run_due, now_ns):
            return bool(self._waits)
        self._cycles += 1
        if self._cycles % CLOCK_EVERY == 0:
            self._coordinator.publish_clock(now_ns)
        if self._run_ns and now_ns >= self._end_ns:
            if not self._give_turns(self._coordinator.run_all, now_ns):
                return bool(self._waits)
            # What the driver still does after this is for itself.
            self.done, self._turning = True, False
            self.real_time_factor = self._run_ns * 1e-9 / (time.monotonic() - self._begun_wall_s)
            self._coordinator.publish_clock(now_ns)
            self.on_done()
        return True

    def _give_turns(self, give: Callable[[int], bool], now_ns: int) -> bool:
        """False where it was closed or interrupted; the time then ends with a later cycle, in which all had theirs."""
        if give(now_ns) and self._coordinator.wait_heard():
            return True
        self._end_ns = max(self._end_ns, now_ns + self._period_ns)
        return False

    def _advance(self, time_ns: int) -> None:
        control = self._control
        if control is None:
            raise DeviceError("simulator", "is not connected in lock-step", "Configure the driver again")
        control.advance_to(time_ns)
        self._time_ns = time_ns
        self._clock.set_ns(time_ns)

    # The stack

    def _on_stack_status(self, message: StackStatus) -> None:
        """Time passes for all while the stack is up, and goes on after a fault while all nodes are there."""
        up = message.state == "up"
        up |= message.state == "fault" and self._up and "unknown" not in message.node_states
        if up == self._up:
            return
        self._up = up
        names = tuple(name for name in message.node_names if name not in ("tendon_driver", *self.in_cycle))
        with self._changed:
            self._names = names if up else ()
            self._changed.notify_all()
