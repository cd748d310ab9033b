# SPDX-License-Identifier: Apache-2.0
"""Targets of the tip are solved for in a thread of its own."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.tip.control import TipControl
from continuum_robot.control.tip.inverse import TipSolution

Vector = NDArray[np.float64]


class TipSolver:
    """Solves for targets in a thread of its own: a target out of reach takes longer than the controller may wait.

    A target that comes while another is solved for waits, the newest only.

    Parameters
    ----------
    control : of its own, for its compiled functions serve one thread
    beside : False: no thread, it is solved when the answer is asked for, as lock-step needs it
    """

    def __init__(self, control: TipControl, *, beside: bool = True) -> None:
        self._control, self._beside = control, beside
        self._lock = threading.Condition()
        self._asked: tuple[Vector, Vector, bool] | None = None
        self._found: TipSolution | None = None
        self._epoch = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tip_solver", daemon=True)
        if beside:
            self._thread.start()

    def ask(self, target: Vector, start: Vector, *, search: bool) -> None:
        """Solve for a target next.

        Parameters
        ----------
        target : shape (3,), m, in the base frame
        start : coordinates from which to begin, shape (2m,), m
        search : look further than the nearest solution
        """
        with self._lock:
            self._asked = target.copy(), start.copy(), search
            self._lock.notify()

    def answer(self) -> TipSolution | None:
        """The newest solution that was not given yet."""
        if not self._beside and self._asked is not None:
            (target, start, search), self._asked = self._asked, None
            return self._control.solve(target, start, search=search)
        with self._lock:
            found, self._found = self._found, None
            return found

    def forget(self) -> None:
        """Whatever is being solved for is not desired any more."""
        with self._lock:
            self._asked = self._found = None
            self._epoch += 1

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        if self._beside:
            self._thread.join(5.0)

    def _run(self) -> None:
        while True:
            with self._lock:
                while self._asked is None and not self._closed:
                    self._lock.wait()
                if self._closed or self._asked is None:
                    return
                (target, start, search), self._asked = self._asked, None
                epoch = self._epoch
            found = self._control.solve(target, start, search=search)
            with self._lock:
                # A target that moved on meanwhile is followed as far as it was; one that was dropped is not.
                if epoch == self._epoch:
                    self._found = found
