# SPDX-License-Identifier: Apache-2.0
"""Judging a model on the parts of a recording that were left out of its fit.

The recording is cut into contiguous blocks at changes of what the robot was doing, as neighbouring samples are alike
and a new recording does something else. Every model is fitted on all blocks but one and judged on that one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.fit import jackknife
from continuum_robot.identification.replay import marker_errors, rmse_m

Array = NDArray[np.float64]
Blocks = NDArray[np.intp]


def blocks_of(labels: tuple[str, ...], count: int = 5) -> Blocks:
    """Number of the contiguous block of every sample: about equal ones, cut where the label changes if it ever does.

    Parameters
    ----------
    labels : what the robot was doing; a trailing ``_hold`` is no change
    count : of blocks

    Returns
    -------
    (T,), from 0, not decreasing
    """
    plain = [label.removesuffix("_hold") for label in labels]
    changes = [i for i in range(1, len(plain)) if plain[i] != plain[i - 1]]
    block = np.zeros(len(plain), dtype=np.intp)
    for number in range(1, count):
        ideal = number * len(plain) // count
        near = min(changes, key=lambda i: abs(i - ideal)) if changes else ideal
        cut = near if abs(near - ideal) < len(plain) // (2 * count) else ideal
        block[cut:] = number
    return block


@dataclass(frozen=True)
class LeftOut:
    """What the fits without one block each say about that block; B blocks, p parameters.

    Attributes
    ----------
    vectors : parameters of each fit, in their units, shape (B, p)
    error_m : error of the marker at every sample when its block was left out, shape (T, 3), m; NaN without a marker
    block_rmse_m : of each block with a marker, its mean offset removed, m
    rmse_m : over all of them, m
    """

    vectors: Array
    error_m: Array
    block_rmse_m: tuple[float, ...]
    rmse_m: float

    @property
    def deviation(self) -> Array:
        """Standard deviations of the parameters by the jackknife, in their units, shape (p,)."""
        return np.sqrt(np.diag(jackknife(self.vectors)))


def leave_out(block: Blocks, fits: Sequence[tuple[Array, Array]]) -> LeftOut:
    """Judge the fits without one block each.

    Parameters
    ----------
    block : number of the block of each sample, shape (T,), from 0
    fits : for each block the parameters (p,) of a fit without it, and the error of that at all samples, shape (T, 3),
        m; NaN without a marker
    """
    vectors, by_block, counts = [], [], []
    error: Array = np.full((len(block), 3), np.nan)
    for number, (vector, everywhere) in enumerate(fits):
        inside = block == number
        vectors.append(vector)
        error[inside] = everywhere[inside]
        if seen := int(np.isfinite(error[inside]).all(axis=1).sum()):
            by_block.append(rmse_m(marker_errors(error[inside], np.zeros(3))))
            counts.append(seen)
    overall = math.sqrt(float(np.average(np.square(by_block), weights=counts)))
    return LeftOut(np.array(vectors), error, tuple(by_block), overall)
