# SPDX-License-Identifier: Apache-2.0
"""Equilibrium under given tensions: Newton with line search, continuation in the loads, and a search from many starts.

The contact forces of ha (10) follow from the balance of forces, and the balance of moments of the links is left. With
the headings of the links as unknowns it is the slope of the potential, in which each joint depends on its lower and its
upper link alone: with its tendons' lengths l under the tensions T, its upper link's origin D from its lower one's, and
S, the sum of all forces beyond,

    v(lower, upper) = T . l(upper - lower) - S . D(lower, upper)

So its second derivatives are tridiagonal, and Newton's step costs as much a link in a long chain as in a short one.
It is the step of ha (14) to (27) without their 6 (n - 1) unknowns. Forces that turn with a link change S: above the
diagonal they add all links beyond. Derived here from ha (9) to (13).

The external wrench of ha (10), one at each link, keeps its direction in the world or turns with the link.
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError

Array = NDArray[np.float64]

TOLERANCE = 1e-12
"""Of the moment left on each link, relative to the sum of tensions and loads times the size of a link."""
STARTS = 60
"""Poses, spread over the surfaces, from which all equilibria are looked for."""
_ITERATIONS, _SEARCHING = 60, 20  # at most, the latter from each of many starts
_HALVINGS = 30
_DECREASE = 1e-4
_INSIDE = 0.9
_STEPS_OF_LOAD = 8
_SMALLEST_STEP = 1e-4
_ALIKE_M = 1e-7
_AT_THE_END = 0.99  # of the surface
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
    stable : whether the pose is a minimum of the potential; with forces that turn with their links, whether all minors
        of the moments' slopes, from the tip down, keep the sign that they have at a minimum
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
        """Joints, from 1, whose contact force is outside of the friction cone of a coefficient, lifted ones too."""
        tangential, normal = np.abs(self.contact_force_n[:, 0]), self.contact_force_n[:, 1]
        return tuple(int(k) + 1 for k in np.nonzero(tangential > friction_coefficient * normal)[0])


class Case(NamedTuple):
    """What acts on a mechanism.

    Attributes
    ----------
    pull_n : tensions between the links, shape (2, 1), or (2, n - 1) where friction takes from them, N
    loads : on the links
    base_rad : heading of link 1, rad
    scale_nm : moment to judge residuals by: tensions and forces at the size of a link, and moments, N.m
    """

    pull_n: Array
    loads: LinkLoads
    base_rad: float = 0.0
    scale_nm: float = 1.0


class Balance:
    """Moments on the links at a pose, and how they change with the links' headings.

    Parameters
    ----------
    contact_m : shape (n - 1,), m

    Attributes
    ----------
    force_n : sum of the loads beyond each joint, in the world, shape (n - 1,), N
    turn, lower_turn : exp(i heading) of the upper and of the lower link of each joint, shape (n - 1,)
    moment_nm : left on each of the links 2 ... n, shape (n - 1,), N.m: ha (10) where the contacts balance all forces
    """

    def __init__(self, linkage: Linkage, contact_m: Array, case: Case) -> None:
        self.contact_m, self.case = contact_m, case
        self.joints = joints = linkage.joints(contact_m)
        pull, loads = case.pull_n, case.loads
        turns = np.cumprod(np.concatenate([[cmath.rect(1.0, case.base_rad)], joints.turn]))
        self.turn, self.lower_turn = turns[1:], turns[:-1]
        self.force_n = (loads.world_n + self.turn * loads.body_n)[::-1].cumsum()[::-1]
        self._upper, self._lower = self.turn * joints.parent_m, self.lower_turn * joints.child_m
        # Of the forces beyond at the contact: real part along its place in the link, imaginary part moment about it.
        beyond = self.force_n.conj()
        on_upper, on_lower = beyond * self._upper, beyond * self._lower
        own = loads.lever_nm / self.turn  # (56)
        tendons = (pull * joints.levers_m).sum(axis=0)
        self.moment_nm = loads.moment_nm + own.imag - tendons + on_upper.imag
        self.moment_nm[:-1] += (tendons - on_lower.imag)[1:]
        rolling = self.lower_turn * joints.child_tangent * joints.rolled_m
        self._joint = (pull * joints.lever_slopes_m).sum(axis=0) - (beyond * rolling).imag
        self._link = self._joint + own.real - on_upper.real  # (60)
        self._link[:-1] += (self._joint + on_lower.real)[1:]
        self._beside = -self._joint[1:] if len(self._joint) > 1 else np.zeros(1)  # one entry at least, for LAPACK

    @property
    def contact_force_n(self) -> Array:
        """On the upper link of each joint, tangent and normal, which balances all forces: ha (10), shape (n - 1, 2)."""
        joints = self.joints
        tendons = self.lower_turn * (self.case.pull_n * joints.gaps_m / joints.lengths_m).sum(axis=0)
        force = (tendons - self.force_n) / (self.turn * joints.parent_tangent)
        return np.stack([force.real, force.imag], axis=-1)

    @property
    def potential(self) -> float:
        """Of tendons and loads, without that of forces that turn with their link, J."""
        loads = self.case.loads
        places = np.cumsum(self.lower_turn * self.joints.place_m)
        headings = self.case.base_rad + np.cumsum(self.joints.angle_rad)
        work = (loads.world_n.conj() * places + loads.lever_nm / self.turn).real + loads.moment_nm * headings
        return float(np.sum(self.case.pull_n * self.joints.lengths_m) - np.sum(work))

    @property
    def stable(self) -> bool:
        """Whether all minors of :attr:`stiffness_nm` from the tip down are above 0; without body loads: a minimum."""
        if self.case.loads.conservative:
            return bool(scipy.linalg.lapack.dpttrf(self._link, self._beside)[-1] == 0)
        return all(np.linalg.det(self.stiffness_nm[k:, k:]) > 0 for k in range(len(self._link)))

    @property
    def stiffness_nm(self) -> Array:
        """Moments on the links that their headings take, shape (n - 1, n - 1), N.m/rad."""
        beside, body = np.diag(-self._joint[1:], 1), self.turn * self.case.loads.body_n
        matrix = np.diag(self._link) + beside + beside.T
        matrix += np.triu(np.outer(self._upper.conj(), body).real)
        matrix[:-1] -= np.triu(np.outer(self._lower[1:].conj(), body).real, 1)
        return matrix

    def turned(self, moment_nm: Array) -> Array:
        """Change of the joints' angles that moments on the links cause, shape (n - 1, ...), rad.

        Parameters
        ----------
        moment_nm : on the links 2 ... n, shape (n - 1, ...), N.m
        """
        if self.case.loads.conservative:
            headings = scipy.linalg.lapack.dgtsv(self._beside, self._link, self._beside, moment_nm)[3]
        else:
            headings = scipy.linalg.lapack.dgesv(self.stiffness_nm, moment_nm)[2]
        headings[1:] -= headings[:-1].copy()
        return np.asarray(headings)


class RollingStatics:
    """Solves a mechanism."""

    def __init__(self, linkage: Linkage) -> None:
        self.linkage = linkage

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
        stable, the loads are raised step by step from the unloaded pose; where that ends too, it starts from
        :data:`STARTS` poses all over the surfaces.

        Parameters
        ----------
        tension_n : of the left and the right tendon, shape (2,), N; none negative, not both zero
        start_m : arc lengths of a pose near by, shape (n - 1,), m
        weights : ratio of the tension between the links to ``tension_n``, shape (2, n - 1), or 1; for tendons with
            friction
        """
        tension, place, case = self._case(tension_n, loads, base, weights)
        start = np.zeros(self.linkage.joint_count) if start_m is None else self.linkage.check_contacts(start_m)
        found = self._newton(start, case)
        if not found.settled:
            found = self._continued(found, case)
        if not found.settled and exhaustive:
            every = self._all(case)
            if not every:
                self._raise_rolled_off(found, case)
            found = next((one for one in every if one.balance.stable), every[0])
        elif not found.settled:
            raise ConvergenceError("equilibrium of the rolling joints", found.residual, TOLERANCE, found.iterations)
        return self._result(found, tension, place)

    def all_equilibria(
        self, tension_n: ArrayLike, loads: Sequence[Load] = (), *, base: ArrayLike = (0.0, 0.0, 0.0)
    ) -> list[Equilibrium]:
        """The equilibria to which Newton's method comes from :data:`STARTS` poses, the one of least potential first."""
        tension, place, case = self._case(tension_n, loads, base, 1.0)
        return [self._result(one, tension, place) for one in self._all(case)]

    def length_jacobian(self, at: Equilibrium, loads: Sequence[Load] = ()) -> Array:
        """How the tendon lengths change with the tensions at an equilibrium: ha (30)-(35).

        Returns
        -------
        shape (2, 2), m/N
        """
        _, _, case = self._case(at.tension_n, loads, at.poses[0], 1.0)
        balance = Balance(self.linkage, at.contact_m, case)
        levers = balance.joints.levers_m
        moments = -levers.T  # (33)
        moments[:-1] += levers.T[1:]
        return np.asarray(levers @ balance.turned(moments))  # (30), (34), (35)

    def _case(
        self, tension_n: ArrayLike, loads: Sequence[Load], base: ArrayLike, weights: ArrayLike
    ) -> tuple[Array, Array, Case]:
        tension, place = np.asarray(tension_n, dtype=float), np.asarray(base, dtype=float)
        if tension.shape != (2,) or not (min(tension) >= 0 and 0 < sum(tension) < np.inf):
            raise ParameterError(
                "tension_n", tension_n, "two finite tensions, left and right, none negative, one above 0"
            )
        if place.shape != (3,) or not np.all(np.isfinite(place)):
            raise ParameterError("base", base, "x (m), y (m), angle (rad), finite")
        pull, on_links = (
            np.asarray(weights, dtype=float) * tension[:, None],
            link_loads(loads, self.linkage.joint_count + 1),
        )
        force = pull.sum(axis=0).max() + np.abs(on_links.world_n).sum() + np.abs(on_links.body_n).sum()
        scale = float(self.linkage.size_m * force + np.abs(on_links.moment_nm).sum())
        return tension, place, Case(pull, on_links, float(place[2]), scale)

    def _newton(self, start: Array, case: Case, most: int = _ITERATIONS) -> _Found:
        low, high = self.linkage.limits_m.T
        balance = Balance(self.linkage, start, case)
        iterations = 0
        while (left := float(np.abs(balance.moment_nm).max()) / case.scale_nm) > TOLERANCE and iterations < most:
            iterations += 1
            contact = balance.contact_m
            direction = balance.joints.rolled_m * balance.turned(balance.moment_nm)
            room = np.where(direction > 0, high - contact, contact - low)
            reach = float((np.abs(direction) / np.maximum(room, 1e-300)).max())
            if not np.isfinite(reach):
                break
            fraction = 1.0 if reach < _INSIDE else _INSIDE / reach
            merit = float(balance.moment_nm @ balance.moment_nm)
            for _ in range(_HALVINGS):
                tried = Balance(self.linkage, contact + fraction * direction, case)
                if float(tried.moment_nm @ tried.moment_nm) <= (1 - _DECREASE * fraction) * merit:
                    break
                fraction /= 2
            else:
                break
            balance = tried
        return _Found(balance, left, iterations)

    def _continued(self, failed: _Found, case: Case) -> _Found:
        """Raise the loads in steps from the unloaded pose; gives up at a fold or at the end of a surface."""
        now = self._newton(np.zeros(self.linkage.joint_count), case._replace(loads=case.loads.scaled(0.0)))
        iterations, done, width = failed.iterations + now.iterations, 0.0, 1 / _STEPS_OF_LOAD
        while now.settled and done < 1.0 and width > _SMALLEST_STEP:
            ahead = min(1.0, done + width)
            tried = self._newton(now.balance.contact_m, case._replace(loads=case.loads.scaled(ahead)))
            iterations += tried.iterations
            if tried.settled:
                now, done, width = tried, ahead, 2 * width
            else:
                width /= 4
        return (now if done == 1.0 else failed)._replace(iterations=iterations)

    def _all(self, case: Case) -> list[_Found]:
        found: list[_Found] = []
        low, high = self.linkage.limits_m.T
        for place in np.random.default_rng(0).random((STARTS, self.linkage.joint_count)):
            one = self._newton(low + place * (high - low), case, _SEARCHING)
            contact = one.balance.contact_m
            if one.converged and all(np.abs(contact - other.balance.contact_m).max() > _ALIKE_M for other in found):
                found.append(one)
        return sorted(found, key=lambda one: one.balance.potential)

    def _raise_rolled_off(self, failed: _Found, case: Case) -> None:
        """Report the joint that the least potential, or else the failed iteration, left at the end of a surface."""
        contact, size, scale = failed.balance.contact_m, self.linkage.size_m, case.scale_nm
        low, high = self.linkage.limits_m.T
        if case.loads.conservative:

            def potential(scaled: Array) -> tuple[float, Array]:
                balance = Balance(self.linkage, size * scaled, case)
                slope = -joint_moments(balance.moment_nm) / balance.joints.rolled_m
                return balance.potential / scale, size / scale * slope

            bounds = self.linkage.limits_m / size
            contact = size * scipy.optimize.minimize(potential, contact / size, jac=True, bounds=bounds).x
        fraction = np.maximum(contact / high, contact / low)
        joint = int(np.argmax(fraction))
        if fraction[joint] < _AT_THE_END:
            raise ConvergenceError("equilibrium of the rolling joints", failed.residual, TOLERANCE, failed.iterations)
        raise NoEquilibriumError(joint + 1, float((high if contact[joint] > 0 else low)[joint]), STARTS)

    def _result(self, found: _Found, tension: Array, base: Array) -> Equilibrium:
        balance, joints = found.balance, found.balance.joints
        pull = np.broadcast_to(balance.case.pull_n, joints.lengths_m.shape)
        force = balance.contact_force_n
        # Where one tendon pulls alone, contacts lie at its holes and carry nothing: the sign of that is rounding.
        nothing = _NO_FORCE * (float(pull.sum(axis=0).max()) + float(np.abs(force).max()))
        return Equilibrium(
            balance.contact_m,
            joints.poses(base),
            force,
            tension,
            pull.T,
            self.linkage.channel_length_m + joints.lengths_m.sum(axis=1),  # (28)
            found.residual,
            found.iterations,
            balance.stable,
            tuple(int(k) + 1 for k in np.nonzero(force[:, 1] < -nothing)[0]),
        )


class _Found(NamedTuple):
    """Where an iteration of Newton's method ended."""

    balance: Balance
    residual: float
    iterations: int

    @property
    def converged(self) -> bool:
        return self.residual <= TOLERANCE

    @property
    def settled(self) -> bool:
        """Converged at a stable pose."""
        return self.converged and self.balance.stable


def joint_moments(moments: Array) -> Array:
    """Moment about each contact of all that acts beyond it, from the moments left on the links; shape (n - 1,), N.m."""
    return np.asarray(np.cumsum(moments[::-1])[::-1])


FRAMES = ("world", "body")


@dataclass(frozen=True, slots=True)
class Load:
    """A constant load on one link: ha appendix C."""

    link: int
    force_n: tuple[float, float] = (0.0, 0.0)
    moment_nm: float = 0.0
    point_m: tuple[float, float] = (0.0, 0.0)
    frame: str = "world"


class LinkLoads(NamedTuple):
    """All loads link by link, of the links 2 ... n; vectors are complex, x + i y.

    Attributes
    ----------
    world_n : sum of the forces that keep their direction, shape (n - 1,), N
    body_n : sum of the forces that turn with the link, in its frame, shape (n - 1,), N
    moment_nm : sum of the moments, those of the turning forces about the link's origin among them, shape (n - 1,)
    lever_nm : sum of conj(point) force over the forces that keep their direction: at the link's angle a their moment
        is Im(exp(-i a) lever), ha (56); shape (n - 1,), N.m
    """

    world_n: NDArray[np.complex128]
    body_n: NDArray[np.complex128]
    moment_nm: NDArray[np.float64]
    lever_nm: NDArray[np.complex128]

    @property
    def conservative(self) -> bool:
        """Whether the loads have a potential: no force turns with its link."""
        return not self.body_n.any()

    def scaled(self, factor: float) -> LinkLoads:
        """All loads times a factor."""
        world, body, moment, lever = self
        return LinkLoads(factor * world, factor * body, factor * moment, factor * lever)


def link_loads(loads: Sequence[Load], link_count: int) -> LinkLoads:
    """Sums of the loads on each link; those on the base, which carries anything, are left out."""
    world, body, lever = (np.zeros(link_count, dtype=complex) for _ in range(3))
    moment = np.zeros(link_count)
    for load in loads:
        if not 1 <= load.link <= link_count:
            raise ParameterError("load.link", load.link, f"a link, 1 ... {link_count}")
        if load.frame not in FRAMES:
            raise ParameterError("load.frame", load.frame, "one of " + ", ".join(FRAMES))
        if not np.all(np.isfinite([*load.force_n, load.moment_nm, *load.point_m])):
            raise ParameterError("load", (*load.force_n, load.moment_nm, *load.point_m), "finite values")
        k, force = load.link - 1, complex(*load.force_n)
        about_origin = complex(*load.point_m).conjugate() * force
        moment[k] += load.moment_nm
        if load.frame == "world":
            world[k] += force
            lever[k] += about_origin
        else:
            body[k] += force
            moment[k] += about_origin.imag
    return LinkLoads(world[1:], body[1:], moment[1:], lever[1:])
