# SPDX-License-Identifier: Apache-2.0
"""Robust least squares of the marker with priors on the parameters, and how well the samples identify them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.displaced.model import DisplacedModel
from continuum_robot.identification.displaced.parameters import Values, values_of, vector_of
from continuum_robot.identification.fit import ROBUST, Parameters, fit, inverse_of
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.replay import rmse_m
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

_POINT_SCALE_M = 0.005  # an error that counts as ordinary; larger ones weigh less and less


@dataclass(frozen=True)
class Samples:
    """Samples in the order of time, all of which the robot goes through; T samples, N tendons.

    Attributes
    ----------
    displacement_m : of the tendons, pulled in positive, shape (T, N), m
    marker_m : measured, in the tracker's frame, shape (T, 3), m; NaN where it was not seen
    counted : of which the error counts, shape (T,)
    """

    displacement_m: Array
    marker_m: Array
    counted: NDArray[np.bool_]

    @classmethod
    def of(cls, robot: Robot, recording: TendonRecording) -> Samples:
        """All samples of a recording of a robot; those with a marker count."""
        return cls(tendon_displacements(robot, recording), recording.marker_m, recording.seen)

    def thinned(self, every: int) -> Samples:
        """One of ``every`` samples."""
        return Samples(self.displacement_m[::every], self.marker_m[::every], self.counted[::every])

    def without(self, left_out: NDArray[np.bool_]) -> Samples:
        """The same, of which the samples ``left_out`` (shape (T,)) do not count."""
        return replace(self, counted=self.counted & ~left_out)

    def error_m(self, model: DisplacedModel, values: Values) -> Array:
        """Predicted by ``model`` at ``values`` minus measured marker, shape (T, 3), m; NaN where it was not seen."""
        return model.marker(values, self.displacement_m) - self.marker_m

    def robust_cost(self, model: DisplacedModel, values: Values) -> float:
        """What a fit of ``model`` makes smallest at ``values``, without priors and a factor, dimensionless."""
        error = self.error_m(model, values)[self.counted] / _POINT_SCALE_M
        return float(np.sum(np.sqrt(1 + error**2) - 1))


def solve(
    model: DisplacedModel,
    parameters: Parameters,
    start: Values,
    samples: Samples,
    *,
    evaluations: int,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Values, Array]:
    """Fit parameters.

    Parameters
    ----------
    model : of the robot
    parameters : p
    start : their first values; those that are not in it are 0
    samples : what is fitted
    evaluations : most evaluations of the model
    progress : receives the RMSE of each

    Returns
    -------
    parameters by name, and their standard deviations (p,) from curvature and scatter, in the same units

    Raises
    ------
    ConvergenceError : the robot has no equilibrium at the start
    """
    use = samples.counted
    measured = samples.marker_m[use]

    def residuals(x: Array) -> tuple[Array, Array]:
        marker, slope = model.marker_and_slope(parameters, x, samples.displacement_m)
        return (marker[use] - measured).ravel() / _POINT_SCALE_M, slope[use].reshape(-1, x.size) / _POINT_SCALE_M

    found = fit(
        parameters,
        residuals,
        start=vector_of(parameters, start),
        loss=ROBUST,
        tolerance=1e-4,
        x_tolerance=1e-4,
        evaluations=evaluations,
        progress=lambda one: progress(f"{1e3 * _POINT_SCALE_M * rmse_m(one.rows.reshape(-1, 3)):.2f} mm"),
    )
    # Neighbouring samples err alike: as many independent ones as their correlation allows.
    error = found.rows.reshape(-1, 3)
    weight = 1 / np.sqrt(1 + found.rows**2)
    spread = float(np.sum(weight * found.rows**2) / error.size)
    lag = float(np.clip(np.sum(error[1:] * error[:-1]) / max(np.sum(error**2), 1e-300), 0.0, 0.98))
    inflation = max(spread * (1 + lag) / (1 - lag), 1e-12)
    data = found.slopes * np.sqrt(weight / inflation)[:, None]
    covariance = inverse_of(data.T @ data + np.diag(parameters.precision))
    return values_of(parameters, found.x), np.sqrt(np.diag(covariance))
