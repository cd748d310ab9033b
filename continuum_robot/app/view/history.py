# SPDX-License-Identifier: Apache-2.0
"""What curves are drawn from: the last seconds of some numbers, in a ring that never grows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class History:
    """A ring of samples.

    Parameters
    ----------
    width : numbers a sample
    samples : how many are kept
    """

    def __init__(self, width: int, samples: int) -> None:
        self._times = np.full(samples, np.nan)
        self._values = np.full((samples, width), np.nan)
        self._next = 0

    def add(self, time_s: float, values: ArrayLike) -> None:
        """Keep a sample; too few values leave the rest unknown, too many are left out.

        Parameters
        ----------
        time_s : not before that of the sample before, s
        values : at most ``width`` numbers, shape (k,), in the curve's unit
        """
        given = np.asarray(values, dtype=float).reshape(-1)[: self._values.shape[1]]
        row = self._next % len(self._times)
        self._times[row] = time_s
        self._values[row] = np.nan
        self._values[row, : given.size] = given
        self._next += 1

    def clear(self) -> None:
        """Forget all samples."""
        self._times[:] = np.nan
        self._values[:] = np.nan

    def last(self, now_s: float, duration_s: float) -> tuple[Array, Array]:
        """The samples of the last seconds, the oldest first.

        Parameters
        ----------
        now_s : the present, s
        duration_s : how far back, s

        Returns
        -------
        times before now, shape (k,), s, from -duration to 0; values, shape (k, width)
        """
        order = np.arange(self._next, self._next + len(self._times)) % len(self._times)
        times = self._times[order] - now_s
        kept = times >= -duration_s  # False for NaN
        return times[kept], self._values[order][kept]
