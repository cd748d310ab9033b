# SPDX-License-Identifier: Apache-2.0
"""The host's end of a CAN channel in the control cycle: frames in and out, without a wait.

Nothing is ever sent periodically by the operating system or a thread: a current reference comes from the control cycle
or not at all, so that a board's receive timeout sees a cycle that stands still.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import cython

from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.stepped.buffers import indices, stepped
from continuum_robot.stepped.system_calls import CAN_FRAME_BYTES, NOTHING_WAITS, CanFrame

FRAMES_A_CYCLE = cython.declare(cython.int, 4096)
RECEIVE_ERRORS_IN_A_ROW = cython.declare(cython.int, 5)
SEND_FAILURES_IN_A_ROW = cython.declare(cython.int, 3)
# Bits of the head of a frame: all but the identifier's 11; CAN_ERR_FLAG (linux/can.h); in an error frame
# CAN_ERR_BUSOFF (linux/can/error.h).
NO_IDENTIFIER_BITS = cython.declare(cython.longlong, 0x00F8FFFF)
ERROR_FRAME_BIT = cython.declare(cython.longlong, 0x20)
ERROR_BUS_OFF_BIT = cython.declare(cython.longlong, 0x40000000)


@stepped
def device_is_gone(error: cython.int) -> cython.bint:
    """Whether the errno ``error`` means that the socket is of no use any more.

    ENXIO, EBADF, ENODEV, EPIPE, ECONNRESET, ENOTCONN.
    """
    return error in (6, 9, 19, 32, 104, 107)


@cython.cclass
class FramePort:
    """Takes all frames that wait, and sends; a full queue loses the frame, as a CAN controller would."""

    bus_off = cython.declare(cython.bint, visibility="readonly")
    gone = cython.declare(cython.bint, visibility="readonly")
    descriptor: cython.int
    frames_in: cython.longlong
    frames_out: cython.longlong
    refused_frames: cython.longlong
    error_frames: cython.longlong
    receive_errors: cython.longlong
    send_errors: cython.longlong
    _errors_in_a_row: cython.int
    _failures_in_a_row: cython.int
    _errno: cython.int
    _frame: CanFrame
    _out: CanFrame

    def __init__(self, frame_type: Callable[[], Any] = CanFrame) -> None:
        self._frame, self._out = frame_type(), frame_type()
        self.frames_in = self.frames_out = self.refused_frames = self.error_frames = 0
        self.receive_errors = self.send_errors = self._errno = 0
        self.detach()

    # --- in the cycle

    @stepped
    def drain(self, telemetry: Telemetry, arrival_s: cython.double) -> cython.void:
        """Hand all frames that wait to ``telemetry``, as arrived at ``arrival_s``."""
        k: cython.int
        for k in indices(FRAMES_A_CYCLE):  # noqa: B007
            if self.gone:
                return
            count: cython.int = self._frame.receive(self.descriptor)
            if count == NOTHING_WAITS:
                return
            if count <= 0:
                self.receive_errors += 1
                self._errors_in_a_row += 1
                self._errno = -count
                self.gone = count == 0 or device_is_gone(-count) or self._errors_in_a_row >= RECEIVE_ERRORS_IN_A_ROW
                continue
            self._errors_in_a_row = 0
            if count != CAN_FRAME_BYTES:
                self.refused_frames += 1
            elif telemetry.take_usual(self._frame, arrival_s):
                self.frames_in += 1
                self.bus_off = False
            else:
                self._take(telemetry, self._frame.head, arrival_s)

    @stepped
    def _take(self, telemetry: Telemetry, head: cython.longlong, arrival_s: cython.double) -> cython.void:
        if not head & NO_IDENTIFIER_BITS and self._frame.length <= 8:
            self.frames_in += 1
            self.bus_off = False
            identifier: cython.int = head >> 24 | (head >> 8 & 0x700)
            telemetry.take(identifier, self._frame.length, self._frame.first, self._frame.second, arrival_s)
        elif head & ERROR_FRAME_BIT:
            self.error_frames += 1
            if head & ERROR_BUS_OFF_BIT:
                self.bus_off = True
        else:
            self.refused_frames += 1

    @stepped
    def send(self, identifier: cython.longlong, first: cython.int, second: cython.int) -> cython.bint:
        """Send ``identifier`` and the 32-bit words ``first`` and ``second``, big-endian; whether it was taken."""
        if self.gone:
            self._failures_in_a_row += 1
            return False
        self._out.head = (identifier & 255) << 24 | (identifier >> 8) << 16
        self._out.first = first
        self._out.second = second
        count: cython.int = self._out.send(self.descriptor)
        if count == CAN_FRAME_BYTES:
            self.frames_out += 1
            self._failures_in_a_row = 0
            return True
        self.send_errors += 1
        self._failures_in_a_row += 1
        self._errno = -count if count < 0 else 0
        self.gone = device_is_gone(self._errno)
        return False

    @stepped
    def is_full(self) -> cython.bint:
        """Whether frames cannot be sent since those before them still wait: EAGAIN or ENOBUFS, several times."""
        return not self.gone and self._failures_in_a_row >= SEND_FAILURES_IN_A_ROW and self._errno in (11, 105)

    @stepped
    def has_failed(self) -> cython.bint:
        """Whether frames cannot be received or sent: it is gone, or errors in a row."""
        return self.gone or (self._failures_in_a_row >= SEND_FAILURES_IN_A_ROW and not self.is_full())

    # --- between two cycles

    def attach(self, descriptor: int) -> None:
        """Use a socket from now on."""
        self.descriptor = descriptor
        # A board that is off is sent nothing: old failures would count for ever.
        self._errors_in_a_row = self._failures_in_a_row = 0
        self.bus_off = self.gone = False

    def detach(self) -> None:
        """Use no socket."""
        self.attach(-1)
        self.gone = True

    @property
    def failed(self) -> bool:
        """Whether frames cannot be received or sent."""
        return bool(self.has_failed() or self.is_full())

    @property
    def counters(self) -> dict[str, int]:
        """What happened since it was made, for the diagnostics.

        ``frames_in``, ``frames_out``: data frames of 11-bit identifiers. ``refused_frames``: remote, extended or FD
        frames, or of another length than they state. ``error_frames``: reports of the CAN controller.
        ``receive_errors``, ``send_errors``: failed calls; a frame for which the queue was full is lost.
        """
        return {
            "frames_in": self.frames_in,
            "frames_out": self.frames_out,
            "refused_frames": self.refused_frames,
            "error_frames": self.error_frames,
            "receive_errors": self.receive_errors,
            "send_errors": self.send_errors,
        }

    @property
    def last_error(self) -> str:
        """The error of the newest failed call, "" before the first."""
        if self._errno == 0:
            return "" if self.receive_errors == 0 else "the other end hung up"
        return os.strerror(self._errno)
