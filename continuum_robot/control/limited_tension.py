# SPDX-License-Identifier: Apache-2.0
"""A command within a robot's limits, with what limited it, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LimitedTension:
    """A command within all limits.

    Attributes
    ----------
    tension : shape (N,), N
    limited : for each tendon the LIMITED_ bits of the limits that changed it, 0 for none; shape (N,), uint8
    """

    tension: NDArray[np.float64]
    limited: NDArray[np.uint8]
