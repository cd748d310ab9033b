# SPDX-License-Identifier: Apache-2.0
"""Learning the floor of a contact monitor from free motion: for a time, of motion, refused when something touches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import KALMAN
from continuum_robot.estimation.contact.states import CLEAR, INVALID, ContactEstimate

Vector = NDArray[np.float64]

LEAST_DURATION_S, LONGEST_DURATION_S = 2.0, 600.0
LEAST_MOTION_M = 1e-3


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a robot's free motion taught a contact monitor."""

    floor: Floor
    duration_s: float
    moved_m: Vector
    least_tip_force_n: float
    before_n: float

    def sentence(self) -> str:
        """What was learnt, for people."""
        return (
            f"learnt from {self.duration_s:.0f} s, tendons moved by up to {1e3 * float(self.moved_m.max()):.1f} mm: at"
            f" the tip {self.least_tip_force_n:.2g} N are detected in every direction, {self.before_n:.2g} N before"
        )


class MotionRange:
    """How far each tendon has moved."""

    def __init__(self) -> None:
        self._lowest: Vector = np.array([])
        self._highest: Vector = np.array([])

    def take(self, displacement_m: ArrayLike) -> None:
        """Take a measurement."""
        displacement = np.asarray(displacement_m, dtype=float)
        self._lowest = displacement if not self._lowest.size else np.fmin(self._lowest, displacement)
        self._highest = displacement if not self._highest.size else np.fmax(self._highest, displacement)

    @property
    def moved_m(self) -> Vector:
        """Range of each tendon's displacement, (N,), m; empty before the first."""
        return self._highest - self._lowest

    @property
    def enough(self) -> bool:
        """Whether it is a motion to learn from."""
        return bool((self.moved_m >= LEAST_MOTION_M).any())


class FloorLearning:
    """Lets a monitor learn from the motion of the coming time, and ends with a floor or with the one before.

    Contacts are reported by the thresholds of the settings meanwhile. What touches too lightly for these is learnt as
    if it were the robot's own.
    """

    def __init__(self, monitor: ContactMonitor, duration_s: float, margin: float = 1.2) -> None:
        if not LEAST_DURATION_S <= duration_s <= LONGEST_DURATION_S:
            raise ParameterError("duration", duration_s, f"{LEAST_DURATION_S:g} to {LONGEST_DURATION_S:g} s")
        self._monitor, self._duration_s = monitor, duration_s
        self._method, self._former = monitor.settings.method, monitor.floor
        self._seen_s, self._before_n = 0.0, math.nan
        self._range = MotionRange()
        self.problem = ""
        self.learnt: Learnt | None = None
        self.newest_state, self.newest_ratio = "", math.nan
        monitor.use_floor(None)
        monitor.learn_floor(True, margin)

    @property
    def running(self) -> bool:
        """Whether it needs more motion."""
        return not self.problem and self.learnt is None

    @property
    def progress(self) -> float:
        """Fraction of the time that was seen, 0 to 1."""
        return min(1.0, self._seen_s / self._duration_s)

    def take(self, estimate: ContactEstimate, displacement_m: ArrayLike, dt: float) -> None:
        """What the monitor reported after an update."""
        if not self.running:
            return
        self.newest_state, self.newest_ratio = estimate.state, estimate.ratio
        if self._monitor.floor is not None:
            self._tell(self._monitor.floor, estimate)
        elif self._monitor.settings.method != self._method:
            self.abort("the method was changed meanwhile")
        elif estimate.state == INVALID:
            self.abort(f"the contact monitor is invalid: {estimate.reason}")
        elif estimate.in_contact:
            self.abort(
                f"something touches the robot, or its file is far off: after {self._seen_s:.1f} s the residual is"
                f" {estimate.ratio:.2g} of its threshold. Clear it, and learn again"
            )
        elif estimate.state == CLEAR:
            self._range.take(displacement_m)
            self._seen_s += dt
            if self._seen_s >= self._duration_s - 1e-9:
                self._end(estimate)

    def abort(self, problem: str) -> None:
        """Learn nothing: the floor is the one before."""
        if not self.running:
            return
        self.problem = problem
        self._monitor.learn_floor(False)
        if self._monitor.settings.method == self._method:
            self._monitor.use_floor(self._former)

    def _end(self, estimate: ContactEstimate) -> None:
        """Use what was learnt, if that is enough; the next update is the first with it."""
        monitor = self._monitor
        if not self._range.enough:
            largest_m = float(self._range.moved_m.max())
            self.abort(
                f"no tendon moved by more than {1e3 * largest_m:.2g} mm, expected at least {1e3 * LEAST_MOTION_M:g} mm."
                " Start a motion like those of the work, and learn again"
            )
            return
        self._before_n = monitor.least_tip_force_n(estimate)
        monitor.learn_floor(False)
        if self._method == KALMAN and (monitor.floor is None or monitor.floor.motion is None):
            monitor.use_floor(None)
            self.abort(f"too few updates in {self._seen_s:.1f} s for {monitor.size} channels. Learn for longer")

    def _tell(self, floor: Floor, estimate: ContactEstimate) -> None:
        least_n = self._monitor.least_tip_force_n(estimate)
        self.learnt = Learnt(floor, self._seen_s, self._range.moved_m, least_n, self._before_n)
