# SPDX-License-Identifier: Apache-2.0
"""Equilibria of a rod: tensions of its tendons, or what their spools have taken in, and loads in; shape out.

Elastic energy + tendons as springs that only pull + dry friction of their paths - work of tensions, weight and loads is
stationary. The kernel's Newton method goes along the energy with the exact Hessian. Where it meets negative curvature,
Newton's method here turns downhill; where that fails too, the load is put on in steps with a tangent predictor. In the
coordinates y = L^T c with K = L L^T the elastic energy is |y|^2 / 2, so the eigenvalues of the Hessian there are 1 for
the rod alone and 0 where it buckles. Derived here.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv, dpotrf

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.defect import defect
from continuum_robot.rod.friction.maxwell_slip import stop_force
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.slopes import length_slope, terms_slope

if TYPE_CHECKING:
    from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

RESIDUAL_TOLERANCE = 1e-9
NEUTRAL = 1e-7
"""Eigenvalues of the Hessian against the elastic stiffness that are 0 to rounding."""
LARGEST_DEFECT = 0.02
"""Fraction of the length by which a basis may miss the tip and still count as representing the loads."""
LARGEST_DEFECT_RAD = 0.1
"""The same for the tip's rotation, rad."""
_LARGEST_TURN_RAD = 0.8
_LARGEST_STRETCH = 0.2
_LEAST_CURVATURE = 1e-3
_ITERATIONS = 40
_CORRECTIONS = 10
_ARMIJO = 1e-4
_SMALLEST_FRACTION = 1e-6
_FIRST_LOAD_STEP = 0.25
_SMALLEST_LOAD_STEP = 1 / 1024
_SETTLING_STEP = 1e-2
_STRAYED = 1.0
_RELAXATIONS = 300
_NEAR_REST = 1e-3
_LAST_STEP = 1e-5
_LENGTH_TOLERANCE = 1e-9
_TENSION_TOLERANCE = 1e-8
_RANK_TOLERANCE = 1e-10
_STIFFENING = (1.0, 10.0, 100.0, 1e3, 1e4)
_MULTIPLIERS = 12


@dataclass(frozen=True, slots=True)
class Stops:
    """Dry friction of the tendons' paths against the robot: Prandtl's stops, see rod/friction/maxwell_slip.py."""

    stiffness: Vector
    anchor_m: Vector
    limit_n: Vector


@dataclass(frozen=True, slots=True)
class Held:
    """Tendons that are held."""

    stiffness: Vector
    spooled: Vector
    stops: Stops | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """What acts on a rod: numbers of the kernel, and its tendons."""

    gravity: Vector
    body: Vector
    tension: Vector
    stiffness: Vector
    spooled: Vector
    stops: Stops | None = None

    def before(self, other: _Case, scale: float) -> _Case:
        """A fraction of the way on to another one."""
        if scale == 1:
            return other
        names = ("gravity", "body", "tension", "stiffness", "spooled")
        mixed = {name: (1 - scale) * getattr(self, name) + scale * getattr(other, name) for name in names}
        return replace(other, **mixed)

    def nothing(self) -> _Case:
        """The same without tensions, weight and loads."""
        body = self.body.copy()
        body[:, 13:] = 0.0
        return replace(
            self, gravity=0 * self.gravity, body=body, tension=0 * self.tension, spooled=0 * self.spooled, stops=None
        )


@dataclass(slots=True)
class RestState:
    """Energy, residual force and Hessian at some coefficients, in the scaled coordinates."""

    c: Vector
    energy: float
    force: Vector
    hessian: Vector
    residual: float
    symmetric: bool
    own_hessian: Vector
    length_m: Vector
    tension: Vector
    gradient: Vector
    bent: bool = False
    _spectrum: NDArray[np.complex128] | None = None

    @property
    def spectrum(self) -> NDArray[np.complex128]:
        """Eigenvalues of the Hessian, (n,)."""
        if self._spectrum is None:
            values = np.linalg.eigvalsh(self.hessian) if self.symmetric else np.linalg.eigvals(self.hessian)
            self._spectrum = values.astype(complex)
        return self._spectrum

    @property
    def stability(self) -> float:
        """Smallest real part of an eigenvalue."""
        return float(self.spectrum.real.min())

    @property
    def diverges(self) -> bool:
        """Whether a real eigenvalue is negative: only there branches of equilibria turn or part."""
        real = np.abs(self.spectrum.imag) <= NEUTRAL
        return bool((self.spectrum.real[real] <= -NEUTRAL).any())


class Balance:
    """The kernel's statics of a rod, with its memory. Its numbers are those that the rod has when it is made."""

    def __init__(self, rod: Rod) -> None:
        self.rod, n, count, bodies = rod, rod.n, rod.tendon_count, len(rod.arrays.body)
        self._library = rod.library
        self.root = np.linalg.cholesky(rod.arrays.stiffness)
        self.inverse_root = np.tril(np.linalg.inv(self.root))
        self._flexibility = rod.scale[:, None] * self.inverse_root.T
        self._hessian, self._force = np.empty((n, n)), np.empty(n)
        self._length, self._tension, self._gradient = np.empty(count), np.empty(count), np.empty((count, n))
        self._pose = np.empty((bodies, 12))
        parts = (self._hessian, self._force, self._length, self._tension, self._gradient, self._pose, None)
        self._at = kernel.AtRest(*map(kernel.at, parts), 0.0)
        self._c, self._tendons, self._stops = np.empty(n), np.zeros((3, count)), np.zeros((3, count))
        self._numbers = type(rod.numbers).from_buffer_copy(rod.numbers)
        self._pull = kernel.Pull(*map(kernel.at, (*self._tendons, rod.rest_m, None)))
        self._case: _Case | None = None
        rest = (ct.byref(self._pull), ct.c_void_p(kernel.at(self._c)))
        self._given = (ct.byref(rod.shape), ct.byref(self._numbers), ct.c_void_p(kernel.at(rod.scale)), *rest)
        self.conservative = rod.conservative

    def _set(self, case: _Case) -> None:
        before = self._case
        if case is before:
            return
        self._case = case
        self._tendons[:] = case.tension, case.stiffness, case.spooled
        if before is None or case.gravity is not before.gravity or case.body is not before.body:
            self._numbers.gravity, self._numbers.body = kernel.at(case.gravity), kernel.at(case.body)
        if case.stops is not None:
            self._stops[:] = case.stops.stiffness, case.stops.anchor_m, case.stops.limit_n
        self._pull.stops = None if case.stops is None else kernel.at(self._stops)

    def state(self, c: Vector, case: _Case) -> RestState:
        """Energy, force out of balance and Hessian at coefficients (n,)."""
        self._set(case)
        self._c[:] = c
        if self._library is None:
            self._evaluate()
        else:
            self._library.rod_at_rest(*self._given, ct.byref(self._at))
        return self._found()

    def _evaluate(self) -> None:
        """What the library does, in NumPy."""
        case = self._case
        assert case is not None
        arrays = replace(self.rod.arrays, gravity=case.gravity, body=case.body)
        stops = None if case.stops is None else self._stops
        found = reference.at_rest(arrays, self._c, self._tendons, self.rod.rest_m, stops)
        self._hessian[:], self._force[:], self._length[:] = found.hessian, found.force, found.length
        self._tension[:], self._gradient[:], self._at.energy = found.tension, found.gradient, found.energy

    def hessian(self, c: Vector, tension: ArrayLike = 0.0) -> Vector:
        """Stiffness of the rod, its weight, loads and tensions (N,), N, at coefficients (n,): (n, n)."""
        return self.pulled(c, np.zeros(self.rod.tendon_count) + np.asarray(tension)).own_hessian

    def pulled(self, c: Vector, tension: Vector, held: Held | None = None) -> RestState:
        """:meth:`state` under given tensions (N,), N, which may push too, and with tendons that are held."""
        arrays, none = self.rod.arrays, np.zeros(self.rod.tendon_count)
        springs = Held(none, none) if held is None else held
        return self.state(c, _Case(arrays.gravity, arrays.body, tension, springs.stiffness, springs.spooled))

    def newton(self, c: Vector, case: _Case, tolerance: float = _LAST_STEP) -> tuple[RestState, int]:
        """The kernel's Newton method from a guess: where it ended, and its iterations, negative where it failed.

        Without a library it has failed at once, for :class:`_Search` to go on.
        """
        if self._library is None:
            return self.state(c, case), -1
        self._set(case)
        self._c[:] = c
        iterations = self._library.rod_equilibrium(
            *self._given, int(self.conservative), ct.c_double(tolerance), _ITERATIONS, ct.byref(self._at)
        )
        return self._found(), iterations

    def _found(self) -> RestState:
        force, hessian = -(self.inverse_root @ self._force), self._hessian.copy()
        if self.conservative:  # the quadrature leaves it symmetric to its error alone
            hessian = (hessian + hessian.T) / 2
        scaled = self.inverse_root @ hessian @ self.inverse_root.T
        residual = float(np.linalg.norm(self._flexibility @ force))
        return RestState(
            self._c.copy(), self._at.energy, force, scaled, residual, self.conservative, hessian,
            self._length.copy(), self._tension.copy(), self._gradient.copy(),
        )  # fmt: skip

    def step(self, direction: Vector) -> tuple[Vector, float]:
        """A step in c for one in scaled coordinates, and the fraction of it that the rod's kinematics allow at once."""
        c_step = self.inverse_root.T @ direction
        size = np.abs(self.rod.scale * c_step)
        turning = self.rod.arrays.rows < 3
        largest = max(
            float(size[turning].max(initial=0.0)) / _LARGEST_TURN_RAD,
            float(size[~turning].max(initial=0.0)) / _LARGEST_STRETCH,
        )
        return c_step, min(1.0, 1.0 / largest) if largest > 0 else 1.0


def downhill(hessian: Vector, force: Vector) -> tuple[Vector, bool]:
    """Newton's step along an energy, negative curvatures turned positive; whether there were any."""
    symmetric = (hessian + hessian.T) / 2
    curved = symmetric.copy()
    curved.flat[:: len(symmetric) + 1] -= _LEAST_CURVATURE
    if dpotrf(curved)[1]:  # NumPy's calls of the same take five times as long
        values, vectors = np.linalg.eigh(symmetric)
        return -vectors @ ((vectors.T @ force) / np.maximum(np.abs(values), _LEAST_CURVATURE)), True
    return np.asarray(-dposv(symmetric, force)[1], dtype=float), False


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """A state of rest.

    Attributes
    ----------
    c : (n,) strain coefficients
    tension : (N,) tension of every tendon at its spool, N
    friction : (N,) tension that friction takes up on the way, positive where the tendon was pulled in last, N
    length_m : (N,) of the tendons' paths, m
    hessian : minus the derivative of the force by c, springs of the tendons included, (n, n)
    gradient : of the lengths by c, (N, n)
    residual : bending angle (rad), or relative stretch, that the force out of balance would cause on the elastic rod
        alone
    iterations : evaluations of the Hessian, of all load steps together
    load_steps : steps of load continuation; 0: solved at once
    stability : smallest real part of an eigenvalue of the Hessian against the elastic stiffness: 1 for the unloaded
        rod, 0 where it buckles; for loads without a potential flutter is possible at any positive value
    condition : largest over smallest modulus of these eigenvalues
    conservative : whether all loads have a potential; then the Hessian is symmetric
    snapped : the state on the loading path, or the first one found, had lost its stability, and this is another one
    snapped_at : fractions of the load after which that was seen
    energy_j : potential energy with the work of tendons and loads, J; None where a load has no potential
    slack_m : (N,) how much longer than its path a held tendon is, 0 where it is taut or not held
    taut : (N,) bool, held and pulling
    determined : whether the held tendons' tensions follow from what is spooled; without compliance and without
        extension tendons can pull against each other at any tension
    rod : what rests
    """

    c: Vector
    tension: Vector
    friction: Vector
    length_m: Vector
    hessian: Vector
    gradient: Vector
    residual: float
    iterations: int
    load_steps: int
    stability: float
    condition: float
    conservative: bool
    snapped: bool
    snapped_at: tuple[float, ...]
    energy_j: float | None
    slack_m: Vector
    taut: NDArray[np.bool_]
    determined: bool
    rod: Rod = field(repr=False)
    _case: _Case = field(repr=False)
    _diverges: bool = field(repr=False)

    @property
    def stable(self) -> bool:
        """Whether no eigenvalue of the Hessian has a negative real part.

        A round rod that has buckled turns freely about the load: see ``neutral``. With loads that have no potential, a
        complex pair with a negative real part is no snapping but growing oscillation: see ``diverges``.
        """
        return self.stability > -NEUTRAL

    @property
    def diverges(self) -> bool:
        """Whether a real eigenvalue is negative: from here the rod falls to another equilibrium, if there is any."""
        return not self.stable and self._diverges

    @property
    def neutral(self) -> bool:
        """Whether the rod has no stiffness against some motion, to rounding."""
        return abs(self.stability) <= NEUTRAL

    @property
    def displacement(self) -> Vector:
        """Of the tendons' paths against c = 0, pulled in positive, (N,), m."""
        return np.asarray(self.rod.rest_m - self.length_m)

    @cached_property
    def _defect(self) -> tuple[float, float]:
        return defect(self.rod, self._case.gravity, self._case.body, self.c, self.tension - self.friction)

    @property
    def defect_m(self) -> float:
        """How far the strain that equilibrium asks for at every cross-section, and the basis lacks, moves the tip, m.

        An estimate to first order; computed when asked for.
        """
        return self._defect[0]

    @property
    def defect_rad(self) -> float:
        """How far that strain turns the tip, rad."""
        return self._defect[1]

    @cached_property
    def kinematic_error_m(self) -> float:
        """About what the tip errs by the nodes of the kinematics, m; see :meth:`Rod.error_m`."""
        return self.rod.error_m(self.c)

    @property
    def represented(self) -> bool:
        """Whether basis and nodes can represent the shape: False e.g. for a torsion moment on a rod without torsion."""
        return (
            self.defect_m + self.kinematic_error_m <= LARGEST_DEFECT * self.rod.length_m
            and self.defect_rad <= LARGEST_DEFECT_RAD
        )

    # --- sensitivities, by the implicit function theorem: H dc = dF/d(parameter)

    def slope(self, force: ArrayLike) -> Vector:
        """dc, (n, ...), of small generalised forces, (n, ...): derivatives of the force by some parameters.

        Raises
        ------
        ParameterError : the rod is at the point of buckling, where its stiffness is singular
        """
        if self.condition > 1e12:
            raise ParameterError("condition", self.condition, "a rod that is not at the point of buckling")
        return np.asarray(np.linalg.solve(self.hessian, np.asarray(force, dtype=float)))

    @property
    def by_tension(self) -> Vector:
        """Derivative of c by the tensions, (n, N), 1/(m N) for curvatures."""
        return self.slope(-self.gradient.T)

    @property
    def by_spooled(self) -> Vector:
        """Derivative of c by what held tendons' spools have taken in, (n, N); 0 where one is slack or not held."""
        return self.slope(-self.gradient.T * np.where(self.taut, self._case.stiffness, 0.0))

    def along(self, **changes: ArrayLike) -> Vector:
        """dc, (n,), along a direction of any numbers.

        Parameters
        ----------
        changes : by name: those of ``Rod.arrays`` (gravity, body, stiffness, rest, path_rest, path), and ``tension``,
            ``spooled``, ``tendon_stiffness``, (N,); each of its shape. A change of ``path`` changes the straight
            rod's lengths too.

        Raises
        ------
        ParameterError : a name that is none of these
        """
        return self.slope(self.force_along(changes))

    def force_along(self, changes: Mapping[str, ArrayLike]) -> Vector:
        """dF, (n,), along a direction of numbers at these coefficients; see :meth:`along`."""
        rod, case = self.rod, self._case
        known = ("gravity", "body", "stiffness", "rest", "path_rest", "path")
        given = {name: np.asarray(value, dtype=float) for name, value in changes.items()}
        unknown = set(given) - {*known, "tension", "spooled", "tendon_stiffness"}
        if unknown:
            raise ParameterError("changes", sorted(unknown), f"{', '.join(known)}, tension, spooled, tendon_stiffness")
        numbers = {name: value for name, value in given.items() if name in known}
        force = terms_slope(rod, self.c, numbers, gravity=case.gravity, body=case.body)
        if "stiffness" in numbers:
            force = force - numbers["stiffness"] @ self.c
        pulled = given.get("tension", np.zeros(rod.tendon_count)).copy()
        pulled += np.where(self.taut, case.stiffness, 0.0) * given.get("spooled", 0.0)
        if "tendon_stiffness" in given:
            stretch = np.maximum(case.spooled + self.length_m - rod.rest_m, 0.0)
            pulled += given["tendon_stiffness"] * stretch
        if {"path", "path_rest"} & set(numbers):
            length, gradient = length_slope(rod, self.c, numbers)
            straight, _ = length_slope(rod, np.zeros(rod.n), numbers)
            force = force - (self.tension - self.friction) @ gradient
            pulled += self.tendon_slope * (length - straight)
        return np.asarray(force - pulled @ self.gradient)

    @property
    def tendon_slope(self) -> Vector:
        """Tension on each path per length of it: spring and sticking friction, (N,), N/m."""
        case, slope = self._case, np.where(self.taut, self._case.stiffness, 0.0)
        if case.stops is not None:
            stops = case.stops
            found = stop_force(self.displacement, stops.anchor_m, stops.limit_n, stops.stiffness)
            slope = slope + stops.stiffness * found.sticking
        return np.asarray(slope)


def equilibrium(
    rod: Rod,
    tension: ArrayLike = 0.0,
    start: ArrayLike | Equilibrium | None = None,
    *,
    stiffness: ArrayLike = 0.0,
    spooled: ArrayLike = 0.0,
    stops: Stops | None = None,
    continuation: str = "auto",
    settle: bool = True,
    balance: Balance | None = None,
) -> Equilibrium:
    """State of rest under tendon tensions, held tendons, the rod's weight and loads.

    Parameters
    ----------
    rod : the rod
    tension : given tensions, (N,) or one number, not negative, N
    start : (n,) first guess; or the equilibrium from whose tensions and loads these come about, so that a snap between
        the two is seen; None for the rod at rest
    stiffness : of held tendons, force per stretch, (N,) or one number, N/m; infinite: it does not stretch; 0: not held
    spooled : what is taken in of held tendons since the rod was straight, (N,), m; NaN: this tendon is not held
    stops : dry friction of the paths; None: none
    continuation : "auto": the load is put on in steps where Newton's method fails from ``start``, or passes a shape
        that is not stable on its way from an equilibrium; "always": in steps, so that every loss of stability is seen
    settle : go on from an unstable equilibrium to a stable one, which ``snapped`` then marks; False: return it
    balance : of this rod with these numbers, made before; None: it is made

    Returns
    -------
    the equilibrium; see its ``stable``, ``snapped`` and ``represented``

    Raises
    ------
    ParameterError : a tension or stiffness that is negative or not a number, a wrong number of them, an unknown
        ``continuation``, or tensions and loads that bend the rod further than its frames hold
    ConvergenceError : none found, e.g. beyond the load under which the rod has any, or all tendons of a rod that cannot
        shorten pulled in
    """
    if continuation not in ("auto", "always"):
        raise ParameterError("continuation", continuation, "auto or always")
    pull = _of_tendons(rod, "tension", tension, lambda given: np.isfinite(given) & (given >= 0))
    wound = _of_tendons(rod, "spooled", spooled, lambda given: ~np.isinf(given))
    springs = _of_tendons(rod, "stiffness", stiffness, lambda given: given >= 0)
    springs[np.isnan(wound)] = 0.0
    solver = balance or Balance(rod)
    case = _Case(rod.arrays.gravity.copy(), rod.arrays.body.copy(), pull, springs, np.nan_to_num(wound, nan=0.0), stops)
    guess = np.zeros(rod.n) if start is None else start.c if isinstance(start, Equilibrium) else np.asarray(start)
    search = _Search(solver, case, settle, start if isinstance(start, Equilibrium) else None)
    if not np.isinf(springs).any():
        return search.result(search.found(rod.checked(guess).copy(), continuation))
    return _inextensible(solver, case, rod.checked(guess).copy(), settle)


_OF_TENDONS = {
    "tension": "finite tensions, none negative, N",
    "spooled": "lengths in m, NaN for not held",
    "stiffness": "numbers, none negative, N/m",
}


def _of_tendons(rod: Rod, name: str, values: ArrayLike, good: Callable[[Vector], NDArray[np.bool_]]) -> Vector:
    """A number of each tendon, (N,), by one for all or by their own."""
    array, count = np.asarray(values, dtype=float), rod.tendon_count
    if array.shape not in ((), (count,)) or not good(array).all():
        raise ParameterError(name, values, f"one or {count} {_OF_TENDONS[name]}")
    return np.array(np.broadcast_to(array, (count,)))


def at_rest(balance: Balance, c: Vector, held: Held) -> RestState:
    """The equilibrium with held tendons alone nearest to a guess, without reports: for many one after another."""
    arrays = balance.rod.arrays
    case = _Case(arrays.gravity, arrays.body, np.zeros(len(held.stiffness)), held.stiffness, held.spooled, held.stops)
    state, iterations = balance.newton(c, case)
    if iterations > 0 and state.residual < RESIDUAL_TOLERANCE:
        return state
    return _Search(balance, case, False, None).newton(c, 1.0, 2 * _ITERATIONS)


def _inextensible(solver: Balance, case: _Case, c: Vector, settle: bool) -> Equilibrium:
    """Tendons that do not stretch: stiff springs, wound in by what they stretch (method of multipliers)."""
    rod, rigid = solver.rod, np.isinf(case.stiffness)
    rows = rod.lengths(c).gradient @ solver.inverse_root.T
    # A tendon as stiff as the rod against its displacement, and from there on.
    alone = 1 / np.maximum(np.sum(rows**2, axis=1), 1e-300)
    iterations, error = 0, ConvergenceError("equilibrium with these displacements", np.inf, _LENGTH_TOLERANCE, 0)
    first = _STIFFENING[-1:]
    for factors in (first, _STIFFENING):
        try:
            shape = c if factors is first else np.zeros(rod.n)
            for factor in factors:
                springs = np.where(rigid, factor * alone, np.minimum(case.stiffness, factor * alone * 1e6))
                now = replace(case, stiffness=springs)
                search = _Search(solver, now, settle, None)
                state = search.found(shape, "auto")
                shape, iterations = state.c, iterations + search.iterations
            break
        except ConvergenceError as caught:
            error = caught
    else:
        raise error
    given, before = case.spooled - rod.rest_m, 0.0
    for _ in range(_MULTIPLIERS):
        excess = np.where(rigid & (state.tension > 0), given + state.length_m, 0.0)
        change = float(np.abs(excess * springs).max())
        if np.abs(excess).max() <= _LENGTH_TOLERANCE * rod.length_m and change <= before:
            break
        wound = case.spooled.copy()
        wound[rigid] += (state.tension - case.tension)[rigid] / springs[rigid]  # the others' may be 0
        now = replace(case, stiffness=springs, spooled=wound)
        search = _Search(solver, now, settle, None)
        state = search.found(state.c, "auto")
        iterations, before = iterations + search.iterations, _TENSION_TOLERANCE * float(state.tension.max())
    else:
        raise ConvergenceError(
            "equilibrium with these displacements, m", float(np.abs(excess).max()), _LENGTH_TOLERANCE, iterations
        )
    found = search.result(state)
    taut = rigid & (state.tension > case.tension)
    rows = (state.gradient @ solver.inverse_root.T)[taut]
    sizes = np.linalg.norm(rows, axis=1)
    rank = int((np.linalg.svd(rows / np.maximum(sizes, 1e-300)[:, None], compute_uv=False) > _RANK_TOLERANCE).sum())
    slack = np.where(rigid & ~taut, np.maximum(rod.rest_m - state.length_m - case.spooled, 0.0), found.slack_m)
    return replace(
        found, slack_m=slack, taut=np.where(rigid, taut, found.taut), determined=rank == int(taut.sum()),
        iterations=iterations,
    )  # fmt: skip


class _Search:
    """Newton's method and continuation for one load."""

    def __init__(self, solver: Balance, case: _Case, settle: bool, origin: Equilibrium | None) -> None:
        self.solver, self.case, self.settle, self.origin = solver, case, settle, origin
        self.begin = case.nothing() if origin is None else origin._case
        self.crossed = False  # whether a Hessian on the way was not positive definite
        self.iterations = self.load_steps = 0
        self.snaps: list[float] = []

    def found(self, c: Vector, continuation: str) -> RestState:
        """The state of rest from a first guess; raises ConvergenceError."""
        if continuation == "always":
            return self.continued(None)
        conservative = self.solver.conservative
        try:
            state, count = self.solver.newton(c, self.case)
            self.iterations += abs(count)
            if count < 0 or not state.residual < RESIDUAL_TOLERANCE:
                state = self.newton(c, 1.0, _ITERATIONS)
        except ConvergenceError as error:
            return self.continued(error)
        # Without an energy Newton's method finds any equilibrium; the loading path decides which it is.
        lost = not conservative and self.origin is None and self.settle and state.diverges and not c.any()
        if lost or (self.origin is not None and self.crossed):
            try:
                state = self.continued(None)
            except ConvergenceError:  # the one found stands, but not by the loading path
                self.snaps.append(1.0)
        return self.settled(state, 1.0)

    def state(self, c: Vector, scale: float) -> RestState:
        self.iterations += 1
        return self.solver.state(c, self.begin.before(self.case, scale))

    def newton(self, c: Vector, scale: float, iterations: int) -> RestState:
        """Newton's method from ``c``; raises ConvergenceError."""
        state = self.state(c, scale)
        along_energy = self.solver.conservative
        for _ in range(iterations):
            if not np.isfinite(state.residual):
                break
            if state.residual < RESIDUAL_TOLERANCE:
                return state
            direction = _direction(state, along_energy)
            self.crossed |= state.bent
            c_step, fraction = self.solver.step(direction)
            length = np.linalg.norm(direction)
            while True:
                trial = self.state(state.c + fraction * c_step, scale)
                if trial.residual < 0.5 * state.residual or (
                    _lower(state, trial, direction, fraction)
                    if along_energy
                    # The next step with this Hessian is shorter: that does not depend on how forces are weighed.
                    else np.linalg.norm(_direction(trial, False, state.hessian)) <= (1 - fraction / 4) * length
                ):
                    break
                fraction /= 2
                if fraction < _SMALLEST_FRACTION:
                    raise self._failure("line search failed", state.residual)
            state = trial
        if state.residual < RESIDUAL_TOLERANCE:
            return state
        raise self._failure("Newton's method did not converge", state.residual)

    def relaxed(self, c: Vector, scale: float) -> RestState:
        """Where a rod whose strain yields in proportion to the force out of balance comes to rest from ``c``.

        Implicit Euler steps that grow as the force falls. Beside an unstable direction they stay short enough to move
        away from it, so that what is found is stable; raises ConvergenceError where nothing is.
        """
        state, step = self.state(c, scale), 1.0
        for _ in range(_RELAXATIONS):
            if state.residual < _NEAR_REST and not state.diverges:
                return self.newton(state.c, scale, _ITERATIONS)
            if state.stability < 0:
                step = min(step, -0.5 / state.stability)
            direction = np.asarray(
                -np.linalg.solve(state.hessian + np.eye(len(state.c)) / step, state.force), dtype=float
            )
            c_step, fraction = self.solver.step(direction)
            found = self.state(state.c + fraction * c_step, scale)
            fall = float(np.linalg.norm(state.force)) / max(float(np.linalg.norm(found.force)), 1e-300)
            step *= fraction * min(max(fall, 0.5), 2.0)
            state = found
        raise self._failure("the rod does not come to rest", state.residual)

    def settled(self, state: RestState, scale: float) -> RestState:
        """From an unstable equilibrium along its most unstable direction to a stable one, where it is desired."""
        if not self.settle or not state.diverges:
            return state
        values, vectors = np.linalg.eig(state.hessian)
        direction = vectors[:, int(np.argmin(values.real))].real
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        c_step, fraction = self.solver.step(direction)
        size = self._size(c_step)
        away = state.c + fraction * _SETTLING_STEP / size * c_step
        try:
            found = self._rest_from(away, scale)
        except ConvergenceError:
            return state
        self.snaps.append(scale)
        return found

    def _rest_from(self, c: Vector, scale: float) -> RestState:
        """A stable equilibrium that the rod falls to from ``c``; raises ConvergenceError."""
        if self.solver.conservative:
            try:
                found = self.newton(c, scale, _ITERATIONS)
            except ConvergenceError:
                return self.relaxed(c, scale)
            if not found.diverges:
                return found
        return self.relaxed(c, scale)

    def continued(self, first: ConvergenceError | None) -> RestState:
        """The load put on in steps, each with the tangent as a predictor; a step halves where Newton's method fails."""
        state = self.state(np.zeros(self.solver.rod.n) if self.origin is None else self.origin.c, 0.0)
        self.snaps.clear()
        done, step = 0.0, _FIRST_LOAD_STEP
        tangent = self._tangent(state)
        while done < 1:
            scale = min(1.0, done + step)
            try:
                self.crossed = False
                ahead = (scale - done) * tangent
                found = self.newton(state.c + ahead, scale, _CORRECTIONS)
                if found.diverges and not state.diverges and step > _FIRST_LOAD_STEP / 16:
                    raise self._failure("passed a loss of stability", found.residual)
                strayed = self._size(found.c - state.c - ahead) > max(_STRAYED * self._size(ahead), _SETTLING_STEP)
                if not state.diverges and (self.crossed or strayed):
                    raise self._failure("left the branch", found.residual)
            except ConvergenceError as error:
                step /= 2
                if step < _SMALLEST_LOAD_STEP:
                    try:
                        found = self._rest_from(state.c, scale)  # the branch ends here, and the rod snaps
                    except ConvergenceError:
                        raise ConvergenceError(
                            f"no static equilibrium found beyond {100 * done:.3g} % of the load",
                            error.residual,
                            RESIDUAL_TOLERANCE,
                            self.iterations,
                        ) from (first or error)
                    self.snaps.append(scale)
                    step = 2 * _SMALLEST_LOAD_STEP
                else:
                    continue
            found = self.settled(found, scale)
            self.load_steps += 1
            done, step, state = scale, 2 * step, found
            if done < 1:
                tangent = self._tangent(state)
        return state

    def _size(self, change: Vector) -> float:
        """Largest bending angle or stretch of a change of the coefficients."""
        return float(np.abs(self.solver.rod.scale * change).max())

    def _tangent(self, state: RestState) -> Vector:
        """Dc per fraction of the load."""
        last = self.solver.state(state.c, self.case).force
        load = last - self.solver.state(state.c, self.begin).force
        step: Vector = self.solver.inverse_root.T @ -np.linalg.lstsq(state.hessian, load, rcond=1e-9)[0]
        return step

    def result(self, state: RestState) -> Equilibrium:
        rod, case = self.solver.rod, self.case
        rod.checked(state.c)
        moduli = np.abs(state.spectrum)
        shorter = rod.rest_m - state.length_m
        held, stretch = case.stiffness > 0, case.spooled - shorter
        spool = case.tension + np.where(held, case.stiffness * np.maximum(stretch, 0.0), 0.0)
        return Equilibrium(
            c=state.c,
            tension=spool,
            friction=spool - state.tension,
            length_m=state.length_m,
            hessian=state.own_hessian,
            gradient=state.gradient,
            residual=state.residual,
            iterations=self.iterations,
            load_steps=self.load_steps,
            stability=state.stability,
            condition=float(moduli.max() / moduli.min()) if moduli.min() > 0 else float("inf"),
            conservative=self.solver.conservative,
            snapped=bool(self.snaps),
            snapped_at=tuple(self.snaps),
            energy_j=state.energy if self.solver.conservative else None,
            slack_m=np.where(held, np.maximum(-stretch, 0.0), 0.0),
            taut=held & (stretch > 0),
            determined=True,
            rod=rod,
            _case=case,
            _diverges=state.diverges,
        )

    def _failure(self, problem: str, residual: float) -> ConvergenceError:
        return ConvergenceError(f"static equilibrium: {problem}", residual, RESIDUAL_TOLERANCE, self.iterations)


def _lower(state: RestState, trial: RestState, direction: Vector, fraction: float) -> bool:
    """Whether a part of a step along an energy is good: by Armijo's condition.

    Where the energy's decrease drowns in rounding, by that of Hager and Zhang, SIAM J. Optim. 16 (2005) 170.
    """
    slope, ahead = float(state.force @ direction), float(trial.force @ direction)
    if trial.energy <= state.energy + _ARMIJO * fraction * slope:
        return True
    level = trial.energy <= state.energy + 1e-12 * (abs(state.energy) + 1e-3)
    return level and slope <= ahead <= -(1 - 2 * _ARMIJO) * slope


def _direction(state: RestState, along_energy: bool, hessian: Vector | None = None) -> Vector:
    """Newton's step in scaled coordinates, or one with another Hessian; along the energy turned downhill."""
    if not along_energy:
        return np.asarray(-np.linalg.solve(state.hessian if hessian is None else hessian, state.force), dtype=float)
    direction, state.bent = downhill(state.hessian, state.force)
    return direction
