# SPDX-License-Identifier: Apache-2.0
"""Tensions that force nothing, by which all tendons can be kept taut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]

_LEAST_PULL = 1e-3  # of a null vector's largest entry: a tendon below it could hardly be kept taut


def positive_null_vector(D: Array) -> Array | None:
    """Tensions v > 0 with D^T v = 0, largest 1, the most even ones where those are positive; None where there
    are none.
    """
    count = len(D)
    even = 1.0 - D @ np.linalg.lstsq(D, np.ones(count), rcond=None)[0]
    if even.min() > _LEAST_PULL * np.abs(even).max():
        return np.asarray(even / even.max())
    # The largest least tension: maximise t with D^T v = 0 and t <= v <= 1.
    cost = np.append(np.zeros(count), -1.0)
    found = linprog(
        cost,
        A_ub=np.column_stack([-np.eye(count), np.ones(count)]),
        b_ub=np.zeros(count),
        A_eq=np.column_stack([D.T, np.zeros(D.shape[1])]),
        b_eq=np.zeros(D.shape[1]),
        bounds=[(0, 1)] * (count + 1),
    )
    if not found.success or found.x[-1] < _LEAST_PULL:
        return None
    exact = found.x[:count] - D @ np.linalg.lstsq(D, found.x[:count], rcond=None)[0]
    return np.asarray(exact / exact.max())
