# SPDX-License-Identifier: Apache-2.0
"""One implicit stage of the general rod's motion as one call of machine code: strain_step.c."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.rod.strain_dynamics import HeldTendons, Pull, StrainDynamics
from continuum_robot.rod.strain_kernel import Record, address, kernel
from continuum_robot.rod.strain_problem import checked_tension

Vector = NDArray[np.float64]

_SWEPT = 77  # doubles a station, as in the C code
_PULLS_A_NODE = 4


@dataclass(frozen=True, slots=True)
class SpoolLaw:
    """What turns the spools besides motor and tendon, as forces on the tendon.

    Attributes
    ----------
    stiffness_n_per_m, damping_ns_per_m : (N,) of the tendons, which only pull
    mass_kg : (N,) that moves with the tendon; 0: the spool is held
    viscous_ns_per_m, coulomb_n : friction
    friction_speed_m_per_s : below it dry friction fades out
    cogging_n, cogging_rad_per_m, cogging_phase_rad : cogging, (N,) phases
    """

    stiffness_n_per_m: Vector
    damping_ns_per_m: Vector
    mass_kg: Vector
    viscous_ns_per_m: float
    coulomb_n: float
    friction_speed_m_per_s: float
    cogging_n: float
    cogging_rad_per_m: float
    cogging_phase_rad: Vector


@dataclass(frozen=True, slots=True)
class Spools:
    """Spools that motors turn, before a stage.

    Attributes
    ----------
    law : how they move
    wound_m, speed_m_per_s : (N,) tendon on every spool, 0 at c = 0, and its rate
    motor_n : (N,) force of the motors at the stage's end
    offset_m : (N,) additional length of every tendon
    """

    law: SpoolLaw
    wound_m: Vector
    speed_m_per_s: Vector
    motor_n: Vector
    offset_m: Vector


@dataclass(frozen=True, slots=True)
class Surfaces:
    """Surfaces that may touch the rod, linear about a shape.

    Attributes
    ----------
    values : that shape (n,), then of each surface gap (m), stiffness (N/m), dissipation (s/m), friction coefficient,
        the gap's gradient (n), and the Jacobian of slip (2, n)
    count : of surfaces
    friction_speed_m_per_s : below it friction fades out
    """

    values: Vector
    count: int
    friction_speed_m_per_s: float


@dataclass(frozen=True, slots=True)
class Stage:
    """The end of a stage.

    Attributes
    ----------
    c, c_rate, momentum : (n,)
    tension : (N,) N
    spool_speed_m_per_s : (N,) of driven spools
    """

    c: Vector
    c_rate: Vector
    momentum: Vector
    tension: Vector
    spool_speed_m_per_s: Vector


class StageSolver:
    """Newton's method of stages c - c_0 = g v, p - p_0 = g f(c, v); keeps its matrix from stage to stage.

    The matrix is that of differences of the stage's equation itself, with all that f contains; it is made again where
    an iteration leaves more than half of the correction before it.

    Parameters
    ----------
    dynamics : what moves; this object and the dynamics are for one thread

    Raises
    ------
    ContinuumRobotError : there is no machine code, see rod/strain_kernel.py
    """

    def __init__(self, dynamics: StrainDynamics) -> None:
        library = kernel()
        if library is None:
            raise ContinuumRobotError("stages of the general rod need a C compiler (install gcc, or set CC)")
        self._solve = library.motion_stage
        self.dynamics = dynamics
        rod, n = dynamics.rod, dynamics.size
        count, nodes = rod.tendon_count, len(rod.tendons.nodes_m)
        mover = Record(
            (),
            (
                dynamics.chain.record,
                dynamics.loaded.record,
                rod.tendons.record,
                dynamics.inertia,
                np.ascontiguousarray(rod.stiffness),
                np.ascontiguousarray(dynamics.damping),
                np.ascontiguousarray(rod.strain_scale),
                np.zeros((len(dynamics.chain.s_m), _SWEPT)),
                np.zeros((nodes, count, _PULLS_A_NODE)),
                np.zeros((n, n)),
                np.zeros(7 * n + 3 * count),
                np.zeros(n, dtype=np.intc),
            ),
        )
        self._tension, self._slack, self._stiffness, self._resistance = np.zeros((4, count))
        self._wound, self._speed, self._motor, self._mass, self._phase = np.zeros((5, count))
        self._law, self._stage_speed, self._pulled = np.zeros(5), np.zeros(count), np.zeros(count)
        self._pull = Record(
            (0,),
            (
                self._tension,
                self._slack,
                self._stiffness,
                self._resistance,
                self._wound,
                self._speed,
                self._motor,
                self._mass,
                self._law,
                self._phase,
                self._stage_speed,
                self._pulled,
            ),
        )
        self._surface_speed = np.ones(1)
        self._surfaces = Record((0,), (np.zeros(0), self._surface_speed))
        self._touching: Surfaces | None = None
        self._extra, self._base_c, self._base_p = np.zeros((3, n))
        self._c, self._rate, self._momentum = np.zeros((3, n))
        self._numbers, self._state = np.zeros(2), np.zeros(4)
        self._mover = mover
        self._fixed = [
            address(part)
            for part in (
                self._extra,
                self._base_c,
                self._base_p,
                self._numbers,
                self._c,
                self._rate,
                self._momentum,
                self._state,
            )
        ]

    @property
    def iterations(self) -> int:
        """Evaluations of the stage's equation, without those for matrices."""
        return int(self._state[1])

    @property
    def matrices(self) -> int:
        """How often the matrix was made."""
        return int(self._state[2])

    def forget(self) -> None:
        """Make the matrix anew at the next stage."""
        self._state[0] = 0.0

    def solve(
        self,
        g: float,
        base_c: Vector,
        base_momentum: Vector,
        guess: Vector,
        pull: Pull | Spools = None,
        *,
        force: ArrayLike | None = None,
        surfaces: Surfaces | None = None,
        tolerance: float = 1e-10,
    ) -> Stage:
        """Solve a stage.

        Parameters
        ----------
        g : its length, s
        base_c, base_momentum : (n,) c_0 and p_0
        guess : (n,) guess of the coefficients c
        pull : of the tendons
        force : (n,) more generalised force, N.m^2 for curvatures
        surfaces : that may touch the rod
        tolerance : of the last correction, bending angle (rad) or relative stretch

        Raises
        ------
        ParameterError : tensions of another number, not finite or negative
        ConvergenceError : Newton's method does not converge
        """
        self._set_pull(pull)
        if surfaces is not self._touching:
            self._set_surfaces(surfaces)
        self._extra[:] = 0.0 if force is None else force
        self._base_c[:], self._base_p[:], self._c[:] = base_c, base_momentum, guess
        self._numbers[:] = g, tolerance
        done = self._solve(self._mover.pointer, self._pull.pointer, self._surfaces.pointer, *self._fixed)
        if not done:
            raise ConvergenceError("time step of the rod", float(self._state[3]), tolerance, self.iterations)
        return Stage(
            self._c.copy(), self._rate.copy(), self._momentum.copy(), self._pulled.copy(), self._stage_speed.copy()
        )

    def _set_pull(self, pull: Pull | Spools) -> None:
        rod = self.dynamics.rod
        if isinstance(pull, Spools):
            law = pull.law
            self._pull.put(0, 1)
            self._stiffness[:], self._resistance[:] = law.stiffness_n_per_m, law.damping_ns_per_m
            self._mass[:], self._motor[:], self._phase[:] = law.mass_kg, pull.motor_n, law.cogging_phase_rad
            self._law[:] = (
                law.viscous_ns_per_m,
                law.coulomb_n,
                law.friction_speed_m_per_s,
                law.cogging_n,
                law.cogging_rad_per_m,
            )
            self._wound[:], self._speed[:] = pull.wound_m, pull.speed_m_per_s
            self._slack[:] = rod.tendons.rest_m + pull.offset_m
        elif isinstance(pull, HeldTendons):
            wound = np.asarray(pull.displacement_m, dtype=float)
            if wound.shape != (rod.tendon_count,) or not np.isfinite(wound).all():
                raise ParameterError("displacement_m", pull.displacement_m, f"{rod.tendon_count} finite lengths, m")
            self._pull.put(0, 1)
            self._stiffness[:], self._wound[:] = pull.stiffness_n_per_m, wound
            self._resistance[:] = self._mass[:] = 0.0
            self._slack[:] = rod.tendons.rest_m
        else:
            self._pull.put(0, 0)
            self._tension[:] = checked_tension(rod, pull)

    def _set_surfaces(self, surfaces: Surfaces | None) -> None:
        self._touching = surfaces
        if surfaces is None or not surfaces.count:
            self._surfaces.put(0, 0)
            return
        self._surface_speed[0] = surfaces.friction_speed_m_per_s
        self._surfaces = Record((surfaces.count,), (np.ascontiguousarray(surfaces.values), self._surface_speed))


class Extrapolation:
    """Rates of the latest stages drawn on, as a guess for the next.

    Parameters
    ----------
    points : how many stages, which a polynomial passes through
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self._known: list[tuple[float, Vector]] = []

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def add(self, time_s: float, rate: Vector) -> None:
        """A rate that was found.

        Parameters
        ----------
        rate : of c, shape (n,)
        """
        if self._known and time_s <= self._known[-1][0]:
            self._known.clear()
        self._known = [*self._known[1 - self._points :], (time_s, rate)]

    def at(self, time_s: float) -> Vector | None:
        """The guess, shape (n,); None where nothing is known."""
        if not self._known:
            return None
        return sum((weight * rate for weight, rate in self._weighted(time_s)), np.zeros(len(self._known[0][1])))

    def _weighted(self, time_s: float) -> list[tuple[float, Vector]]:
        times = [known[0] for known in self._known]
        return [
            (math.prod((time_s - other) / (own - other) for other in times if other != own), rate)
            for own, rate in self._known
        ]
