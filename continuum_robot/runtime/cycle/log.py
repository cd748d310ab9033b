# SPDX-License-Identifier: Apache-2.0
"""What the newest cycles read, desired and wrote, for who publishes it: a ring that the cycle fills. Stepped code."""

from __future__ import annotations

import cython

from continuum_robot.stepped.buffers import stepped, vector
from continuum_robot.stepped.system_calls import memory_fence


@cython.cclass
class CycleLog:
    """Rows of numbers, one a cycle; the newest ``slots`` of them are kept. One thread writes, any other reads."""

    width: cython.int
    slots: cython.int
    place: cython.int
    written: cython.longlong
    numbers: cython.double[::1]
    _under_way: list

    def __init__(self, width: int, slots: int = 512) -> None:
        self.width, self.slots = width, slots
        self.numbers = vector(width * slots)
        self.place = 0
        self.written = 0
        self._under_way = []

    @stepped
    def put(self, number: cython.double) -> cython.void:
        """The next number of the row under way."""
        if cython.compiled:
            self.numbers[self.place] = number
            self.place += 1
        else:
            self._under_way.append(number)

    @stepped
    def put_all(self, numbers: cython.double[::1], count: cython.int) -> cython.void:
        """The next ``count`` numbers of the row under way."""
        j: cython.int
        if cython.compiled:
            for j in range(count):
                self.numbers[self.place + j] = numbers[j]
            self.place += count
        else:
            self._under_way += numbers[:count]

    @stepped
    def end_row(self) -> cython.void:
        """The row is whole."""
        if not cython.compiled:
            self.numbers[self.place : self.place + self.width] = self._under_way
            self.place += self.width
            self._under_way = []
        memory_fence()
        self.written += 1
        if self.place >= self.width * self.slots:
            self.place = 0

    @property
    def count(self) -> int:
        """How many rows were written since the beginning."""
        return self.written

    def row(self, number: int) -> list[float] | None:
        """A row by its number from 0; None where it was written over, or is not written yet."""
        if not self.written - self.slots < number < self.written:
            return None
        memory_fence()
        first = number % self.slots * self.width
        found = [self.numbers[index] for index in range(first, first + self.width)]
        memory_fence()
        return found if self.written - self.slots < number else None
