# SPDX-License-Identifier: Apache-2.0
"""What a command may be, and what a stop does with it: the part of the safety logic that each kind of actuators has.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.stepped.buffers import integers, stepped, vector


@cython.cclass
class ActuationRules:
    """Base of the rules for tensions (N) and for displacements (m)."""

    command: cython.double[::1]
    limited = cython.declare(cython.int[::1], visibility="readonly")
    output = cython.declare(cython.double[::1], visibility="readonly")
    added: cython.double[::1]
    motor_n: cython.double[::1]
    displaces: cython.bint
    _count: cython.int

    def __init__(self, tendon_count: int) -> None:
        self._count, self.displaces = tendon_count, False
        self.command, self.output, self.limited = vector(tendon_count), vector(tendon_count), integers(tendon_count)
        self.added, self.motor_n = vector(tendon_count), vector(tendon_count)

    # --- between two cycles

    def prepare(self, reading: TendonReading, known: bool) -> list[str]:
        """Find where commands start: where the tendons are; what is in the way of that, as sentences."""
        raise NotImplementedError

    def start(self) -> None:
        """Start there."""
        raise NotImplementedError

    def accepted(self, fraction: float, known: bool) -> tuple[Sequence[float], Sequence[float]]:
        """Lowest and highest command of each tendon that is limited and not refused, (N,)."""
        raise NotImplementedError

    def detail(self, fault: str) -> str:  # noqa: ARG002
        """Which tendons a fault was found on, and by how much, as a sentence; "" where that is not known."""
        return ""

    # --- in the cycle

    @stepped
    def elapse(self, dt: cython.double) -> cython.void:
        """Time ``dt`` (s) passed under the newest output."""

    @stepped
    def check(
        self,
        reading: ReadingBuffer,  # noqa: ARG002
        dt: cython.double,  # noqa: ARG002
        engaged: cython.bint,  # noqa: ARG002
        obeys: cython.bint,  # noqa: ARG002
    ) -> cython.int:
        """Bits of what is wrong between commands and ``reading``; ``engaged``: the torque is on, ``obeys``: active."""
        return 0

    @stepped
    def limit(self, command: cython.double[::1], since_s: cython.double) -> cython.void:
        """Bring a command within the limits, ``since_s`` (s) after the one before."""

    @stepped
    def begin_stop(self, found: cython.int, holds: cython.bint) -> cython.void:
        """A stop begins by the faults ``found`` (bits), with a hold or with a release."""

    @stepped
    def begin_slowly(self) -> cython.void:
        """A release without a fault begins, or a hold, which ends with one."""

    @stepped
    def hasten(self) -> cython.void:
        """A fault came during a release."""

    @stepped
    def hold(self, reading: ReadingBuffer, place: cython.bint, dt: cython.double) -> cython.void:
        """Hold for ``dt`` (s): the ``place``, or what was commanded."""

    @stepped
    def release(self, dt: cython.double) -> cython.void:
        """Go on with a release for ``dt``, s."""

    @stepped
    def finish_stop(self, reading: ReadingBuffer, engaged: cython.bint, dt: cython.double) -> cython.void:
        """The output of a cycle of a stop, ``dt`` (s) long."""

    @stepped
    def is_released(self) -> cython.bint:
        """Whether a release has come to its end."""
        return True

    @stepped
    def forget(self) -> cython.void:
        """The torque is off."""
