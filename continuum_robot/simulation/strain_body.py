# SPDX-License-Identifier: Apache-2.0
"""The simulated robot whose rod is general: any strains, any routing, with its motors, in implicit steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.strain_dynamics import StrainDynamics, robot_damping
from continuum_robot.rod.strain_motion import SDIRK_SHARE
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.strain_statics import equilibrium
from continuum_robot.rod.strain_step import Extrapolation, SpoolLaw, Spools, Stage, StageSolver, Surfaces
from continuum_robot.simulation.motors import FRICTION_SPEED_M_PER_S, MotorModel

Vector = NDArray[np.float64]

LONGEST_STEP_S = 1e-3
_HALVINGS = 8
_GUESSED_FROM = 3
_TOLERANCE = 1e-8  # rad: a thousandth of what an encoder of 20 bits on the rod would see


@dataclass(frozen=True, slots=True)
class BodyState:
    """State of rod and motors.

    Attributes
    ----------
    c, c_rate, momentum : (n,) of the rod
    wound_m, speed_m_per_s, current_a : (N,) of the motors; zeros where there are none
    tension_n : (N,) at the end of the latest step
    """

    c: Vector
    c_rate: Vector
    momentum: Vector
    wound_m: Vector
    speed_m_per_s: Vector
    current_a: Vector
    tension_n: Vector


@dataclass(frozen=True, slots=True)
class Drive:
    """What a step takes as given.

    Attributes
    ----------
    wanted : (N,) currents in A with motors, tensions in N without
    force : (n,) generalised force, N.m^2 for curvatures
    offset_m, stiffness_share, motor_free : (N,) as :class:`~continuum_robot.simulation.plant.Plant` has them
    surfaces : that may touch the rod
    """

    wanted: Vector
    force: Vector
    offset_m: Vector
    stiffness_share: Vector
    motor_free: Vector
    surfaces: Surfaces | None


class StrainBody:
    """Rod, tendons and motors in steps of the L-stable method of rod/strain_motion.py, all solved together.

    Tendons of :attr:`Robot.routed_tendons` have no motors: they are slack.

    Parameters
    ----------
    robot : of any basis and routing, without capstans
    motor : of the tendons; None: the tensions are given

    Attributes
    ----------
    rod : its kinematics
    size : number n of coefficients

    Raises
    ------
    ParameterError : capstans, which need a rod that only bends
    ContinuumRobotError : no C compiler
    """

    def __init__(self, robot: Robot, motor: MotorModel | None) -> None:
        for segment in robot.segments:
            if segment.capstans is not None:
                raise ParameterError(
                    f"capstans of {segment.name}", segment.capstans, "none on a rod that does more than bend"
                )
        self.rod = StrainRod.from_robot(replace(robot, routed_tendons=()))
        self.size, self._count, self._motor = self.rod.size, robot.tendon_count, motor
        self._dynamics = StrainDynamics(self.rod, damping=robot_damping(robot, self.rod))
        self._solver = StageSolver(self._dynamics)
        self._rates = Extrapolation(_GUESSED_FROM)
        self._time_s = 0.0
        count = np.ones(robot.tendon_count)
        self._stiffness = robot.simulation.tendon_stiffness_n_per_m * count
        self._resistance = robot.simulation.tendon_damping_ns_per_m * count

    def rest(self) -> Vector:
        """Equilibrium without tension, (n,)."""
        return equilibrium(self.rod).c

    def at_rest(self, c: Vector) -> BodyState:
        """The state at rest at coefficients (n,), tendons straight and without tension."""
        self._solver.forget()
        self._rates.clear()
        self._time_s = 0.0
        zero, none = np.zeros(self.size), np.zeros(self._count)
        wound = none if self._motor is None else self.rod.tendon_displacement(c)
        return BodyState(c.copy(), zero, zero, wound, none, none, none)

    def step(self, state: BodyState, drive: Drive, step_s: float) -> BodyState:
        """The state ``step_s`` later; raises ConvergenceError where parts of a 256th of it do not converge either."""
        return self._parts(state, drive, step_s, _HALVINGS)

    def _parts(self, state: BodyState, drive: Drive, step_s: float, halvings: int) -> BodyState:
        begun_s = self._time_s
        try:
            return self._step(state, drive, step_s)
        except ConvergenceError:
            self._time_s = begun_s
            self._rates.clear()
            if not halvings:
                raise
            middle = self._parts(state, drive, step_s / 2, halvings - 1)
            return self._parts(middle, drive, step_s / 2, halvings - 1)

    def _step(self, state: BodyState, drive: Drive, h: float) -> BodyState:
        g = SDIRK_SHARE * h
        self._time_s += g
        first = self._stage(state, drive, g)
        share = (1 - SDIRK_SHARE) / SDIRK_SHARE
        base = BodyState(
            *(
                begin + share * (end - begin)
                for begin, end in (
                    (state.c, first.c),
                    (state.c_rate, first.c_rate),
                    (state.momentum, first.momentum),
                    (state.wound_m, first.wound_m),
                    (state.speed_m_per_s, first.speed_m_per_s),
                    (state.current_a, first.current_a),
                    (state.tension_n, first.tension_n),
                )
            )
        )
        self._time_s += h - g
        return self._stage(base, drive, g)

    def _stage(self, base: BodyState, drive: Drive, g: float) -> BodyState:
        rate = self._rates.at(self._time_s)
        guess = base.c + g * (base.c_rate if rate is None else rate)
        found: Stage
        if self._motor is None:
            tension = drive.stiffness_share * np.maximum(drive.wanted, 0.0)
            found = self._solve(base, guess, g, tension, drive)
            wound, speed, current = base.wound_m, base.speed_m_per_s, base.current_a
        else:
            lag = g / self._motor.current_time_constant_s
            current = (base.current_a + lag * drive.wanted) / (1 + lag)
            free = drive.motor_free > 0
            found = self._solve(base, guess, g, self._spools(self._motor, base, current, drive), drive)
            speed = np.where(free, found.spool_speed_m_per_s, 0.0)
            wound = base.wound_m + g * speed
        self._rates.add(self._time_s, found.c_rate)
        return BodyState(found.c, found.c_rate, found.momentum, wound, speed, current, found.tension)

    def _spools(self, motor: MotorModel, base: BodyState, current: Vector, drive: Drive) -> Spools:
        law = SpoolLaw(
            stiffness_n_per_m=drive.stiffness_share * self._stiffness,
            damping_ns_per_m=drive.stiffness_share * self._resistance,
            mass_kg=np.where(drive.motor_free > 0, motor.mass_kg, 0.0),
            viscous_ns_per_m=motor.viscous_ns_per_m,
            coulomb_n=motor.coulomb_n,
            friction_speed_m_per_s=FRICTION_SPEED_M_PER_S,
            cogging_n=motor.cogging_n,
            cogging_rad_per_m=motor.cogging_rad_per_m,
            cogging_phase_rad=motor.cogging_phase_rad,
        )
        return Spools(law, base.wound_m, base.speed_m_per_s, motor.newton_per_ampere * current, drive.offset_m)

    def _solve(self, base: BodyState, guess: Vector, g: float, pull: Vector | Spools, drive: Drive) -> Stage:
        return self._solver.solve(
            g,
            base.c,
            base.momentum,
            guess,
            pull,
            force=drive.force,
            surfaces=drive.surfaces,
            tolerance=_TOLERANCE,
        )


def steps_of(duration_s: float) -> tuple[int, float]:
    """How many equal steps a duration takes, and how long each is, s."""
    count = max(1, math.ceil(duration_s / LONGEST_STEP_S * (1 - 1e-3)))
    return count, duration_s / count
