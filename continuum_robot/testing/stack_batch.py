# SPDX-License-Identifier: Apache-2.0
"""Many stacks of one robot side by side, over the cores of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.testing.virtual_stack import SteadyReference, VirtualStack

Array = NDArray[np.float64]

LENT_CYCLES = 2000
"""For which the noise of the readings is drawn at once, where cycles run free."""
PARTS_A_THREAD = 4
"""Into which the stacks are shared out: a thread that another program holds up leaves its parts to the others."""


class StackBatch:
    """Stacks of M robots with the same N tendons and n coordinates, whose time passes together.

    Where a stack's cycles need no Python code they run compiled, in so many threads, and its motors stay in them
    between two calls of :meth:`run`, which then costs little but the cycles. Others run cycle by cycle, one after the
    other. The numbers are the same, for any number of threads and of other stacks.

    Before a method of one of the stacks is called, or its plant is read, :meth:`release` it.

    Parameters
    ----------
    stacks : from now on nobody else lets their time pass
    threads : at most

    Attributes
    ----------
    stacks : as above
    row : what stands where in ``rows``
    rows : (M, width) rows of the newest cycles
    strains : (M, 2 k) true strain coefficients of the rods, 1/m, and their rates, 1/(m.s); NaN of mechanisms

    Raises
    ------
    ParameterError : no stacks, robots of different kinds, or less than one thread
    """

    def __init__(self, stacks: Sequence[VirtualStack], threads: int = 2) -> None:
        kinds = {(one.robot.tendon_count, one.robot.coordinate_count, one.period_s) for one in stacks}
        if len(kinds) != 1:
            raise ParameterError("stacks", len(stacks), "one or more, of robots with as many tendons and coordinates")
        if threads < 1:
            raise ParameterError("threads", threads, "one or more")
        self.stacks, count = list(stacks), len(stacks)
        robot = self.stacks[0].robot
        self.period_s = self.stacks[0].period_s
        self.row = CycleRow(robot.tendon_count, robot.coordinate_count)
        self.rows = np.full((count, self.row.width), np.nan)
        self._strains = np.full((count, 2 * robot.coefficient_count + 1), np.nan)  # and how many cycles there were
        self.strains = self._strains[:, :-1]
        self._given = np.zeros((count, max(2 * robot.coordinate_count + 1, robot.tendon_count)))
        self._position, self._velocity, self._since_s = np.split(
            self._given[:, : 2 * robot.coordinate_count + 1],
            [robot.coordinate_count, 2 * robot.coordinate_count], axis=1,
        )  # fmt: skip
        self._command = self._given[:, : robot.tendon_count]
        self._obeys: bool | None = None
        self._lent, self._left = np.zeros(count, dtype=bool), np.zeros(count, dtype=int)
        self._threads = min(threads, count)
        self._pool = ThreadPoolExecutor(self._threads, "stacks") if self._threads > 1 else None
        for index in range(count):
            self._look(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the stacks, which stay as they are, and end the threads."""
        self.release()
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def time_s(self) -> Array:
        """(M,) virtual time of each stack, s."""
        return self.rows[:, self.row.now_s]

    # --- what they do

    def follow(self, position: ArrayLike, velocity: ArrayLike) -> None:
        """Let the controllers follow references that move from ``position`` at ``velocity``, (M, n), m and m/s, from
        now on; as :meth:`VirtualStack.follow` with a :class:`SteadyReference`.
        """
        self._give(obeys=False)
        self._position[:], self._velocity[:], self._since_s[:, 0] = position, velocity, self.time_s

    def obey(self, command: ArrayLike) -> None:
        """Let the tendons obey commands, (M, N), N or m, from now on; as :meth:`VirtualStack.command`."""
        self._give(obeys=True)
        self._command[:] = command

    def run(self, duration_s: float, which: NDArray[np.bool_] | None = None) -> None:
        """Let time pass, s, for all stacks or for those where ``which``, (M,), is True.

        Each stops following and obeying nothing: a stack whose fault latched goes on as its safety logic has it.
        """
        count = round(duration_s / self.period_s)
        chosen = np.ones(len(self.stacks), dtype=bool) if which is None else np.asarray(which, dtype=bool)
        while count > 0:
            at_once = min(count, LENT_CYCLES)
            self._run(at_once, chosen)
            count -= at_once

    def release(self, which: NDArray[np.bool_] | None = None) -> None:
        """Let all stacks, or those where ``which``, (M,), is True, be read and changed by their own methods until
        time passes the next time.
        """
        for index in np.flatnonzero(self._lent if which is None else self._lent & which).tolist():
            self._take_back(index)

    # --- how

    def _give(self, *, obeys: bool) -> None:
        if self._obeys is not None and obeys != self._obeys:
            self.release()
        self._obeys = obeys

    def _run(self, count: int, chosen: NDArray[np.bool_]) -> None:
        due = self._lent & (self._left < count)
        if due.any():
            self.release(due)
        for index in np.flatnonzero(chosen & ~self._lent).tolist():
            self._lend(index)
        lent = chosen & self._lent
        if lent.any():
            self._run_free(count, lent)
            self._left[lent] -= count
            for index in np.flatnonzero(lent & (self._strains[:, -1] < count)).tolist():
                self._take_back(index)
                self._pass(index, count - int(self._strains[index, -1]))
            chosen = chosen & ~lent
        for index in np.flatnonzero(chosen).tolist():
            self._pass(index, count)

    def _run_free(self, count: int, lent: NDArray[np.bool_]) -> None:
        indices = np.flatnonzero(lent)
        runs = [self.stacks[index].free_run.cycles for index in indices.tolist()]  # type: ignore[union-attr]
        heads = []
        for part in np.array_split(np.arange(len(runs)), min(len(runs), PARTS_A_THREAD * self._threads)):
            first, last = int(part[0]), int(part[-1])
            for at in range(first, last):
                runs[at].chain(runs[at + 1])
            runs[last].chain(None)
            heads.append(runs[first])
        if self._pool is None:
            for head in heads:
                head.run(count)
        else:
            list(self._pool.map(lambda head: head.run(count), heads))

    def _pass(self, index: int, count: int) -> None:
        """Let cycles of a stack run that is not lent."""
        stack = self.stacks[index]
        self._tell(index)
        stack.run(count * self.period_s)
        self._look(index)

    def _tell(self, index: int) -> None:
        """Let a stack do what was given to it."""
        stack, since_s = self.stacks[index], float(self._since_s[index, 0])
        if self._obeys:
            stack.command(self._command[index])
        elif self._obeys is not None:
            stack.command(None)
            stack.follow(SteadyReference(self._position[index].copy(), self._velocity[index].copy()), since_s=since_s)

    def _lend(self, index: int) -> None:
        stack = self.stacks[index]
        free, body = stack.free_run, None if stack.plant is None else stack.plant.ordinary_body
        if free is None or body is None or not stack.loop.powered:
            return
        self._tell(index)
        if not stack.steer(free) or not free.begin(LENT_CYCLES):
            return
        if self._obeys:
            free.cycles.obey(self._given[index])
        elif self._obeys is not None:
            free.cycles.follow(self._given[index])
        free.cycles.copy_to(self.rows[index], body.moving.strains, self._strains[index])
        self._lent[index], self._left[index] = True, LENT_CYCLES

    def _take_back(self, index: int) -> None:
        free = self.stacks[index].free_run
        self._lent[index] = False
        if free is not None:
            free.cycles.chain(None)
            free.end()
            self._tell(index)

    def _look(self, index: int) -> None:
        stack = self.stacks[index]
        self.rows[index] = stack.newest_row
        if stack.plant is not None:
            size = self.strains.shape[1] // 2
            self.strains[index, :size], self.strains[index, size:] = stack.plant.c, stack.plant.c_rate
