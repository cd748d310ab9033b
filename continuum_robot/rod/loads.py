# SPDX-License-Identifier: Apache-2.0
"""External loads on a rod, in the base frame (dead) or in the body frame (following the cross-section)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]
Triple: TypeAlias = tuple[float, float, float]

FRAMES = ("base", "body")
_NONE: Triple = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class PointWrench:
    """A force and a moment at one place of the rod."""

    s_m: float
    force_n: Triple = _NONE
    moment_nm: Triple = _NONE
    frame: str = "base"
    offset_m: Triple = _NONE

    def __post_init__(self) -> None:
        _check(self.frame, {"s_m": self.s_m, "force_n": self.force_n, "moment_nm": self.moment_nm})


@dataclass(frozen=True, kw_only=True)
class DistributedLoad:
    """A force and a moment per arc length between two places."""

    force_n_per_m: Triple | Callable[[float], Triple] = _NONE
    moment_n: Triple | Callable[[float], Triple] = _NONE
    frame: str = "base"
    start_m: float = 0.0
    end_m: float | None = None

    def __post_init__(self) -> None:
        values = {"force_n_per_m": self.force_n_per_m, "moment_n": self.moment_n, "start_m": self.start_m}
        _check(self.frame, {name: value for name, value in values.items() if not callable(value)})

    def at(self, s_m: float) -> tuple[Vector, Vector]:
        """Force and moment per length at an arc length, (3,) each."""
        return _value(self.force_n_per_m, s_m), _value(self.moment_n, s_m)


Load: TypeAlias = PointWrench | DistributedLoad


def _value(load: Triple | Callable[[float], Triple], s_m: float) -> Vector:
    return np.array(load(s_m) if callable(load) else load, dtype=float)


def _check(frame: str, values: dict[str, object]) -> None:
    if frame not in FRAMES:
        raise ParameterError("frame", frame, "base or body")
    for name, value in values.items():
        array = np.asarray(value, dtype=float)
        if array.shape != (() if name.endswith("s_m") or name == "start_m" else (3,)) or not np.isfinite(array).all():
            raise ParameterError(name, value, "finite numbers, three for a vector")
