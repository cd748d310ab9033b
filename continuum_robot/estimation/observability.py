# SPDX-License-Identifier: Apache-2.0
"""Which coefficients a set of sensors sees: by the singular values of what their readings depend on."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

SMALLEST_SINGULAR_FRACTION = 1e-9
_SMALLEST_PART = 1e-6


def coefficient_names(robot: Robot) -> list[str]:
    """Name of each strain coefficient: segment, curvature and order of its function, e.g. ``segment_1.kappa_x0``.

    ``kappa_x`` is the curvature about x, which bends in the plane of y and z; the number is the order of the basis
    function.
    """
    return [
        f"{segment.name}.kappa_{axis}{order}"
        for segment in robot.segments
        for order in range(segment.basis.highest_order + 1)
        for axis in ("x", "y")
    ]


def unseen_coefficients(matrix: Array) -> NDArray[np.bool_]:
    """Coefficients that can change while no sensor notices."""
    size = matrix.shape[1]
    _, singular, directions = np.linalg.svd(np.vstack([matrix, np.zeros((1, size))]), full_matrices=True)
    rank = int(np.sum(singular > SMALLEST_SINGULAR_FRACTION * max(singular[0], math.ulp(0.0))))
    return np.asarray(np.linalg.norm(directions[rank:], axis=0) > _SMALLEST_PART)
