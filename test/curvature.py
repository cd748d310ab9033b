# SPDX-License-Identifier: Apache-2.0
"""Clarke coordinates of constant curvatures by muhmann (8), as an oracle."""

from __future__ import annotations

import numpy as np


def clarke_from_curvature(robot):
    """Matrix from [kappa_x,1, kappa_y,1, ...] (1/m) to the Clarke coordinates (m), (2m, 2m).

    A curvature [kappa_x, kappa_y] in the segment's own frame bends it by theta = length |kappa| towards
    phi = atan2(-kappa_x, kappa_y), so q_Re = r_d l kappa_y and q_Im = -r_d l kappa_x: muhmann (8).
    """
    blocks = [one.tendons.pitch_radius_m * one.length_m * np.array([[0.0, 1.0], [-1.0, 0.0]]) for one in robot.segments]
    matrix = np.zeros((2 * len(blocks), 2 * len(blocks)))
    for k, block in enumerate(blocks):
        matrix[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
    return matrix
