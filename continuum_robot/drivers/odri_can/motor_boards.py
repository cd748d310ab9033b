# SPDX-License-Identifier: Apache-2.0
"""All motor boards of a robot in the control cycle: readings of all tendons in, tensions out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cython

from continuum_robot.drivers.odri_can.board import Board
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.tendon_currents import TendonCurrents
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, indices, integers, stepped, vector
from continuum_robot.stepped.system_calls import monotonic_ns


@cython.cclass
class MotorBoards:
    """What :class:`.OdriTendonActuators` does in each cycle. Its other methods are called between two cycles.

    Parameters
    ----------
    boards : of one form, each with its port
    places : of every tendon: number of its board, and 0 or 1 for the motor on it
    polarity : +1 where a positive current pulls the tendon in, else -1
    ampere_per_newton : size of the current for a tension, A/N
    signed_m_per_rev : tendon that a turn of the motor in its positive direction pulls in, m
    highest_a : largest current, of every tendon, A
    virtual_time : frames arrive at the time of the cycle that reads them, instead of when they are read

    Attributes
    ----------
    wants_service : a port is of no use any more: Python code is to give it another socket, between two cycles
    """

    wants_service: cython.bint
    _first: Board
    _currents: TendonCurrents
    _virtual_time: cython.bint
    _is_open: cython.bint
    _held: cython.bint
    _has_commands: cython.bint
    _reads: cython.longlong
    _board_count: cython.int
    _tendon_count: cython.int
    _samples: cython.double[::1]
    _sample_at: cython.int[::1]
    _motor: cython.int[::1]
    _wire_at: cython.int[::1]
    _wire_a: cython.double[::1]
    _polarity: cython.double[::1]
    _newton_per_ampere: cython.double[::1]
    _m_per_rev: cython.double[::1]

    def __init__(
        self,
        boards: Sequence[Any],
        places: Sequence[tuple[int, int]],
        polarity: Sequence[float],
        ampere_per_newton: Sequence[float],
        signed_m_per_rev: Sequence[float],
        highest_a: Sequence[float],
        virtual_time: bool,
    ) -> None:
        self._board_count, self._tendon_count = len(boards), len(places)
        samples = vector(8 * len(boards))
        self._samples, self._wire_a = samples, vector(2 * len(boards))
        for number, board in enumerate(boards):
            board.join(samples, number, boards[number + 1] if number + 1 < len(boards) else None)
        self._first = boards[0]
        self._sample_at = integers(8 * board for board, _ in places)
        self._motor = integers(motor for _, motor in places)
        self._wire_at = integers(2 * board + motor for board, motor in places)
        self._currents = TendonCurrents(ampere_per_newton, highest_a)
        self._polarity, self._m_per_rev = vector(polarity), vector(signed_m_per_rev)
        self._newton_per_ampere = vector(sign / size for sign, size in zip(polarity, ampere_per_newton, strict=True))
        self._virtual_time = virtual_time
        self._is_open = self._held = self._has_commands = self.wants_service = False
        self._reads = 0

    # --- in the cycle

    @stepped
    def read_into(self, reading: ReadingBuffer, now_s: cython.double) -> cython.bint:
        """Take what arrived, look for faults, fill ``reading``; False, and it stays, where the boards are not open."""
        j: cython.int
        if not self._is_open:
            return False
        self._reads += 1
        reading.device_faults = self._first.cycle(now_s, self._arrival(now_s))
        self.wants_service = self._first.has_gone()
        samples: cython.double[::1] = self._samples
        newest_s: cython.double = -INFINITE
        for j in indices(self._board_count):
            if samples[8 * j] > newest_s:
                newest_s = samples[8 * j]
        stamp_s: cython.double = newest_s if -INFINITE < newest_s < now_s else now_s
        displacement_m: cython.double[::1] = reading.displacement_m
        velocity_m_per_s: cython.double[::1] = reading.velocity_m_per_s
        tension_n: cython.double[::1] = reading.tension_n
        current_a: cython.double[::1] = reading.current_a
        temperature_c: cython.double[::1] = reading.temperature_c
        age_s: cython.double[::1] = reading.age_s
        sample_at: cython.int[::1] = self._sample_at
        motors: cython.int[::1] = self._motor
        m_per_rev: cython.double[::1] = self._m_per_rev
        newton_per_ampere: cython.double[::1] = self._newton_per_ampere
        polarity: cython.double[::1] = self._polarity
        for j in indices(self._tendon_count):
            at: cython.int = sample_at[j]
            place: cython.int = at + motors[j]
            passed_s: cython.double = stamp_s - samples[at + 1]
            age_s[j] = passed_s if passed_s > 0.0 else 0.0
            displacement_m[j] = samples[place + 2] * m_per_rev[j]
            velocity_m_per_s[j] = samples[place + 4] * m_per_rev[j]
            measured_a: cython.double = samples[place + 6]
            tension_n[j] = measured_a * newton_per_ampere[j]
            current_a[j] = measured_a * polarity[j]
            temperature_c[j] = UNKNOWN
        reading.stamp_s = stamp_s
        reading.valid = True
        return True

    @stepped
    def write_commands(self, tension_n: cython.double[::1], now_s: cython.double) -> cython.bint:
        """Send a tension (N) to every tendon whose board is on, unless currents are held back.

        False where one is not finite, or the boards are not open: nothing is sent then.
        """
        j: cython.int
        if not self._is_open or not self._currents.convert(tension_n):
            return False
        self._has_commands = True
        if self._held:
            return True
        wire_a: cython.double[::1] = self._wire_a
        wire_at: cython.int[::1] = self._wire_at
        current_a: cython.double[::1] = self._currents.current_a
        polarity: cython.double[::1] = self._polarity
        for j in indices(self._tendon_count):
            wire_a[wire_at[j]] = current_a[j] * polarity[j]
        self._first.write_all(wire_a, now_s)
        return True

    @stepped
    def switch_off(self) -> cython.bint:
        """Currents to zero and torque off at once; later cycles repeat it. False where the boards are not open."""
        if not self._is_open:
            return False
        self._has_commands = False
        self._first.switch_off_all()
        return True

    @stepped
    def _arrival(self, now_s: cython.double) -> cython.double:
        if self._virtual_time:
            return now_s
        return monotonic_ns() * 1e-9

    # --- between two cycles

    def read(self, reading: Any, now_s: float) -> bool:
        """A cycle's reading, for Python code: as :meth:`read_into`.

        Parameters
        ----------
        reading : a buffer of the same form
        now_s : s
        """
        return bool(self.read_into(reading, now_s))

    def write(self, tension_n: Any, now_s: float) -> bool:
        """A cycle's tensions (N), for Python code: as :meth:`write_commands`.

        Parameters
        ----------
        tension_n : a vector of stepped code, N
        now_s : s
        """
        return bool(self.write_commands(tension_n, now_s))

    def receive(self, now_s: float) -> None:
        """Take what arrived, and do nothing about it."""
        self._first.receive(self._arrival(now_s))

    def set_open(self, is_open: bool) -> None:
        """Whether the cycle may read and write.

        Parameters
        ----------
        is_open : whether it may
        """
        self._is_open = is_open

    def hold(self, held: bool) -> None:
        """Whether currents are held back, while boards are being enabled.

        Parameters
        ----------
        held : whether they are
        """
        self._held = held

    def needs_service(self) -> bool:
        """Whether a port is of no use any more, as seen in the newest cycle."""
        return bool(self.wants_service)

    def reads(self) -> int:
        """How many cycles have read."""
        return int(self._reads)

    def forget_commands(self) -> None:
        """As before the first tensions."""
        self._has_commands = False

    def commanded(self) -> tuple[list[float], list[bool]]:
        """Newest currents towards the motors (A), before polarity, and which were limited; NaN before the first."""
        count = self._tendon_count
        if not self._has_commands:
            return [math.nan] * count, [False] * count
        return (
            [self._currents.current_a[j] for j in range(count)],
            [self._currents.limited[j] != 0.0 for j in range(count)],
        )
