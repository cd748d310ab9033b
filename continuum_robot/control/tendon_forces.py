# SPDX-License-Identifier: Apache-2.0
"""Tendon tensions for a wanted generalised force on the Clarke manifold: tendons pull, they do not push.

Muhmann (26) gives the least tensions that make the force, and some of them are negative. Three ways out of it, section
III: clip, redistribute, shift. Adding one tension to all tendons of a segment changes no generalised force, so each of
them adds the wanted pretension to all tendons, on top.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, ClarkeTransform
from continuum_robot.robot.control_settings import TENDON_FORCE_STRATEGIES

Vector = NDArray[np.float64]


def distribute(strategy: str, generalized_force: Vector, manifold: ClarkeManifold, pretension_n: float = 0.0) -> Vector:
    """Tensions of all tendons for a generalised force.

    Parameters
    ----------
    strategy : ``shift``, ``redistribute`` or ``clip``
    generalized_force : wanted, shape (2m,), N
    manifold : of the robot's tendons
    pretension_n : least tension that is left on every tendon, N, at least 0

    Returns
    -------
    tensions, shape (N,), N, all >= pretension_n; NaN where the force is NaN. Their generalised force is the wanted one
    with ``shift`` and ``redistribute``, and differs from it with ``clip`` wherever something was clipped

    Raises
    ------
    ParameterError : unknown strategy, negative pretension, or a force of the wrong shape
    """
    if not pretension_n >= 0:
        raise ParameterError("pretension_n", pretension_n, "a tension of at least 0 N")
    initial = initial_tension(generalized_force, manifold)
    if strategy == "clip":
        return np.maximum(initial, 0.0) + pretension_n  # muhmann III-A
    tension = np.empty_like(initial)
    if strategy == "shift":
        for rows in manifold.tendon_slices:
            own = initial[rows]
            # The paper prints + min(F); only - min(F) makes every tension >= 0.
            tension[rows] = (own - own.min()) + pretension_n  # muhmann (28)
    elif strategy == "redistribute":
        for rows, transform in zip(manifold.tendon_slices, manifold.transforms, strict=True):
            tension[rows] = _redistributed(initial[rows], transform) + pretension_n
    else:
        raise ParameterError("strategy", strategy, f"one of {', '.join(TENDON_FORCE_STRATEGIES)}")
    return tension


def initial_tension(generalized_force: Vector, manifold: ClarkeManifold) -> Vector:
    """The least tensions, negative ones among them, that make a generalised force.

    The tendons of a distal segment load the proximal segments too: tau_k = sum over i >= k of (r_i / r_k) w_i with
    w_i = n_i / 2 M_P F_i. Solving that from the tip to the base and F_i = (2 / n_i) M_P^-1 w_i, muhmann (26), are one
    product with the transposed Jacobian of the Clarke coordinates.

    Parameters
    ----------
    generalized_force : shape (2m,), N
    manifold : of the robot's tendons

    Returns
    -------
    shape (N,), N; sums to zero over each segment

    Raises
    ------
    ParameterError : a force of the wrong shape
    """
    if np.shape(generalized_force) != (manifold.coordinate_count,):
        raise ParameterError(
            "generalized_force", np.shape(generalized_force), f"an array of shape ({manifold.coordinate_count},)"
        )
    return np.asarray(generalized_force @ manifold.clarke_matrix)  # muhmann (26), with (13)


def _redistributed(tension: Vector, transform: ClarkeTransform) -> Vector:
    """All of the force on the two tendons on either side of its direction, muhmann III-B."""
    force_re, force_im = tension @ transform.inverse  # n / 2 M_P F, muhmann (27)
    size = math.hypot(force_re, force_im)
    result = np.zeros(transform.count)
    if not math.isfinite(size):
        return np.full(transform.count, np.nan)
    spacing = 2 * math.pi / transform.count
    angle = (math.atan2(force_im, force_re) - transform.angle_offset_rad) % (2 * math.pi)
    before = int(angle / spacing)
    past = angle - before * spacing
    # Two unit vectors a spacing apart that sum to the wanted one: the law of sines. Rounding can put the angle a hair
    # outside of its sector; a tension is not negative for that.
    result[before % transform.count] = max(0.0, size * math.sin(spacing - past) / math.sin(spacing))
    result[(before + 1) % transform.count] = max(0.0, size * math.sin(past) / math.sin(spacing))
    return result
