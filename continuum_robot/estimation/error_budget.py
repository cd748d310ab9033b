# SPDX-License-Identifier: Apache-2.0
"""How wrong the residual of an observer may be, from the errors of state and model: bound and covariance.

Constant errors of the state move the residual by its sensitivity to them, johnston (64); those that change from sample
to sample are noise of a covariance. Errors of the stiffness scale the elastic force of each plane of bending, those of
the friction all of it. estimation/compiled_algebra.py does the same as machine code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.residual_sensitivity import ResidualSensitivity, noise_covariance

Vector = NDArray[np.float64]

# Settings of the contact monitor that the budgets take, in this order.
SHARES = (
    "coefficient_error_per_m",
    "rate_error_per_m_s",
    "stiffness_error_share",
    "friction_error_share",
    "sigma",
)
COVARIANCE_FLOOR = 1e-12  # of the square of the stiffnesses' sum, so that the covariance has an inverse


@dataclass(frozen=True, slots=True)
class Budget:
    """Errors of a residual.

    Attributes
    ----------
    bound : of each channel, (n,), N.m^2
    covariance : covariance of the residual with the errors of the model, (n, n)
    information : inverse of ``covariance``, (n, n)
    """

    bound: Vector
    covariance: Vector
    information: Vector


class PlainBudgets:
    """Error budgets of the three methods with NumPy; ``shares`` are the values of ``SHARES``.

    Parameters
    ----------
    stiffness : of the robot's coefficients, (n, n)
    """

    def __init__(self, stiffness: Vector) -> None:
        self._floor = COVARIANCE_FLOOR * float(np.trace(stiffness)) ** 2

    def best_budget(
        self,
        shares: Vector,
        elastic: Vector,
        *,
        spread: Vector,
        by_c: Vector,
        rod_by_rate: Vector,
        friction: Vector | None,
    ) -> Budget:
        """Of the Kalman disturbance observer.

        Parameters
        ----------
        shares : values of ``SHARES``, in the units of their names, (5,)
        elastic : force of the stiffness by the strain that it comes from, (strains, n), N.m^2
        spread : the observer's own covariance of the residual, (n, n)
        by_c : derivative of all known forces by c, (n, n)
        rod_by_rate : derivative of the rod's own forces by c_rate, (n, n)
        friction : generalised force, (n,), N.m^2; None: no friction
        """
        return self._budget(
            shares,
            elastic,
            systematic=_constant(shares, by_c, rod_by_rate),
            spread=spread,
            by_c=by_c,
            friction=friction,
        )

    def gmo_budget(
        self,
        shares: Vector,
        elastic: Vector,
        *,
        lag: Vector,
        sensitivity: ResidualSensitivity,
        dt: float,
        by_state: tuple[Vector, Vector],
        noise: tuple[Vector, Vector],
        friction: Vector | None,
    ) -> Budget:
        """Of the momentum observer; carries the sensitivity on.

        Parameters
        ----------
        shares, elastic, friction : as in :meth:`best_budget`
        lag : what the residual is late by, (n,), N.m^2
        sensitivity : of the observer; it is updated
        dt : of the cycle, s
        by_state : derivatives of the momentum and of all known forces by (c, c_rate), (n, 2 n) each
        noise : covariances of the samples of c and of c_rate, (n, n) each
        """
        n = elastic.shape[1]
        matrix = sensitivity.update(*by_state, dt)
        systematic = _constant(shares, matrix[:, :n], matrix[:, n:])
        state_noise = np.zeros((2 * n, 2 * n))
        state_noise[:n, :n], state_noise[n:, n:] = noise
        spread = noise_covariance(sensitivity.gain[:, 0], dt, *by_state, state_noise)
        return self._budget(
            shares,
            elastic,
            systematic=systematic,
            spread=spread,
            by_c=by_state[1][:, :n],
            friction=friction,
            errors=[lag],
        )

    def jfd_budget(
        self,
        shares: Vector,
        elastic: Vector,
        *,
        by_c: Vector,
        by_rate: Vector,
        mass: Vector,
        noise: tuple[Vector, Vector],
        acceleration_noise: float,
        friction: Vector | None,
    ) -> Budget:
        """Of the joint-force deviation.

        Parameters
        ----------
        shares, elastic, noise, friction : as in :meth:`best_budget`
        by_c, by_rate : derivatives of all known forces, (n, n)
        mass : M, (n, n), kg.m^4
        acceleration_noise : standard deviation of the accelerations, 1/(m.s^2)
        """
        spread = by_c @ noise[0] @ by_c.T + by_rate @ noise[1] @ by_rate.T
        spread += mass @ mass.T * acceleration_noise**2
        return self._budget(
            shares,
            elastic,
            systematic=_constant(shares, by_c, by_rate),
            spread=spread,
            by_c=by_c,
            friction=friction,
        )

    def _budget(
        self,
        shares: Vector,
        elastic: Vector,
        *,
        systematic: Vector,
        spread: Vector,
        by_c: Vector,
        friction: Vector | None,
        errors: Sequence[Vector] = (),
    ) -> Budget:
        stiffer = shares[2] * elastic
        columns = [*stiffer, *errors]
        systematic = systematic + np.abs(stiffer).sum(axis=0)
        if friction is not None:
            columns.append(shares[3] * friction)
            systematic = systematic + np.abs(columns[-1])
        rows = np.array(columns)
        # A constant error of the coefficients is as likely in each of them: its variance is a third of its square.
        shift = by_c * (shares[0] / math.sqrt(3))
        covariance = spread + rows.T @ rows + shift @ shift.T
        covariance[np.diag_indices(len(covariance))] += self._floor
        try:
            information = np.linalg.inv(covariance)
        except np.linalg.LinAlgError:
            raise ParameterError("covariance of the residual", covariance, "a positive definite matrix") from None
        return Budget(systematic + shares[4] * np.sqrt(np.diag(spread)), covariance, np.asarray(information))


def _constant(shares: Vector, by_c: Vector, by_rate: Vector) -> Vector:
    """Largest change of each channel by the constant errors of c and c_rate, johnston (64)."""
    return np.asarray(np.abs(by_c).sum(axis=1) * shares[0] + np.abs(by_rate).sum(axis=1) * shares[1])
