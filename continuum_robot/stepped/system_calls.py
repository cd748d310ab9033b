# SPDX-License-Identifier: Apache-2.0
"""What stepped code asks of the operating system: CAN frames on sockets, and the clock. The one file with two forms."""

from __future__ import annotations

import errno as errno_module
import os
import sys
import time

import cython

from continuum_robot.stepped.buffers import stepped

if cython.compiled:
    from cython.cimports.libc.errno import errno
    from cython.cimports.posix.time import CLOCK_MONOTONIC, TIMER_ABSTIME, clock_gettime, clock_nanosleep, timespec
    from cython.cimports.posix.unistd import read as read_descriptor
    from cython.cimports.posix.unistd import write as write_descriptor

CAN_FRAME_BYTES = cython.declare(cython.int, 16)
"""Of ``struct can_frame``: identifier and flags (little-endian), length, three bytes of padding, eight of data."""
NOTHING_WAITS = cython.declare(cython.int, -11)
"""EAGAIN of a non-blocking socket, with its sign: no frame waits, or none can be taken now."""


def newest_errno() -> int:
    """Errno of the OSError that is being handled, where interpreted: a named exception would be a Python local."""
    error = sys.exc_info()[1]
    return (error.errno if isinstance(error, OSError) else None) or errno_module.EIO


@stepped
def receive_frame(descriptor: cython.int, frame: cython.uchar[::1]) -> cython.int:
    """Read a datagram from the non-blocking socket ``descriptor`` into ``frame`` (16 bytes): how many bytes.

    0: the other end hung up. Below 0: none came; ``NOTHING_WAITS``, or another errno with its sign.
    """
    count: cython.int
    if cython.compiled:
        count = read_descriptor(descriptor, cython.address(frame[0]), 16)
        return count if count >= 0 else -errno
    try:
        return os.readv(descriptor, (frame,))
    except BlockingIOError:
        return NOTHING_WAITS
    except OSError:
        return -newest_errno()


@stepped
def send_frame(descriptor: cython.int, frame: cython.uchar[::1]) -> cython.int:
    """Write ``frame`` to the non-blocking socket ``descriptor`` as one datagram: how many bytes; below 0: -errno."""
    count: cython.int
    if cython.compiled:
        count = write_descriptor(descriptor, cython.address(frame[0]), 16)
        return count if count >= 0 else -errno
    try:
        return os.write(descriptor, frame)
    except BlockingIOError:
        return NOTHING_WAITS
    except OSError:
        return -newest_errno()


@stepped
def memory_fence() -> cython.void:
    """What was written before is seen before what is written after; the interpreter lock does that otherwise."""
    if cython.compiled:
        __sync_synchronize()


@stepped
def monotonic_ns() -> cython.longlong:
    """Now, on the monotonic clock, ns."""
    if cython.compiled:
        now: timespec
        clock_gettime(CLOCK_MONOTONIC, cython.address(now))
        return cython.cast(cython.longlong, now.tv_sec) * 1000000000 + now.tv_nsec
    return time.monotonic_ns()


@stepped
def sleep_until_ns(deadline_ns: cython.longlong) -> cython.void:
    """Wait until ``deadline_ns`` of the monotonic clock, ns."""
    if cython.compiled:
        until: timespec
        until.tv_sec = deadline_ns // 1000000000
        until.tv_nsec = deadline_ns - until.tv_sec * 1000000000
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, cython.address(until), cython.NULL)
    else:
        wait_ns = deadline_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns * 1e-9)


@stepped
def wake_up(descriptor: cython.int) -> cython.void:
    """Add one to an event descriptor, so that who reads it wakes up."""
    if cython.compiled:
        one: cython.ulonglong = 1
        write_descriptor(descriptor, cython.address(one), 8)
    else:
        os.eventfd_write(descriptor, 1)
