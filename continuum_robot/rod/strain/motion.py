# SPDX-License-Identifier: Apache-2.0
"""Time stepping of the general rod: implicit, for strains that are stiff.

Every implicit step is made of stages of the one form c - c_0 = g v, p - p_0 = g f(c, v), p = M(c) v:

- "midpoint": one stage with half the step, then as far again. Symplectic, second order, conserves what is conserved; it
  neither resolves nor damps vibrations that are faster than the step.
- "sdirk": two stages (Alexander's method, g = (1 - 1/sqrt 2) h), second order and L-stable: vibrations faster than the
  step die out, slow ones stay.

A stage is solved in rod/strain/stage_solver.py. A step that does not converge is halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.strain.dynamics import Pull, StrainDynamics
from continuum_robot.rod.strain.stage_solver import Extrapolation, StageSolver

Vector = NDArray[np.float64]
PullOverTime = Callable[[float], Pull]
ForceOverTime = Callable[[float, Vector, Vector], ArrayLike]

METHODS = ("midpoint", "sdirk")
SDIRK_FRACTION = 1 - 1 / math.sqrt(2)  # Alexander (1977), L-stable
_GUESSED_FROM = {"midpoint": 4, "sdirk": 3}  # stages; what needs the fewest iterations on a robot of three segments
_HALVINGS = 12


@dataclass(frozen=True, slots=True)
class MotionState:
    """A moment of a motion.

    Attributes
    ----------
    time_s : s
    c : (n,)
    momentum : M(c) c_rate, (n,), N.m^2.s for curvatures
    c_rate : (n,) as the latest stage had it; :meth:`StrainDynamics.rate` of the momentum to rounding
    """

    time_s: float
    c: Vector
    momentum: Vector
    c_rate: Vector


@dataclass(frozen=True, slots=True)
class StrainMotion:
    """A motion at the times asked for.

    Attributes
    ----------
    time_s : (k,)
    c, c_rate : (k, n)
    iterations : evaluations of the forces
    matrices : evaluations of mass and stiffness
    shortest_step_s : s
    """

    time_s: Vector
    c: Vector
    c_rate: Vector
    iterations: int
    matrices: int
    shortest_step_s: float


class Stepper:
    """Advances a rod; keeps the matrix of Newton's method from step to step.

    Parameters
    ----------
    dynamics : what moves
    method : see the module
    tolerance : last correction of a stage's solution, in bending angle or relative stretch; these add up over steps
    compile : "auto", "always" or "never", as in :func:`~continuum_robot.rod.code.generation.compile_functions`

    Raises
    ------
    ParameterError : an unknown method, or a tolerance that is not positive
    """

    def __init__(
        self, dynamics: StrainDynamics, method: str = "sdirk", *, tolerance: float = 1e-10, compile: str = "auto"
    ) -> None:
        if method not in METHODS:
            raise ParameterError("method", method, "one of " + ", ".join(METHODS))
        if not 0 < tolerance < 1e-2:
            raise ParameterError("tolerance", tolerance, "above 0, below 0.01")
        self.dynamics, self.method, self.tolerance = dynamics, method, tolerance
        self.shortest_step_s = math.inf
        self._solver = StageSolver(dynamics, compile=compile)
        self._rates = Extrapolation(_GUESSED_FROM[method])

    @property
    def iterations(self) -> int:
        """Evaluations of the forces."""
        return self._solver.iterations

    @property
    def matrices(self) -> int:
        """How often the matrix of Newton's method was made."""
        return self._solver.matrices

    def start(self, c: ArrayLike | None = None, c_rate: ArrayLike | None = None, time_s: float = 0.0) -> MotionState:
        """A state; None for the unstrained rod, and for rest."""
        size = self.dynamics.size
        position = np.zeros(size) if c is None else self.dynamics.rod.coefficients(c).copy()
        rate = np.zeros(size) if c_rate is None else self.dynamics.rod.coefficients(c_rate).copy()
        return MotionState(time_s, position, self.dynamics.momentum(position, rate), rate)

    def advance(
        self,
        state: MotionState,
        step_s: float,
        pull: PullOverTime | None = None,
        force: ForceOverTime | None = None,
    ) -> MotionState:
        """One step, or parts of it where Newton's method does not converge.

        Parameters
        ----------
        state : now
        step_s : s
        pull : time -> tensions or held tendons; None for none
        force : (time, c, c_rate) -> (n,) more generalised force; its derivative is not known to Newton's method

        Returns
        -------
        the state ``step_s`` later

        Raises
        ------
        ParameterError : a step that is not positive, or tensions of another number, not finite or negative
        ConvergenceError : neither did parts of a 4096th of it
        """
        if not (math.isfinite(step_s) and step_s > 0):
            raise ParameterError("step_s", step_s, "a positive time in s")
        return self._parts(state, step_s, pull, force, _HALVINGS)

    def _parts(
        self, state: MotionState, step_s: float, pull: PullOverTime | None, force: ForceOverTime | None, halvings: int
    ) -> MotionState:
        try:
            made = self._step(state, step_s, pull, force)
        except ConvergenceError:
            self._rates.clear()
            if not halvings:
                raise
            middle = self._parts(state, step_s / 2, pull, force, halvings - 1)
            return self._parts(middle, step_s / 2, pull, force, halvings - 1)
        self.shortest_step_s = min(self.shortest_step_s, step_s)
        return made

    def _step(
        self, state: MotionState, h: float, pull: PullOverTime | None, force: ForceOverTime | None
    ) -> MotionState:
        t = state.time_s
        if self.method == "midpoint":
            c, rate, momentum = self._stage(state, t + h / 2, h / 2, pull, force)
            # The rate at the end is not computed: that of the middle, drawn on, only starts Newton's method.
            return MotionState(t + h, 2 * c - state.c, 2 * momentum - state.momentum, 2 * rate - state.c_rate)
        g = SDIRK_FRACTION * h
        c, rate, momentum = self._stage(state, t + g, g, pull, force)
        fraction = (1 - SDIRK_FRACTION) / SDIRK_FRACTION
        base_c = state.c + fraction * (c - state.c)
        base_p = state.momentum + fraction * (momentum - state.momentum)
        c, rate, momentum = self._stage(MotionState(t + g, base_c, base_p, rate), t + h, g, pull, force)
        return MotionState(t + h, c, momentum, rate)

    def _stage(
        self, base: MotionState, time_s: float, g: float, pull: PullOverTime | None, force: ForceOverTime | None
    ) -> tuple[Vector, Vector, Vector]:
        """Solve c - c_0 = g v, p - p_0 = g f(c, v) from a base at the stage's time: c, v and p there."""
        held = None if pull is None else pull(time_s)
        rate = self._rates.at(time_s)
        guess = base.c + g * (base.c_rate if rate is None else rate)
        more = None if force is None else partial(force, time_s)
        found = self._solver.solve(g, base.c, base.momentum, guess, held, force=more, tolerance=self.tolerance)
        self._rates.add(time_s, found.c_rate)
        return found.c, found.c_rate, found.momentum


def simulate(
    dynamics: StrainDynamics,
    time_s: ArrayLike,
    c: ArrayLike | None = None,
    c_rate: ArrayLike | None = None,
    *,
    pull: PullOverTime | None = None,
    force: ForceOverTime | None = None,
    step_s: float = 1e-3,
    method: str = "sdirk",
    tolerance: float = 1e-10,
    compile: str = "auto",
) -> StrainMotion:
    """Motion from a start, by implicit steps.

    Parameters
    ----------
    dynamics : what moves
    time_s : (k,) increasing times at which it is desired, the first that of the start, s
    c, c_rate : (n,) at the start; None for the unstrained rod, and for rest
    pull : time -> tensions (N,) or :class:`HeldTendons`; None for none
    force : (time, c, c_rate) -> (n,) more generalised force
    step_s : longest step, s; between two times all steps are equal
    method : "sdirk" or "midpoint"
    tolerance : of a stage's solution, bending angle or relative stretch
    compile : "auto", "always" or "never"

    Returns
    -------
    the motion at ``time_s``

    Raises
    ------
    ParameterError : times that do not increase, or anything else out of range
    ConvergenceError : a step did not converge
    """
    times = _checked_times(time_s)
    if not (math.isfinite(step_s) and step_s > 0):
        raise ParameterError("step_s", step_s, "a positive time in s")
    stepper = Stepper(dynamics, method, tolerance=tolerance, compile=compile)
    state = stepper.start(c, c_rate, float(times[0]))
    kept = [(state.c, state.c_rate)]
    for begin_s, end_s in pairwise(times.tolist()):
        count = max(1, math.ceil((end_s - begin_s) / step_s * (1 - 1e-9)))
        for _ in range(count):
            state = stepper.advance(state, (end_s - begin_s) / count, pull, force)
        kept.append((state.c, dynamics.rate(state.c, state.momentum)))
    positions, rates = (np.array(part) for part in zip(*kept, strict=True))
    return StrainMotion(times, positions, rates, stepper.iterations, stepper.matrices, stepper.shortest_step_s)


def _checked_times(time_s: ArrayLike) -> Vector:
    times = np.asarray(time_s, dtype=float)
    if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise ParameterError("time_s", time_s, "two increasing times or more, s")
    return times
