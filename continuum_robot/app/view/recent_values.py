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


def drawn_range(values: Array, drawn: tuple[float, float]) -> tuple[float, float]:
    """The range of an axis: round numbers around what is known; kept while it fits, so that the axis stands still.

    uPlot finds no range of its own where the first value of a curve is NaN, and then draws none of its curves.

    Parameters
    ----------
    values : of all curves, any shape, NaN where they are unknown
    drawn : the range until now
    """
    known = values[np.isfinite(values)]
    if known.size == 0:
        return drawn
    low, high = float(known.min()), float(known.max())
    room = drawn[1] - drawn[0]
    if drawn[0] <= low and high <= drawn[1] and high - low >= 0.4 * room:
        return drawn
    span = max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-9)
    power = 10.0 ** np.floor(np.log10(span))
    step = next(float(factor * power) for factor in (0.2, 0.5, 1.0) if span <= 10.0 * factor * power)
    return step * float(np.floor(low / step)), step * float(np.floor(high / step) + 1.0)
