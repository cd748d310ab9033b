# SPDX-License-Identifier: Apache-2.0
"""Equilibrium under given tensions: Newton with line search, continuation in the loads, and a search of all poses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.rolling_joint import recursion
from continuum_robot.mechanisms.rolling_joint.exclusion import remainder
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.loads import Load, is_conservative, load_matrix
from continuum_robot.mechanisms.rolling_joint.problems import NoEquilibriumError

Array = NDArray[np.float64]

TOLERANCE = 1e-12
"""Of the moment left on each link, relative to the sum of tensions and loads times the size of a link."""
_ITERATIONS = 60
_HALVINGS = 30
_DECREASE = 1e-4
_INSIDE = 0.9
_STEPS_OF_LOAD = 8
_SMALLEST_STEP = 1e-4
_PROVABLE_JOINTS = 12
_ALIKE_M = 1e-7
_STARTS = 200
_NO_FORCE = 1e-4  # of the largest force


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """A pose in equilibrium.

    Attributes
    ----------
    contact_m : arc length of each joint's contact, shape (n - 1,), m
    poses : x (m), y (m), angle (rad) of every link, shape (n, 3)
    contact_force_n : force on link k + 1 from link k in the contact frame of link k + 1 (x tangent, y normal),
        shape (n - 1, 2), N
    tension_n : of the left and the right tendon where they are pulled, shape (2,), N
    gap_tension_n : tension of both tendons between the links, shape (n - 1, 2), N; less than that by friction
    tendon_length_m : shape (2,), m
    residual : largest moment left on a link, as a fraction of the sum of tensions and loads times the size of a link
    iterations : of Newton's method
    stable : whether the pose is a minimum of the potential, judged by the pivots of the recursion
    lifted_joints : joints, from 1, whose contact would have to pull
    """

    contact_m: Array
    poses: Array
    contact_force_n: Array
    tension_n: Array
    gap_tension_n: Array
    tendon_length_m: Array
    residual: float
    iterations: int
    stable: bool
    lifted_joints: tuple[int, ...]

    @property
    def needed_friction(self) -> float:
        """Least friction coefficient of the surfaces with which no contact slips; infinite where one is lifted."""
        tangential, normal = np.abs(self.contact_force_n[:, 0]), self.contact_force_n[:, 1]
        return float(np.max(tangential / normal)) if np.all(normal > 0) else float("inf")

    def slipping_joints(self, friction_coefficient: float) -> tuple[int, ...]:
        """Joints, from 1, whose contact force is outside of the friction cone of a coefficient, lifted ones too.

        Parameters
        ----------
        friction_coefficient : of the surfaces, dimensionless
        """
        tangential, normal = np.abs(self.contact_force_n[:, 0]), self.contact_force_n[:, 1]
        return tuple(int(k) + 1 for k in np.nonzero(tangential > friction_coefficient * normal)[0])


class Step(NamedTuple):
    """One evaluation of the recursion at a pose: see :func:`recursion.functions`.

    Attributes
    ----------
    moments, steps, force, poses, gaps, gap_slopes, pivots, potential : as of :func:`recursion.functions`
    """

    moments: Array
    steps: Array
    force: Array
    poses: Array
    gaps: Array
    gap_slopes: Array
    pivots: Array
    potential: float


class RollingStatics:
    """Solves a mechanism.

    Parameters
    ----------
    linkage : the mechanism
    compile, progress : as in :func:`recursion.functions`

    Attributes
    ----------
    linkage : as given
    """

    def __init__(
        self, linkage: Linkage, *, compile: str = "auto", progress: Callable[[str], None] | None = None
    ) -> None:
        self.linkage = linkage
        self._function = recursion.functions(linkage.joint_count, compile, progress).clone()
        self._entries = linkage.entries_m.T.ravel()
        self._low, self._high = linkage.limits_m.T.copy()

    def evaluate(self, contact_m: Array, tension_n: Array, weights: ArrayLike, loads: Array, base: ArrayLike) -> Step:
        """Residual and Newton step at a pose, without checks.

        Parameters
        ----------
        contact_m : shape (n - 1,), m
        tension_n : shape (2,), N
        weights : ratio of the tension between the links to ``tension_n``, shape (2, n - 1), or 1; for tendons with
            friction
        loads : matrix of :func:`load_matrix`
        base : pose of link 1: x (m), y (m), angle (rad)
        """
        return self.evaluate_frames(self.linkage.frames(contact_m), tension_n, weights, loads, base)

    def evaluate_frames(
        self, frames: Array, tension_n: Array, weights: ArrayLike, loads: Array, base: ArrayLike
    ) -> Step:
        """The same as :meth:`evaluate` where the contact frames are known.

        Parameters
        ----------
        frames : as :meth:`Linkage.frames` gives them, shape (8, n - 1)
        tension_n, weights, loads, base : as in :meth:`evaluate`
        """
        spread = weights if np.ndim(weights) == 0 else np.asarray(weights).T.ravel()
        values = self._function(frames.T.ravel(), self._entries, spread, loads.T.ravel(), tension_n, base)
        moments, steps, force, poses, gaps, gap_slopes, pivots, potential = values
        return Step(moments, steps, force, poses, gaps, gap_slopes, pivots, potential[0])

    def solve_tension(
        self,
        tension_n: ArrayLike,
        loads: Sequence[Load] = (),
        *,
        base: ArrayLike = (0.0, 0.0, 0.0),
        start_m: ArrayLike | None = None,
        weights: ArrayLike = 1.0,
        exhaustive: bool = True,
    ) -> Equilibrium:
        """The equilibrium that the mechanism takes as the loads grow from nothing.

        Newton's method starts at ``start_m``, else at the straight pose. Where it fails or finds a pose that is not
        stable, the loads are raised step by step from the unloaded pose; where that ends too, all poses are searched.

        Parameters
        ----------
        tension_n : of the left and the right tendon, shape (2,), N; none negative, not both zero
        loads : on any links
        base : pose of link 1: x (m), y (m), angle (rad)
        start_m : arc lengths of a pose near by, shape (n - 1,), m
        weights : ratio of the tension between the links to ``tension_n``, shape (2, n - 1), or 1; for tendons with
            friction
        exhaustive : search all poses at the end; it takes some tenths of a second

        Returns
        -------
        the equilibrium

        Raises
        ------
        ParameterError : tensions, loads or base that cannot be used
        OffSurfaceError : a start that is not on the surfaces
        NoEquilibriumError : there is none within the surfaces
        ConvergenceError : none was found, and it was not proved either that there is none
        """
        tension = check_tension(tension_n)
        matrix = load_matrix(loads, self.linkage.joint_count + 1)
        place = np.asarray(base, dtype=float)
        if place.shape != (3,) or not np.all(np.isfinite(place)):
            raise ParameterError("base", base, "x (m), y (m), angle (rad), finite")
        start = np.zeros(self.linkage.joint_count) if start_m is None else self.linkage.check_contacts(start_m)
        found = self._newton(start, tension, weights, matrix, place)
        if not found.settled:
            found = self._continued(found, tension, weights, matrix, place)
        if not found.settled:
            if not exhaustive or self.linkage.joint_count > _PROVABLE_JOINTS:
                raise ConvergenceError("equilibrium of the rolling joints", found.residual, TOLERANCE, found.iterations)
            found = self._searched(found, tension, weights, matrix, place)
        return self._result(found, tension, weights, place)

    def all_equilibria(
        self, tension_n: ArrayLike, loads: Sequence[Load] = (), *, base: ArrayLike = (0.0, 0.0, 0.0)
    ) -> list[Equilibrium]:
        """Every equilibrium within the surfaces, the one of least potential first where there is a potential.

        Parameters
        ----------
        tension_n, loads, base : as in :meth:`solve_tension`

        Raises
        ------
        ParameterError : tensions or loads that cannot be used
        """
        tension = check_tension(tension_n)
        matrix = load_matrix(loads, self.linkage.joint_count + 1)
        place = np.asarray(base, dtype=float)
        found, _ = self._all(tension, 1.0, matrix, place)
        return [self._result(one, tension, 1.0, place) for one in found]

    def _newton(self, start: Array, tension: Array, weights: ArrayLike, loads: Array, base: Array) -> _Found:
        low, high = self._low, self._high
        scale = self.linkage.size_m * (float(tension.sum()) + float(np.abs(loads[[0, 1, 6, 7]]).sum()))
        scale += float(np.abs(loads[[2, 5]]).sum())
        tolerance = TOLERANCE * scale
        contact = start
        step = self.evaluate(contact, tension, weights, loads, base)
        worst = float(np.abs(step.moments).max())
        iterations = 0
        while worst > tolerance and iterations < _ITERATIONS:
            iterations += 1
            direction = step.steps[:, 0]
            room = np.where(direction > 0, high - contact, contact - low)
            reach = float((np.abs(direction) / np.maximum(room, 1e-300)).max())
            if not np.isfinite(reach):
                break
            fraction = 1.0 if reach < _INSIDE else _INSIDE / reach
            merit = float(step.moments @ step.moments)
            for _ in range(_HALVINGS):
                trial = contact + fraction * direction
                tried = self.evaluate(trial, tension, weights, loads, base)
                if float(tried.moments @ tried.moments) <= (1 - _DECREASE * fraction) * merit:
                    break
                fraction /= 2
            else:
                break
            contact, step = trial, tried
            worst = float(np.abs(step.moments).max())
        return _Found(contact, step, worst / scale, iterations)

    def _continued(self, failed: _Found, tension: Array, weights: ArrayLike, loads: Array, base: Array) -> _Found:
        """Raise the loads in steps from the unloaded pose; gives up at a fold or at the end of a surface."""
        now = self._newton(np.zeros(self.linkage.joint_count), tension, weights, np.zeros(loads.shape), base)
        iterations, done, width = failed.iterations + now.iterations, 0.0, 1 / _STEPS_OF_LOAD
        while now.settled and done < 1.0 and width > _SMALLEST_STEP:
            ahead = min(1.0, done + width)
            tried = self._newton(now.contact, tension, weights, ahead * loads, base)
            iterations += tried.iterations
            if tried.settled:
                now, done, width = tried, ahead, 2 * width
            else:
                width /= 4
        end = now if done == 1.0 else failed
        return end._replace(iterations=iterations)

    def _searched(self, failed: _Found, tension: Array, weights: ArrayLike, loads: Array, base: Array) -> _Found:
        found, excluded = self._all(tension, weights, loads, base)
        if not found:
            if not excluded:
                raise ConvergenceError(
                    "equilibrium of the rolling joints", failed.residual, TOLERANCE, failed.iterations
                )
            raise self._rolled_off(failed, tension, weights, loads, base)
        stable = [one for one in found if one.settled]
        return (stable or found)[0]

    def _all(self, tension: Array, weights: ArrayLike, loads: Array, base: Array) -> tuple[list[_Found], bool]:
        """All equilibria, and whether everything else was excluded."""
        pull = np.broadcast_to(np.asarray(weights, dtype=float), (2, self.linkage.joint_count)) * tension[:, None]
        left = remainder(self.linkage, pull, loads, float(base[2]))
        found: list[_Found] = []
        tried = left.contact_m[:: max(1, len(left.contact_m) // _STARTS)]
        for contact in tried:
            one = self._newton(contact, tension, weights, loads, base)
            if one.converged and all(np.abs(one.contact - other.contact).max() > _ALIKE_M for other in found):
                found.append(one)
        return sorted(found, key=lambda one: one.step.potential), left.is_empty

    def _rolled_off(
        self, failed: _Found, tension: Array, weights: ArrayLike, loads: Array, base: Array
    ) -> NoEquilibriumError:
        """Which joint rolls off: the one that the least potential, or the failed iteration, left at an end."""
        contact = failed.contact
        if is_conservative(loads):

            def potential(s: Array) -> tuple[float, Array]:
                step = self.evaluate(s, tension, weights, loads, base)
                frames = self.linkage.frames(s)
                return float(step.potential), (frames[7] - frames[3]) * joint_moments(step.moments)

            scale = float(tension.sum()) * self.linkage.size_m
            contact = scipy.optimize.minimize(
                lambda x: tuple(np.asarray(value) / scale for value in potential(x)),
                failed.contact,
                jac=True,
                bounds=self.linkage.limits_m,
            ).x
        fraction = np.maximum(contact / self._high, contact / self._low)
        joint = int(np.argmax(fraction))
        end = self._high[joint] if contact[joint] > 0 else self._low[joint]
        return NoEquilibriumError(joint + 1, float(end), proved=True)

    def _result(self, found: _Found, tension: Array, weights: ArrayLike, base: Array) -> Equilibrium:
        step = found.step
        pull = np.broadcast_to(np.asarray(weights, dtype=float), (2, self.linkage.joint_count)) * tension[:, None]
        force = step.force.T
        # Where one tendon pulls alone, contacts lie at its holes and carry nothing: the sign of that is rounding.
        nothing = _NO_FORCE * (float(pull.sum(axis=0).max()) + float(np.abs(force).max()))
        return Equilibrium(
            found.contact,
            np.concatenate([base[None], step.poses.T]),
            force,
            tension,
            pull.T,
            self.linkage.channel_length_m + step.gaps.sum(axis=1),
            found.residual,
            found.iterations,
            bool(np.all(step.pivots > 0)),
            tuple(int(k) + 1 for k in np.nonzero(force[:, 1] < -nothing)[0]),
        )


class _Found(NamedTuple):
    """Where an iteration of Newton's method ended."""

    contact: Array
    step: Step
    residual: float
    iterations: int

    @property
    def converged(self) -> bool:
        return self.residual <= TOLERANCE

    @property
    def settled(self) -> bool:
        """Converged at a stable pose."""
        return self.converged and bool(np.all(self.step.pivots > 0))


def joint_moments(moments: Array) -> Array:
    """Moment about each contact of all that acts beyond it, from the moments left on the links; shape (n - 1,), N.m."""
    return np.asarray(np.cumsum(moments[::-1])[::-1])


def check_tension(tension_n: ArrayLike) -> Array:
    """Two tensions as an array; raises ParameterError unless they are finite, not negative, and not both zero.

    Returns
    -------
    shape (2,), N
    """
    tension = np.asarray(tension_n, dtype=float)
    if tension.shape != (2,) or not (min(tension) >= 0 and 0 < sum(tension) < np.inf):
        raise ParameterError("tension_n", tension_n, "two finite tensions, left and right, not negative, not both zero")
    return tension
