# SPDX-License-Identifier: Apache-2.0
"""The generalised forces that hold a rod at given Clarke coordinates, muhmann (25), as stepped code."""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.kernel.call import KernelCall
from continuum_robot.rod.rod import Rod
from continuum_robot.stepped.buffers import matrix, stepped, vector
from continuum_robot.stepped.products import multiply, multiply_transposed

Vector = NDArray[np.float64]


@cython.cclass
class HoldingForce:
    """K_M q and g_M of muhmann (25): elastic and gravity force at Clarke coordinates.

    Called as a function it is the ``rod_feedforward`` of the controller. Not for use by two threads at once; each makes
    one of its own from :attr:`parts`.

    Parameters
    ----------
    stiffness : K_M, shape (2m, 2m), N/m
    shape : from Clarke coordinates to coefficients, shape (n, 2m), 1/m per m
    """

    parts = cython.declare(object, visibility="readonly")
    native = cython.declare(cython.bint, visibility="readonly")
    coordinate_count: cython.int
    coefficient_count: cython.int
    stiffness: cython.double[::1]
    shape: cython.double[::1]
    elastic: cython.double[::1]
    gravity: cython.double[::1]
    weight: KernelCall

    def __init__(self, stiffness: Vector, shape: Vector, rod: Rod) -> None:
        self.parts = (stiffness, shape, rod)
        self.coefficient_count, self.coordinate_count = shape.shape
        self.stiffness, self.shape = matrix(stiffness.tolist()), matrix(shape.tolist())
        self.elastic, self.gravity = vector(self.coordinate_count), vector(self.coordinate_count)
        self.weight = KernelCall(rod, "bias", elastic=False)
        self.native = self.weight.native

    @stepped
    def step(self, clarke: cython.double[::1]) -> cython.void:
        """Elastic and gravity force at Clarke coordinates, m."""
        multiply(self.shape, clarke, self.coefficient_count, self.coordinate_count, self.weight.c)
        self.weight.call()
        multiply(self.stiffness, clarke, self.coordinate_count, self.coordinate_count, self.elastic)
        multiply_transposed(self.shape, self.weight.bias, self.coefficient_count, self.coordinate_count, self.gravity)

    def __call__(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Elastic and gravity generalised force (2m,), N, at Clarke coordinates (2m,), m."""
        self.step(vector(clarke))
        return np.array(self.elastic), np.array(self.gravity)
