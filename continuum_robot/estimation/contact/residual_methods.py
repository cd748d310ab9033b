# SPDX-License-Identifier: Apache-2.0
"""The methods of the contact monitor: from one cycle's measurements to the residual and its errors, by one observer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.contact.driven_rod import DrivenRod
from continuum_robot.estimation.contact.error_budget import BudgetAlgebra, ResidualSensitivity
from continuum_robot.estimation.contact.observers import (
    BackwardGaussian,
    DisturbanceObserver,
    JointForceDeviation,
    MomentumObserver,
)
from continuum_robot.estimation.contact.own_observer import ContactObserver, CycleInput, OwnResidual, Residual
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings

Vector = NDArray[np.float64]

USUAL_STEP_S = 0.01
MOTION_FILTER_S = 0.05


class MomentumResidual:
    """gmo: the momentum observer, its result smoothed."""

    def __init__(
        self, rod: DrivenRod, budgets: BudgetAlgebra, observer: MomentumObserver, smoothing_points: int
    ) -> None:
        self._rod, self._budgets, self._observer = rod, budgets, observer
        self._smoother = BackwardGaussian(smoothing_points) if smoothing_points > 1 else None
        self._sensitivity = ResidualSensitivity(observer.gain)
        self.reset()

    def reset(self) -> None:
        """Restart."""
        self._observer.reset()
        self._sensitivity.reset()
        if self._smoother is not None:
            self._smoother.reset()
        self._last: Vector | None = None
        self._lag: Vector = np.zeros(self._observer.gain.size)

    def bridge(self, _gap_s: float) -> None:
        """Restart after a time without shapes."""
        self.reset()

    def with_gain(self, gain: Vector) -> None:
        """Another K_o; the residual stays continuous."""
        self._observer.with_gain(gain)
        self._sensitivity.gain = self._observer.gain

    def update(self, cycle: CycleInput, _settings: MonitorSettings, fractions: Vector) -> Residual:
        """Residual of one more cycle."""
        dt, state = cycle.dt, self._rod.evaluate(cycle.c, cycle.rate, cycle.drives, cycle.other)
        terms = state.terms
        raw = self._observer.update(terms.momentum, terms.known_force + state.force, dt)
        if self._smoother is not None and not self._observer.invalid_reason:
            raw = self._smoother.update(raw)
        if self._last is not None and dt > 0:
            fraction = dt / (MOTION_FILTER_S + dt)
            change = (raw - self._last) / dt / self._observer.gain  # johnston (54): what r is late by
            self._lag = self._lag + fraction * (change - self._lag)
        self._last = raw
        known, elastic = self._sensitivity, self._rod.elastic(cycle.c, state)
        step_s = dt if dt > 0 else USUAL_STEP_S  # noise from sample to sample has no size without a time
        force_by_c, force_by_rate = state.forces_by_state()
        momentum_by = np.concatenate([terms.momentum_by_c, terms.mass], axis=1)
        force_by = np.concatenate([force_by_c, force_by_rate], axis=1)
        errors, (matrix,) = self._budgets.budget(
            "gmo", fractions, elastic, force_by_c, state.friction, self._lag, *known.before(step_s), momentum_by,
            force_by, cycle.noise, cycle.rate_noise,
        )  # fmt: skip
        known.take(matrix, momentum_by, force_by)
        return Residual(raw, errors, cycle.c, state, self._observer.invalid_reason)


class DeviationResidual:
    """jfd: the joint-force deviation, its result smoothed."""

    def __init__(self, rod: DrivenRod, budgets: BudgetAlgebra, smoothing_points: int) -> None:
        self._rod, self._budgets = rod, budgets
        self._deviation = JointForceDeviation(smoothing_points)
        self.reset()

    def reset(self) -> None:
        """Restart."""
        self._deviation.reset()
        self._last_rate: Vector | None = None

    def bridge(self, _gap_s: float) -> None:
        """Restart after a time without shapes."""
        self.reset()

    def update(self, cycle: CycleInput, settings: MonitorSettings, fractions: Vector) -> Residual:
        """Residual of one more cycle."""
        dt, state = cycle.dt, self._rod.evaluate(cycle.c, cycle.rate, cycle.drives, cycle.other)
        acceleration_noise = settings.acceleration_noise_per_m_s2
        if cycle.c_acceleration is not None:
            acceleration = np.asarray(cycle.c_acceleration, dtype=float)
        elif self._last_rate is None or dt == 0:
            acceleration = np.zeros(cycle.c.size)
        else:
            acceleration = (cycle.rate - self._last_rate) / dt
            differenced = math.sqrt(2 * float(cycle.rate_noise.diagonal().max())) / dt
            acceleration_noise = math.hypot(acceleration_noise, differenced)
        self._last_rate = cycle.rate
        raw = self._deviation.update(state.terms, cycle.rate, acceleration, state.force)
        by_c, by_rate = state.forces_by_state()
        errors, _ = self._budgets.budget(
            "jfd", fractions, self._rod.elastic(cycle.c, state), by_c, state.friction, by_rate, state.terms.mass,
            cycle.noise, cycle.rate_noise, acceleration_noise,
        )  # fmt: skip
        return Residual(raw, errors, cycle.c, state, self._deviation.invalid_reason)


class KalmanResidual:
    """Kalman disturbance observer, which needs no rates and states its own covariance."""

    def __init__(self, rod: DrivenRod, budgets: BudgetAlgebra, observer: DisturbanceObserver) -> None:
        self._rod, self._budgets, self._observer = rod, budgets, observer

    def reset(self) -> None:
        """Restart."""
        self._observer.reset()

    def bridge(self, gap_s: float) -> None:
        """Keep the force after a time without shapes, less certain by that time."""
        self._observer.bridge(gap_s)

    def update(self, cycle: CycleInput, _settings: MonitorSettings, fractions: Vector) -> Residual:
        """Residual of one more cycle."""
        rod, observer = self._rod, self._observer
        drives, other = cycle.drives, cycle.other
        raw = observer.update(cycle.c, cycle.noise, lambda c, rate: rod.evaluate(c, rate, drives, other), cycle.dt)
        state, c, spread = observer.model, observer.coefficients, observer.covariance
        by_c, _ = state.forces_by_state()
        errors, _ = self._budgets.budget(
            "kalman", fractions, rod.elastic(c, state), by_c, state.friction, spread, state.terms.force_by_rate
        )
        return Residual(raw, errors, c, state, observer.invalid_reason, spread)


ResidualMethod = MomentumResidual | DeviationResidual | KalmanResidual | OwnResidual


def residual_method(
    settings: MonitorSettings,
    rod: DrivenRod,
    directions: Vector,
    budgets: BudgetAlgebra,
    own: Callable[[str], ContactObserver],
) -> ResidualMethod:
    """The method that the settings name."""
    size = len(rod.stiffness)
    momentum = MomentumObserver(np.array(settings.gain_per_s), settings.reset_cycles, size)
    if settings.method == "gmo":
        return MomentumResidual(rod, budgets, momentum, settings.smoothing_points)
    if settings.method == "jfd":
        return DeviationResidual(rod, budgets, settings.smoothing_points)
    if settings.method == KALMAN:
        observer = DisturbanceObserver(size, directions, settings.force_walk_n_per_sqrt_s)
        return KalmanResidual(rod, budgets, observer)
    return OwnResidual(rod, own(settings.method))


_FROZEN_FACTOR = 10.0
# Of what a cycle is given, in the order of :func:`_not_finite`.
_NAMES = (
    "coefficients",
    "coefficient rates",
    "covariance of the coefficients",
    "covariance of the rates",
    "tensions or other forces",
    "time step",
)


class ShapeCheck:
    """Looks at each cycle beside the one before."""

    def __init__(self, stiffness: Vector) -> None:
        self._softness = np.linalg.inv(stiffness)
        self.reset()

    def reset(self) -> None:
        """Forget the cycles before."""
        self._last_c: Vector | None = None
        self._frozen_s = 0.0
        self._frozen_load: Vector = np.zeros(len(self._softness))

    def problem(self, cycle: CycleInput, settings: MonitorSettings) -> str:
        """Why a cycle cannot be used; empty where it can."""
        reason = _not_finite(cycle) or self._implausible(cycle, settings)
        self._last_c = cycle.c
        return reason

    def _implausible(self, cycle: CycleInput, settings: MonitorSettings) -> str:
        noise, tendons, dt = cycle.noise, cycle.drives.force, cycle.dt
        if self._last_c is None:
            self._frozen_load = tendons
            return ""
        change = np.abs(cycle.c - self._last_c)
        largest = float(change.max())
        # A cycle that took longer shows more motion.
        allowed = settings.jump_per_m * max(1.0, dt / USUAL_STEP_S)
        if largest > allowed and largest > allowed + 10 * math.sqrt(noise.max()):
            return f"coefficient {int(np.argmax(change))} jumped by {largest:.3g} 1/m within a cycle"
        if largest > 0:
            self._frozen_s, self._frozen_load = 0.0, tendons
            return ""
        self._frozen_s += dt
        expected = np.abs(self._softness @ (tendons - self._frozen_load)).max()
        least = _FROZEN_FACTOR * max(settings.coefficient_error_per_m, math.sqrt(float(noise.max())), 1e-3)
        if self._frozen_s > settings.frozen_s and expected > least:
            return f"coefficients frozen for {self._frozen_s:.2g} s while the tensions changed"
        return ""


def _not_finite(cycle: CycleInput) -> str:
    """Which inputs are not numbers."""
    given = (cycle.c, cycle.rate, cycle.noise, cycle.rate_noise, cycle.drives.force + cycle.other)
    if math.isfinite(sum(np.vdot(values, values) for values in given) + cycle.dt):
        return ""
    inputs: list[ArrayLike] = [*given, cycle.dt]
    unknown = [name for name, values in zip(_NAMES, inputs, strict=True) if not np.all(np.isfinite(values))]
    return f"{', '.join(unknown)}: not a number" if unknown else ""
