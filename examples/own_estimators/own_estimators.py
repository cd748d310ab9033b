# SPDX-License-Identifier: Apache-2.0
"""A shape estimator and a contact observer of your own. `pip install .` makes both known to the stack:

    continuum-robot up two_segment --params-file own.yaml

own.yaml, here with a setting of each, has both names, as for launch files.
"""

from dataclasses import dataclass

import numpy as np

from continuum_robot.estimation.contact.own_observer import Finding
from continuum_robot.estimation.shape_estimate import ShapeEstimate
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import Rod


@dataclass(frozen=True)
class LeastSquaresSettings:
    """What the estimator trusts."""

    tendon_sigma_m: float = quantity("standard deviation of a tendon's displacement", "m", default=2e-4, gt=0, le=0.1)


class LeastSquares:
    """The shape from its tendons alone, by least squares, at the rates of the tendons; strings and fibre are not used.

    For rods that only bend, and have more tendons than coefficients.
    """

    settings = LeastSquaresSettings
    watch = None

    def __init__(self, robot, settings):
        self._rod = Rod(robot)
        self._matrix = self._rod.displacement_gradient(np.zeros(self._rod.n))
        self._inverse = np.linalg.pinv(self._matrix)
        self._covariance = settings.tendon_sigma_m**2 * self._inverse @ self._inverse.T

    def reset(self):
        """Nothing is remembered."""

    def update(self, displacement, velocity, *_strings_and_fiber):
        """One estimate."""
        c = self._inverse @ displacement
        left = displacement - self._matrix @ c
        return ShapeEstimate(
            coefficients=c,
            coefficient_rates=self._inverse @ velocity,
            covariance=self._covariance,
            residual_m=float(np.sqrt(np.mean(left**2))),
            sensor_count=len(displacement),
            tip=self._rod.moved(c)[0],
            named_values={"largest_residual_m": float(np.abs(left).max())},
        )


@dataclass(frozen=True)
class AtRestSettings:
    """How slow and how sure the observer is."""

    smoothing_s: float = quantity("time constant of the low-pass", "s", default=0.1, gt=0, le=10)
    error_fraction: float = quantity("fraction of the tendons' forces that may be wrong", default=0.05, gt=0, le=1)
    least_nm2: float = quantity("bound of every channel where these are nothing", "N.m^2", default=5e-4, gt=0, le=1)


class AtRest:
    """What holds a robot at rest beside the forces that are known must be a contact; motion only blurs it."""

    settings = AtRestSettings

    def __init__(self, _robot, _size, settings):
        self._settings = settings
        self.reset()

    def reset(self):
        """Restart."""
        self._force = None

    def update(self, cycle, state):
        """Known forces and contacts are in balance: their sum is 0."""
        found = -(state.terms.known_force + state.force)
        fraction = 1.0 if self._force is None else cycle.dt / (cycle.dt + self._settings.smoothing_s)
        self._force = found if self._force is None else self._force + fraction * (found - self._force)
        bound = self._settings.error_fraction * np.abs(state.force) + self._settings.least_nm2
        return Finding(self._force, bound, np.diag(bound**2), {"largest_force_nm2": float(np.abs(self._force).max())})
