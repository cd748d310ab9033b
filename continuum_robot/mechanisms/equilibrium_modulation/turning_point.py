# SPDX-License-Identifier: Apache-2.0
"""Where the tip turns back while the modulation backbone is inserted: wang, section 5.1 and figure 4."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment

Array = NDArray[Any]

_SAMPLES = 400
_END_FRACTION = 1e-4  # of the length: at 0 the tip has not yet gone anywhere, at L the last bit moves it no more
_TOLERANCE_M = 1e-9
_STEP_M = 1e-30  # complex: nothing is subtracted


def turning_point(
    segment: ModulatedSegment,
    theta_rad: float,
    moment_error: MomentError,
    *,
    stroke_m: float | None = None,
) -> float | None:
    """The first insertion at which the tip is farther from where it started than shortly before and after, m.

    In the paper's pictures the path runs out, turns in a narrow bend, and comes back beside itself. The farthest place
    does not depend on the frame in which the path is drawn. delta turns the whole path about z and has no part in it
    for equal backbones at equal distances.
    """
    deepest = segment.length_m if stroke_m is None else stroke_m

    def tip(insertion: Any) -> Array:
        state = modulated_equilibrium(segment, theta_rad, 0.0, insertion, moment_error)
        return end_pose(state, segment)[..., :3, 3]

    start = tip(0.0)

    def leaving(insertion: Any) -> Any:
        """Half the rate of the squared distance."""
        return np.imag(np.sum((tip(insertion + 1j * _STEP_M) - start) ** 2, axis=-1)) / (2 * _STEP_M)

    margin = _END_FRACTION * segment.length_m
    depths = np.linspace(margin, min(deepest, segment.length_m - margin), _SAMPLES)
    rates = leaving(depths)
    turns = np.flatnonzero((rates[:-1] > 0) & (rates[1:] <= 0))
    if not len(turns):
        return None
    return float(
        scipy.optimize.brentq(lambda depth: float(leaving(depth)), *depths[turns[0] : turns[0] + 2], xtol=_TOLERANCE_M)
    )
