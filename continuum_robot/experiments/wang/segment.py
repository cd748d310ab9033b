# SPDX-License-Identifier: Apache-2.0
"""What the experiments of wang share: the segment of table 2, its plane of bending, and the paper's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import (
    ModulatedSegment,
    make_moment_error,
    make_segment,
    modulation_of,
)
from continuum_robot.robot.loading import load_robot

Array = NDArray[Any]

MM, UM = 1e3, 1e6
NMM = 1e-3  # N.m in one N.mm; N.mm/mm is N
IDEAL = LinearMomentError()
LINEAR = LinearMomentError(0.2 * NMM, 0.025)  # section 5.1


def load_segment() -> tuple[ModulatedSegment, LinearMomentError, float]:
    """Table 2, the calibrated lambda of table 3 (0.1024 N.mm, 6.5e-3 N.mm/mm), and the stroke, m."""
    mechanism = modulation_of(load_robot("crem_segment"))
    return make_segment(mechanism), make_moment_error(mechanism), mechanism.stroke_m


def in_plane(points: Array) -> Array:
    """Points with delta = 0 in the plane of bending: sideways (towards the bend) and along z, (..., 2)."""
    return np.asarray(points[..., [0, 2]])
