# SPDX-License-Identifier: Apache-2.0
"""The difference of both tensions that holds a desired coordinate while the lesser tension is the pretension.

Derived here: without loads ha's equilibria depend on the ratio of the tensions alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


class RollingFeedforward:
    """From the curve of unloaded poses; a planar mechanism has no gravity."""

    def __init__(self, robot: Robot) -> None:
        self._pretension_n = robot.control_settings.pretension_n
        self._curve = UnloadedCurve(statics_of(robot))

    def __call__(self, coordinate_m: Array) -> tuple[Array, Array]:
        """Force that holds a coordinate."""
        return self._curve.force(coordinate_m, self._pretension_n), np.zeros(1)
