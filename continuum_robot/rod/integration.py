# SPDX-License-Identifier: Apache-2.0
"""Integration in time: a symbolic fixed-step Runge-Kutta step to compile, and an adaptive solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.dynamics import RodDynamics

Vector = NDArray[np.float64]
Load = Callable[[float, Vector, Vector], ArrayLike]


def rk4_step(derivative: ca.Function, *, substeps: int = 1, name: str = "rk4_step") -> ca.Function:
    """One step of the classical fourth-order Runge-Kutta method as a function to compile.

    Parameters
    ----------
    derivative : (x, parameters...) -> x'; called as a function of its own, so its code exists once
    substeps : equal parts of the step
    name : name of the result

    Returns
    -------
    function (x, parameters..., step_s) -> x after ``step_s`` seconds with constant parameters

    Raises
    ------
    ParameterError : ``substeps`` below 1
    """
    if substeps < 1:
        raise ParameterError("substeps", substeps, "at least 1")
    start = ca.MX.sym(derivative.name_in(0), derivative.size1_in(0))
    parameters = [ca.MX.sym(derivative.name_in(i), derivative.size1_in(i)) for i in range(1, derivative.n_in())]
    step_s = ca.MX.sym("step_s")
    x, h = start, step_s / substeps
    for _ in range(substeps):
        k_1 = derivative(x, *parameters)
        k_2 = derivative(x + h / 2 * k_1, *parameters)
        k_3 = derivative(x + h / 2 * k_2, *parameters)
        k_4 = derivative(x + h * k_3, *parameters)
        x = x + h / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
    names = [derivative.name_in(i) for i in range(derivative.n_in())]
    return ca.Function(name, [start, *parameters, step_s], [x], [*names, "step_s"], ["x_next"])


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A simulated motion.

    Attributes
    ----------
    time_s : (k,)
    c : (k, n) coefficients, 1/m
    c_rate : (k, n) their rates, 1/(m.s)
    """

    time_s: Vector
    c: Vector
    c_rate: Vector


def simulate(
    dynamics: RodDynamics,
    c: ArrayLike,
    c_rate: ArrayLike,
    time_s: ArrayLike,
    *,
    tension: Load | None = None,
    generalized_force: Load | None = None,
    relative_tolerance: float = 1e-9,
    absolute_tolerance: float = 1e-9,
) -> Trajectory:
    """Motion from a start by the adaptive Dormand-Prince method of eighth order, of the family used in muhmann IV-A.

    Parameters
    ----------
    dynamics : the robot
    c, c_rate : (n,) state at ``time_s[0]``
    time_s : (k,) increasing times at which the state is returned, s
    tension : (time_s, c, c_rate) -> (N,) tensions, N; None for slack tendons
    generalized_force : (time_s, c, c_rate) -> (n,) other loads, N.m^2; None for none
    relative_tolerance, absolute_tolerance : of a step, on c and c_rate; the former as a fraction, the latter in the
        units of both

    Returns
    -------
    the state at ``time_s``

    Raises
    ------
    ConvergenceError : the step size fell to nothing
    ParameterError : the motion left the range in which the kinematics hold
    """
    times = np.asarray(time_s, dtype=float)
    n = dynamics.size
    slack = np.zeros(dynamics.robot.tendon_count)

    def derivative(t: float, x: Vector) -> Vector:
        position, rate = x[:n], x[n:]
        pull = slack if tension is None else tension(t, position, rate)
        load = None if generalized_force is None else generalized_force(t, position, rate)
        return np.concatenate([rate, dynamics.forward_dynamics(position, rate, pull, load)])

    start = np.concatenate([np.asarray(c, dtype=float), np.asarray(c_rate, dtype=float)])
    result = scipy.integrate.solve_ivp(
        derivative,
        (times[0], times[-1]),
        start,
        method="DOP853",
        t_eval=times,
        rtol=relative_tolerance,
        atol=absolute_tolerance,
    )
    if not result.success:
        reached_s = float(result.t[-1]) if len(result.t) else float(times[0])
        raise ConvergenceError(
            f"simulation stopped at {reached_s:.6g} s: {result.message}", float("nan"), relative_tolerance, result.nfev
        )
    for position in result.y[:n].T:
        dynamics.check_reach(position)
    return Trajectory(times, result.y[:n].T.copy(), result.y[n:].T.copy())
