# SPDX-License-Identifier: Apache-2.0
"""The quintic polynomial from rest to rest and the blend into a moving reference that it weighs, as stepped code.

Derived here: 10 x^3 - 15 x^4 + 6 x^5 has no velocity and no acceleration at x = 0 and x = 1.
"""

from __future__ import annotations

import cython

from continuum_robot.stepped.buffers import indices, stepped


@stepped
def quintic(x: cython.double) -> cython.double:
    """10 x^3 - 15 x^4 + 6 x^5, of x from 0 to 1."""
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


@stepped
def quintic_slope(x: cython.double) -> cython.double:
    """First derivative of :func:`quintic` by x."""
    return 30.0 * x * x * (1.0 - x) * (1.0 - x)


@stepped
def quintic_curvature(x: cython.double) -> cython.double:
    """Second derivative of :func:`quintic` by x."""
    return 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x)


@stepped
def blend_from(
    start: cython.double[::1],
    position: cython.double[::1],
    velocity: cython.double[::1],
    acceleration: cython.double[::1],
    count: cython.int,
    x: cython.double,
    duration_s: cython.double,
) -> cython.void:
    """Blend from a standing position into a moving reference: ``start + w (reference - start)``, w the quintic.

    ``count`` values each: ``start`` (m) and the reference's ``position``, ``velocity`` and ``acceleration`` (m, m/s,
    m/s^2), which the result overwrites. ``x``: the fraction of ``duration_s`` (s) that has passed, from 0 to 1.
    """
    k: cython.int
    weight: cython.double = quintic(x)
    rate: cython.double = quintic_slope(x) / duration_s
    change: cython.double = quintic_curvature(x) / (duration_s * duration_s)
    for k in indices(count):
        way: cython.double = position[k] - start[k]
        speed: cython.double = velocity[k]
        position[k] = start[k] + weight * way
        velocity[k] = rate * way + weight * speed
        acceleration[k] = change * way + 2.0 * rate * speed + weight * acceleration[k]
