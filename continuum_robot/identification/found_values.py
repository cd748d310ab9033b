# SPDX-License-Identifier: Apache-2.0
"""What a fit found of values of a robot's file, and what its recording does not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def today() -> str:
    """The date, ISO 8601, UTC."""
    return datetime.now(timezone.utc).date().isoformat()


_SHOWN = 0.5  # of the deviation before the data


@dataclass(frozen=True, kw_only=True)
class FoundValues:
    """P values, in the units of their keys."""

    keys: tuple[str, ...]
    before: Vector
    values: Vector
    priors: Vector
    deviations: Vector
    file: Path
    sha256: str
    date: str = field(default_factory=today)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the values, for people."""
        return self.keys

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which of them the data tell: with a deviation of less than half of the one before the data, shape (P,)."""
        return np.asarray(self.deviations < _SHOWN * self.priors)

    @property
    def found(self) -> Mapping[str, float]:
        """What the data tell, by key."""
        return {key: float(v) for key, v, shown in zip(self.keys, self.values, self.shown, strict=True) if shown}
