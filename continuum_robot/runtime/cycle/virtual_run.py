# SPDX-License-Identifier: Apache-2.0
"""Cycles in virtual time without Python code between them, of one robot or of many one after the other. Stepped code.

It is used compiled alone: interpreted, :class:`~continuum_robot.runtime.pace.VirtualPace` does the same.
"""

from __future__ import annotations

from typing import Any

import cython

from continuum_robot.drivers.cycle_device import CycleDevice
from continuum_robot.rod.kernel.call import memory_of
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.stepped.buffers import indices, stepped

NOTHING = cython.declare(cython.int, 0)
REFERENCE = cython.declare(cython.int, 1)
COMMAND = cython.declare(cython.int, 2)


@cython.cclass
class VirtualRun:
    """Runs a :class:`DriverCycle` around a device that is simulated in it.

    It ends early behind a cycle that changed the state of the safety logic, or that wrote nothing. Runs that are
    chained are run by one call, that of the first: a thread then asks for the interpreter lock once for all.
    """

    now_s = cython.declare(cython.double, visibility="public")
    before_s = cython.declare(cython.double, visibility="public")
    done = cython.declare(cython.longlong, visibility="readonly")
    cycle: DriverCycle
    reference: ReferenceInput
    period_s: cython.double
    own_device: CycleDevice
    kind: cython.int
    given: cython.double[::1]
    row: cython.double[::1]
    copies: cython.bint
    state: cython.double[::1]
    copied_state: cython.double[::1]
    state_size: cython.int
    following: VirtualRun
    leads: cython.bint

    def __init__(self, cycle: DriverCycle, reference: ReferenceInput, period_s: float) -> None:
        self.cycle, self.reference, self.period_s = cycle, reference, period_s
        self.own_device = cycle.actuators
        self.now_s = self.before_s = 0.0
        self.done = 0
        self.kind, self.copies, self.leads, self.state_size = NOTHING, False, False, 0
        self.following = None  # type: ignore[assignment]

    def put_in(self, device: CycleDevice) -> None:
        """Let the cycle read and write a device, until :meth:`take_out`."""
        self.cycle.actuators = device

    def take_out(self) -> None:
        """Give the cycle its own device back."""
        self.cycle.actuators = self.own_device

    def chain(self, following: Any) -> None:
        """Run another one after this; None: no other."""
        self.following, self.leads = following, following is not None

    def copy_to(self, row: Any, state: Any, copied_state: Any) -> None:
        """Behind the last cycle put its row into ``row``, and ``state`` of the plant and how many cycles there were
        into ``copied_state``.
        """
        self.row, self.state, self.copied_state = memory_of(row), memory_of(state), memory_of(copied_state)
        self.copies, self.state_size = True, len(state)

    def follow(self, given: Any) -> None:
        """Before every cycle, post the reference that moves at a steady velocity: ``given``, (2 n + 1,), its position
        (m), velocity (m/s) and since when (s); read in place.
        """
        self.kind, self.given = REFERENCE, memory_of(given)

    def obey(self, given: Any) -> None:
        """Before every cycle, give a command, (N,), N or m; read in place."""
        self.kind, self.given = COMMAND, memory_of(given)

    def leave(self) -> None:
        """Give nothing before a cycle."""
        self.kind = NOTHING

    def run(self, count: int) -> None:
        """Let so many cycles run from ``now_s`` (s) on, of each of those that are chained."""
        most: cython.longlong = count
        with cython.nogil:
            self.run_all(most)

    @stepped
    def run_all(self, count: cython.longlong) -> cython.void:
        """As :meth:`run`, for ``count`` cycles."""
        self.done = 0
        while self.done < count:
            self.run_one()
            if self.cycle.safety.changed or not self.cycle.written:
                break
        if self.copies:
            self.copy()
        if self.leads:
            self.following.run_all(count)

    @stepped
    def run_one(self) -> cython.void:
        """A cycle, on the same times as a :class:`VirtualPace` has."""
        end_s: cython.double = self.now_s + self.period_s
        passed_s: cython.double = end_s - self.now_s
        if passed_s > self.period_s:
            passed_s = self.period_s
        self.now_s = rint((self.now_s + passed_s) * 1e9) * 1e-9  # type: ignore[name-defined]  # noqa: F821
        if self.kind == REFERENCE:
            self.reference.hear(self.given, self.now_s)
        elif self.kind == COMMAND:
            self.cycle.want(self.given, self.now_s)
        self.cycle.step(self.now_s, self.now_s - self.before_s, 0)
        self.before_s = self.now_s
        if self.cycle.written:
            self.cycle.note_written(self.now_s)
        self.done += 1

    @stepped
    def copy(self) -> cython.void:
        """What was asked for by :meth:`copy_to`."""
        k: cython.int
        width: cython.int = self.cycle.log.width
        end: cython.int = self.cycle.log.place if self.cycle.log.place > 0 else width * self.cycle.log.slots
        for k in indices(width):
            self.row[k] = self.cycle.log.numbers[end - width + k]
        for k in indices(self.state_size):
            self.copied_state[k] = self.state[k]
        self.copied_state[self.state_size] = float(self.done)
