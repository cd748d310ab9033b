# SPDX-License-Identifier: Apache-2.0
"""A record in windows, each simulated from a start of its own: residuals, their exact derivative, covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.capstan_motion import CapstanMotion, steps_of
from continuum_robot.identification.smoothed_record import SmoothedRecord

Array = NDArray[np.float64]

STEP_S = 0.01
_RAN_AWAY = 1e3


class ShootingWindows:
    """The windows as a function of one vector x: p parameters of the motion, then each window's first c and c_rate.

    Parameters
    ----------
    motion : of a robot with n coefficients
    record : of that robot
    window_s : length of a window, s
    rate_sigma : standard deviation of the windows' first rates about the smoothed ones, 1/(m.s)
    expected, deviation : of the parameters before the record, shape (p,); nothing is expected where that is infinite
    progress : receives a line for each evaluation

    Attributes
    ----------
    starts : first c and c_rate of each window from the smoothed record, 1/m and 1/(m.s), shape (windows, 2n)
    ran_away : whether the motion did so in the latest evaluation
    """

    def __init__(
        self,
        motion: CapstanMotion,
        record: SmoothedRecord,
        *,
        window_s: float,
        rate_sigma: float,
        expected: Array,
        deviation: Array,
        progress: Callable[[str], None],
    ) -> None:
        self._motion, self._record, self._progress = motion, record, progress
        self._rate_sigma = rate_sigma
        self._steps = steps_of(record.time_s, STEP_S)
        count = max(1, int(record.time_s[-1] / window_s))
        edges = np.searchsorted(record.time_s, np.linspace(0, record.time_s[-1], count + 1) - 1e-9)
        edges[-1] = len(record.time_s) - 1
        self._edges = edges
        # A window ends with the sample that the next one begins with.
        self._samples = np.concatenate([np.arange(first, last + 1) for first, last in pairwise(edges)])
        self.starts = np.hstack([record.smooth_c[edges[:-1]], record.smooth_rate[edges[:-1]]])
        self._parameters, self._expected, self._precision = len(expected), expected, 1 / deviation
        self._known: tuple[Array, Array, Array] | None = None
        self._evaluations = 0
        self._last_x = np.zeros(0)
        self.ran_away = False

    def residuals(self, x: Array) -> Array:
        """Whitened differences of simulated and measured coefficients at ``x``, then those of the first rates and
        of the parameters that are expected somewhere, (r,).
        """
        return self._evaluate(x)[0]

    def jacobian(self, x: Array) -> Array:
        """Their derivative by ``x``, shape (r, x); both in deviations."""
        return self._evaluate(x)[1]

    def trajectory(self, x: Array) -> Array:
        """Simulated coefficients at ``x``, shape (T, n), 1/m."""
        return self._evaluate(x)[2]

    def covariance(self, x: Array) -> Array:
        """Covariance of a least-squares solution ``x``, (x, x).

        A string encoder's drum is off its axis, a tendon stretches under its tension: what is wrong with a reading
        stays so wherever the robot comes by, and a longer record does not average it out. Each sensor's error is taken
        as constant in the lower and in the upper half of its range, independent of each other and as large as its
        deviation, or as the residuals where those are larger. First rates and parameters have their own deviations.
        """
        residuals, jacobian, _ = self._evaluate(x)
        measured = len(self._samples) * self._motion.size
        larger = max(1.0, math.sqrt(float(np.mean(residuals[:measured] ** 2))))
        errors = larger * self._record.reading_errors[self._samples].reshape(measured, -1)
        causes = np.hstack([jacobian[:measured].T @ errors, jacobian[measured:].T])
        response = np.linalg.pinv(jacobian.T @ jacobian) @ causes
        return np.asarray(response @ response.T)

    def _evaluate(self, x: Array) -> tuple[Array, Array, Array]:
        if self._known is not None and np.array_equal(self._last_x, x):
            return self._known
        p, n = self._parameters, self._motion.size
        starts = x[p:].reshape(-1, 2 * n)
        whiten = self._record.whiten
        rows: list[Array] = []
        jacobian = np.zeros((len(self._samples) * n, x.size))
        trajectory = np.full(self._record.c.shape, np.nan)
        self.ran_away = False
        done = 0
        for index, start in enumerate(starts):
            states, slopes = self._simulate(index, start, x[:p])
            first = self._edges[index]
            own = slice(first, first + len(states))
            trajectory[own] = states
            rows.append(((states - self._record.c[own]) @ whiten.T).ravel())
            place = slice(done, done + len(states) * n)
            weighted = np.einsum("ij,tjk->tik", whiten, slopes).reshape(-1, p + 2 * n)
            jacobian[place, :p] = weighted[:, :p]
            jacobian[place, p + index * 2 * n : p + (index + 1) * 2 * n] = weighted[:, p:]
            done += len(states) * n
        self._evaluations += 1
        rates = (starts - self.starts)[:, n:] / self._rate_sigma
        tie = np.zeros((rates.size, x.size))
        for index in range(len(starts)):
            first = p + index * 2 * n + n
            tie[index * n : (index + 1) * n, first : first + n] = np.eye(n) / self._rate_sigma
        jacobian = np.vstack([jacobian, tie, np.eye(p, x.size) * self._precision[:, None]])
        residuals = np.concatenate([*rows, rates.ravel(), (x[:p] - self._expected) * self._precision])
        self._progress(
            f"motion, evaluation {self._evaluations}: rms of {math.sqrt(float(np.mean(residuals**2))):.3f} deviations, "
            + ", ".join(f"{value:.4g}" for value in x[:p]),
        )
        self._last_x, self._known = x.copy(), (residuals, jacobian, trajectory)
        return self._known

    def _simulate(self, index: int, start: Array, parameters: Array) -> tuple[Array, Array]:
        """Coefficients at the samples of a window, and their derivative by (parameters, start)."""
        n, p = self._motion.size, self._parameters
        state, slope = start, np.hstack([np.zeros((2 * n, p)), np.eye(2 * n)])
        states, slopes = [state[:n]], [slope[:n]]
        for k in range(self._edges[index], self._edges[index + 1]):
            count, h = self._steps[k]
            for _ in range(count):
                if self.ran_away:
                    break
                try:
                    step = self._motion.step(state, self._record.torque[k], parameters, h)
                except ConvergenceError:
                    self.ran_away = True
                    break
                state = step.state
                slope = step.by_state @ slope
                slope[:, :p] += step.by_parameter
            # A motion that ran away is so bad that the trial is not taken.
            states.append(np.full(n, _RAN_AWAY) if self.ran_away else state[:n])
            slopes.append(slope[:n].copy())
        return np.array(states), np.array(slopes)
