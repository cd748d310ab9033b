# SPDX-License-Identifier: Apache-2.0
"""How wrong the residual of an observer may be, from the errors of state and model: bound and covariance.

Constant errors of the state move the residual by its sensitivity to them, johnston section 8, (62)-(69); those that
change from sample to sample are noise of a covariance. Errors of the stiffness scale the elastic force of each kind of
strain, those of the friction all of it.

The derivatives of momentum and known force are exact (rod/contact/functions.py); that of the momentum observer's
residual, dr/dx, follows its own recursion. A constant error Delta x moves r by dr/dx Delta x; errors that change from
sample to sample pass the observer as noise, whose stationary covariance has a closed form:

With a = 1 / (1 + K dt) the residual is r_k = a r_(k-1) + a K (U e_k + W e_(k-1)) of the errors e, with
U = P - F dt / 2 and W = - P - F dt / 2. One error gives a K U at once and a^(j-1) a K (a U + W) after j cycles, so
with Z = a U + W and S the errors' covariance that of channels i, j is
a_i K_i a_j K_j [U S U^T + Z S Z^T / (1 - a_i a_j)]_ij.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.rod.kernel import library as kernel

Vector = NDArray[np.float64]
Shapes = Sequence[tuple[int, ...]]


class BufferedCall:
    """A function of the rod's kernel that reads one buffer of arrays and writes another: observers.hpp. For one thread.

    On matrices of 6 to 36 rows NumPy spends its time on calls, not on numbers.
    """

    def __init__(self, name: str, size: int, inputs: Shapes, outputs: Shapes) -> None:
        library = kernel.library()
        if library is None:
            raise ContinuumRobotError(
                "the contact monitor needs the kernel's library: install a C++ compiler and the package again"
            )
        self._buffers = [np.zeros(sum(map(math.prod, shapes))) for shapes in (inputs, outputs)]
        self.inputs, self.outputs = map(_arrays, self._buffers, (inputs, outputs))
        addresses = (kernel.Pointer(kernel.at(buffer)) for buffer in self._buffers)
        function, (given, found) = getattr(library, name), addresses
        self._run = partial(_called, function, size, given, found)

    def __call__(self, number: int, *values: Any) -> tuple[Vector, ...]:
        """Results, in the buffer, with the function's second argument and the values of all inputs."""
        for array, value in zip(self.inputs, values, strict=True):
            array[...] = value
        self._run(number)
        return self.outputs


def _called(function: Any, size: int, given: Any, found: Any, number: int) -> None:
    function(size, number, given, found)


def _arrays(buffer: Vector, shapes: Shapes) -> tuple[Vector, ...]:
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(buffer, ends[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


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
    """Errors of a residual."""

    bound: Vector
    covariance: Vector
    information: Vector


class ResidualSensitivity:
    """dr/dx of the momentum observer for x = (c, c_rate), johnston (65), (69), by the observer's recursion.

    S_k = (S_(k-1) + K (P_k - P_(k-1)) - K (F_k + F_(k-1)) / 2 dt) / (1 + K dt) with P = dp/dx, F = d(known force)/dx.
    The first P counts in full, as in (65): the error is taken to begin with the observation. The next S is computed
    with the error budget, see :class:`.MomentumResidual`.
    """

    def __init__(self, gain: ArrayLike) -> None:
        self.gain: Vector = np.asarray(gain, dtype=float)
        if not np.all(self.gain > 0):
            raise ParameterError("gain", gain, "positive numbers, 1/s")
        self.reset()

    def reset(self) -> None:
        """Restart."""
        n = self.gain.size
        self.matrix: Vector = np.zeros((n, 2 * n))
        self.momentum: Vector = np.zeros((n, 2 * n))
        self.force: Vector = np.zeros((n, 2 * n))
        self.fresh = True

    def before(self, dt: float) -> tuple[Any, ...]:
        """What the budget of the next cycle, after ``dt`` s, takes of it: gain, steps, matrix and derivatives."""
        return self.gain, (0.0 if self.fresh else dt, dt), self.matrix, self.momentum, self.force

    def take(self, matrix: Vector, momentum_by_state: Vector, force_by_state: Vector) -> None:
        """Keep a cycle.

        Parameters
        ----------
        momentum_by_state : derivative dp/dx = [dp/dc, M], (n, 2 n), johnston (66)-(68)
        """
        self.matrix, self.momentum, self.force, self.fresh = matrix, momentum_by_state, force_by_state, False


class BudgetAlgebra:
    """Error budgets of the three methods, in the rod's kernel; ``fractions`` are the values of ``FRACTIONS``.

    For one thread.
    """

    def __init__(self, stiffness: Vector, strain_count: int) -> None:
        n = self.size = len(stiffness)
        self.strain_count = strain_count
        self.floor = COVARIANCE_FLOOR * float(np.trace(stiffness)) ** 2
        square, wide = (n, n), (n, 2 * n)
        shared = (5,), (strain_count, n), square, (n,), (1,)
        more = {
            "kalman": (square, square),
            "jfd": (*(square,) * 4, (1,)),
            "gmo": ((n,), (n,), (2,), *(wide,) * 5, square, square),
        }
        found, extra = ((n,), square, square), {"gmo": (wide,)}
        self._calls = {
            method: BufferedCall(f"rod_{method}_budget", n, shared + inputs, found + extra.get(method, ()))
            for method, inputs in more.items()
        }

    def budget(
        self, method: str, fractions: Vector, elastic: Vector, by_c: Vector, friction: Vector | None, *more: Any
    ) -> tuple[Budget, tuple[Vector, ...]]:
        """The budget of a method, with what else it finds; its bound by constant errors is johnston (62) to (64).

        ``more`` is each method's own, as rod/kernel/observers.hpp has it: of the Kalman disturbance observer its
        covariance and the derivative of the rod's force by the rates; of the joint-force deviation derivatives by the
        rates, mass, noise of coefficients and rates, and of the acceleration; of the momentum observer its lag, gain,
        steps, sensitivity and derivatives before, derivatives now, and both noises.
        """
        shared = fractions, elastic, by_c, 0.0 if friction is None else friction, self.floor
        results = self._calls[method](self.strain_count, *shared, *more)
        bound, covariance, information, *found = (one.copy() for one in results)
        return Budget(bound, covariance, information), tuple(found)
