# SPDX-License-Identifier: Apache-2.0
"""Hysteretic elasticity of a backbone: a bending moment that lags behind the curvature, johnston's future work.

At each node along a segment the moment of a :class:`~continuum_robot.rod.friction.maxwell_slip.MaxwellSlip` resists the
change of the curvature about x and y, beside the elastic and viscous one; on the coefficients that is the integral of
B^T m, as for elasticity in johnston (27).
"""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix, gauss_legendre
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.tendons import coefficient_slices
from continuum_robot.stepped.buffers import matrix, stepped, vector
from continuum_robot.stepped.products import multiply, multiply_transposed

Vector = NDArray[np.float64]


@cython.cclass
class RodHysteresis:
    """Hysteretic moments of all segments of a robot that have some, with their memory; n coefficients. Stepped code."""

    acts = cython.declare(cython.bint, visibility="readonly")
    force: cython.double[::1]
    size: cython.int
    row_count: cython.int
    rows: cython.double[::1]  # about x and y of node after node
    weighted: cython.double[::1]
    curvature: cython.double[::1]
    slip: MaxwellSlip

    def __init__(self, robot: Robot) -> None:
        rows: list[Vector] = []
        weights: list[float] = []
        limits: list[float] = []
        travels: list[float] = []
        for segment, place in zip(robot.segments, coefficient_slices(robot), strict=True):
            hysteresis = segment.hysteresis
            if hysteresis is None:
                continue
            order = segment.basis.highest_order
            nodes, own = gauss_legendre(2 * order + 1)
            for node in nodes:
                row = np.zeros((2, robot.coefficient_count))
                row[:, place] = basis_matrix(segment.basis, float(node))[list(BENDING_ROWS)]
                rows.append(row)
            weights += list(own * segment.length_m)
            limits += [hysteresis.moment_nm] * len(nodes)
            travels += [hysteresis.curvature_per_m] * len(nodes)
        about = np.array(rows).reshape(-1, robot.coefficient_count)
        self.acts = bool(rows)
        self.size, self.row_count = robot.coefficient_count, len(about)
        self.rows, self.weighted = matrix(about.tolist()), matrix((np.repeat(weights, 2)[:, None] * about).tolist())
        self.curvature, self.force = vector(self.row_count), vector(self.size)
        self.slip = MaxwellSlip(limits, travels, np.zeros((len(rows), 2)))

    def reset(self, c: Vector) -> None:
        """Rest at coefficients without moment."""
        self.rest(vector(c.tolist()))

    def move(self, c: Vector) -> Vector:
        """Go to coefficients."""
        if self.acts:
            self.step(vector(c.tolist()))
        return np.array(self.force)

    def uncertain(self, fraction: float) -> Vector:
        """By how much the generalised force may be off about each axis, nodes all alike, (2, n), N.m^2."""
        uncertain = self.slip.uncertain(fraction)
        weighted = np.array(self.weighted)[: self.row_count * self.size].reshape(-1, self.size)
        return np.array([uncertain @ weighted[axis::2] for axis in range(2)])

    @stepped
    def rest(self, c: cython.double[::1]) -> cython.void:
        """As :meth:`reset`, at coefficients ``c``, 1/m."""
        multiply(self.rows, c, self.row_count, self.size, self.curvature)
        self.slip.rest(self.curvature)
        multiply_transposed(self.weighted, self.slip.resisting, self.row_count, self.size, self.force)

    @stepped
    def step(self, c: cython.double[::1]) -> cython.void:
        """As :meth:`move`, to coefficients ``c``, 1/m; what resists is in ``force``."""
        multiply(self.rows, c, self.row_count, self.size, self.curvature)
        self.slip.step(self.curvature)
        multiply_transposed(self.weighted, self.slip.resisting, self.row_count, self.size, self.force)
