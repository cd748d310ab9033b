# SPDX-License-Identifier: Apache-2.0
"""Hysteretic elasticity of a backbone: a bending moment that lags behind the curvature, johnston's future work.

At each node along a segment the moment of a :class:`~continuum_robot.rod.friction.maxwell_slip.MaxwellSlip` resists the
change of the curvature about x and y, beside the elastic and viscous one; on the coefficients that is the integral of
B^T m, as for elasticity in johnston (27).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix, gauss_legendre
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]


class RodHysteresis:
    """Hysteretic moments of all segments of a robot that have some, with their memory; n coefficients.

    Parameters
    ----------
    robot : a rod

    Attributes
    ----------
    acts : whether a segment has some
    """

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
        self.acts = bool(rows)
        self._size = robot.coefficient_count
        self._nothing = np.zeros(self._size)
        self._rows = np.array(rows).reshape(-1, self._size)  # about x and y of node after node
        self._weighted = np.repeat(weights, 2)[:, None] * self._rows
        self._slip = MaxwellSlip(limits, travels, np.zeros((len(rows), 2)))

    def reset(self, c: Vector) -> None:
        """Rest at coefficients without moment.

        Parameters
        ----------
        c : (n,), 1/m
        """
        self._slip.reset((self._rows @ c).reshape(-1, 2))

    def move(self, c: Vector) -> Vector:
        """Go to coefficients.

        Parameters
        ----------
        c : (n,), 1/m

        Returns
        -------
        generalised force that resists, (n,), N.m^2
        """
        if not self.acts:
            return self._nothing
        moments = self._slip.move((self._rows @ c).reshape(-1, 2))
        return np.asarray(moments.reshape(-1) @ self._weighted)

    def uncertain(self, fraction: float) -> Vector:
        """By how much the generalised force may be off about each axis, nodes all alike, (2, n), N.m^2.

        Parameters
        ----------
        fraction : as of :meth:`MaxwellSlip.uncertain`
        """
        uncertain = self._slip.uncertain(fraction)
        return np.array([uncertain @ self._weighted[axis::2] for axis in range(2)])
