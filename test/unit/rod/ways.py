# SPDX-License-Identifier: Apache-2.0
"""Ways of one position there and back, for friction that depends on the way and not on time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

PATHS = st.lists(st.floats(-2, 2), min_size=2, max_size=12)


def refined(path: list[float], pieces: int) -> list[float]:
    """The same way in more steps."""
    return [b for a, b in pairwise(path) for b in np.linspace(a, b, pieces + 1)[1:]]
