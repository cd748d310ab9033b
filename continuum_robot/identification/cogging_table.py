# SPDX-License-Identifier: Apache-2.0
"""Cogging over the angle of each motor, as it was fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoggingFit:
    """Cogging of N motors over K angles of a turn from the devices' zero on."""

    force_n: Vector
    deviation_n: Vector
    residual_n: Vector
    orders: tuple[tuple[int, ...], ...]
