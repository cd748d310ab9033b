# SPDX-License-Identifier: Apache-2.0
"""How wrong the residual of an observer may be, from the errors of state and model: bound and covariance.

Constant errors of the state move the residual by its sensitivity to them, johnston (64); those that change from sample
to sample are noise of a covariance. Errors of the stiffness scale the elastic force of each kind of strain, those of
the friction all of it. How, stands in estimation/contact/algebra/budget.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Settings of the contact monitor that the budgets take, in this order.
FRACTIONS = (
    "coefficient_error_per_m",
    "rate_error_per_m_s",
    "stiffness_error_fraction",
    "friction_error_fraction",
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
