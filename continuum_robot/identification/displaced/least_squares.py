# SPDX-License-Identifier: Apache-2.0
"""Robust least squares of the marker with priors on the parameters, and how well the samples identify them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.displaced.model import DisplacedModel
from continuum_robot.identification.displaced.parameters import Free, Values
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.replay import rmse_m
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

_POINT_SCALE_M = 0.005  # an error that counts as ordinary; larger ones weigh less and less
_REFUSED = 1e3  # residual, in point scales, of parameters without an equilibrium


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
    free: Free,
    start: Values,
    samples: Samples,
    *,
    evaluations: int,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Values, Array]:
    """Fit the free parameters.

    Parameters
    ----------
    model : of the robot
    free : p parameters
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
    latest: dict[bytes, tuple[Array, Array]] = {}
    scale = 1 / _POINT_SCALE_M

    def evaluate(x: Array) -> tuple[Array, Array]:
        key = x.tobytes()
        if key not in latest:
            try:
                marker, slope = model.marker_and_slope(free.values(x), free, samples.displacement_m)
            except ConvergenceError:
                if not latest:
                    raise
                # A trial too far: worse than anything, so that the search goes back.
                size = 3 * len(measured) + free.size
                return np.full(size, _REFUSED), np.zeros((size, free.size))
            latest.clear()
            error = (marker[use] - measured) * scale
            progress(f"{1e3 * rmse_m(error / scale):.2f} mm")
            latest[key] = (
                np.concatenate([error.ravel(), x / free.priors]),
                np.concatenate([slope[use].reshape(-1, free.size) * scale, np.diag(1 / free.priors)]),
            )
        return latest[key]

    found = least_squares(
        lambda x: evaluate(x)[0],
        free.vector(start),
        lambda x: evaluate(x)[1],
        loss="soft_l1",
        x_scale="jac",
        max_nfev=evaluations,
        xtol=1e-4,
        ftol=1e-4,
    )
    residual, slope = evaluate(found.x)
    # Neighbouring samples err alike: as many independent ones as their correlation allows.
    error = residual[: 3 * len(measured)].reshape(-1, 3)
    weight = 1 / np.sqrt(1 + residual**2)
    spread = float(np.sum(weight[: error.size] * error.ravel() ** 2) / error.size)
    lag = float(np.clip(np.sum(error[1:] * error[:-1]) / max(np.sum(error**2), 1e-300), 0.0, 0.98))
    inflation = spread * (1 + lag) / (1 - lag)
    data = slope[: error.size] * np.sqrt(weight[: error.size, None] / max(inflation, 1e-12))
    covariance = np.linalg.inv(data.T @ data + np.diag(1 / free.priors**2))
    return free.values(found.x), np.sqrt(np.diag(covariance))
