# SPDX-License-Identifier: Apache-2.0
"""Tensions as motor currents, which are limited, for the control cycle."""

from __future__ import annotations

from collections.abc import Iterable

import cython

from continuum_robot.stepped.buffers import indices, stepped, vector


@cython.cclass
class TendonCurrents:
    """Currents of all tendons of the newest tensions."""

    current_a: cython.double[::1]
    limited: cython.double[::1]
    _ampere_per_newton: cython.double[::1]
    _highest_a: cython.double[::1]
    _count: cython.int

    def __init__(self, ampere_per_newton: Iterable[float], highest_a: Iterable[float]) -> None:
        values = list(ampere_per_newton)
        self._ampere_per_newton, self._highest_a, self._count = vector(values), vector(highest_a), len(values)
        self.current_a, self.limited = vector(len(values)), vector(len(values))

    @stepped
    def convert(self, tension_n: cython.double[::1]) -> cython.bint:
        """Take tensions (N); False, and all stays as it was, where one of them is not finite."""
        j: cython.int
        for j in indices(self._count):
            if tension_n[j] - tension_n[j] != 0.0:
                return False
        highest_a: cython.double
        current_a: cython.double[::1] = self.current_a
        limited: cython.double[::1] = self.limited
        ampere_per_newton: cython.double[::1] = self._ampere_per_newton
        for j in indices(self._count):
            desired_a: cython.double = tension_n[j] * ampere_per_newton[j]
            highest_a = self._highest_a[j]
            limited[j] = 0.0
            if desired_a > highest_a:
                desired_a = highest_a
                limited[j] = 1.0
            elif desired_a < -highest_a:
                desired_a = -highest_a
                limited[j] = 1.0
            current_a[j] = desired_a
        return True
