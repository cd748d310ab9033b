# SPDX-License-Identifier: Apache-2.0
"""The contact monitor's algebra with NumPy, as it reads in the papers: what the generated code is held against."""

import math

import numpy as np

from continuum_robot.estimation.contact.disturbance_observer import _forces_by_state
from continuum_robot.estimation.contact.error_budget import COVARIANCE_FLOOR, Budget


class PlainFilter:
    """As ``FilterAlgebra``: the extended Kalman filter of (c, c_rate, d), with a series for the transition."""

    def __init__(self, size, *_name, **_how):
        self.size = size

    def filtered(self, state, P, model, *, walk, measured, noise, dt, halvings):
        n, terms = self.size, model.terms
        c, rate, d = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
        inverse = np.linalg.inv(terms.mass)
        by_c, by_rate = _forces_by_state(model)
        h = dt * 0.5**halvings
        A = np.zeros((3 * n, 3 * n))
        A[c, rate] = np.eye(n) * h
        A[rate, :] = inverse @ np.concatenate([by_c, by_rate, np.eye(n)], axis=1) * h
        force = terms.known_force + model.force + state[d] - terms.momentum_by_c @ state[rate]
        flow = np.concatenate([state[rate], inverse @ force, np.zeros(n)]) * h  # johnston (45)
        term, step = flow, flow.copy()
        for k in (2, 3, 4):
            term = A @ term / k
            step += term
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


class PlainBudgets:
    """As ``BudgetAlgebra``."""

    def __init__(self, stiffness, _strain_count, *_name, **_how):
        self._floor = COVARIANCE_FLOOR * float(np.trace(stiffness)) ** 2

    def kalman_budget(self, fractions, elastic, *, spread, by_c, rod_by_rate, friction):
        systematic = _constant(fractions, by_c, rod_by_rate)
        return self._budget(fractions, elastic, systematic=systematic, spread=spread, by_c=by_c, friction=friction)

    def gmo_budget(self, fractions, elastic, *, lag, sensitivity, dt, by_state, noise, friction):
        n = elastic.shape[1]
        matrix = next_sensitivity(sensitivity, *by_state, dt)
        sensitivity.take(matrix, *by_state)
        state_noise = np.zeros((2 * n, 2 * n))
        state_noise[:n, :n], state_noise[n:, n:] = noise
        return self._budget(
            fractions,
            elastic,
            systematic=_constant(fractions, matrix[:, :n], matrix[:, n:]),
            spread=noise_covariance(sensitivity.gain, dt, *by_state, state_noise),
            by_c=by_state[1][:, :n],
            friction=friction,
            errors=[lag],
        )

    def jfd_budget(self, fractions, elastic, *, by_c, by_rate, mass, noise, acceleration_noise, friction):
        spread = by_c @ noise[0] @ by_c.T + by_rate @ noise[1] @ by_rate.T
        spread += mass @ mass.T * acceleration_noise**2
        systematic = _constant(fractions, by_c, by_rate)
        return self._budget(fractions, elastic, systematic=systematic, spread=spread, by_c=by_c, friction=friction)

    def _budget(self, fractions, elastic, *, systematic, spread, by_c, friction, errors=()):
        stiffer = fractions[2] * elastic
        columns = [*stiffer, *errors]
        systematic = systematic + np.abs(stiffer).sum(axis=0)
        if friction is not None:
            columns.append(fractions[3] * friction)
            systematic = systematic + np.abs(columns[-1])
        rows = np.array(columns)
        # A constant error of the coefficients is as likely in each of them: its variance is a third of its square.
        shift = by_c * (fractions[0] / math.sqrt(3))
        covariance = spread + rows.T @ rows + shift @ shift.T
        covariance[np.diag_indices(len(covariance))] += self._floor
        bound = systematic + fractions[4] * np.sqrt(np.diag(spread))
        return Budget(bound, covariance, np.linalg.inv(covariance))


def _constant(fractions, by_c, by_rate):
    """Largest change of each channel by the constant errors of c and c_rate, johnston (64)."""
    return np.abs(by_c).sum(axis=1) * fractions[0] + np.abs(by_rate).sum(axis=1) * fractions[1]


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
