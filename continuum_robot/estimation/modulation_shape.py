# SPDX-License-Identifier: Apache-2.0
"""Bend and insertion of a segment with equilibrium modulation from its drives.

Derived here: the nearest displacements that wang (56) allows; the tip then by the model of equilibrium modulation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import SensorWatch
from continuum_robot.estimation.shape import ShapeEstimate, ShapeSettings
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationParts
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ModulationShapeEstimator:
    """The coordinates [q_Re, q_Im, insertion] nearest to the displacements; the tip by wang's model of them.

    Parameters
    ----------
    robot : with equilibrium modulation

    Attributes
    ----------
    watch : None: nothing measures beside the drives themselves

    Raises
    ------
    ParameterError : another robot
    """

    watch: SensorWatch | None = None

    def __init__(self, robot: Robot) -> None:
        self._drawing = ModulationParts(robot)
        self._manifold = clarke_manifold(robot)
        matrix = self._manifold.clarke_matrix
        self._covariance = ShapeSettings().tendon_sigma_m ** 2 * matrix @ matrix.T

    def reset(self) -> None:
        """Nothing is remembered."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None = None,
        dt: float = 0.0,
        tension: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate.

        Parameters
        ----------
        displacement : of all drives, shape (N,), m; NaN where unknown
        velocity : shape (N,), m/s
        string_extension, dt, tension : not used: there are no strings, and every estimate stands for itself

        Returns
        -------
        coordinates as coefficients, m, with their rates, m/s; NaN where a displacement is

        Raises
        ------
        ParameterError : displacements of another shape
        """
        del string_extension, dt, tension
        count = self._manifold.tendon_count
        if np.shape(displacement) != (count,):
            raise ParameterError("displacement", np.shape(displacement), f"shape ({count},)")
        if not np.all(np.isfinite(displacement)):
            return ShapeEstimate.unseen(self._manifold.coordinate_count, _BLIND)
        coordinates = self._manifold.clarke(displacement)
        miss = float(np.sqrt(np.mean(self._manifold.inconsistency_m(displacement) ** 2)))
        tip = self._drawing.frames(coordinates)[-1]
        return ShapeEstimate(coordinates, self._manifold.clarke(velocity), self._covariance.copy(), miss, count, tip)


_BLIND = ("the bend is not seen: a drive's displacement is unknown",)
