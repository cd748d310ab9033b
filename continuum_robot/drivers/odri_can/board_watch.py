# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a motor board that it does not report: silence, too many frames, currents that do not follow."""

from __future__ import annotations

from collections.abc import Sequence

import cython

from continuum_robot.drivers.odri_can.fault_codes import (
    BOARD_CURRENT_MISMATCH,
    BOARD_IS_TWO,
    BOARD_SILENT,
    BOARD_SILENT_STATUS,
    LatchedFaults,
)
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.stepped.buffers import UNKNOWN, stepped, vector

STATUS_SILENT_AFTER_S = cython.declare(cython.double, 2.5)
SILENCE_GRACE_S = cython.declare(cython.double, 0.02)
"""What looks silent must look so for this long: after a stall of this computer the frames are there, but not read."""
RATE_WINDOW_S = cython.declare(cython.double, 0.25)
ONE_BOARD_HZ = cython.declare(cython.double, 1800.0)


@cython.cclass
class BoardWatch:
    """Looks at a board's telemetry in each cycle.

    Parameters
    ----------
    motors : which of its motors pull a tendon, 1 and 2
    settings : of the motor boards
    """

    _uses_1: cython.bint
    _uses_2: cython.bint
    _silent_after_s: cython.double
    _mismatch_a: cython.double
    _mismatch_time_s: cython.double
    _looked_s: cython.double
    _silent_since_s: cython.double
    _status_silent_since_s: cython.double
    _has_window: cython.bint
    _window_s: cython.double
    _window_positions: cython.longlong
    _mismatch_since_s: cython.double[::1]
    _mismatch_seen_s: cython.double

    def __init__(self, motors: Sequence[int], settings: OdriCan) -> None:
        self._uses_1, self._uses_2 = 1 in motors, 2 in motors
        self._silent_after_s = settings.silent_after_s
        self._mismatch_a, self._mismatch_time_s = settings.current_mismatch_a, settings.current_mismatch_time_s
        self._mismatch_since_s = vector(2)
        self.forget()

    def forget(self) -> None:
        """As before the first frame."""
        self._looked_s = self._silent_since_s = self._status_silent_since_s = -1.0
        self._window_s, self._window_positions, self._mismatch_seen_s = 0.0, 0, 0.0
        self.begin_anew()

    @stepped
    def begin_anew(self) -> cython.void:
        """What lasted until now counts no more."""
        self._has_window = False
        self.forget_mismatch()

    @stepped
    def forget_mismatch(self) -> cython.void:
        """Currents that did not follow until now count no more."""
        self._mismatch_since_s[0] = self._mismatch_since_s[1] = UNKNOWN

    @stepped
    def look(self, seen: Telemetry, faults: LatchedFaults, now_s: cython.double) -> cython.void:
        """Look for silence in what was ``seen``, and for more frames than one board sends."""
        stalled: cython.bint = not 0.0 <= now_s - self._looked_s < SILENCE_GRACE_S
        self._looked_s = now_s
        oldest_s: cython.double = seen.samples[seen.at + 1]  # -infinity before the first
        if now_s - oldest_s > self._silent_after_s:
            if self._silent_since_s < 0 or stalled:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= SILENCE_GRACE_S:
                faults.latch(BOARD_SILENT, 0)
        else:
            self._silent_since_s = -1.0
        if not seen.has_status or now_s - seen.status_s > STATUS_SILENT_AFTER_S:
            if self._status_silent_since_s < 0 or stalled:
                self._status_silent_since_s = now_s
            if now_s - self._status_silent_since_s >= SILENCE_GRACE_S:
                faults.latch(BOARD_SILENT_STATUS, 0)
        else:
            self._status_silent_since_s = -1.0
        if stalled or not self._has_window:
            self._begin_window(seen, now_s)
        elif now_s - self._window_s >= RATE_WINDOW_S:
            if seen.positions - self._window_positions > ONE_BOARD_HZ * (now_s - self._window_s):
                faults.latch(BOARD_IS_TWO, 0)
            self._begin_window(seen, now_s)

    @stepped
    def _begin_window(self, seen: Telemetry, now_s: cython.double) -> cython.void:
        self._has_window = True
        self._window_s = now_s
        self._window_positions = seen.positions

    @stepped
    def compare(
        self, seen: Telemetry, faults: LatchedFaults, commanded_1_a: cython.double, commanded_2_a: cython.double
    ) -> cython.void:
        """Compare each sample's currents, as ``seen``, with ``commanded_1_a`` and ``commanded_2_a`` (A)."""
        at: cython.int = seen.at
        stamp_s: cython.double = seen.samples[at]
        if not seen.has_sample or stamp_s == self._mismatch_seen_s:
            return
        self._mismatch_seen_s = stamp_s
        if self._uses_1:
            self._compare_motor(faults, 1, commanded_1_a - seen.samples[at + 6], stamp_s)
        if self._uses_2:
            self._compare_motor(faults, 2, commanded_2_a - seen.samples[at + 7], stamp_s)

    @stepped
    def _compare_motor(
        self, faults: LatchedFaults, motor: cython.int, difference_a: cython.double, stamp_s: cython.double
    ) -> cython.void:
        if -self._mismatch_a <= difference_a <= self._mismatch_a:
            self._mismatch_since_s[motor - 1] = UNKNOWN
            return
        since_s: cython.double = self._mismatch_since_s[motor - 1]
        if not since_s <= stamp_s:  # NaN: it matched until now
            since_s = stamp_s
            self._mismatch_since_s[motor - 1] = since_s
        if stamp_s - since_s > self._mismatch_time_s:
            faults.latch(BOARD_CURRENT_MISMATCH, motor)
