# SPDX-License-Identifier: Apache-2.0
"""The contact monitor's algebra as it reads in the papers."""

import math

import numpy as np


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
