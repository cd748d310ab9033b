# SPDX-License-Identifier: Apache-2.0
"""All motor boards of a robot in the control cycle: readings of all tendons in, tensions out."""

from __future__ import annotations

import math
from typing import Any

import cython

from continuum_robot.drivers.cycle_device import CycleDevice
from continuum_robot.drivers.odri_can.board import Board
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.tendon_currents import TendonCurrents
from continuum_robot.stepped.buffers import stepped, vector
from continuum_robot.stepped.system_calls import monotonic_ns


@cython.cclass
class MotorBoards(CycleDevice):
    """What :class:`.OdriTendonActuators` does in each cycle. Its other methods are called between two cycles."""

    is_open = cython.declare(cython.bint, visibility="public")
    held = cython.declare(cython.bint, visibility="public")
    reads = cython.declare(cython.longlong, visibility="readonly")
    wants_service = cython.declare(cython.bint, visibility="readonly")
    _first: Board
    _currents: TendonCurrents
    _virtual_time: cython.bint
    _has_commands: cython.bint
    _tendon_count: cython.int
    _polarity: cython.double[::1]
    _newton_per_ampere: cython.double[::1]
    _m_per_rev: cython.double[::1]

    def __init__(self, first: Board, motors: Any, virtual_time: bool) -> None:
        self._first, self._virtual_time, self._tendon_count = first, virtual_time, len(motors.polarity)
        self._currents = TendonCurrents(motors.ampere_per_newton.tolist(), motors.largest_a.tolist())
        self._polarity, self._m_per_rev = vector(motors.polarity), vector(motors.signed_m_per_rev)
        self._newton_per_ampere = vector(motors.polarity / motors.ampere_per_newton)
        self.is_open = self.held = self.wants_service = self._has_commands = False
        self.reads = 0

    # --- in the cycle

    @stepped
    def read_into(self, reading: ReadingBuffer, now_s: cython.double) -> cython.bint:
        """Take what arrived, look for faults, fill ``reading``; False, and it stays, where the boards are not open."""
        if not self.is_open:
            return False
        self.reads += 1
        reading.device_faults = self._first.cycle(now_s, self._arrival(now_s))
        self.wants_service = self._first.has_gone()
        newest_s: cython.double = self._first.newest_s()
        reading.stamp_s = newest_s if newest_s - newest_s == 0.0 and newest_s < now_s else now_s
        self._first.fill(reading, self._m_per_rev, self._polarity, self._newton_per_ampere)
        reading.valid = True
        return True

    @stepped
    def write_commands(self, command: cython.double[::1], now_s: cython.double) -> cython.bint:
        """Send a tension (``command``, N) to every tendon whose board is on, unless currents are held back.

        False where one is not finite, or the boards are not open: nothing is sent then.
        """
        if not self.is_open or not self._currents.convert(command):
            return False
        self._has_commands = True
        if not self.held:
            self._first.write_all(self._currents.current_a, self._polarity, now_s)
        return True

    @stepped
    def switch_off(self) -> cython.bint:
        """Currents to zero and torque off at once; later cycles repeat it. False where the boards are not open."""
        if not self.is_open:
            return False
        self._has_commands = False
        self._first.switch_off_all()
        return True

    @stepped
    def _arrival(self, now_s: cython.double) -> cython.double:
        return now_s if self._virtual_time else monotonic_ns() * 1e-9

    # --- between two cycles

    def read(self, reading: Any, now_s: float) -> bool:
        return bool(self.read_into(reading, now_s))

    def write(self, tension_n: Any, now_s: float) -> bool:
        return bool(self.write_commands(tension_n, now_s))

    def receive(self, now_s: float) -> None:
        """Take what arrived, and do nothing about it."""
        self._first.receive(self._arrival(now_s))

    def forget_commands(self) -> None:
        """As before the first tensions."""
        self._has_commands = False

    def commanded(self) -> tuple[list[float], list[bool]]:
        """Newest currents towards the motors (A), before polarity, and which were limited; NaN before the first."""
        count = self._tendon_count
        if not self._has_commands:
            return [math.nan] * count, [False] * count
        return list(self._currents.current_a), [limit != 0.0 for limit in self._currents.limited]
