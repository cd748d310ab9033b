# SPDX-License-Identifier: Apache-2.0
"""How late a thread is that sleeps to absolute deadlines, on an idle and on a busy machine. No ROS."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from continuum_robot.stepped.system_calls import monotonic_ns, sleep_until_ns

PERIOD_S = 1e-3

# It ends by itself where nobody is left to end it.
_BUSY = """
import os, sys
if sys.argv[2]:
    os.sched_setaffinity(0, {int(sys.argv[2])})
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the deadlines of a run were."""

    deadlines: int
    p50_us: float
    p99_us: float
    maximum_us: float
    missed: int
    real_time: bool

    @property
    def missed_percent(self) -> float:
        """Missed deadlines of all, %."""
        return 100 * self.missed / self.deadlines if self.deadlines else float("nan")


def lateness(late_ns: Sequence[int], period_ns: int, *, real_time: bool = False) -> Lateness:
    """Sum up wake-ups."""
    if not late_ns:
        return Lateness(0, float("nan"), float("nan"), float("nan"), 0, real_time)
    values = np.array(late_ns, dtype=np.int64)
    missed = int((values // period_ns).sum())
    p50, p99, most = (float(np.quantile(values, fraction)) * 1e-3 for fraction in (0.5, 0.99, 1.0))
    return Lateness(len(values) + missed, p50, p99, most, missed, real_time)


def measure_lateness(
    wait: Callable[[], object], *, period_s: float = PERIOD_S, priority: int = 0, cpus: Sequence[int] = ()
) -> Lateness:
    """Sleep to absolute deadlines in a thread while ``wait`` lasts; missed ones are skipped, as in the
    driver's loop.
    """
    period_ns = round(period_s * 1e9)
    late_ns: list[int] = []
    taken = [False]
    stop = threading.Event()

    def run() -> None:
        if cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cpus)
        if priority:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
                taken[0] = True
        deadline_ns = monotonic_ns()
        while not stop.is_set():
            deadline_ns += period_ns
            sleep_until_ns(deadline_ns)
            late = monotonic_ns() - deadline_ns
            late_ns.append(late)
            deadline_ns += max(0, late // period_ns) * period_ns

    thread = threading.Thread(target=run, name="timer jitter", daemon=True)
    thread.start()
    try:
        wait()
    finally:
        stop.set()
        thread.join()
    return lateness(late_ns, period_ns, real_time=taken[0])


@contextlib.contextmanager
def busy_cores(cpus: Sequence[int]) -> Iterator[list[int]]:
    """A busy process on every core, at nice 0; each is ended by its id when the block is left."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in cpus:
            command = [sys.executable, "-I", "-S", "-c", _BUSY, str(os.getpid()), str(cpu)]
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True))
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
