# SPDX-License-Identifier: Apache-2.0
"""A simulated rod of any strains and any routing, however stiff, with its motors, capstans and contacts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.robot.coupling import Coupling, coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import ALL, WITH_CAPSTANS
from continuum_robot.rod.fiber import curvature_matrix
from continuum_robot.rod.friction.capstan_friction import TANH_PER_RADIAN, CapstanFriction
from continuum_robot.rod.friction.capstans import tension_from_torque
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.resistance import PathFriction
from continuum_robot.rod.holding_force import STICKING_OVER_TENDON
from continuum_robot.rod.places import RodPlaces
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.contact import Kinematics, PlantContacts
from continuum_robot.simulation.motors import MotorModel
from continuum_robot.simulation.moving_rod import MovingRod, Springs

Vector = NDArray[np.float64]


class Drive(NamedTuple):
    """What a body takes as given while it is advanced; not a dataclass, as one is made in every cycle."""

    desired: Vector
    force: Vector
    offset_m: Vector
    stiffness_fraction: Vector
    motor_free: Vector
    current_limit_a: Vector
    time_s: float
    contacts_from_s: float


class PlantBody(Protocol):
    """Rod, tendons and motors with their state; vectors that it gives are copies."""

    substep_s: float

    @property
    def rest(self) -> Vector:
        """Equilibrium without tension under gravity alone, (n,)."""

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity in the base frame, (3,), m/s^2."""

    def reset(self, c: Vector) -> None:
        """Be at rest at coefficients ``c`` (n,), without tension and current, no tendon slack; in their units."""

    def advance(self, drive: Drive, duration_s: float) -> None:
        """Integrate for a duration of more than 0 s; raises ContinuumRobotError where it diverges."""

    @property
    def c(self) -> Vector:
        """Strain coefficients, (n,), 1/m for curvatures."""

    @property
    def c_rate(self) -> Vector:
        """Their rates, (n,)."""

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the motor's current (A), (3, N); of a body with motors."""

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the rod, (N,), m."""

    @property
    def rod_velocity(self) -> Vector:
        """Its rate, (N,), m/s."""

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, (strings,), m."""

    @property
    def fiber_curvature(self) -> Vector:
        """Curvature about x and y at every grating of the robot's fibre, (2 g,), 1/m."""

    def tension(self, drive: Drive, /) -> Vector:
        """True tensions, (N,), N."""

    def friction_torque(self, tension_n: Vector, velocity: Vector, /) -> Vector:
        """Friction that resists each capstan, (capstans,), N.m, for tensions (N,) and rates of tendons (N,), m/s."""

    @property
    def kinematics(self) -> Kinematics:
        """Of the rod, for its contacts."""

    def reach(self) -> Kinematics:
        """Of the rod, for a push anywhere, with contacts or without."""


def diverged(robot: Robot, time_s: float, remedy: str) -> ContinuumRobotError:
    """The error of a simulation that diverged at a plant time (s), with a remedy as a sentence without a full stop."""
    return ContinuumRobotError(f"the simulation of {robot.name} diverged at {time_s:.3f} s: {remedy}")


Driving = Callable[[Vector, Vector], tuple[Vector, Vector | float]]

_ITERATIONS = 60
_SHORTEST = 1e-3  # part of a step
_TOLERANCE_M_PER_S = 1e-10


class SharedMotors:
    """M motors, servos or with a current each, one implicit step after the other; spools follow by q = T y + q0.

    The tendons give way meanwhile as springs whose other ends go on as fast as before.
    """

    def __init__(
        self, coupling: Coupling, motor: MotorModel, stiffness_n_per_m: Vector, wires: Vector, backlash_m: float = 0.0
    ) -> None:
        cogging_n = float(motor.cogging_n.max())
        for name, value in (("friction_travel_m", motor.friction_travel_m), ("cogging_amplitude_nm", cogging_n)):
            if value:
                raise ParameterError(f"actuators.{name}", value, "0 in simulation, where tendons share motors")
        motors = coupling.matrix.shape[1]
        self._coupling, self._motor, self._stiffness = coupling, motor.first(motors), stiffness_n_per_m
        self._wires = coupling.matrix.T @ wires
        self._unmoving = np.zeros((0, motors))
        self.wound_m, self.speed_m_per_s, self.force_n, self.current_a, self._behind_m = np.zeros((5, motors))
        self._play_m = backlash_m / 2

    def reset(self, displacement_m: Vector) -> None:
        """Be at rest nearest to displacements of the tendons, (N,), m."""
        coupling = self._coupling
        self.wound_m = coupling.inverse @ (displacement_m - coupling.offset_m)
        self.speed_m_per_s, self.force_n, self.current_a, self._behind_m = np.zeros((4, len(self.wound_m)))

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the current of its motor (A), (3, N)."""
        coupling = self._coupling
        return np.array(
            [
                coupling.tendons(self.wound_m),
                coupling.moved(self.speed_m_per_s),
                coupling.each_tendons(self.current_a),
            ]
        )

    @property
    def spooled_m(self) -> Vector:
        """Tendon on each spool, (N,), m: behind what the encoder shows by the play of the gear."""
        return self._coupling.tendons(self.wound_m - self._behind_m)

    def move(
        self, drive: Drive, tension_n: Vector, followed_m_per_s: Vector, rubbed_nm: Vector, duration_s: float
    ) -> None:
        """Go on for a time."""
        coupling, motor, h = self._coupling, self._motor, duration_s
        newton_per_ampere = motor.newton_per_ampere / coupling.radius_at(coupling.tendons(self.wound_m))
        free = coupling.each_motors_least(drive.motor_free) > 0
        largest_n = coupling.each_motors_least(drive.current_limit_a) * newton_per_ampere
        driving = self._driving(drive.desired, largest_n, newton_per_ampere, h)
        taut = coupling.matrix * (self._stiffness * (tension_n > 0))[:, None]
        springs = h**2 * coupling.matrix.T @ taut
        followed_ns = h**2 * taut.T @ followed_m_per_s
        pulled, before, speed = coupling.forces(tension_n), self.speed_m_per_s, self.speed_m_per_s
        if self._play_m:  # within it the spool goes to where its tendons balance
            stiff = np.diag(coupling.matrix.T @ taut)
            further = np.divide(pulled, stiff, out=np.zeros_like(pulled), where=stiff > 0)
            self._behind_m = np.clip(self._behind_m + further, -self._play_m, self._play_m)

        def missed(speed: Vector) -> tuple[Vector, Vector]:
            """By how much the momenta miss these speeds at the end, N.s, and its slope, kg."""
            place = self.wound_m + h * speed
            force, falls = driving(place, speed)
            dry, dry_slope = motor.dry_friction(speed, place, self._unmoving, h)
            sense = np.tanh(TANH_PER_RADIAN * (self._wires.T @ speed))  # johnston (37), at the capstans' speeds
            away = motor.mass_kg * (speed - before) - h * (force - motor.viscous_ns_per_m * speed - dry - pulled)
            away += springs @ speed - followed_ns + h * self._wires @ (sense * rubbed_nm)
            slope = springs + np.diag(motor.mass_kg + h * (falls + motor.viscous_ns_per_m + dry_slope))
            slope += h * (self._wires * (TANH_PER_RADIAN * (1 - sense**2) * rubbed_nm)) @ self._wires.T
            return away, slope

        away, slope = missed(speed)
        for _ in range(_ITERATIONS):
            step = np.linalg.solve(slope, -away)
            size, part = float(away @ away), 1.0
            # Friction is steep at rest and flat beyond: a whole step from there would go to and fro.
            while True:
                away, slope = missed(speed + part * step)
                if away @ away <= (1 - 0.2 * part) * size or part < _SHORTEST:
                    break
                part /= 2
            speed = speed + part * step
            if np.abs(step).max() <= _TOLERANCE_M_PER_S:
                break
        else:
            raise ConvergenceError(
                "motors that share tendons", float(np.abs(step).max()), _TOLERANCE_M_PER_S, _ITERATIONS
            )
        self.speed_m_per_s = np.where(free, speed, 0.0)
        self.wound_m = self.wound_m + h * self.speed_m_per_s
        self.force_n = driving(self.wound_m, self.speed_m_per_s)[0]
        if motor.servo is not None:
            self.current_a = self.force_n / newton_per_ampere

    def _driving(self, desired: Vector, largest_n: Vector, newton_per_ampere: Vector, h: float) -> Driving:
        """Force of the motors at the end of a step, and how fast it falls with the speed there, by place and speed."""
        coupling, servo = self._coupling, self._motor.servo
        if servo is None:
            # The lag of the current is integrated exactly; what accelerates the rotor is its mean over the step.
            asked, lag = coupling.each_motors(desired), h / self._motor.current_time_constant_s
            away = self.current_a - asked
            force = newton_per_ampere * (asked + away * (1 - np.exp(-lag)) / lag)
            self.current_a = asked + away * np.exp(-lag)
            return lambda _place, _speed: (force, 0.0)
        goal = coupling.goals(desired, coupling.tendons(self.wound_m))
        return lambda place, speed: servo.force(goal, place, speed, largest_n, h)


_BENT_RAD = 5e-3
"""Through so small a bend of a segment what tendons lose on their way stays as it is."""


class RodBody:
    """Rod, tendons and motors; a :class:`PlantBody`."""

    def __init__(self, robot: Robot, motor: MotorModel | None, contacts: PlantContacts) -> None:
        self._robot, self._motor, self._contacts = robot, motor, contacts
        self.substep_s = robot.simulation.substep_s
        self._friction, settings = CapstanFriction(robot), robot.simulation
        stiffness, fitted = robot.tendon_stiffnesses_n_per_m, robot.displaced_tendons
        stiffest = self._stiffest = float(stiffness.max())
        # What a fit has found of the tendons' stiffness does not change with their tension.
        stiffening = settings.tendon_stiffening_per_n if fitted is None else 0.0
        springs = Springs(stiffest, stiffening, settings.tendon_damping_ns_per_m)
        self._share = np.ones(robot.tendon_count) if motor is None else stiffness / stiffest
        self._rubs, self._rubbing = PathFriction(robot), np.zeros((2, robot.tendon_count))
        self._rubbing[1] = STICKING_OVER_TENDON * stiffness
        coupling = None if motor is None else coupling_of(robot)
        self._shared = None
        if coupling is not None and motor is not None:
            self._shared = SharedMotors(coupling, motor, stiffness, tension_from_torque(robot), settings.backlash_m)
        self._yield_s = settings.tendon_damping_ns_per_m / stiffest
        # With motors the capstans' inertia is that of the rotors.
        parts = WITH_CAPSTANS if motor is None else ALL
        self.moving = MovingRod(
            Rod(robot, stations_m=self._friction.stations_m.tolist(), parts=parts),
            springs=None if motor is None else springs,
            motor=motor if self._shared is None else None,
            friction=self._friction,
            hysteresis=RodHysteresis(robot),
            rubbing=self._rubbing if self._rubs.acts else None,
            surfaces=contacts.surface_count,
            linear=not robot.traits.nonlinear_lengths,
            method=settings.method,
        )
        strings = Rod(robot, paths=[string.path for string in robot.strings])
        self._strings_m, self._strings_at = strings.rest_m, strings.prepared_lengths()
        self._curvature = curvature_matrix(robot)
        self.kinematics: Kinematics = RodPlaces(robot, contacts.locations_m)
        self.reset(self.rest)

    @cached_property
    def rest(self) -> Vector:
        """Equilibrium without tension under gravity alone, (n,)."""
        return equilibrium(self.moving.rod).c

    def set_payload(self, payload_kg: float) -> None:
        """Carry another mass at the tip, kg; the momentum stays."""
        self.moving.rod.payload_kg = payload_kg
        self.__dict__.pop("rest", None)

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity in the base frame, (3,), m/s^2."""
        self.moving.rod.gravity_m_per_s2 = gravity_m_per_s2
        self.__dict__.pop("rest", None)

    def reset(self, c: Vector) -> None:
        """Be at rest at coefficients ``c`` (n,), in their units, without tension and current, no tendon slack."""
        self.moving.reset(c)
        self._followed_m_per_s = np.zeros(self._robot.tendon_count)
        self._rubbed_c = np.full(c.shape, np.nan)
        if self._shared is not None:
            self._shared.reset(self.moving.displacement_m)
            self.moving.spooled_m[:] = self._shared.spooled_m

    def advance(self, drive: Drive, duration_s: float) -> None:
        """Integrate for a duration of more than 0 s."""
        moving, touched = self.moving, self._contacts.size > 0
        moving.desired[:], moving.force[:], moving.offset_m[:] = drive.desired, drive.force, drive.offset_m
        np.multiply(drive.stiffness_fraction, self._share, out=moving.stiffness_fraction)
        if self._rubs.acts and not np.abs(moving.c - self._rubbed_c).max() * self._robot.length_m < _BENT_RAD:
            self._rubbing[0], self._rubbed_c = self._rubs.fraction(moving.c), moving.c.copy()
        moving.motor_free[:], moving.largest_current_a[:] = drive.motor_free > 0, drive.current_limit_a
        if self._shared is not None:
            moving.motor_free[:] = 0.0
        if self._motor is None:
            moving.desired[:] = np.maximum(drive.desired, 0.0)
        steps = max(1, math.ceil(duration_s / self.substep_s * (1 - 1e-3)))
        try:
            if not touched and self._shared is None:
                moving.step(duration_s, steps)
                return
            for k in range(steps):
                if touched:
                    now_s = drive.time_s + k * duration_s / steps - drive.contacts_from_s
                    values, pushed = self._contacts.parameters(self.kinematics, moving.c, moving.c_rate, now_s)
                    moving.touching[: values.size], moving.force[:] = values, drive.force + pushed
                if self._shared is not None:
                    self._turn(self._shared, drive, duration_s / steps)
                else:
                    moving.step(duration_s / steps)
        except ConvergenceError as error:
            raise self.diverged(error, drive.time_s) from error

    def diverged(self, error: ConvergenceError, time_s: float) -> ContinuumRobotError:
        """The error of a step at a plant time (s) that was not solved."""
        return diverged(self._robot, time_s, f"reduce the gains ({error})")

    @property
    def ordinary(self) -> bool:
        """Whether it is moved by motors of its own, one a tendon, touches nothing, and has no past."""
        moving = self.moving
        alone = self._motor is not None and self._shared is None and not self._contacts.size
        return alone and moving.keeps_nothing and not self._rubs.acts

    @property
    def share(self) -> Vector:
        """Of each tendon's stiffness in the stiffest one's, (N,)."""
        return self._share

    def _turn(self, shared: SharedMotors, drive: Drive, duration_s: float) -> None:
        """A step of the motors, then one of the rod, whose spools are held where they are in the middle of it."""
        moving, begin_m, before_m = self.moving, shared.spooled_m, self.rod_displacement
        rubbed = self._friction.wires_lose(moving.kept_by_wires(), moving.tension_n)
        shared.move(drive, moving.tension_n, self._followed_m_per_s, rubbed, duration_s)
        end_m, speed = shared.spooled_m, shared.spools[1]
        moving.spooled_m[:] = 0.5 * (begin_m + end_m)
        # A held spool has no speed there: what it adds to the damper's force is a stretch of the spring.
        moving.offset_m[:] = drive.offset_m - self._yield_s * speed
        moving.step(duration_s)
        moving.spooled_m[:] = end_m
        self._followed_m_per_s = (self.rod_displacement - before_m) / duration_s
        stretched_n = 0.5 * self._stiffest * moving.stiffness_fraction * (end_m - begin_m)
        moving.tension_n[:] = np.where(moving.tension_n > 0, np.maximum(moving.tension_n + stretched_n, 0.0), 0.0)

    @property
    def c(self) -> Vector:
        """Strain coefficients, (n,), 1/m for curvatures."""
        return self.moving.c.copy()

    @property
    def c_rate(self) -> Vector:
        """Their rates, (n,)."""
        return self.moving.rate()

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the motor's current (A), (3, N); with motors."""
        if self._shared is not None:
            return self._shared.spools
        return self.moving.spools.copy()

    def tension(self, _drive: Drive) -> Vector:
        """Tensions at the end of the latest step, (N,), N."""
        return self.moving.tension_n.copy()

    def friction_torque(self, tension_n: Vector, velocity: Vector) -> Vector:
        """Friction that resists each capstan, (capstans,), N.m, for tensions (N,) and rates of tendons (N,), m/s."""
        friction = self._friction
        speed = friction.speeds(velocity)
        return friction.torque(self.moving.kept_by_wires(), speed, friction.wires_of_tension(tension_n))

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the rod, (N,), m."""
        return self.moving.displacement_m

    @property
    def rod_velocity(self) -> Vector:
        """Its rate, (N,), m/s."""
        return np.asarray(-self.moving.rod.lengths(self.moving.c).gradient @ self.c_rate)

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, (strings,), m."""
        return np.asarray(self._strings_m - self._strings_at(self.moving.c).length_m)

    @property
    def fiber_curvature(self) -> Vector:
        """Curvature about x and y at every grating of the robot's fibre, (2 g,), 1/m."""
        return np.asarray(self._curvature @ self.moving.c)

    def reach(self) -> Kinematics:
        """Of the rod, for a push anywhere, with contacts or without."""
        return self.kinematics
