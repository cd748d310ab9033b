# SPDX-License-Identifier: Apache-2.0
"""Numbers from Python code to the cycle, as a whole or not at all, without a lock: a seqlock with one writer."""

from __future__ import annotations

from collections.abc import Sequence

import cython

from continuum_robot.errors import ParameterError
from continuum_robot.stepped.buffers import indices, stepped, vector
from continuum_robot.stepped.system_calls import memory_fence


@cython.cclass
class Mailbox:
    """Holds the newest post; the cycle takes it, and never waits for who posts."""

    size: cython.int
    posts: cython.longlong
    taken: cython.longlong
    posted: cython.double[::1]
    values: cython.double[::1]

    def __init__(self, size: int) -> None:
        self.size = size
        self.posted, self.values = vector(size), vector(size)
        self.posts = self.taken = 0

    def post(self, numbers: Sequence[float]) -> None:
        """Leave numbers for the next cycle, over those that it has not taken yet. From one thread only."""
        j: cython.int
        if len(numbers) != self.size:
            raise ParameterError("numbers", len(numbers), f"{self.size} numbers")
        self.posts += 1  # odd while it is written
        memory_fence()
        for j in range(self.size):
            self.posted[j] = numbers[j]
        memory_fence()
        self.posts += 1

    @stepped
    def take(self) -> cython.bint:
        """Take the newest post into ``values``; False where there is no new one, or it is being written just now."""
        j: cython.int
        before: cython.longlong = self.posts
        if before == self.taken or before & 1:
            return False
        memory_fence()
        for j in indices(self.size):
            self.values[j] = self.posted[j]
        memory_fence()
        if self.posts != before:
            return False
        self.taken = before
        return True
