# SPDX-License-Identifier: Apache-2.0
"""Parameters and terms of a PID on a vector of coordinates, with the names of ros2_control's pid_controller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.control_settings import PidGains

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PidParameters:
    """Parameters of :class:`Pid`, each an array of shape (coordinates,); units for coordinates in m, outputs in N."""

    p: Vector
    i: Vector
    d: Vector
    u_clamp_min: Vector
    u_clamp_max: Vector
    i_clamp_min: Vector
    i_clamp_max: Vector
    back_calculation_rate: Vector
    conditional_integration: Flags
    error_deadband: Vector
    derivative_filter_time: Vector
    reference_velocity_weight: Vector

    @classmethod
    def from_gains(cls, gains: Sequence[PidGains], coordinates_per_entry: int = 2) -> PidParameters:
        """Parameters from the gains of a robot file."""

        def spread(values: Sequence[float]) -> Vector:
            return np.repeat(np.array(values, dtype=float), coordinates_per_entry)

        conditional = [one.antiwindup_strategy == "conditional_integration" for one in gains]
        return cls(
            p=spread([one.p for one in gains]),
            i=spread([one.i for one in gains]),
            d=spread([one.d for one in gains]),
            u_clamp_min=spread([one.u_clamp_min for one in gains]),
            u_clamp_max=spread([one.u_clamp_max for one in gains]),
            i_clamp_min=spread([one.i_clamp_min for one in gains]),
            i_clamp_max=spread([one.i_clamp_max for one in gains]),
            back_calculation_rate=spread([_back_calculation_rate(one) for one in gains]),
            conditional_integration=np.repeat(np.array(conditional, dtype=bool), coordinates_per_entry),
            error_deadband=spread([one.error_deadband for one in gains]),
            derivative_filter_time=spread([one.derivative_filter_time for one in gains]),
            reference_velocity_weight=spread([one.reference_velocity_weight for one in gains]),
        )


@dataclass(frozen=True, slots=True)
class PidTerms:
    """What one cycle of :class:`Pid` computed; arrays of shape (coordinates,)."""

    error: Vector
    p_term: Vector
    i_term: Vector
    d_term: Vector
    feedforward: Vector
    output: Vector
    saturated: Flags

    @classmethod
    def unknown(cls, size: int) -> PidTerms:
        """Terms of a controller that has none: NaN, and nothing saturated."""
        nothing = np.full(size, np.nan)
        return cls(*(nothing,) * 6, np.zeros(size, dtype=bool))


def _back_calculation_rate(gains: PidGains) -> float:
    if gains.antiwindup_strategy != "back_calculation" or gains.i == 0:
        return 0.0
    time_constant = gains.tracking_time_constant
    if time_constant == 0:
        time_constant = math.sqrt(gains.d / gains.i) if gains.d > 0 else gains.p / gains.i
    # An integral controller alone has no time constant of its own: take back all of the excess at once.
    return math.inf if time_constant == 0 else 1 / time_constant
