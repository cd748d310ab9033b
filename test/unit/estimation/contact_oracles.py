# SPDX-License-Identifier: Apache-2.0
"""The contact monitor's algebra as it reads in the papers."""

import math
from types import SimpleNamespace

import numpy as np
from scipy.linalg import block_diag

from continuum_robot.estimation.contact.error_budget import Budget, BudgetAlgebra


def noise_covariance(gain, dt, momentum_by_state, force_by_state, state_covariance):
    """Of a settled residual for errors of the state that are independent from sample to sample."""
    pole = 1 / (1 + gain * dt)
    now = momentum_by_state - force_by_state * (dt / 2)
    before = -momentum_by_state - force_by_state * (dt / 2)
    tail = pole[:, None] * now + before
    spread = now @ state_covariance @ now.T
    spread += (tail @ state_covariance @ tail.T) / (1 - np.outer(pole, pole))
    scale = pole * gain
    return scale[:, None] * spread * scale


def next_sensitivity(sensitivity, momentum_by_state, force_by_state, dt):
    """dr/dx after one more cycle, johnston (65), (69)."""
    gain = sensitivity.gain[:, None]
    dt = 0.0 if sensitivity.fresh else dt
    change = momentum_by_state - sensitivity.momentum - (force_by_state + sensitivity.force) * (dt / 2)
    return (sensitivity.matrix + gain * change) / (1 + gain * dt)


class PlainPlaces:
    """As ``LocationAlgebra``: log likelihoods over that of no contact, averaged, and the moments of the place."""

    def __init__(self, size, free, places_m, cells_m, segment, *_name, **_how):
        self._size, self._free = size, free
        self._places_m, self._cells_m, self._segment = places_m, cells_m, segment

    def location_evidence(self, B, residual, information, *, prior, before, fraction):
        rows = B.reshape(len(self._places_m), self._free, self._size)
        h = rows @ (information @ residual)
        G = rows @ information @ rows.transpose(0, 2, 1) + prior * np.eye(self._free)
        explained = np.einsum("ki,ki->k", h, np.linalg.solve(G, h[:, :, None])[:, :, 0])
        newest = (explained - np.log(np.linalg.det(G) / prior**self._free)) / 2
        profile = before + (newest - before) * fraction
        top = float(profile.max())
        parts = self._cells_m * np.exp(profile - top)
        cumulative = np.concatenate([[0.0], np.cumsum(parts)])
        probability = parts / cumulative[-1]
        of_segment = np.zeros(self._segment.max() + 1)
        np.add.at(of_segment, self._segment, probability)
        mean = float(probability @ self._places_m)
        spread = math.sqrt(float(probability @ (self._places_m - mean) ** 2))
        return profile, cumulative / cumulative[-1], top, spread, of_segment


class PlainBudgets(BudgetAlgebra):
    """The budgets with NumPy."""

    def budget(self, method, fractions, elastic, by_c, friction, *more):
        constant, spread, errors, found = {"kalman": _kalman, "gmo": _gmo, "jfd": _jfd}[method](fractions, by_c, *more)
        rubbing = np.zeros(self.size) if friction is None else fractions[3] * friction
        of_model = np.array([*(fractions[2] * elastic), rubbing])
        rows = np.array([*of_model, *errors])
        # A constant error of the coefficients is as likely in each of them: its variance is a third of its square.
        shift = by_c * (fractions[0] / math.sqrt(3))
        covariance = spread + rows.T @ rows + shift @ shift.T + self.floor * np.eye(self.size)
        bound = constant + np.abs(of_model).sum(axis=0) + fractions[4] * np.sqrt(np.diag(spread))
        return Budget(bound, covariance, np.linalg.inv(covariance)), found


def _kalman(fractions, by_c, spread, rod_by_rate):
    return _constant(fractions, by_c, rod_by_rate), spread, (), ()


def _gmo(fractions, _by_c, lag, gain, steps, matrix, old_momentum, old_force, momentum, force, *noise):
    n = len(gain)
    before = SimpleNamespace(gain=gain, matrix=matrix, momentum=old_momentum, force=old_force, fresh=steps[0] == 0)
    matrix = next_sensitivity(before, momentum, force, steps[1])
    spread = noise_covariance(gain, steps[1], momentum, force, block_diag(*noise))
    return _constant(fractions, matrix[:, :n], matrix[:, n:]), spread, (lag,), (matrix,)


def _jfd(fractions, by_c, by_rate, mass, noise, rate_noise, acceleration_noise):
    spread = by_c @ noise @ by_c.T + by_rate @ rate_noise @ by_rate.T + mass @ mass.T * acceleration_noise**2
    return _constant(fractions, by_c, by_rate), spread, (), ()


def _constant(fractions, by_c, by_rate):
    """Largest change of each channel by the constant errors of c and c_rate, johnston (64)."""
    return np.abs(by_c).sum(axis=1) * fractions[0] + np.abs(by_rate).sum(axis=1) * fractions[1]


def filter_cycle(halvings, mass, by_c, by_rate, momentum_by_c, known_force, state, P, walk, measured, noise, times):
    """One cycle of the extended Kalman filter."""
    n, (h, dt) = len(measured), times
    c, rate, d = (slice(k * n, (k + 1) * n) for k in range(3))
    inverse = np.linalg.inv(mass)
    A = np.zeros((3 * n, 3 * n))
    A[c, rate] = np.eye(n) * h
    A[rate] = inverse @ np.concatenate([by_c, by_rate - momentum_by_c, np.eye(n)], axis=1) * h
    force = known_force + state[d] - momentum_by_c @ state[rate]
    step = term = np.concatenate([state[rate], inverse @ force, np.zeros(n)]) * h  # johnston (45)
    for k in (2, 3, 4):
        term = A @ term / k
        step = step + term
    square = A @ A
    transition = np.eye(3 * n) + A + square / 2 + square @ A / 6
    for _ in range(halvings):
        step = step + transition @ step
        transition = transition @ transition
    P = transition @ P @ transition.T
    P[d, d] += walk * dt
    predicted = state + step
    gain = np.linalg.solve(P[c, c] + noise, P[c, :]).T
    updated = P - gain @ P[c, :]
    return predicted + gain @ (measured - predicted[c]), (updated + updated.T) / 2
