# SPDX-License-Identifier: Apache-2.0
"""Tensions from displacements, and shapes from mixed data, for a rod with general strains.

A tendon that is held at a displacement q_j leaves at most l_j(0) - q_j in the body. It pulls or it is slack:
tau_j >= 0, l_j(c) - l_j(0) + q_j - tau_j / k_j <= 0, and one of them is 0, with 1 / k_j the tendon's compliance. Solved
by Newton's method on the conditions of the taut tendons, with the set of taut ones chosen again in every step from the
signs (primal-dual active set).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.loads import Load
from continuum_robot.rod.strain.problem import RESIDUAL_TOLERANCE, StaticProblem, downhill
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.strain.statics import StrainEquilibrium, equilibrium

Vector = NDArray[np.float64]

_ITERATIONS = 60
_LENGTH_TOLERANCE = 1e-9
_STIFFENING = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
_SMALLEST_FRACTION = 1e-6
_ROUGH = 1e-6
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True)
class HeldEquilibrium:
    """A state of rest with tendons held at displacements.

    Attributes
    ----------
    state : the equilibrium, with the tension of every tendon
    displacement : (N,) displacement of the path in the body, l(0) - l(c), m
    slack_m : (N,) how much longer than its path a held tendon is, 0 where it is taut or not held
    taut : (N,) bool, held and pulling
    determined : whether the taut tendons' tensions follow from the displacements; without compliance and without
        extension tendons can pull against each other at any tension, and the smallest is given
    iterations : Newton steps of the active set
    """

    state: StrainEquilibrium
    displacement: Vector
    slack_m: Vector
    taut: NDArray[np.bool_]
    determined: bool
    iterations: int


def hold(
    rod: StrainRod | StaticProblem,
    displacement: ArrayLike,
    tension: ArrayLike | None = None,
    loads: Sequence[Load] = (),
    start: ArrayLike | None = None,
    *,
    tendon_stiffness_n_per_m: ArrayLike = np.inf,
) -> HeldEquilibrium:
    """Tensions and shape for given displacements of some tendons and given tensions of the others.

    Parameters
    ----------
    rod, loads, start : as for :func:`continuum_robot.rod.strain.statics.equilibrium`
    displacement : (N,) at the tendons' proximal ends against the straight rod, pulled in positive, m; NaN for a tendon
        whose tension is given
    tension : (N,) of the tendons that are not held, N; not read for the others; None for zeros
    tendon_stiffness_n_per_m : (N,) or one number, force per stretch of each tendon; infinite: it does not stretch

    Returns
    -------
    tensions, shape, and which tendons are slack

    Raises
    ------
    ParameterError : arrays of the wrong size, negative tension or stiffness
    ConvergenceError : no equilibrium with these displacements, e.g. all tendons of a rod that cannot shorten pulled in
    """
    problem = rod if isinstance(rod, StaticProblem) else StaticProblem(rod, loads)
    body = problem.rod
    desired = np.asarray(displacement, dtype=float)
    if desired.shape != (body.tendon_count,) or np.isinf(desired).any():
        raise ParameterError("displacement", displacement, f"{body.tendon_count} displacements in m, NaN for not held")
    held = np.isfinite(desired)
    given = np.zeros(body.tendon_count) if tension is None else np.asarray(tension, dtype=float)
    if given.shape != desired.shape or not np.isfinite(given[~held]).all() or (given[~held] < 0).any():
        raise ParameterError("tension", tension, "a tension that is not negative for every tendon that is not held, N")
    stiffness = np.broadcast_to(np.asarray(tendon_stiffness_n_per_m, dtype=float), desired.shape)
    if not (stiffness > 0).all():
        raise ParameterError("tendon_stiffness_n_per_m", tendon_stiffness_n_per_m, "positive numbers, N/m")
    search = _ActiveSet(problem, held, np.where(held, desired, 0), np.where(held, 0, given), 1 / stiffness)
    c = np.zeros(body.size) if start is None else body.coefficients(start).copy()
    pull = np.zeros(body.tendon_count)
    try:
        c, pull = search.solve(c, pull)
    except ConvergenceError as error:
        try:
            c, pull = search.stiffened(np.zeros(body.size))
        except ConvergenceError:
            raise error from None
    state = equilibrium(problem, search.given + pull, start=c, settle=False)
    lengths = body.tendon_lengths(state.c)
    path = body.tendons.rest_m - lengths
    taut = held & (pull > 0)
    slack = np.where(held & ~taut, np.maximum(path - desired, 0.0), 0.0)
    return HeldEquilibrium(state, path, slack, taut, search.determined, search.iterations)


class _ActiveSet:
    """Newton's method with an active set of taut tendons."""

    def __init__(
        self, problem: StaticProblem, held: NDArray[np.bool_], desired: Vector, given: Vector, compliance: Vector
    ) -> None:
        self.problem, self.held, self.desired, self.given, self.compliance = problem, held, desired, given, compliance
        self.iterations = 0
        self.determined = True
        self.tolerance_m = _LENGTH_TOLERANCE * problem.rod.length_m

    def solve(self, c: Vector, pull: Vector) -> tuple[Vector, Vector]:
        """Coefficients and held tendons' tensions from a first guess of both; raises ConvergenceError."""
        problem, rod = self.problem, self.problem.rod
        available = rod.tendons.rest_m - self.desired
        worst_m = residual = np.inf
        for _ in range(_ITERATIONS):
            self.iterations += 1
            state = problem.state(c, self.given + pull, 1.0)
            excess = rod.tendon_lengths(c) - available
            jacobian = rod.tendons.jacobian(c) @ problem.inverse_root.T
            # Tensions in units in which a unit of each does the same to the elastic rod.
            size = np.maximum(np.linalg.norm(jacobian, axis=1), 1e-300)
            # A slack tendon whose path has just its length must not become taut by rounding, or two would take turns.
            active = self.held & (pull * size + (excess - self.compliance * pull - self.tolerance_m / 2) / size > 0)
            rows = jacobian[active] / size[active, None]
            taut_excess = excess[active] - self.compliance[active] * pull[active]
            worst_m = float(np.abs(taut_excess).max(initial=0.0))
            residual = state.residual
            settled = (
                residual < RESIDUAL_TOLERANCE
                and worst_m < self.tolerance_m
                and not np.any(pull[~active])
                and (excess[self.held & ~active] < self.tolerance_m).all()
            )
            if settled:
                return c, pull
            n, count = rod.size, int(active.sum())
            system = np.zeros((n + count, n + count))
            system[:n, :n] = state.hessian
            system[:n, n:], system[n:, :n] = rows.T, rows
            system[n:, n:] = -np.diag(self.compliance[active] / size[active] ** 2)
            # Unknown are the new tensions, so the present ones leave the force out of balance.
            force = state.force - jacobian.T @ pull
            right = -np.concatenate([force, excess[active] / size[active]])
            solution, _, rank, _ = np.linalg.lstsq(system, right, rcond=_RANK_TOLERANCE)
            self.determined = bool(rank == n + count)
            c_step, fraction = problem.step(solution[:n])
            new = np.zeros_like(pull)
            new[active] = solution[n:] / size[active]
            c = c + fraction * c_step
            pull = np.where(active, pull + fraction * (new - pull), 0.0)
        raise ConvergenceError(
            f"no equilibrium with these displacements: {1e3 * worst_m:.3g} mm left",
            residual,
            RESIDUAL_TOLERANCE,
            self.iterations,
        )

    def stiffened(self, c: Vector) -> tuple[Vector, Vector]:
        """From tendons that stretch much to those asked for: every stage is smooth, and starts the next one."""
        rod, limit = self.problem.rod, 1 / np.maximum(self.compliance, 1e-300)
        # A tendon as stiff as the rod against its displacement, and from there on.
        rows = rod.tendons.jacobian(c) @ self.problem.inverse_root.T
        first = 1 / np.maximum(np.sum(rows**2, axis=1), 1e-300)
        stiffness = np.minimum(first, limit)
        for factor in _STIFFENING:
            stiffness = np.minimum(factor * first, limit)
            c = self._stretched(c, stiffness)
        excess = rod.tendon_lengths(c) - rod.tendons.rest_m + self.desired
        return self.solve(c, np.where(self.held, stiffness * np.maximum(excess, 0.0), 0.0))

    def _stretched(self, c: Vector, stiffness: Vector) -> Vector:
        """Newton's method for tendons of finite stiffness (N,), N/m, with a line search."""
        problem, rod = self.problem, self.problem.rod
        available = rod.tendons.rest_m - self.desired

        def at(c: Vector) -> tuple[float, Vector, Vector]:
            excess = np.where(self.held, np.maximum(rod.tendon_lengths(c) - available, 0.0), 0.0)
            state = problem.state(c, self.given + stiffness * excess, 1.0)
            rows = (rod.tendons.jacobian(c) @ problem.inverse_root.T)[excess > 0]
            hessian = state.hessian + rows.T @ (stiffness[excess > 0, None] * rows)
            # What the tendons have taken up is half their tension times their stretch.
            taken = float((stiffness * excess) @ (rod.tendon_lengths(c) - rod.tendons.rest_m - excess / 2))
            return state.energy - taken, state.force, hessian

        energy, force, hessian = at(c)
        for _ in range(_ITERATIONS):
            self.iterations += 1
            if problem.conservative:
                direction, _ = downhill(hessian, force)
            else:
                direction = np.asarray(-np.linalg.solve(hessian, force), dtype=float)
            c_step, fraction = problem.step(direction)
            while True:
                trial = at(c + fraction * c_step)
                lower = trial[0] < energy if problem.conservative else False
                smaller = float(np.linalg.norm(trial[1])) < (1 - fraction / 4) * float(np.linalg.norm(force))
                if lower or smaller or fraction < _SMALLEST_FRACTION:
                    break
                fraction /= 2
            if fraction < _SMALLEST_FRACTION:
                break  # rounding, or as near as it comes: the next stage goes on from here
            c = c + fraction * c_step
            energy, force, hessian = trial
            if problem.residual(force) < _ROUGH:
                break
        return c


@dataclass(frozen=True, kw_only=True)
class ShapeData:
    """What is known of a rod; NaN, or None, for what is not. Standard deviations are of the measurements.

    Attributes
    ----------
    tension : (N,) N
    displacement : (N,) of the tendons, pulled in positive, m
    string_extension : (strings,) m
    positions : (s_m, (x, y, z)) of points of the backbone in the base frame, m
    tension_sigma_n, displacement_sigma_m, string_sigma_m, position_sigma_m : standard deviations
    model_sigma_rad : bending angle that unknown loads are expected to cause
    """

    tension: ArrayLike | None = None
    displacement: ArrayLike | None = None
    string_extension: ArrayLike | None = None
    positions: Sequence[tuple[float, Sequence[float]]] = ()
    tension_sigma_n: float = 0.05
    displacement_sigma_m: float = 1e-4
    string_sigma_m: float = 1e-4
    position_sigma_m: float = 5e-4
    model_sigma_rad: float = 0.05


@dataclass(frozen=True, slots=True)
class ShapeFit:
    """A shape from mixed data.

    Attributes
    ----------
    c : (n,) coefficients
    tension : (N,) estimated tensions, N
    covariance : (n, n) covariance of ``c``, to first order
    residuals : measured less fitted, over their standard deviations, in the order of :class:`ShapeData`
    unbalanced_rad : bending angle that the load which the fit had to assume causes; of the order of ``model_sigma_rad``
        or less where model and data agree
    """

    c: Vector
    tension: Vector
    covariance: Vector
    residuals: Vector
    unbalanced_rad: float


def fit_shape(
    rod: StrainRod | StaticProblem, data: ShapeData, loads: Sequence[Load] = (), start: ArrayLike | None = None
) -> ShapeFit:
    """The likeliest shape for tensions, displacements, string extensions and positions, each known or not.

    Weighted least squares over coefficients and tensions (not negative), with the balance of forces as a further
    measurement whose standard deviation stands for unknown loads.

    Parameters
    ----------
    rod, loads, start : as for :func:`continuum_robot.rod.strain.statics.equilibrium`
    data : what is known

    Returns
    -------
    shape, tensions, and how well they fit

    Raises
    ------
    ParameterError : arrays of the wrong size
    ConvergenceError : no minimum found
    """
    problem = rod if isinstance(rod, StaticProblem) else StaticProblem(rod, loads)
    body, n = problem.rod, problem.rod.size
    tension = _known(data.tension, body.tendon_count, "tension")
    displacement = _known(data.displacement, body.tendon_count, "displacement")
    extension = _known(data.string_extension, len(body.string_paths), "string_extension")
    chain = body.chain([s for s, _ in data.positions])
    stations = chain.indices([s for s, _ in data.positions])
    places = np.array([place for _, place in data.positions], dtype=float).reshape(-1, 3)
    flexibility = body.strain_scale[:, None] * problem.inverse_root.T

    def evaluate(x: Vector) -> tuple[Vector, Vector]:
        c, pull = x[:n], x[n:]
        state = problem.state(c, pull, 1.0)
        lengths, jacobian = body.tendon_lengths(c), body.tendons.jacobian(c)
        frames = chain.frames(c)
        turning, position = frames.jacobian[stations, :3], frames.position[stations]
        velocity = frames.jacobian[stations, 3:] - np.cross(position[:, :, None], turning, axis=1)
        balance = flexibility @ np.hstack([state.hessian @ problem.root.T, problem.inverse_root @ jacobian.T])
        blocks = [
            ((flexibility @ state.force) / data.model_sigma_rad, balance / data.model_sigma_rad),
            (
                (pull - tension) / data.tension_sigma_n,
                np.hstack([np.zeros((len(pull), n)), np.eye(len(pull))]) / data.tension_sigma_n,
            ),
            (
                (body.tendons.rest_m - lengths - displacement) / data.displacement_sigma_m,
                np.hstack([-jacobian, np.zeros((len(pull), len(pull)))]) / data.displacement_sigma_m,
            ),
            (
                (body.string_extension(c) - extension) / data.string_sigma_m,
                np.hstack([body.string_jacobian(c), np.zeros((len(extension), len(pull)))]) / data.string_sigma_m,
            ),
            (
                (position - places).reshape(-1) / data.position_sigma_m,
                np.hstack([velocity.reshape(-1, n), np.zeros((velocity.size // n, len(pull)))]) / data.position_sigma_m,
            ),
        ]
        values = np.concatenate([value for value, _ in blocks])
        slopes = np.vstack([slope for _, slope in blocks])
        known = np.isfinite(values)
        return values[known], slopes[known]

    first = np.nan_to_num(np.maximum(tension, 0.0), nan=0.0)
    c = equilibrium(problem, first).c if start is None else body.coefficients(start)
    bounds = (
        np.concatenate([np.full(n, -np.inf), np.zeros(body.tendon_count)]),
        np.full(n + body.tendon_count, np.inf),
    )
    found = scipy.optimize.least_squares(
        lambda x: evaluate(x)[0],
        np.concatenate([c, first + 1e-3]),
        lambda x: evaluate(x)[1],
        bounds,
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-10,
        max_nfev=200,
    )
    if not found.success:
        raise ConvergenceError("shape from mixed data", float(found.optimality), 1e-10, int(found.nfev))
    values, slopes = evaluate(found.x)
    covariance = np.asarray(np.linalg.pinv(slopes.T @ slopes, rcond=1e-14)[:n, :n], dtype=float)
    return ShapeFit(
        found.x[:n],
        found.x[n:],
        covariance,
        -values[n:],
        float(np.linalg.norm(values[:n])) * data.model_sigma_rad,
    )


def _known(values: ArrayLike | None, count: int, name: str) -> Vector:
    array = np.full(count, np.nan) if values is None else np.asarray(values, dtype=float)
    if array.shape != (count,) or np.isinf(array).any():
        raise ParameterError(name, values, f"{count} numbers, NaN where unknown")
    return array
