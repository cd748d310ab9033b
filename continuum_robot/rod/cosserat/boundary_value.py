# SPDX-License-Identifier: Apache-2.0
"""The two-point boundary-value problem by multiple shooting: rucker (16) between cuts, (18) to (20) at them.

Unknown are the states at all nodes. Between neighbours stands one integration step, or, where a tendon ends or begins,
its slope or the section jumps, or a point load acts, the balance across a cut: position and rotation go on, and

    n + sum tau t |minus = n + sum tau t |plus + F,    m + sum tau r x t |minus = m + sum tau r x t |plus + L

over the tendons on either side, t their unit tangents in the state of that side. A tendon that ends puts (18), (19) on
the rod; one that goes on puts tau (t_plus - t_minus) there, which (20) leaves out.

Stability and the compliance of the tip follow from the second variation of the energy. Between neighbouring nodes the
step's sensitivities, written in pose and total wrench (rod and tendons together), give the stiffness matrix of that
stretch. Their sum is the Hessian of the energy over the poses of the nodes, all else relaxed. As short stretches with
both ends held do not buckle, its negative eigenvalues count those of the rod. Derived here; the compliance is checked
against differences of solutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, solve_banded

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import se3, so3
from continuum_robot.rod.cosserat import equations
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.cosserat.equations import (
    LOADS,
    POINT_LOADS,
    ROUTING,
    STAGE_FRACTIONS,
    STATE,
    Cut,
    Jump,
    Step,
    breaks_m,
)
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench

Vector = NDArray[np.float64]

MODELS = ("coupled", "point_moment")
_POSE = 7
_LOWER, _UPPER = _POSE + STATE - 1, 2 * STATE - 1 - _POSE
_RESIDUAL_TOLERANCE = 1e-10
_CORRECTION_TOLERANCE = 1e-7
_SMALLEST_FRACTION = 1 / 32


class BoundaryValueProblem:
    """The problem on a grid, for fractions of the tensions and of the loads.

    Parameters
    ----------
    model : "coupled", or "point_moment" for rucker's comparison without the tendons' distributed load
    """

    def __init__(
        self,
        rod: CosseratRod,
        tension_n: Vector,
        loads: Sequence[Load],
        *,
        model: str,
        junction_load: bool,
        intervals: int,
    ) -> None:
        loads = rod.with_weight(loads)
        self.rod, self.tension_n, self.loads = rod, tension_n, loads
        self.points = tuple(load for load in loads if isinstance(load, PointWrench))
        self.spread = tuple(load for load in loads if isinstance(load, DistributedLoad))
        self.coupling = 1.0 if model == "coupled" else 0.0
        self.junction_load = junction_load and model == "coupled"
        self._breaks_m = breaks_m(rod, loads)
        longest_m = rod.length_m / intervals
        counts = np.maximum(1, np.ceil(np.diff(self._breaks_m) / longest_m - 1e-9).astype(int))
        self._stretches = [
            np.linspace(a, b, count + 1) for (a, b), count in zip(pairwise(self._breaks_m), counts, strict=True)
        ]
        bending_nm = float(np.mean([section.bending_torsion_nm2[:2] for section in rod.sections])) / rod.length_m
        self._scale = np.concatenate(
            [
                np.full(3, rod.length_m),
                np.ones(4),
                np.full(3, bending_nm / rod.length_m),
                np.full(3, bending_nm),
            ]
        )
        self._lay_out()

    def _lay_out(self) -> None:
        links: list[Step | Jump] = []
        for index, nodes in enumerate(self._stretches):
            if index:
                links.append(self._jump(index))
            links += [self._step(index, float(a), float(b)) for a, b in pairwise(nodes)]
        self.links = tuple(links)
        jumps = {k: link for k, link in enumerate(links) if isinstance(link, Jump)}
        self._jumps, self._cuts = list(jumps), [cut for jump in jumps.values() for cut in (jump.before, jump.after)]
        self.step_links = np.array([k for k, link in enumerate(links) if isinstance(link, Step)])
        self.all_steps = [link for link in links if isinstance(link, Step)]
        self._stacked, self._found = _stacked(self.all_steps), (b"", (0.0, 0.0), (np.zeros(0),) * 3)
        self.nodes_m = np.concatenate(self._stretches)
        self.tip = self._side(len(self._stretches) - 1, self._breaks_m[-1], np.zeros(len(self.rod.tendons), bool), True)
        k = np.arange(len(links))[:, None, None]
        a, b = np.arange(STATE)[None, :, None], np.arange(2 * STATE)[None, None, :]
        self._rows = np.broadcast_to(_UPPER + _POSE + a - b, (len(links), STATE, 2 * STATE))
        self._columns = np.broadcast_to(STATE * k + b, self._rows.shape)

    def _section(self, stretch: int) -> int:
        middle_m = (self._breaks_m[stretch] + self._breaks_m[stretch + 1]) / 2
        return int(np.searchsorted(self.rod.section_ends_m, middle_m))

    def _running(self, stretch: int) -> NDArray[np.bool_]:
        ends = self._breaks_m[stretch], self._breaks_m[stretch + 1]
        return np.array([tendon.runs_between(*ends) for tendon in self.rod.tendons], dtype=bool)

    def _routing(self, s_m: Vector, stretch: int) -> Vector:
        """Shape (k, 6 tendons); zero, which is on the backbone, where a tendon does not run."""
        inside_m = (self._breaks_m[stretch] + self._breaks_m[stretch + 1]) / 2
        result = np.zeros((len(s_m), ROUTING * len(self.rod.tendons)))
        for j in np.flatnonzero(self._running(stretch)):
            result[:, ROUTING * j : ROUTING * (j + 1)] = self.rod.tendons[j].path.at(s_m, inside_m)
        if not np.all(np.isfinite(result)):
            raise ParameterError("tendon path", "not finite", f"a path that is defined between 0 and {s_m[-1]:.6g} m")
        return result

    def _step(self, stretch: int, a_m: float, b_m: float) -> Step:
        section = self.rod.sections[self._section(stretch)]
        s_m = a_m + (b_m - a_m) * np.array(STAGE_FRACTIONS)
        loads = np.zeros((len(s_m), LOADS))
        for load in self.spread:
            end_m = self.rod.length_m if load.end_m is None else load.end_m
            if load.start_m < (a_m + b_m) / 2 < end_m:
                column = 0 if load.frame == "base" else 6
                loads[:, column : column + 6] += [np.concatenate(load.at(float(s))) for s in s_m]
        if not np.all(np.isfinite(loads)):
            raise ParameterError("distributed load", "not finite", f"finite numbers from {a_m:.6g} to {b_m:.6g} m")
        return Step(
            a_m,
            b_m - a_m,
            section.parameters,
            self._running(stretch),
            np.where(self._running(stretch), self.tension_n, 0.0),
            self._routing(s_m, stretch),
            loads,
        )

    def _side(self, stretch: int, place_m: float, others: NDArray[np.bool_], loaded: bool) -> Cut:
        """The side of a cut that lies in a stretch; ``others``: which tendons run on its other side."""
        running = self._running(stretch)
        ending = running & ~others
        force = running if self.junction_load else ending
        load = np.zeros(POINT_LOADS)
        for point in self.points_at(place_m) if loaded else ():
            column = 0 if point.frame == "base" else 6
            load[column : column + 6] += [*point.force_n, *point.moment_nm]
            if point.frame == "base":
                load[LOADS:] += np.outer(point.offset_m, point.force_n).ravel()
            else:
                load[9:12] += np.cross(point.offset_m, point.force_n)
        return Cut(
            self.rod.sections[self._section(stretch)].parameters,
            np.where(force, self.coupling * self.tension_n, 0.0),
            np.where(force, self.tension_n, 0.0),
            self._routing(np.array([place_m]), stretch)[0],
            load,
        )

    def _jump(self, stretch: int) -> Jump:
        place_m = float(self._breaks_m[stretch])
        before, after = self._running(stretch - 1), self._running(stretch)
        return Jump(place_m, self._side(stretch - 1, place_m, after, True), self._side(stretch, place_m, before, False))

    def points_at(self, place_m: float) -> list[PointWrench]:
        """The point loads at a place."""
        return [point for point in self.points if abs(point.s_m - place_m) < 1e-9 * self.rod.length_m]

    @property
    def follows_body(self) -> bool:
        """Whether a load turns with the rod: then there is no potential."""
        return any(load.frame == "body" for load in self.loads)

    @property
    def has_moments(self) -> bool:
        """Whether moments act from outside: one that is constant in base axes has no potential either."""
        return any(np.any(point.moment_nm) for point in self.points) or any(
            callable(load.moment_n) or np.any(load.moment_n) for load in self.spread
        )

    def rest(self) -> Vector:
        """States of the rod without tendons and loads, shape (k, 13)."""
        states = np.zeros((len(self.nodes_m), STATE))
        pose = np.array(self.rod.base_pose)
        for k, link in enumerate((*self.links, None)):
            states[k, :3], states[k, 3:_POSE] = pose[:3, 3], so3.quaternion_from_matrix(pose[:3, :3])
            if k and states[k, 3:_POSE] @ states[k - 1, 3:_POSE] < 0:
                states[k, 3:_POSE] *= -1
            if isinstance(link, Step):
                pose = pose @ se3.exp(link.length_m * link.section[6:])
        return states

    def steps(self, states: Vector, fractions: tuple[float, float]) -> tuple[Vector, Vector, Vector]:
        """States at the ends of all steps of the grid, their Jacobians and local errors; the latest are kept.

        Parameters
        ----------
        states : y at the steps' beginnings, shape (k, 13): m, quaternion, N, N.m
        """
        key = states.tobytes()
        if self._found[:2] != (key, fractions):
            length_m, section, tension, routing, loads = self._stacked
            pull = self.coupling * fractions[0] * tension
            ends = equations.step(states, length_m, section, pull, routing, fractions[1] * loads)
            self._found = key, fractions, ends
        return self._found[2]

    def ends(self, steps: Sequence[Step], states: Vector) -> Vector:
        """States at the ends of any steps under the full tensions and loads, (k, 13)."""
        length_m, section, tension, routing, loads = _stacked(steps)
        return equations.step(states, length_m, section, self.coupling * tension, routing, loads, sensitive=False)[0]

    def wrenches(self, cuts: Sequence[Cut], states: Vector, fractions: tuple[float, float]) -> tuple[Vector, Vector]:
        """Wrenches that sides of cuts bear, body axes, (k, 6), and their Jacobians (k, 6, 13).

        Parameters
        ----------
        states : y at the cuts, shape (k, 13): m, quaternion, N, N.m
        """
        names = ("section", "tension_force", "tension_moment", "routing", "load")
        section, force, moment, routing, load = (np.array([getattr(cut, name) for cut in cuts]) for name in names)
        return equations.wrench(
            states, section, fractions[0] * force, fractions[0] * moment, routing, fractions[1] * load
        )

    def bearing(self, step: Step, end: int) -> Cut:
        """Rod and tendons at the first (0) or last (-1) cross-section of a step, without a point load."""
        tension = self.coupling * step.tension
        return Cut(step.section, tension, tension, step.routing[end], np.zeros(POINT_LOADS))

    def equations(self, states: Vector, fractions: tuple[float, float]) -> tuple[Vector, Vector]:
        """What the states leave unfulfilled, and its Jacobian as a band matrix.

        Parameters
        ----------
        states : shape (k, 13), each position (m), quaternion, force (N), moment (N.m)
        """
        start = self._base_pose(states)
        blocks = np.zeros((len(self.links), STATE, 2 * STATE))
        links = np.zeros((len(self.links), STATE))
        at, jumps = self.step_links, np.array(self._jumps, dtype=int)
        ends, blocks[at, :, :STATE], _ = self.steps(states[at], fractions)
        links[at], blocks[at, :, STATE:] = ends - states[at + 1], -np.eye(STATE)
        sides = np.append(np.column_stack([jumps, jumps + 1]).ravel(), len(states) - 1)
        wrenches, jacobians = self.wrenches([*self._cuts, self.tip], states[sides], fractions)
        links[jumps, :_POSE] = states[jumps, :_POSE] - states[jumps + 1, :_POSE]
        blocks[jumps, :_POSE, :_POSE] = np.eye(_POSE)
        blocks[jumps, :_POSE, STATE : STATE + _POSE] = -np.eye(_POSE)
        links[jumps, _POSE:] = wrenches[:-1:2] - wrenches[1:-1:2]
        blocks[jumps, _POSE:, :STATE], blocks[jumps, _POSE:, STATE:] = jacobians[:-1:2], -jacobians[1:-1:2]
        tip, tip_jacobian = wrenches[-1], jacobians[-1]
        size = states.size
        band = np.zeros((_LOWER + _UPPER + 1, size))
        band[_UPPER, :_POSE] = 1.0
        band[self._rows, self._columns] = blocks
        rows, columns = np.mgrid[size - 6 : size, size - STATE : size]
        band[_UPPER + rows - columns, columns] = tip_jacobian
        return np.concatenate([start, links.ravel(), tip]), band

    def _base_pose(self, states: Vector) -> Vector:
        pose = np.array(self.rod.base_pose)
        desired = np.concatenate([pose[:3, 3], so3.quaternion_from_matrix(pose[:3, :3])])
        return states[0, :_POSE] - desired

    def _scales(self, states: Vector) -> tuple[Vector, Vector]:
        """Sizes of unknowns and of equations; forces far above those that bend the rod round off by their own size."""
        unknown = self._scale.copy()
        unknown[_POSE : _POSE + 3] = np.maximum(unknown[_POSE : _POSE + 3], 1e-3 * np.abs(states[:, 7:10]).max())
        unknown[10:] = np.maximum(unknown[10:], 1e-3 * np.abs(states[:, 10:]).max())
        equation = np.concatenate([unknown[:_POSE], np.tile(unknown, len(self.links)), unknown[_POSE:]])
        return np.tile(unknown, len(states)), equation

    def newton(self, states: Vector, fractions: tuple[float, float], iterations: int) -> tuple[Vector, float, int]:
        """Newton's method with backtracking.

        Parameters
        ----------
        states : first guess, shape (k, 13), each position (m), quaternion, force (N), moment (N.m)
        """
        unknown, equation = self._scales(states)
        residual, band = self.equations(states, fractions)
        size = float(np.abs(residual / equation).max())
        for iteration in range(1, iterations + 1):
            correction = self.correction(band, residual)
            fraction = min(
                1.0, 1.0 / max(1e-300, float(np.abs(correction / unknown.reshape(states.shape))[:, 3:7].max()))
            )
            moved = float(np.abs(correction.ravel() / unknown).max())
            while True:
                trial = states - fraction * correction
                trial_residual, trial_band = self.equations(trial, fractions)
                trial_size = float(np.abs(trial_residual / equation).max())
                if trial_size <= (1 - 0.1 * fraction) * size or trial_size < _RESIDUAL_TOLERANCE:
                    break
                fraction /= 2
                if fraction < _SMALLEST_FRACTION or not np.isfinite(size):
                    raise ConvergenceError("boundary-value problem", size, _RESIDUAL_TOLERANCE, iteration)
            states, residual, band, size = trial, trial_residual, trial_band, trial_size
            if size < _RESIDUAL_TOLERANCE and moved < _CORRECTION_TOLERANCE:
                return states, size, iteration
        raise ConvergenceError("boundary-value problem", size, _RESIDUAL_TOLERANCE, iterations)

    def correction(self, band: Vector, residual: Vector) -> Vector:
        """Solution of the linear system, shape (k, 13).

        Parameters
        ----------
        band : the matrix of :meth:`equations`, shape (bands, 13 k)
        residual : what the states leave unfulfilled, shape (13 k,), as of :meth:`equations`
        """
        try:
            solution = solve_banded((_LOWER, _UPPER), band, residual)
        except (LinAlgError, ValueError) as error:
            raise ConvergenceError(
                f"boundary-value problem, singular Jacobian ({error})", float("nan"), _RESIDUAL_TOLERANCE, 0
            ) from error
        return solution.reshape(-1, STATE)

    def check_strain(self, states: Vector) -> None:
        """Refuse a solution of the linear law (4) beyond what a rod can do.

        Parameters
        ----------
        states : shape (k, 13), each position (m), quaternion, force (N), moment (N.m)
        """
        for k, link in zip(self.step_links, self.all_steps, strict=True):
            stretch = link.section[8] + states[k : k + 2, 9] / link.section[2]
            if stretch.min() <= 0:
                raise ParameterError(
                    f"stretch of the rod at {link.start_m:.4g} m",
                    float(stretch.min()),
                    "positive: the loads compress the rod to nothing",
                )

    def integration_error(self, states: Vector) -> tuple[float, Vector]:
        """What the steps' local errors do to the solution.

        Parameters
        ----------
        states : solution under the full tensions and loads, shape (k, 13), as of :meth:`equations`

        Returns
        -------
        largest displacement of a node, m; and for each link the size of its local error, scaled, shape (k - 1,)
        """
        fractions = (1.0, 1.0)
        unknown, _ = self._scales(states)
        local = np.zeros((len(self.links), STATE))
        fifth, third = np.moveaxis(self.steps(states[self.step_links], fractions)[2], 2, 0)
        norms = [np.linalg.norm(one / unknown[:STATE], axis=1) for one in (fifth, third)]
        local[self.step_links] = fifth * (norms[0] / np.maximum(1e-300, np.hypot(norms[0], 0.1 * norms[1])))[:, None]
        _, band = self.equations(states, fractions)
        moved = self.correction(band, np.concatenate([np.zeros(_POSE), local.ravel(), np.zeros(6)]))
        sizes = np.linalg.norm(local / unknown[:STATE], axis=1)
        return float(np.linalg.norm(moved[:, :3], axis=1).max()), sizes

    def refine(self, states: Vector, halved: NDArray[np.bool_]) -> Vector:
        """Halve the steps of some links; returns states on the new grid.

        Parameters
        ----------
        states : on the grid as it is, shape (k, 13), as of :meth:`equations`
        halved : which links, shape (k - 1,)

        Returns
        -------
        shape (more, 13)
        """
        refined, stretches, nodes = [states[0]], [], [self.nodes_m[0]]
        halves, places = [], []
        for k, link in enumerate(self.links):
            if isinstance(link, Jump):
                stretches.append(np.array(nodes))
                nodes = []
            elif halved[k]:
                middle_m = link.start_m + link.length_m / 2
                halves.append(self._step(len(stretches), link.start_m, middle_m))
                places.append((len(refined), k))
                refined.append(states[k])
                nodes.append(middle_m)
            refined.append(states[k + 1])
            nodes.append(self.nodes_m[k + 1])
        found = np.array(refined)
        if halves:
            to, begins = np.array(places).T
            found[to] = self.ends(halves, states[begins])
        self._stretches = [*stretches, np.array(nodes)]
        self._lay_out()
        return found

    def adopt_grid(self, other: BoundaryValueProblem) -> None:
        """Take the grid of a problem for the same rod."""
        if not np.array_equal(self._breaks_m, other._breaks_m):
            raise ParameterError("start", other._breaks_m.tolist(), f"jumps at {self._breaks_m.tolist()} m")
        self._stretches = other._stretches
        self._lay_out()

    def partial_step(self, s_m: float) -> tuple[int, Step | None]:
        """Index of the last state at or before an arc length, and the step from there to it, None for none."""
        index = int(np.searchsorted(self.nodes_m, s_m, side="right")) - 1
        rest_m = s_m - float(self.nodes_m[index])
        if rest_m < 1e-12 * self.rod.length_m:
            return index, None
        stretch = int(np.searchsorted(self._breaks_m, s_m)) - 1
        return index, self._step(stretch, float(self.nodes_m[index]), s_m)


def _stacked(steps: Sequence[Step]) -> tuple[Vector, ...]:
    names = ("length_m", "section", "tension", "routing", "loads")
    return tuple(np.array([getattr(one, name) for one in steps], dtype=float) for name in names)


@dataclass(frozen=True, slots=True)
class Stability:
    """Stability by the second variation."""

    unstable_directions: int
    tip_compliance: Vector


def stability(problem: BoundaryValueProblem, states: Vector, fractions: tuple[float, float] = (1.0, 1.0)) -> Stability:
    """Second variation at a solution of the coupled model.

    Parameters
    ----------
    states : its solution, shape (k, 13), as of :meth:`BoundaryValueProblem.equations`
    """
    node = np.cumsum([0, *(isinstance(link, Step) for link in problem.links)])  # both sides of a jump share a pose
    size = 6 * (int(node[-1]) + 1)
    stiffness = np.zeros((size, size))
    at, steps = problem.step_links, problem.all_steps
    jacobians = problem.steps(states[at], fractions)[1]
    to_states = _canonical(problem, steps, 0, states[at], fractions)
    from_states = _canonical(problem, steps, -1, states[at + 1], fractions)
    for k, jacobian, (_, to_state), (from_state, _) in zip(at, jacobians, to_states, from_states, strict=True):
        transition = from_state @ jacobian @ to_state
        a, b, c, d = transition[:6, :6], transition[:6, 6:], transition[6:, :6], transition[6:, 6:]
        inverse = np.linalg.inv(b)
        block = np.block([[inverse @ a, -inverse], [c - d @ inverse @ a, d @ inverse]])
        place = slice(6 * int(node[k]), 6 * int(node[k]) + 12)
        stiffness[place, place] += block
    for k, number in enumerate(node):
        if k == len(node) - 1 or not isinstance(problem.links[k], Step):
            turning = slice(6 * int(number) + 3, 6 * int(number) + 6)
            stiffness[turning, turning] -= fractions[1] * _turning_loads(problem, float(problem.nodes_m[k]), states[k])
    stiffness = stiffness[6:, 6:]  # the base is clamped
    scale = np.tile(np.repeat([problem.rod.length_m, 1.0], 3), len(stiffness) // 6)
    scaled = scale[:, None] * stiffness * scale
    symmetric = (scaled + scaled.T) / 2
    largest = float(np.abs(symmetric).max())
    negative = int(np.sum(np.linalg.eigvalsh(symmetric) < -1e-14 * largest))
    unit = np.zeros((len(stiffness), 6))
    unit[-6:] = np.eye(6)
    try:
        compliance: Vector = np.linalg.solve(stiffness, unit)[-6:].astype(float)
    except np.linalg.LinAlgError:
        compliance = np.full((6, 6), np.inf)
    return Stability(negative, compliance)


def _canonical(
    problem: BoundaryValueProblem, steps: Sequence[Step], end: int, states: Vector, fractions: tuple[float, float]
) -> list[tuple[Vector, Vector]]:
    """Of each: change of pose and total wrench per change of state (12, 13), and the reverse (13, 12); base axes."""
    found = problem.wrenches([problem.bearing(one, end) for one in steps], states, fractions)
    return [_changes(*one) for one in zip(*found, states, strict=True)]


def _changes(wrench: Vector, jacobian: Vector, state: Vector) -> tuple[Vector, Vector]:
    rotation = so3.matrix_from_quaternion(state[3:7] / np.linalg.norm(state[3:7]))
    both = np.kron(np.eye(2), rotation)
    total = both @ wrench
    turning = -np.vstack([so3.hat(total[:3]), so3.hat(total[3:])])  # a turn of the cut turns what it bears
    w, x, y, z = state[3:7]
    # q' = (0, turn) q / 2, turn in base axes
    spin = np.array([[-x, -y, -z], [w, z, -y], [-z, w, x], [y, -x, w]]) / 2
    inner = jacobian[:, 7:]
    forward, backward = np.zeros((12, STATE)), np.zeros((STATE, 12))
    forward[:3, :3] = np.eye(3)
    forward[3:6, 3:7] = 4 * spin.T
    forward[6:, 3:7] = turning @ forward[3:6, 3:7]
    forward[6:, 7:] = both @ inner
    backward[:3, :3] = np.eye(3)
    backward[3:7, 3:6] = spin
    solved = np.linalg.solve(inner, both.T)
    backward[7:, 6:] = solved
    backward[7:, 3:6] = -solved @ turning
    return forward, backward


def _turning_loads(problem: BoundaryValueProblem, place_m: float, state: Vector) -> Vector:
    """Change of the moment of forces that act off the backbone per turn of it, (3, 3), base axes."""
    rotation = so3.matrix_from_quaternion(state[3:7] / np.linalg.norm(state[3:7]))
    change = np.zeros((3, 3))
    for point in problem.points_at(place_m):
        change += so3.hat(point.force_n) @ so3.hat(rotation @ np.array(point.offset_m))
    return change
