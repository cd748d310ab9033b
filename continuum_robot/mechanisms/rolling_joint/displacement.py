# SPDX-License-Identifier: Apache-2.0
"""Displacement actuation: the tensions whose tendon lengths come closest to desired ones. ha section V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.rolling_joint.loads import Load, load_matrix
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, RollingStatics

Array = NDArray[np.float64]

METHODS = ("levenberg_marquardt", "gradient")
LEAST_FRACTION = 1e-3
"""Least tension on the way, relative to the sum of both; a tendon that stays there is let go at the end."""
_RATIOS = np.geomspace(1e-3, 1e3, 31)
_FEW_RATIOS = np.geomspace(0.05, 20.0, 9)
_FRACTIONS = (2.0, 6.0, 20.0, 100.0)
"""Sums of the tensions to start from, relative to the loads."""
_LENGTH_M = 1e-12
_STEP = 1e-10
_FLAT = 1e-13
_NEARLY_FLAT = 1e-6  # where a tendon was let go: its fraction of the way to there was not optimised
_DAMPING = 1e-3
_DAMPING_STEPS = 4.0
_GREATEST_DAMPING = 1e12
_ITERATIONS = {"levenberg_marquardt": 200, "gradient": 5000}
_SHRINK, _GROW = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class DisplacementResult:
    """What comes closest to desired tendon lengths.

    Attributes
    ----------
    equilibrium : with its tensions and tendon lengths
    length_error_m : tendon lengths less the desired ones, shape (2,), m; not zero where they cannot be reached
    iterations : steps of the tensions
    converged : the gradient vanishes along all tensions that may still change
    """

    equilibrium: Equilibrium
    length_error_m: Array
    iterations: int
    converged: bool

    @property
    def residual_m(self) -> float:
        """Norm of the length error, m."""
        return float(np.linalg.norm(self.length_error_m))


def length_jacobian(statics: RollingStatics, at: Equilibrium, loads: Sequence[Load] = ()) -> Array:
    """How the tendon lengths change with the tensions at an equilibrium: ha (30)-(35).

    Parameters
    ----------
    statics : of the mechanism
    at : the equilibrium, without friction
    loads : those under which it stands

    Returns
    -------
    shape (2, 2), m/N
    """
    matrix = load_matrix(loads, statics.linkage.joint_count + 1)
    step = statics.evaluate(at.contact_m, at.tension_n, 1.0, matrix, at.poses[0])
    return np.asarray(step.gap_slopes @ step.steps[:, 1:])  # (30), (34), (35)


def solve_displacement(
    statics: RollingStatics,
    desired_m: ArrayLike,
    loads: Sequence[Load] = (),
    *,
    method: str = "levenberg_marquardt",
    start_n: ArrayLike | None = None,
) -> DisplacementResult:
    """Least squares over the tensions: ha (29).

    Without loads only the ratio of the tensions matters, and their sum stays as it starts.

    Parameters
    ----------
    statics : of the mechanism
    desired_m : tendon lengths, left and right, shape (2,), m
    loads : on any links
    method : "levenberg_marquardt", or "gradient" for ha (36), (37) with a step size that adapts
    start_n : tensions to start from, shape (2,), N; by default those of a grid whose lengths come closest

    Returns
    -------
    the result; where the lengths cannot be reached, the closest ones with their error

    Raises
    ------
    ParameterError : lengths, method or start that cannot be used
    NoEquilibriumError, ConvergenceError : no equilibrium at the start
    """
    desired = np.asarray(desired_m, dtype=float)
    if desired.shape != (2,) or not np.all(np.isfinite(desired)) or np.any(desired <= 0):
        raise ParameterError("desired_m", desired_m, "two finite lengths above 0 m, left and right")
    if method not in METHODS:
        raise ParameterError("method", method, "one of " + ", ".join(METHODS))
    tension = _start(statics, desired, loads) if start_n is None else np.asarray(start_n, dtype=float)
    now = statics.solve_tension(tension, loads)
    least = LEAST_FRACTION * float(tension.sum())
    advance = _MarquardtStep() if method == "levenberg_marquardt" else _GradientStep()
    for iteration in range(_ITERATIONS[method]):
        error = now.tendon_length_m - desired
        jacobian = length_jacobian(statics, now, loads)
        gradient = jacobian.T @ error  # ha (36)
        free = (now.tension_n > least) | (gradient < 0)
        # In lengths: what a change of the tensions by their sum would gain.
        slope = float(np.abs(np.where(free, gradient, 0.0)).max() * now.tension_n.sum())
        size = float(np.linalg.norm(error))
        if size < _LENGTH_M or slope < _FLAT * statics.linkage.size_m * max(size, _LENGTH_M):
            return _let_go(statics, now, desired, loads, (iteration, True, least))
        while True:
            trial = np.maximum(now.tension_n + advance.step(jacobian, error, free, float(now.tension_n.sum())), least)
            moved = float(np.abs(trial - now.tension_n).max())
            if moved < _STEP * float(now.tension_n.sum()):
                return _let_go(statics, now, desired, loads, (iteration, True, least))
            ahead = _try(statics, trial, loads, now)
            if ahead is not None and np.linalg.norm(ahead.tendon_length_m - desired) < size:
                advance.accept()
                now = ahead
                break
            if not advance.reject():
                return _let_go(statics, now, desired, loads, (iteration, False, least))
    return _let_go(statics, now, desired, loads, (_ITERATIONS[method], False, least))


def _let_go(
    statics: RollingStatics, now: Equilibrium, desired: Array, loads: Sequence[Load], ended: tuple[int, bool, float]
) -> DisplacementResult:
    """The result, with no tension at all on a tendon that ended at the least, where that comes closer in good order."""
    iterations, converged, least = ended
    held = now.tension_n > least
    if not held.all():
        ahead = _try(statics, np.where(held, now.tension_n, 0.0), loads, now)
        closer = ahead is not None and np.linalg.norm(ahead.tendon_length_m - desired) <= np.linalg.norm(
            now.tendon_length_m - desired
        )
        # A contact then lies at the hole of the only tendon, where its force has no side.
        if ahead is not None and closer and ahead.stable and set(ahead.lifted_joints) <= set(now.lifted_joints):
            now, converged = ahead, converged or _is_least(statics, ahead, desired, loads)
    return DisplacementResult(now, now.tendon_length_m - desired, iterations, converged)


def _is_least(statics: RollingStatics, now: Equilibrium, desired: Array, loads: Sequence[Load]) -> bool:
    """Whether no tension that may still change brings the lengths closer."""
    error = now.tendon_length_m - desired
    gradient = length_jacobian(statics, now, loads).T @ error  # (36)
    slope = float(np.abs(np.where((now.tension_n > 0) | (gradient < 0), gradient, 0.0)).max() * now.tension_n.sum())
    return slope < _NEARLY_FLAT * statics.linkage.size_m * float(np.linalg.norm(error))


class _MarquardtStep:
    """Gauss-Newton with Marquardt's damping on the tensions relative to their sum."""

    def __init__(self) -> None:
        self.damping = _DAMPING

    def step(self, jacobian: Array, error: Array, free: NDArray[np.bool_], scale: float) -> Array:
        used = jacobian[:, free] * scale
        normal = used.T @ used
        normal = normal + self.damping * max(float(np.trace(normal)), 1e-300) * np.eye(len(normal))
        change = np.zeros(2)
        change[free] = -scale * np.linalg.solve(normal, used.T @ error)
        return np.clip(change, -0.5 * scale, 0.5 * scale)

    def accept(self) -> None:
        self.damping = max(self.damping / _DAMPING_STEPS, 1e-14)

    def reject(self) -> bool:
        self.damping *= _DAMPING_STEPS
        return self.damping < _GREATEST_DAMPING


class _GradientStep:
    """The step against the gradient, ha (37); alpha halves where it goes too far and grows where it does not."""

    _least = 1e-9

    def __init__(self) -> None:
        self.alpha = 0.0

    def step(self, jacobian: Array, error: Array, free: NDArray[np.bool_], scale: float) -> Array:
        if self.alpha == 0.0:
            self.alpha = 1 / max(float(np.linalg.norm(jacobian) ** 2), (self._least / scale) ** 2)
        return np.where(free, -self.alpha * (jacobian.T @ error), 0.0)  # ha (37)

    def accept(self) -> None:
        self.alpha *= _GROW

    def reject(self) -> bool:
        self.alpha *= _SHRINK
        return self.alpha > 1e-300


def _try(
    statics: RollingStatics, tension: Array, loads: Sequence[Load], near: Equilibrium | None
) -> Equilibrium | None:
    start = None if near is None else near.contact_m
    try:
        return statics.solve_tension(tension, loads, start_m=start, exhaustive=False)
    except ConvergenceError:
        return None


def _start(statics: RollingStatics, desired: Array, loads: Sequence[Load]) -> Array:
    """Of a grid of tensions, those whose lengths come closest; without loads only their ratio matters."""
    force = sum(float(np.hypot(*load.force_n)) + abs(load.moment_nm) / statics.linkage.size_m for load in loads)
    best, found = np.inf, np.full(2, 0.5)
    for total, ratios in (
        [(1.0, _RATIOS)] if force == 0 else [(fraction * force, _FEW_RATIOS) for fraction in _FRACTIONS]
    ):
        for ratio in ratios:
            tension = total * np.array([ratio, 1.0]) / (1 + ratio)
            tried = _try(statics, tension, loads, None)
            if tried is not None:
                distance = float(np.linalg.norm(tried.tendon_length_m - desired))
                if distance < best:
                    best, found = distance, tension
    return found
