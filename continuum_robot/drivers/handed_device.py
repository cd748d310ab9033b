# SPDX-License-Identifier: Apache-2.0
"""Stands in the cycle for actuators that Python code reads before a cycle and writes after it. Stepped code."""

from __future__ import annotations

import cython

from continuum_robot.drivers.cycle_device import CycleDevice
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.stepped.buffers import copy_into, stepped, vector


@cython.cclass
class HandedDevice(CycleDevice):
    """What was read is handed to the next cycle; what that wants is kept until it is asked for."""

    tendon_count: cython.int
    newest: ReadingBuffer
    known: cython.bint
    wanted: cython.double[::1]
    writes: cython.bint
    cuts: cython.bint

    def __init__(self, tendon_count: int) -> None:
        self.tendon_count, self.newest, self.wanted = tendon_count, ReadingBuffer(tendon_count), vector(tendon_count)
        self.known = self.writes = self.cuts = False

    def hand(self, reading: TendonReading | None) -> None:
        """What the next cycle reads; None: that failed."""
        self.known = reading is not None
        if reading is not None:
            self.newest.set(reading)

    def command(self) -> list[float] | None:
        """What the newest cycle wrote, once; None: nothing."""
        if not self.writes:
            return None
        self.writes = False
        return [self.wanted[j] for j in range(self.tendon_count)]

    def cut(self) -> bool:
        """Whether the newest cycle switched the torque off, once."""
        found, self.cuts = self.cuts, False
        return bool(found)

    @stepped
    def read_into(self, reading: ReadingBuffer, now_s: cython.double) -> cython.bint:  # noqa: ARG002
        """As :meth:`CycleDevice.read_into`."""
        if self.known:
            reading.copy(self.newest)
        return self.known

    @stepped
    def write_commands(self, command: cython.double[::1], now_s: cython.double) -> cython.bint:  # noqa: ARG002
        """As :meth:`CycleDevice.write_commands`; whether it can be sent is not known yet."""
        copy_into(self.wanted, command, self.tendon_count)
        self.writes = True
        return True

    @stepped
    def switch_off(self) -> cython.bint:
        """As :meth:`CycleDevice.switch_off`."""
        self.cuts = True
        return True
