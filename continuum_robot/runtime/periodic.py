# SPDX-License-Identifier: Apache-2.0
"""What threads of this package ask of the operating system: who goes first, on which core, with which timers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import platform
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from continuum_robot.runtime.machine import allowed_priority

_MCL_CURRENT_AND_FUTURE = 3
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call, for which older C libraries have no function."""
SHORT_SLICE_NS = 100_000
_PR_SET_TIMERSLACK = 29

LIMITS_ADVICE = (
    "Allow it with these lines in /etc/security/limits.d/continuum_robot.conf, then log in again: "
    "'@realtime - rtprio 98' and '@realtime - memlock unlimited' (and: sudo groupadd -f realtime; "
    "sudo usermod -aG realtime $USER)"
)

FIFO_PRIORITY = 80
"""Of the loop's thread: above interrupts of disks and Ethernet (50), below those of CAN (docs/how-to/realtime.md)."""
SIMULATOR_PRIORITY = FIFO_PRIORITY - 10
"""Of the thread that moves a simulated robot: below the loop, which is short."""
GIVEN_WAY = 5
"""Nice value of processes whose work can wait for a moment."""
_WATCHED_NS = 250_000_000
_LARGEST_FRACTION = 0.8
_WINDOWS = 2  # in a row: the first cycles of a simulated robot load its code


@dataclass(frozen=True, slots=True)
class RealtimeSettings:
    """What the thread asks of the operating system; the defaults ask for nothing."""

    priority: int = 0
    cpu_affinity: tuple[int, ...] = ()
    lock_memory: bool = False


def simulator_settings() -> RealtimeSettings:
    """For the thread that moves a simulated robot in a process of its own: a real one moves whatever the computer does.

    On a single core it would leave nothing to the others.
    """
    return RealtimeSettings(allowed_priority(SIMULATOR_PRIORITY) if len(os.sched_getaffinity(0)) > 1 else 0)


def apply_realtime(settings: RealtimeSettings) -> list[str]:
    """Apply the settings to the calling thread."""
    refused = []
    if settings.cpu_affinity:
        try:
            os.sched_setaffinity(0, settings.cpu_affinity)
        except OSError as error:
            refused.append(
                f"rt.cpu_affinity = {list(settings.cpu_affinity)} was refused ({error.strerror}); "
                f"the CPUs of this process are {sorted(os.sched_getaffinity(0))}"
            )
    if settings.priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(settings.priority))
        except OSError as error:
            refused.append(f"rt.priority = {settings.priority} was refused ({error.strerror}). {LIMITS_ADVICE}")
    if settings.lock_memory:
        library = ctypes.CDLL(None, use_errno=True)
        if library.mlockall(_MCL_CURRENT_AND_FUTURE) != 0:
            reason = os.strerror(ctypes.get_errno() or errno.EPERM)
            refused.append(f"rt.lock_memory = true was refused ({reason}). {LIMITS_ADVICE}")
    return refused


@contextlib.contextmanager
def waiting_for_loop() -> Iterator[None]:
    """For a thread that waits for a loop of its process, and shows what it does: first too, but for the loop.

    An ordinary thread may be stopped for a long time while it holds the interpreter's lock, and the loop with it. Not
    for threads that compute.
    """
    if apply_realtime(settings := simulator_settings()) or not settings.priority:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class ProcessorFraction:
    """Takes SCHED_FIFO from a thread that leaves nothing to the others: one that is late with every cycle never sleeps.

    Made in the thread that it watches.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.monotonic_ns, used_ns: Callable[[], int] = time.thread_time_ns
    ) -> None:
        self._clock_ns, self._used_ns = clock_ns, used_ns
        self._begun_ns, self._begun_used_ns = clock_ns(), used_ns()
        self._above = 0

    @classmethod
    def of_first(cls) -> ProcessorFraction | None:
        """Of the calling thread; None where it does not go first."""
        first = platform.system() == "Linux" and os.sched_getscheduler(0) == os.SCHED_FIFO
        return cls() if first else None

    def give_up(self, name: str) -> str:
        """Back to the ordinary scheduler where the thread used most of a core for twice a quarter of a
        second in a row.
        """
        passed_ns = self._clock_ns() - self._begun_ns
        if passed_ns < _WATCHED_NS:
            return ""
        used_ns = self._used_ns()
        fraction = (used_ns - self._begun_used_ns) / passed_ns
        self._begun_ns, self._begun_used_ns = self._begun_ns + passed_ns, used_ns
        self._above = self._above + 1 if fraction > _LARGEST_FRACTION else 0
        if self._above < _WINDOWS:
            return ""
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return (
            f"the thread {name} used {100 * fraction:.0f} % of a core: it gives its SCHED_FIFO priority back, since "
            f"above {100 * _LARGEST_FRACTION:.0f} % it would stop everything else. Lower the rate, or simulate less"
        )


def ask_for_short_slices(slice_ns: int = SHORT_SLICE_NS) -> bool:
    """Have the calling thread, and threads that it makes later, run soon after they are woken, but not for long.

    An ordinary thread may keep its core for 3 ms while others wait; one with shorter slices is let in before it. Needs
    no privileges, and Linux 6.12 or newer.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        return False
    size, policy, flags, nice, priority, deadline_ns, period_ns = 48, 0, 0, 0, 0, 0, 0
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return False
        nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("=IIQiIQQQ", size, policy, flags, nice, priority, slice_ns, deadline_ns, period_ns)
    return ctypes.CDLL(None, use_errno=True).syscall(number, 0, attributes, 0) == 0


def give_way() -> None:
    """Have all threads of this process run after those of a 1 kHz loop.

    Where the loop may have SCHED_FIFO it goes first anyway, and a higher nice value is enough. Else SCHED_IDLE, which
    needs no rights: an ordinary thread, nice or not, may keep a core for 3 ms. That one has no way back, and leaves the
    process next to nothing on a machine that is busy with other things.
    """
    if platform.system() != "Linux":
        return
    nice = allowed_priority(FIFO_PRIORITY) > 0
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            if nice:
                os.setpriority(os.PRIO_PROCESS, thread, max(GIVEN_WAY, os.getpriority(os.PRIO_PROCESS, thread)))
            else:
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def use_exact_timers() -> bool:
    """Have the system wake the threads of this process when they asked for, and not up to 50 us later."""
    if platform.system() != "Linux":
        return False
    return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0


class FrozenGarbage:
    """Keeps the garbage collector from walking what exists already, while at least one user asks for it.

    A full collection takes 24 ms with numpy, scipy and CasADi imported; frozen, 0.01 ms.
    """

    _lock = threading.Lock()
    _users = 0

    @classmethod
    def hold(cls) -> None:
        """Freeze. No collection first: it would stop every thread for a tenth of a second."""
        with cls._lock:
            gc.freeze()
            cls._users += 1

    @classmethod
    def release(cls) -> None:
        """The counterpart of :meth:`hold`; the last user unfreezes, and collects: no loop of this process runs then.

        What was frozen counts as old, and the collector looks at that so seldom that the next one to freeze keeps it:
        each reset of a stack left a loop with its buffers behind, more than a megabyte.
        """
        with cls._lock:
            cls._users = max(0, cls._users - 1)
            if cls._users == 0:
                gc.unfreeze()
                gc.collect()
