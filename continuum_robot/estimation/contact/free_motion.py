# SPDX-License-Identifier: Apache-2.0
"""What the residual does while nothing touches: the mean that a tare takes, and what is learnt from free motion.

Derived here: fractions of the model's forces by least squares with a prior, the rest by its covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.driven_rod import DrivenRod
from continuum_robot.estimation.contact.error_budget import Budget
from continuum_robot.estimation.contact.own_observer import Residual
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings

Vector = NDArray[np.float64]

_MOST_ROWS = 100_000  # residuals that are kept while learning; then every other one
_LEAST_ROWS = 10  # for each channel, for a covariance
_LEAST_FRACTION = 1e-9  # of the variance in every direction, so that the covariance has an inverse


class NoiseFloor:
    """What the residual does in free motion, learnt while it is known that nothing touches.

    Each channel has a bound. All together have a covariance: what the errors of the model make of the residual in
    motion. A contact is detected first where that is small, so r^T S^-1 r distinguishes contacts from motion better
    than channels do. Errors along given directions, those of the friction of the drives, are large only where a drive
    turns back, which is rare: there the largest counts, not the mean. Forces of the model that are wrong by a constant
    fraction, as a stiffness is, are fitted and taken off.
    """

    def __init__(self, size: int, margin: float = 1.2, directions: ArrayLike | None = None) -> None:
        if not 1 <= margin < math.inf:
            raise ParameterError("margin", margin, "a factor of at least 1")
        self._margin = margin
        self._largest: Vector = np.zeros(size)
        self._directions = np.zeros((0, size)) if directions is None else np.asarray(directions, dtype=float)
        self._rows: list[Vector] = []
        self._regressors: list[Vector] = []
        self._every, self._skipped = 1, 0

    def learn(self, residual: ArrayLike, regressors: ArrayLike | None = None) -> None:
        """Take one residual of free motion, (n,); not finite: ignored."""
        values = np.asarray(residual, dtype=float)
        self._largest = np.fmax(self._largest, np.where(np.isfinite(values), np.abs(values), 0.0))
        self._skipped += 1
        if not np.all(np.isfinite(values)) or self._skipped < self._every:
            return
        self._skipped = 0
        self._rows.append(values.copy())
        self._regressors.append(np.zeros((0, values.size)) if regressors is None else np.array(regressors, dtype=float))
        if len(self._rows) >= _MOST_ROWS:
            self._rows, self._regressors, self._every = self._rows[::2], self._regressors[::2], 2 * self._every

    @property
    def bound(self) -> Vector:
        """Threshold of each channel, (n,), N.m^2."""
        return self._margin * self._largest

    def free_motion(self, sigma: ArrayLike = ()) -> FreeMotion | None:
        """What was learnt of all channels together; None where that is too little for it."""
        if len(self._rows) < _LEAST_ROWS * self._largest.size:
            return None
        rows, regressors = np.array(self._rows), np.array(self._regressors)
        precision = np.diag(float(np.mean(rows**2)) / np.asarray(sigma, dtype=float) ** 2)
        normal = np.einsum("kin,kjn->ij", regressors, regressors) + precision
        fractions = np.linalg.solve(normal, np.einsum("kin,kn->i", regressors, rows))
        rows = rows - fractions @ regressors
        largest = np.abs(rows @ np.linalg.pinv(self._directions)).max(axis=0)
        along = largest[:, None] * self._directions
        covariance = rows.T @ rows / len(rows) + along.T @ along
        covariance += _LEAST_FRACTION * float(np.trace(covariance)) * np.eye(len(covariance))
        information = np.linalg.inv(covariance)
        evidence = np.einsum("ki,ij,kj->k", rows, information, rows)
        return FreeMotion(
            fractions,
            covariance,
            self._margin**2 * float(evidence.max()),
            self._margin * np.abs(rows).max(axis=0),
        )


@dataclass(frozen=True, slots=True)
class FreeMotion:
    """The residual in free motion."""

    fractions: Vector
    covariance: Vector
    evidence: float
    bound: Vector
    information: Vector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "information", np.asarray(np.linalg.inv(self.covariance)))


@dataclass(frozen=True, slots=True)
class Floor:
    """What was learnt from free motion."""

    bound: Vector
    motion: FreeMotion | None


class ResidualTare:
    """The mean residual of some free motion, to be taken off."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.left_s = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget what was taken."""
        self.residual: Vector = np.zeros(self._size)

    def begin(self, duration_s: float) -> None:
        """Average over the coming time, s."""
        self.left_s = duration_s
        self._sum: Vector = np.zeros(self._size)
        self._count = 0

    def take(self, residual: Vector, dt: float) -> bool:
        """One cycle of a running tare; True at its end."""
        self._sum = self._sum + residual
        self._count += 1
        self.left_s -= dt
        if self.left_s > 1e-9:
            return False
        self.residual, self.left_s = self._sum / self._count, 0.0
        return True


class FreeMotionLearning:
    """Learns a robot's free motion, and distinguishes contacts from it."""

    def __init__(self, rod: DrivenRod) -> None:
        self._rod = rod
        self.forget()

    def forget(self) -> None:
        """Unlearn everything."""
        self._seen: NoiseFloor | None = None
        self._learning = False
        self.floor: Floor | None = None

    def use(self, floor: Floor | None) -> None:
        """Use what was learnt at another time instead of anything learnt by now."""
        size = len(self._rod.stiffness)
        if floor is not None and floor.bound.shape != (size,):
            raise ParameterError("floor", floor.bound.shape, f"a bound for {size} channels")
        self.forget()
        self.floor = floor

    def begin(self, margin: float) -> None:
        """Learn from the coming residuals, besides what was learnt before.

        Until the end, contacts are reported as if nothing had been learnt.
        """
        if self._seen is None:
            rod = self._rod
            self._seen = NoiseFloor(len(rod.stiffness), margin, rod.capstan_jacobian if rod.rubs else None)
        self._learning, self.floor = True, None

    def end(self, settings: MonitorSettings) -> None:
        """Use what was learnt; with the Kalman disturbance observer that of all channels together."""
        self._learning = False
        if self._seen is None:
            return
        motion: FreeMotion | None = None
        if settings.method == KALMAN:
            fractions = self._rod.uncertain_fractions(
                settings.stiffness_error_fraction, settings.friction_error_fraction
            )
            motion = self._seen.free_motion(fractions)
        self.floor = Floor(self._seen.bound, motion)

    def applied(self, found: Residual, errors: Budget, tare: Vector) -> tuple[Vector, Budget]:
        """A residual, (n,), N.m^2, and its errors with what was learnt; learns from it while that is asked for."""
        raw, floor = found.values, self.floor
        if self._learning and self._seen is not None:
            forces = None if found.spread is None else self._rod.uncertain_forces(found.c, found.model)
            self._seen.learn(raw - tare, forces)
        if floor is None:
            return raw, errors
        if floor.motion is None or found.spread is None:
            return raw, Budget(np.maximum(errors.bound, floor.bound), errors.covariance, errors.information)
        raw = raw - floor.motion.fractions @ self._rod.uncertain_forces(found.c, found.model)
        covariance = floor.motion.covariance + found.spread
        bound = np.maximum(errors.bound, floor.motion.bound)
        return raw, Budget(bound, covariance, np.asarray(np.linalg.inv(covariance)))

    def ratio(self, residual: Vector, threshold: Vector, factor: float) -> float:
        """How large a residual is over its threshold: of all channels together where that was learnt, else the
        largest.
        """
        motion = None if self.floor is None else self.floor.motion
        largest = float((np.abs(residual) / threshold).max())
        if motion is None:
            return largest
        together = math.sqrt(float(residual @ motion.information @ residual) / motion.evidence) / factor
        # What was learnt knew the past of the motion.
        return min(together, largest) if self._rod.past_unknown else together
