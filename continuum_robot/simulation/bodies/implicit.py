# SPDX-License-Identifier: Apache-2.0
"""A simulated rod in implicit steps: any strains, any routing, however stiff, with its motors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.inertia import damping_matrix
from continuum_robot.rod.strain.dynamics import StrainDynamics
from continuum_robot.rod.strain.motion import SDIRK_FRACTION
from continuum_robot.rod.strain.stage_solver import Extrapolation, Spools, Stage, StageSolver
from continuum_robot.simulation.bodies.plant_body import Drive, diverged
from continuum_robot.simulation.bodies.rod_body import RodBody
from continuum_robot.simulation.motors import MotorModel, tendon_tension

Vector = NDArray[np.float64]

LONGEST_STEP_S = 1e-3
_HALVINGS = 8
_GUESSED_FROM = 3
_TOLERANCE = 1e-8  # rad: a thousandth of what an encoder of 20 bits on the rod would see


class _State:
    """State of rod and motors, views of one array; not changed once it is made.

    Parameters
    ----------
    values : (3 n + 4 N,)
    size : number n of coefficients

    Attributes
    ----------
    c, c_rate, momentum : (n,) of the rod
    spooled_m, speed_m_per_s, current_a : (N,) of the motors; zeros where there are none
    tension_n : (N,) at the end of the latest step
    """

    __slots__ = ("c", "c_rate", "current_a", "momentum", "speed_m_per_s", "spooled_m", "tension_n", "values")

    def __init__(self, values: Vector, size: int) -> None:
        self.values = values
        self.c, self.c_rate, self.momentum = values[:size], values[size : 2 * size], values[2 * size : 3 * size]
        tendons = values[3 * size :].reshape(4, -1)
        self.spooled_m, self.speed_m_per_s, self.current_a, self.tension_n = tendons


class _Given(NamedTuple):
    """What a step takes as given."""

    drive: Drive
    force: Vector  # with that of pushes by contacts
    contacts: Vector | None


class ImplicitBody(RodBody):
    """Rod, tendons and motors in steps of the L-stable method of rod/strain/motion.py, all solved together.

    Parameters
    ----------
    robot, motor, contacts, progress, compile : as of :class:`RodBody`; a robot without capstans

    Raises
    ------
    ParameterError : capstans, whose friction only explicit steps have
    ContinuumRobotError : ``compile="always"`` and no C compiler
    """

    substep_s = LONGEST_STEP_S

    def _check(self, robot: Robot) -> None:
        for segment in robot.segments:
            if segment.capstans is not None:
                raise ParameterError(f"capstans of {segment.name}", segment.capstans, "none with implicit steps")

    @property
    def compiled(self) -> bool:
        """Whether it runs as machine code."""
        return self._solver.compiled

    def _make(self) -> None:
        robot, motor, progress = self._robot, self._motor, self._progress
        self._spools = None if motor is None else _MotorSpools(robot, motor)
        self._solver = StageSolver(
            StrainDynamics(self._rod, damping=damping_matrix(robot)),
            self._spools,
            self._contacts,
            compile=self._compile,
            progress=progress,
        )
        self._rates = Extrapolation(_GUESSED_FROM)
        self._time_s = 0.0
        if progress is not None and robot.simulation.substep_s != LONGEST_STEP_S:
            progress(
                f"the plant of {robot.name} takes implicit steps of {LONGEST_STEP_S:g} s instead of"
                f" simulation.substep_s = {robot.simulation.substep_s:g} s"
            )

    def reset(self, c: Vector) -> None:
        """Be at rest at coefficients ``c`` (n,), in their units, tendons straight and without tension."""
        self._solver.forget()
        self._rates.clear()
        self._time_s = 0.0
        zero, none = np.zeros(self._size), np.zeros(self._tendons)
        spooled = none if self._motor is None else self._rod.tendon_displacement(c)
        self._at = _State(np.concatenate([c, zero, zero, spooled, none, none, none]), self._size)
        self._hysteresis.reset(c)
        if self._spools is not None:
            self._spools.reset(spooled)

    def advance(self, drive: Drive, duration_s: float) -> None:
        """Integrate for a duration of more than 0 s.

        Raises
        ------
        ContinuumRobotError : parts of a 256th of a step do not converge either
        """
        steps = max(1, math.ceil(duration_s / LONGEST_STEP_S * (1 - 1e-3)))
        step_s = duration_s / steps
        for k in range(steps):
            force, values = drive.force - self._hysteresis.move(self._at.c), None
            if self._contacts.size:
                now_s = drive.time_s + k * step_s - drive.contacts_from_s
                values, pushed = self._contacts.parameters(self.kinematics, self._at.c, self._at.c_rate, now_s)
                force = force + pushed
            try:
                self._at = self._parts(self._at, _Given(drive, force, values), step_s, _HALVINGS)
            except ConvergenceError as error:
                raise diverged(self._robot, drive.time_s, f"reduce the gains ({error})") from error
            if self._spools is not None:
                self._spools.move(self._at.spooled_m)

    @property
    def c(self) -> Vector:
        """Strain coefficients, (n,), 1/m for curvatures."""
        return self._at.c.copy()

    @property
    def c_rate(self) -> Vector:
        """Their rates, (n,)."""
        return self._at.c_rate.copy()

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the motor's current (A), (3, N); with motors."""
        return np.array([self._at.spooled_m, self._at.speed_m_per_s, self._at.current_a])

    def tension(self, _drive: Drive) -> Vector:
        """Tensions at the end of the latest step, (N,), N."""
        return self._at.tension_n.copy()

    def _parts(self, state: _State, given: _Given, step_s: float, halvings: int) -> _State:
        begun_s = self._time_s
        try:
            return self._step(state, given, step_s)
        except ConvergenceError:
            self._time_s = begun_s
            self._rates.clear()
            if not halvings:
                raise
            middle = self._parts(state, given, step_s / 2, halvings - 1)
            return self._parts(middle, given, step_s / 2, halvings - 1)

    def _step(self, state: _State, given: _Given, h: float) -> _State:
        g = SDIRK_FRACTION * h
        self._time_s += g
        first = self._stage(state, given, g)
        fraction = (1 - SDIRK_FRACTION) / SDIRK_FRACTION
        base = _State(state.values + fraction * (first.values - state.values), self._size)
        self._time_s += h - g
        return self._stage(base, given, g)

    def _stage(self, base: _State, given: _Given, g: float) -> _State:
        rate = self._rates.at(self._time_s)
        guess = base.c + g * (base.c_rate if rate is None else rate)
        drive, free = given.drive, given.drive.motor_free > 0
        end = _State(np.empty_like(base.values), self._size)
        pull: Vector | Spools
        if self._motor is None or self._spools is None:
            pull = drive.stiffness_fraction * np.maximum(drive.desired, 0.0)
            end.current_a[:] = base.current_a
        else:
            lag = g / self._motor.current_time_constant_s
            end.current_a[:] = (base.current_a + lag * drive.desired) / (1 + lag)
            pull = Spools(base.spooled_m, free * base.speed_m_per_s, self._spools.parameters(drive, end.current_a))
        found: Stage = self._solver.solve(
            g,
            base.c,
            base.momentum,
            guess,
            pull,
            force=given.force,
            contacts=given.contacts,
            tolerance=_TOLERANCE,
        )
        self._rates.add(self._time_s, found.c_rate)
        end.c[:], end.c_rate[:], end.momentum[:], end.tension_n[:] = (
            found.c,
            found.c_rate,
            found.momentum,
            found.tension,
        )
        end.speed_m_per_s[:] = found.spool_speed_m_per_s
        np.multiply(g, end.speed_m_per_s, out=end.spooled_m)
        end.spooled_m += base.spooled_m
        return end


class _MotorSpools:
    """Spools that motors turn, and tendons that only pull; the model of simulation/motors.py."""

    def __init__(self, robot: Robot, motor: MotorModel) -> None:
        self._settings, self._count = robot.simulation, robot.tendon_count
        self._motor = replace(motor, cogging_phase_rad=np.zeros(robot.tendon_count))
        # A phase as a length: the generated code is then the same for all of them.
        phase_m = motor.cogging_phase_rad / (motor.cogging_rad_per_m or 1.0)
        anchors = motor.anchor_count(self._count)
        self.size = 5 * self._count + anchors
        self._values = np.concatenate([np.zeros(4 * self._count), phase_m, np.zeros(anchors)])
        self._rows = self._values.reshape(-1, self._count)
        self._slip: MaxwellSlip | None = None

    def reset(self, spooled: Vector) -> None:
        """Rest at spooled lengths (N,), m."""
        self._slip = self._motor.slip(spooled)
        self.move(spooled)

    def move(self, spooled: Vector) -> None:
        """Take the dry friction's memory to spooled lengths (N,), m."""
        if self._slip is not None:
            self._slip.move(spooled)
            self._rows[5:] = self._slip.anchors

    def terms(self, stretch: Any, stretch_rate: Any, spooled: Any, speed: Any, parameters: Any) -> tuple[Any, Any]:
        usual, anchors = ca.vertsplit(parameters, [0, 5 * self._count, self.size])
        current, offset, fraction, free, phase_m = ca.vertsplit(usual, self._count)
        tension = tendon_tension(self._settings, stretch, stretch_rate, offset, fraction)
        return tension, free * self._motor.acceleration(spooled + phase_m, speed, current, tension, anchors, spooled)

    def parameters(self, drive: Drive, current: Vector) -> Vector:
        """Values for ``parameters``: currents (A) and the state of the tendons by the drive."""
        rows = self._rows
        rows[0], rows[1], rows[2], rows[3] = current, drive.offset_m, drive.stiffness_fraction, drive.motor_free > 0
        return self._values
