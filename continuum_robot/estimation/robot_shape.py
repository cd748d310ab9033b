# SPDX-License-Identifier: Apache-2.0
"""What the nodes ask of the estimator of a robot's shape, and what those of mechanisms share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import SensorWatch
from continuum_robot.estimation.shape_estimate import ShapeEstimate

Vector = NDArray[np.float64]


class AnyShapeEstimator(Protocol):
    """What the nodes ask of the estimator of a robot's shape."""

    @property
    def watch(self) -> SensorWatch | None:
        """The watch over the sensors, None where there is none."""

    def reset(self) -> None:
        """Forget what was estimated."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None,
        dt: float,
        tension: Vector | None = None,
        curvature: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate from tendons, strings and the ``curvature`` of a fibre, as of ``ShapeEstimator``."""


class MechanismShapeEstimator(ABC):
    """Pose of a mechanism from the displacements of its tendons.

    Parameters
    ----------
    tendon_count, coefficient_count : numbers N and n of the mechanism

    Attributes
    ----------
    watch : None: there is nothing to judge the tendons by
    """

    watch: SensorWatch | None = None
    _order = ""  # of the tendons, for an error message
    _unseen: str

    def __init__(self, tendon_count: int, coefficient_count: int) -> None:
        self._count, self._size = tendon_count, coefficient_count

    def reset(self) -> None:  # noqa: B027 - the same for all
        """Nothing is remembered."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None = None,
        dt: float = 0.0,
        tension: Vector | None = None,
        curvature: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate.

        Parameters
        ----------
        displacement : of the tendons, shape (N,), m; NaN where unknown
        velocity : shape (N,), m/s
        string_extension, dt, tension : not used: there are no strings, and every estimate stands for itself
        curvature : not used either, shape (0,), 1/m: there is no fibre

        Returns
        -------
        values that describe the pose as coefficients (n,), m, with their rates, m/s; NaN where a displacement is

        Raises
        ------
        ParameterError : displacements of another shape
        """
        del string_extension, dt, tension, curvature
        if np.shape(displacement) != (self._count,):
            raise ParameterError("displacement", np.shape(displacement), f"shape ({self._count},){self._order}")
        if not np.all(np.isfinite(displacement)):
            return ShapeEstimate.unseen(self._size, (self._unseen,))
        return self._estimate(np.asarray(displacement), velocity)

    @abstractmethod
    def _estimate(self, displacement: Vector, velocity: Vector) -> ShapeEstimate:
        """From known displacements and their rates."""
