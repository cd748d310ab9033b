# SPDX-License-Identifier: Apache-2.0
"""Static shapes of a Cosserat rod with tendons, from the rod at rest by continuation in the load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.rod.cosserat.boundary_value import MODELS, BoundaryValueProblem, Stability, stability
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.cosserat.equations import ROUTING, Step
from continuum_robot.rod.loads import Load

Vector = NDArray[np.float64]

_INTERVALS = 24
_NEWTON_ITERATIONS = 12
_FAST_ITERATIONS = 5
_SMALLEST_LOAD_STEP = 2.0**-12
_LARGEST_TURN_RAD = 1.0
_LONGEST_SLOW_STEP = 1 / 16
_SMALLEST_GUARDED_STEP = 2.0**-10
_REFINEMENTS = 6
# Gauss's rule on [-1, 1], for the length of a tendon within a step.
_GAUSS_POINTS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(5)

# Where all together meets a load at which the rod snaps, tendons before loads or the reverse may not.
_ROUTES: dict[str, Callable[[float], tuple[float, float]]] = {
    "together": lambda progress: (progress, progress),
    "tendons first": lambda progress: (min(1.0, 2 * progress), max(0.0, 2 * progress - 1)),
    "loads first": lambda progress: (max(0.0, 2 * progress - 1), min(1.0, 2 * progress)),
}


@dataclass(frozen=True, slots=True)
class Rod:
    """The rod at some arc lengths, (k,) each; vectors of force and moment in base axes."""

    s_m: Vector
    position_m: Vector
    rotation: Vector
    strain: Vector
    curvature_per_m: Vector
    force_n: Vector
    moment_nm: Vector
    total_force_n: Vector
    total_moment_nm: Vector


@dataclass(frozen=True)
class CosseratSolution:
    """A static shape.

    Attributes
    ----------
    problem : what was solved, on its last grid
    states : at its nodes, shape (k, 13), each position (m), quaternion, force (N), moment (N.m)
    residual : largest equation left over, dimensionless: scaled by length and bending stiffness
    integration_error_m : estimate of the largest displacement that the integration is off, m
    newton_iterations, load_steps : spent in all
    route : in which order tensions and loads were put on; "warm" from a start that was given
    stability : second variation; None where there is no potential (point-moment model, junction load left out, or
        loads that turn with the rod)
    """

    problem: BoundaryValueProblem
    states: Vector
    residual: float
    integration_error_m: float
    newton_iterations: int
    load_steps: int
    route: str
    stability: Stability | None

    @property
    def stable(self) -> bool | None:
        """Whether the work that any small displacement takes is positive.

        None where it decides nothing: loads without a potential, to which moments constant in base axes belong, may
        hold a rod though a displacement without turning back would release work.
        """
        if self.stability is None:
            return None
        if self.stability.unstable_directions == 0:
            return True
        return None if self.problem.has_moments else False

    @property
    def tip_m(self) -> Vector:
        """Position of the tip, shape (3,), base axes, m."""
        return self.states[-1, :3].copy()

    @property
    def tip_rotation(self) -> Vector:
        """Rotation of the tip, shape (3, 3)."""
        return _rotation(self.states[-1, 3:7])

    def at(self, s_m: ArrayLike) -> Rod:
        """The rod at any arc lengths; at a jump, just after it."""
        places = np.atleast_1d(np.asarray(s_m, dtype=float))
        length_m = self.problem.rod.length_m
        if not np.all((places >= 0) & (places <= length_m * (1 + 1e-12))):
            raise ParameterError("s_m", places.tolist(), f"0 to {length_m:g} m")
        states, parts = self._partial(np.minimum(places, length_m))
        rotation = np.array([_rotation(state[3:7]) for state in states])
        wrench, _ = self.problem.wrenches([self.problem.bearing(*one) for one in parts], states, (1.0, 1.0))
        section = np.array([link.section for link, _ in parts])

        def in_base(vectors: Vector) -> Vector:
            return np.einsum("kij,kj->ki", rotation, vectors)

        return Rod(
            places,
            states[:, :3],
            rotation,
            section[:, 6:9] + states[:, 7:10] / section[:, :3],
            section[:, 9:12] + states[:, 10:] / section[:, 3:6],
            in_base(states[:, 7:10]),
            in_base(states[:, 10:]),
            in_base(wrench[:, :3]),
            in_base(wrench[:, 3:]),
        )

    @property
    def tendon_lengths_m(self) -> Vector:
        """Length of each tendon's path in the body, shape (tendons,), m."""
        steps = self.problem.all_steps
        begins = np.array([[one.start_m, one.length_m] for one in steps]).repeat(len(_GAUSS_POINTS), axis=0)
        weights = begins[:, 1] * np.tile(_GAUSS_WEIGHTS, len(steps)) / 2
        states, parts = self._partial(begins[:, 0] + (1 + np.tile(_GAUSS_POINTS, len(steps))) / 2 * begins[:, 1])
        stretches = [_tendon_stretch(part, end, state) for (part, end), state in zip(parts, states, strict=True)]
        return np.asarray(weights @ np.array(stretches).reshape(len(parts), -1))

    def _partial(self, places_m: Vector) -> tuple[Vector, list[tuple[Step, int]]]:
        """States at arc lengths, (k, 13), and steps that have them at an end: which, and its end."""
        found = [self.problem.partial_step(float(place)) for place in places_m]
        states = self.states[[index for index, _ in found]]
        moved = [k for k, (_, part) in enumerate(found) if part is not None]
        steps = [part for _, part in found if part is not None]
        if steps:
            states[moved] = self.problem.ends(steps, states[moved])
        return states, [self._step_at(index) if part is None else (part, -1) for index, part in found]

    def _step_at(self, index: int) -> tuple[Step, int]:
        """A step that has a state at one of its ends: which, and its end."""
        links = self.problem.links
        following = links[index] if index < len(links) else None
        if isinstance(following, Step):
            return following, 0
        previous = links[index - 1]
        if not isinstance(previous, Step):
            raise ParameterError("grid", index, "a step between two jumps")
        return previous, -1


def solve(
    rod: CosseratRod,
    tension_n: ArrayLike = (),
    loads: Sequence[Load] = (),
    *,
    model: str = "coupled",
    junction_load: bool = True,
    start: CosseratSolution | None = None,
    intervals: int = _INTERVALS,
    accuracy_m: float = 1e-9,
) -> CosseratSolution:
    """Static shape under tensions and loads.

    From the rod at rest, tensions and loads grow together, in steps that shrink where Newton's method fails or the rod
    turns far; where that ends at a load at which the rod would snap, they are tried one after the other. Where the
    result is unstable, it is tried again in short steps, which stay on the branch that begins at rest. Steps of
    integration are halved until their error is below ``accuracy_m``.

    Parameters
    ----------
    model : "coupled", rucker (16) to (20), or "point_moment", section III-H: tendons put nothing but (19) on the rod
    junction_load : False leaves out the load of tendons that go on where the strain or their slope jumps, as (18) to
        (20) do by themselves; the result then is no equilibrium of the energy

    Returns
    -------
    the shape, with its residual and stability: look at ``stable``
    """
    tension = rod.checked_tension(tension_n)
    if model not in MODELS:
        raise ParameterError("model", model, f"one of {', '.join(MODELS)}")
    if intervals < 1 or not accuracy_m > 0:
        raise ParameterError("intervals, accuracy_m", (intervals, accuracy_m), "1 or more, and above 0")
    problem = BoundaryValueProblem(rod, tension, loads, model=model, junction_load=junction_load, intervals=intervals)
    if start is not None:
        problem.adopt_grid(start.problem)
        states, residual, iterations = problem.newton(start.states, (1.0, 1.0), 4 * _NEWTON_ITERATIONS)
        return _finished(problem, states, accuracy_m, _Effort(residual, iterations, 1, "warm"))
    solution = _finished(problem, *_continued(problem, accuracy_m, guarded=False))
    if solution.stable is False:
        # Long steps may have changed over to a branch of shapes that does not begin at rest.
        try:
            slow = _finished(problem, *_continued(problem, accuracy_m, guarded=True))
        except ConvergenceError:
            return solution
        return slow if slow.stable else solution
    return solution


@dataclass(frozen=True, slots=True)
class _Effort:
    """How a solution was found."""

    residual: float
    iterations: int
    load_steps: int
    route: str


def _finished(problem: BoundaryValueProblem, states: Vector, accuracy_m: float, effort: _Effort) -> CosseratSolution:
    """Refine the grid until the integration is accurate enough, and judge the stability."""
    residual, iterations = effort.residual, effort.iterations
    for _ in range(_REFINEMENTS):
        error_m, local = problem.integration_error(states)
        if error_m < accuracy_m:
            break
        states = problem.refine(states, local > 0.1 * local.max())
        states, residual, more = problem.newton(states, (1.0, 1.0), _NEWTON_ITERATIONS)
        iterations += more
    else:
        raise ConvergenceError("integration along the rod", error_m, accuracy_m, _REFINEMENTS)
    problem.check_strain(states)
    has_potential = problem.coupling == 1 and problem.junction_load and not problem.follows_body
    judged = stability(problem, states) if has_potential else None
    return CosseratSolution(problem, states, residual, error_m, iterations, effort.load_steps, effort.route, judged)


def _continued(problem: BoundaryValueProblem, accuracy_m: float, *, guarded: bool) -> tuple[Vector, float, _Effort]:
    """States under the full load, with the arguments of :func:`_finished` that go with them."""
    first: ConvergenceError | None = None
    iterations = 0
    tendons_and_loads = np.any(problem.tension_n > 0) and (problem.points or problem.spread)
    for name, fractions in _ROUTES.items():
        if name != "together" and not tendons_and_loads:
            break
        try:
            states, effort = _follow(problem, name, fractions, guarded=guarded)
        except ConvergenceError as error:
            iterations += error.iterations
            first = first or error
            continue
        return states, accuracy_m, replace(effort, iterations=effort.iterations + iterations)
    if first is None:
        raise ConvergenceError("boundary-value problem", float("nan"), 0.0, iterations)
    raise first


def _follow(
    problem: BoundaryValueProblem, route: str, fractions: Callable[[float], tuple[float, float]], *, guarded: bool
) -> tuple[Vector, _Effort]:
    """States along a route from rest to the full load.

    The whole of it is tried first; ``guarded``, in short steps, and no step goes from a stable state to an unstable one
    while shorter ones do not.
    """
    longest_step = _LONGEST_SLOW_STEP if guarded else 1.0
    states, done, step = problem.rest(), 0.0, longest_step
    before: tuple[float, Vector] | None = None
    residual, iterations, steps = 0.0, 0, 0
    while done < 1:
        desired = min(1.0, done + step)
        guess = states
        if before is not None:
            guess = states + (desired - done) / (done - before[0]) * (states - before[1])
        failed: ConvergenceError | None = None
        try:
            found, size, spent = problem.newton(guess, fractions(desired), _NEWTON_ITERATIONS)
            turned = 2 * float(np.abs(found[:, 3:7] - states[:, 3:7]).max())
            if turned > _LARGEST_TURN_RAD:
                failed = ConvergenceError("turn of the rod in a load step", turned, _LARGEST_TURN_RAD, spent)
            elif guarded:
                unstable = stability(problem, found, fractions(desired)).unstable_directions > 0
                if unstable and step > _SMALLEST_GUARDED_STEP:
                    failed = ConvergenceError("stability lost in a load step", float("nan"), 0.0, spent)
                guarded = not unstable or failed is not None
        except ConvergenceError as error:
            failed, spent = error, error.iterations
        iterations += spent
        if failed is None:
            before, states, residual = (done, states), found, size
            done, steps = desired, steps + 1
            if spent <= _FAST_ITERATIONS:
                step = min(2 * step, longest_step)
            continue
        step /= 2
        if step < _SMALLEST_LOAD_STEP:
            raise ConvergenceError(
                f"no static shape found beyond {100 * done:.4g} % of the load",
                failed.residual,
                failed.tolerance,
                iterations,
            ) from failed
    return states, _Effort(residual, iterations, steps, route)


def _rotation(quaternion: Vector) -> Vector:
    return so3.matrix_from_quaternion(quaternion / np.linalg.norm(quaternion))


def _tendon_stretch(link: Step, end: int, state: Vector) -> Vector:
    """|p_i'| of each tendon at the beginning (0) or end (-1) of a step, rucker (14); 0 where it does not run."""
    v = link.section[6:9] + state[7:10] / link.section[:3]
    u = link.section[9:12] + state[10:] / link.section[3:6]
    routing = link.routing[end].reshape(-1, ROUTING)
    zero = np.zeros(len(routing))
    r, r_1 = np.column_stack([routing[:, :2], zero]), np.column_stack([routing[:, 2:4], zero])
    return np.where(link.running, np.linalg.norm(np.cross(u, r) + r_1 + v, axis=1), 0.0)
