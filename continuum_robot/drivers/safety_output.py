# SPDX-License-Identifier: Apache-2.0
"""What the safety logic answers to Python code: its states by name, and the output of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INACTIVE, ACTIVE, SAFE = "inactive", "active", "safe"
STATES = (INACTIVE, ACTIVE, SAFE)
"""Names of the states, by their codes."""


@dataclass(frozen=True, slots=True)
class SafetyOutput:
    """What the driver sends in this cycle, and why.

    Attributes
    ----------
    tension : shape (N,), N; always finite, in [0, maximum_n]; shortly after a fault down to -maximum_n for a motor that
        winds in fast what nothing holds: it is braked, before the slack runs out with a jerk
    limited : LIMITED_ bits of control/limits.py for each tendon, shape (N,), uint8
    state : "inactive", "active" or "safe"
    write : whether to send it. False in a cycle without a fresh command, so that the driver never feeds the motor
        board's own watchdog with an old command, and before the first activation
    faults : latched faults, in the order in which they came
    new_faults : those that latched since the previous output
    """

    tension: NDArray[np.float64]
    limited: NDArray[np.uint8]
    state: str
    write: bool
    faults: tuple[str, ...]
    new_faults: tuple[str, ...]
