# SPDX-License-Identifier: Apache-2.0
"""What stepped code asks of the operating system: CAN frames on sockets, and the clock. The one file with two forms."""

from __future__ import annotations

import errno as errno_module
import os
import struct
import sys
import time

import cython

from continuum_robot.stepped.buffers import stepped

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.time import CLOCK_MONOTONIC, TIMER_ABSTIME, clock_gettime, clock_nanosleep, timespec
    from cython.cimports.posix.unistd import read as read_descriptor
    from cython.cimports.posix.unistd import write as write_descriptor

pack_frame, unpack_frame = (getattr(struct.Struct(">IB3xii"), name) for name in ("pack", "unpack"))
"""For the interpreted form: head, length and two words."""
CAN_FRAME_BYTES = cython.declare(cython.int, 16)
"""Of ``struct can_frame``: identifier and flags (little-endian), length, three bytes of padding, eight of data."""
NOTHING_WAITS = cython.declare(cython.int, -11)
"""EAGAIN of a non-blocking socket, with its sign: no frame waits, or none can be taken now."""


def newest_errno() -> int:
    """Errno of the OSError that is being handled, where interpreted: a named exception would be a Python local."""
    error = sys.exc_info()[1]
    return (error.errno if isinstance(error, OSError) else None) or errno_module.EIO


@stepped
def signed_word(data: cython.uchar[::1], at: cython.int) -> cython.int:
    """The signed 32-bit integer that begins at a byte of ``data``, the highest byte first."""
    return ((data[at] ^ 128) - 128) * 16777216 + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])


@cython.cclass
class CanFrame:
    """A ``struct can_frame``, read from and written to a non-blocking socket as one datagram."""

    head: cython.longlong
    length: cython.int
    first: cython.int
    second: cython.int
    _bytes: cython.uchar[::1]

    def __init__(self) -> None:
        self.head = self.length = self.first = self.second = 0
        self._bytes = bytearray(CAN_FRAME_BYTES)

    @stepped
    def receive(self, descriptor: cython.int) -> cython.int:
        """Take a datagram from ``descriptor``: how many bytes came; only ``CAN_FRAME_BYTES`` of them are a frame.

        0: the other end hung up. Below 0: none came; ``NOTHING_WAITS``, or another errno with its sign.
        """
        if cython.compiled:
            count: cython.int = read_descriptor(descriptor, cython.address(self._bytes[0]), 16)
            if count < 0:
                return -errno
            if count == CAN_FRAME_BYTES:
                self.head = cython.cast(cython.uint, signed_word(self._bytes, 0))
                self.length = self._bytes[4]
                self.first = signed_word(self._bytes, 8)
                self.second = signed_word(self._bytes, 12)
            return count
        else:  # noqa: RET505 - Cython leaves only a branch out, with its Python locals
            try:
                data = os.read(descriptor, 16)
                self.head, self.length, self.first, self.second = unpack_frame(data)
                return CAN_FRAME_BYTES
            except BlockingIOError:
                return NOTHING_WAITS
            except OSError:
                return -newest_errno()
            except struct.error:
                return len(data)

    @stepped
    def send(self, descriptor: cython.int) -> cython.int:
        """Write it, 8 bytes of data, to ``descriptor``: how many bytes; below 0: errno with its sign."""
        if cython.compiled:
            self._put_word(0, cython.cast(cython.int, self.head))
            self._bytes[4] = 8
            self._put_word(8, self.first)
            self._put_word(12, self.second)
            count: cython.int = write_descriptor(descriptor, cython.address(self._bytes[0]), 16)
            return count if count >= 0 else -errno
        try:
            return os.write(descriptor, pack_frame(self.head, 8, self.first, self.second))
        except BlockingIOError:
            return NOTHING_WAITS
        except OSError:
            return -newest_errno()

    @stepped
    def _put_word(self, at: cython.int, word: cython.int) -> cython.void:
        data: cython.uchar[::1] = self._bytes
        data[at] = word >> 24 & 255
        data[at + 1] = word >> 16 & 255
        data[at + 2] = word >> 8 & 255
        data[at + 3] = word & 255


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
        while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, cython.address(until), cython.NULL) == EINTR:
            pass  # a signal: the deadline is absolute
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
