# SPDX-License-Identifier: Apache-2.0
"""A thread that runs a cycle at absolute monotonic deadlines, without the interpreter lock where it is compiled."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.runtime.periodic import ProcessorFraction, RealtimeSettings, apply_realtime
from continuum_robot.runtime.reports import LoopReport, ResponseReport
from continuum_robot.runtime.timing import LoopStatistics, LoopTiming

Result = TypeVar("Result")


class PendingCalls:
    """Functions that wait for the loop; true while there are some."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[tuple[Callable[[], Any], concurrent.futures.Future[Any]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, function: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Have ``function`` called by the loop; its result, or what it raised, is the future's."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        self._waiting.append((function, future))
        return future

    def answer(self) -> None:
        """Call all that wait. In the loop's thread."""
        while self._waiting:
            function, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    def refuse(self) -> None:
        """The loop has ended: all that wait get a :class:`DeviceError`. Safe to call from any thread."""
        while self._waiting:
            try:
                _, future = self._waiting.popleft()
            except IndexError:  # another thread refused it
                return
            if future.set_running_or_notify_cancel():
                future.set_exception(DeviceError(self._name, "the loop has ended", "Configure the node again"))


Cycle = Callable[[float, float, int], None]
"""Called with the time (s), the time since the cycle before (s), and how many deadlines passed between them."""
LOOK_S = 0.005


def _failed(error: BaseException) -> None:
    raise error


class ControlThread:
    """Runs a cycle at a fixed rate, and what other threads want done between two cycles.

    Deadlines that passed are counted and skipped, never caught up. A compiled cycle runs without the interpreter lock
    while no Python code need look into it (:meth:`run_compiled`); a second thread then reads its log.
    """

    def __init__(
        self,
        name: str,
        period_s: float,
        cycle: Cycle | None = None,
        *,
        on_failure: Callable[[BaseException], None] = _failed,
        on_refused: Callable[[Sequence[str]], None] = lambda _sentences: None,
        realtime: RealtimeSettings | None = None,
    ) -> None:
        if not period_s > 0:
            raise ParameterError("period_s", period_s, "a positive number of seconds")
        self.name, self.period_s = name, period_s
        self._cycle, self._on_failure, self._on_refused = cycle, on_failure, on_refused
        self._realtime = realtime or RealtimeSettings()
        self._timing = LoopTiming(round(period_s * 1e9))
        self.statistics: LoopStatistics = self._timing.statistics
        self._compiled: Any = None  # a CycleLoop, which is the timing too
        self._event = -1
        self._free: Callable[[], bool] = lambda: True
        self._on_rows: Callable[[], None] = lambda: None
        self._begun_ns = 0
        self._stop = threading.Event()
        self._calls = PendingCalls(name)
        self._thread: threading.Thread | None = None
        self._reader: threading.Thread | None = None

    def run_compiled(self, kind: Any, cycle: Any) -> None:
        """Before the start: let ``kind``, a compiled :class:`CycleLoop`, run this compiled ``cycle``."""
        self._event = os.eventfd(0, os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._event).atexit = False
        self._timing = self._compiled = kind(cycle, round(self.period_s * 1e9), self._event)
        self.statistics = self._timing.statistics

    @property
    def running(self) -> bool:
        """Whether the thread runs, and was not asked to stop."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def start(
        self,
        cycle: Cycle | None = None,
        *,
        on_failure: Callable[[BaseException], None] | None = None,
        free: Callable[[], bool] = lambda: True,
        on_rows: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the thread. While ``free`` holds, a compiled cycle runs, and ``on_rows`` is called after its cycles."""
        self._cycle, self._on_failure = cycle or self._cycle, on_failure or self._on_failure
        self._free, self._on_rows = free, on_rows
        self._stop.clear()
        if self._compiled is not None:
            self._reader = threading.Thread(target=self._read, name="cycle log", daemon=True)
            self._reader.start()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> bool:
        """Let the cycle under way end and join the thread; False when it did not end in time. Safe to call twice."""
        self._stop.set()
        self._leave()
        thread, reader = self._thread, self._reader
        if thread is not None:
            thread.join(timeout_s)
            self._calls.refuse()
            self._thread = thread if thread.is_alive() else None
        if reader is not None:
            self._reader = None
            os.eventfd_write(self._event, 1)
            reader.join(timeout_s)
        return self._thread is None

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:
        """Run ``function`` in the thread between two cycles, and give its result; directly when it is not running."""
        if not self.running or threading.current_thread() is self._thread:
            return function()
        future = self._calls.add(function)
        self._leave()
        # Either it was called, or it never is: a caller that was refused must not find it done later.
        if concurrent.futures.wait([future], timeout_s).not_done and future.cancel():
            raise DeviceError(
                self.name,
                f"the loop did not answer within {timeout_s:g} s: nothing was done",
                "A call to the device or a controller's update hangs: check the bus, or restart the driver",
            )
        if concurrent.futures.wait([future], timeout_s).not_done:
            raise DeviceError(
                self.name,
                f"the loop has begun with what was asked, and did not end it within {2 * timeout_s:g} s",
                "A call to the device hangs: check its bus, and the driver's state before you ask again",
            )
        return future.result()

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition`` holds, while the thread runs; whether it does."""
        end_s = time.monotonic() + timeout_s
        while not condition():
            if not self.running or time.monotonic() > end_s:
                return False
            time.sleep(LOOK_S)
        return True

    def now_s(self) -> float:
        """Monotonic time, s."""
        return time.monotonic()

    # --- timing

    def report(self) -> LoopReport:
        """Timing since the last reset."""
        return self.statistics.report()

    def response_report(self) -> ResponseReport:
        """Times from a cycle's beginning to its command written, since the last reset."""
        return self._timing.response_report()

    def reset_statistics(self) -> None:
        """Start the statistics over."""
        self._timing.reset_statistics()

    def wrote(self, cycle: Any) -> None:
        """A :class:`DriverCycle` that Python code runs has ended: note when its command was on its way."""
        end_ns = time.monotonic_ns()
        if cycle.wrote(end_ns * 1e-9):
            self._timing.responded(end_ns - self._begun_ns)

    # --- the threads

    def _leave(self) -> None:
        if self._compiled is not None:
            self._compiled.leave()

    def _run(self) -> None:
        if refused := apply_realtime(self._realtime):
            self._on_refused(refused)
        fraction = ProcessorFraction.of_first()
        timing, compiled, cycle = self._timing, self._compiled, self._cycle
        monotonic_ns, stopped = time.monotonic_ns, self._stop.is_set
        timing.restart()
        before_ns = monotonic_ns()
        try:
            while not stopped():
                if compiled is not None:
                    compiled.arm()  # before the looks: whoever asks from now on makes it leave
                if compiled is not None and not self._calls and not stopped() and self._free():
                    compiled.run()
                    before_ns = monotonic_ns()
                    self._calls.answer()
                elif cycle is not None:
                    self._begun_ns = timing.begin_paced()
                    if self._calls:
                        self._calls.answer()
                        # A call may have read the device: time must not run backwards for it.
                        self._begun_ns = monotonic_ns()
                    cycle(self._begun_ns * 1e-9, (self._begun_ns - before_ns) * 1e-9, timing.missed)
                    before_ns = self._begun_ns
                    timing.end_paced()
                if fraction is not None and (gave_up := fraction.give_up(self.name)):
                    fraction = None
                    self._on_refused([gave_up])
        except BaseException as error:  # the device must be made safe, whatever happened
            self._on_failure(error)
        finally:
            self._stop.set()
            self._calls.refuse()

    def _read(self) -> None:
        reader = self._reader
        try:
            while self._reader is reader:
                os.eventfd_read(self._event)
                self._on_rows()
        except BaseException as error:
            failure = error
            if self._reader is reader:
                self.call(lambda: self._on_failure(failure))
