# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: rod engine, tendons and motors, integrated with a fixed step in compiled C."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.capstans import drives, tension_from_torque, torque_from_tension
from continuum_robot.rod.code_generation import FastFunction, compile_functions
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.statics import equilibrium
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.strain_step import Surfaces
from continuum_robot.rod.tendon_friction import TendonFriction
from continuum_robot.rod.tendons import beyond_bending
from continuum_robot.simulation.contact import FRICTION_SPEED_M_PER_S as CONTACT_FRICTION_SPEED_M_PER_S
from continuum_robot.simulation.contact import Contact, ContactLoad, PlantContacts
from continuum_robot.simulation.motors import MotorModel, tendon_tension
from continuum_robot.simulation.strain_body import LONGEST_STEP_S, Drive, StrainBody, steps_of

Vector = NDArray[np.float64]

ACTUATIONS = ("motors", "ideal")
BLOCK_S = 1e-3
# The Runge-Kutta method of order 4 is stable to 2.78 on the real and 2.82 on the imaginary axis; up to this product of
# rate and step it is accurate enough to leave the fast modes where they are.
STABLE_PRODUCT = 1.5


@dataclass(frozen=True, slots=True)
class PlantState:
    """State of the plant.

    Attributes
    ----------
    time_s : time since the reset, s
    c, c_rate : strain coefficients of the rod (1/m) and their rates, shape (n,)
    motor_position_m, motor_velocity_m_per_s : tendon wound on each spool, 0 at the straight configuration, shape (N,);
        the rod's own displacement with ideal actuation
    current_a : motor currents, shape (N,); NaN with ideal actuation
    """

    time_s: float
    c: Vector
    c_rate: Vector
    motor_position_m: Vector
    motor_velocity_m_per_s: Vector
    current_a: Vector


class Plant:
    """A robot that moves under commanded tendon tensions.

    With ``actuation="motors"`` a commanded tension becomes a current, limited to the motor's largest, with the lag of
    the current loop; the motor has inertia, friction and cogging; the tendon is a spring and damper between spool and
    rod that only pulls, so it can go slack. With ``actuation="ideal"`` the tension is the command at once, and a
    negative command is 0, as in muhmann's simulation. On a robot with capstans the wires' friction in the disks resists
    the spools, johnston (32)-(37), or the rod with ideal actuation. Deterministic for the generator and the sequence of
    calls.

    A robot whose rod does more than bend, or whose tendons or strings are not parallel to it, has a plant with the
    general rod in implicit steps, see simulation/strain_body.py; the interface is the same. It needs a compiler.

    Parameters
    ----------
    robot : with ``actuators`` for ``actuation="motors"``
    actuation : "motors" or "ideal"
    rng : draws the rotors' angles; None: from the robot's seed
    progress : receives a line when something takes long or is not as the robot's file says
    compile : "auto", "always" or "never", as in rod/code_generation.py
    contacts : what touches the robot, by the plant's time

    Attributes
    ----------
    substep_s : step of the integrator in use: the robot file's, or a fraction of it where that would be unstable
    compiled : whether it runs as machine code
    tendon_offset_m : additional length of each tendon, 0 normally, shape (N,), m; may be written between calls
    stiffness_share : 1 for a sound tendon, 0 for one that is cut, shape (N,); may be written
    motor_free : 1 for a sound motor, 0 for one that is stuck, shape (N,); may be written
    current_limit_a : largest current of each motor, shape (N,), A; may be written
    contacts_from_s : plant time at which the contacts' own time begins, 0 normally, s; may be written
    limited : where the latest command was beyond what the motors give (or negative), shape (N,), bool

    Raises
    ------
    ParameterError : unknown actuation, no actuators, or a contact at a place that the robot does not have; capstans on
        a general rod
    ContinuumRobotError : a general rod without a compiler
    """

    def __new__(cls, robot: Robot, **_: Any) -> Plant:
        """The kind of plant that the robot's basis and routing ask for."""
        return object.__new__(_StrainPlant if cls is Plant and beyond_bending(robot) else cls)

    def __init__(
        self,
        robot: Robot,
        *,
        actuation: str = "motors",
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        compile: str = "auto",
        contacts: Sequence[Contact] = (),
    ) -> None:
        self._begin(robot, actuation, rng, contacts)
        # With motors the capstans' inertia is that of the rotors.
        self._model = RodModel(robot, actuator_inertia=actuation == "ideal")
        self._friction = TendonFriction(robot, compile="never")
        self._jacobian = np.array(self._model.tendon_matrix, dtype=float)  # parallel tendons: constant
        self._strings = np.array(self._model.string_matrix, dtype=float)
        derivative = self._derivative()
        self._start_c = self._rest()
        self.substep_s = self._stable_substep(derivative, progress)
        self._block = max(1, round(BLOCK_S / self.substep_s))
        single = _runge_kutta_4(derivative, "plant_step")
        many = _repeated(single, self._block, "plant_block")
        made = [single, many, *([self._model.pose, self._model.body_jacobian] if contacts else [])]
        functions = compile_functions(made, f"the plant of {robot.name}", compile=compile, progress=progress)
        self._kinematics = _Kinematics(robot, functions.get("pose"), functions.get("body_jacobian"))
        self._single: FastFunction = functions["plant_step"]
        self._many: FastFunction = functions["plant_block"]
        self.compiled = self._many.compiled
        self.reset()

    def _begin(
        self, robot: Robot, actuation: str, rng: np.random.Generator | None, contacts: Sequence[Contact]
    ) -> None:
        if actuation not in ACTUATIONS:
            raise ParameterError("actuation", actuation, "one of " + ", ".join(ACTUATIONS))
        if actuation == "motors" and robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self.robot, self.actuation = robot, actuation
        self._contacts = PlantContacts(robot, contacts)
        self._untouched = np.zeros(self._contacts.size)
        self._hand: _Kinematics | _RodKinematics | None = None
        self._push: tuple[float, Vector] | None = None
        self._size, self._tendons = robot.coefficient_count, robot.tendon_count
        self._no_force = np.zeros(self._size)
        rng = np.random.default_rng(robot.simulation.seed) if rng is None else rng
        self.motor: MotorModel | None = None
        if actuation == "motors" and robot.actuators is not None:
            self.motor = MotorModel.from_actuators(robot.actuators, self._tendons, rng)

    # --- running it

    def reset(self, c: ArrayLike | None = None) -> None:
        """At rest, without tension and current, motors wound so that no tendon is slack; nothing is broken.

        Parameters
        ----------
        c : (n,) strain coefficients, 1/m; None: the rod's equilibrium under gravity alone

        Raises
        ------
        ParameterError : wrong shape or not finite
        """
        start = self._checked_start(c)
        parts = [start, np.zeros(self._size)]
        if self.motor is not None:
            parts += [self._jacobian @ start, np.zeros(self._tendons), np.zeros(self._tendons)]
        self._y = np.concatenate(parts)
        self._renew()

    def _checked_start(self, c: ArrayLike | None) -> Vector:
        start = self._start_c if c is None else np.asarray(c, dtype=float)
        if start.shape != (self._size,) or not np.isfinite(start).all():
            raise ParameterError("c", c, f"{self._size} finite coefficients")
        return start

    def _renew(self) -> None:
        """Time begins, nothing is broken, nobody pushes."""
        self._time_s = 0.0
        self._push = None
        self._input = np.zeros(self._tendons)
        self.tendon_offset_m = np.zeros(self._tendons)
        self.stiffness_share = np.ones(self._tendons)
        self.motor_free = np.ones(self._tendons)
        largest = math.inf if self.robot.actuators is None else self.robot.actuators.maximum_current_a
        self.current_limit_a = np.full(self._tendons, largest)
        self.limited = np.zeros(self._tendons, dtype=bool)
        self.contacts_from_s = 0.0

    def advance(
        self, tension_command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None = None
    ) -> None:
        """Integrate with constant commands.

        Parameters
        ----------
        tension_command : (N,) tensions, N; what cannot be given is reported in ``limited``
        duration_s : s
        generalized_force : (n,) other force on the strain coefficients, e.g. of a contact, N.m^2; None: none

        Raises
        ------
        ParameterError : wrong shape, not finite, or a negative duration
        ContinuumRobotError : the integration diverged
        """
        force = self._take(tension_command, duration_s, generalized_force)
        if duration_s == 0:
            return
        steps = max(1, math.ceil(duration_s / self.substep_s * (1 - 1e-9)))
        h = duration_s / steps
        fixed = [self.tendon_offset_m, self.stiffness_share, self.motor_free]
        parameters = np.concatenate([self._input, force, *fixed, self._untouched])
        y, done = self._y, 0
        while done < steps:
            if self._contacts.size:
                touching, push = self._touching(y, self._time_s + done * h)
                parameters = np.concatenate([self._input, force + push, *fixed, touching])
            if steps - done >= self._block:
                y, done = self._many(y, parameters, h), done + self._block
                continue
            for _ in range(steps - done):
                y = self._single(y, parameters, h)
            done = steps
        if not math.isfinite(y.sum()):
            raise ContinuumRobotError(
                f"the simulation of {self.robot.name} diverged at {self._time_s:.3f} s: reduce simulation.substep_s"
                f" (now {self.substep_s:g} s), or the gains"
            )
        self._y = y
        self._time_s += duration_s

    def _take(self, tension_command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None) -> Vector:
        """Check what :meth:`advance` got, take the command, and return the generalised force with that of the push."""
        command = np.asarray(tension_command, dtype=float)
        if command.shape != (self._tendons,) or not math.isfinite(command.sum()):
            raise ParameterError("tension_command", tension_command, f"{self._tendons} finite tensions in N")
        if not 0 <= duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a duration of at least 0 s")
        force = self._no_force if generalized_force is None else np.asarray(generalized_force, dtype=float)
        force = force + self._pushed()
        self._input = self._limit(command)
        return force

    def push(self, arc_length_m: float, force_in_base_n: ArrayLike) -> None:
        """Push on the backbone from now on, beside the contacts, until :meth:`release` or :meth:`reset`.

        Parameters
        ----------
        arc_length_m : where, from the base, m
        force_in_base_n : shape (3,), N

        Raises
        ------
        ParameterError : a place that the robot does not have, or a force that is not finite
        """
        force = np.array(force_in_base_n, dtype=float)
        if not 0 <= arc_length_m <= self.robot.length_m * (1 + 1e-9):
            raise ParameterError("arc_length_m", arc_length_m, f"0 to {self.robot.length_m:g} m")
        if force.shape != (3,) or not np.isfinite(force).all():
            raise ParameterError("force_in_base_n", force_in_base_n, "three finite components in N")
        if self._hand is None:
            self._hand = self._reach()
        self._push = (min(float(arc_length_m), self.robot.length_m), force)

    def _reach(self) -> _Kinematics | _RodKinematics:
        """Kinematics for a push anywhere."""
        needed = [self._model.pose, self._model.body_jacobian]
        made = compile_functions(needed, f"pushes on {self.robot.name}", compile="never")
        return _Kinematics(self.robot, made["pose"], made["body_jacobian"])

    def release(self) -> None:
        """End the push."""
        self._push = None

    def _pushed(self) -> Vector:
        """Generalised force of the push at the shape now, shape (n,)."""
        hand, push = self._hand, self._push  # another thread may release meanwhile
        if hand is None or push is None:
            return np.zeros(self._size)
        c = self.c
        if not math.isfinite(c.sum()):  # reported after the last step
            return np.zeros(self._size)
        rotation = hand.poses(c, [push[0]])[0, :3, :3]
        jacobian: Vector = hand.body_jacobian(c, push[0])
        return jacobian[:3].T @ (rotation.T @ push[1])

    def _touching(self, y: Vector, time_s: float) -> tuple[Vector, Vector]:
        """Parameters of the contacts for the next block of steps, and the generalised force of pushes."""
        if not math.isfinite(y.sum()):  # reported after the last step
            return np.zeros(self._contacts.size), np.zeros(self._size)
        c, c_rate = y[: self._size].copy(), y[self._size : 2 * self._size]
        return self._contacts.parameters(self._kinematics, c, c_rate, time_s - self.contacts_from_s)

    def _limit(self, command: Vector) -> Vector:
        """What the motors (currents, A) or ideal tendons (tensions, N) make of a command."""
        if self.motor is None:
            self.limited = command < 0
            return np.maximum(command, 0.0)  # a tendon cannot push
        current = command / self.motor.newton_per_ampere
        allowed = np.minimum(np.maximum(current, -self.current_limit_a), self.current_limit_a)
        self.limited = allowed != current
        return allowed

    # --- what can be seen

    @property
    def tendon_count(self) -> int:
        """N."""
        return self._tendons

    @property
    def time_s(self) -> float:
        """Time since the reset, s."""
        return self._time_s

    @property
    def c(self) -> Vector:
        """Strain coefficients, shape (n,), 1/m."""
        return self._y[: self._size].copy()

    @property
    def c_rate(self) -> Vector:
        """Their rates, shape (n,), 1/(m.s)."""
        return self._y[self._size : 2 * self._size].copy()

    @property
    def state(self) -> PlantState:
        """The whole state, as copies."""
        return PlantState(self._time_s, self.c, self.c_rate, self.displacement, self.velocity, self.current)

    @property
    def displacement(self) -> Vector:
        """Displacement of the tendons at the spools, which the motors' encoders see, shape (N,), m."""
        return self.rod_displacement if self.motor is None else self._motor_part(0)

    @property
    def velocity(self) -> Vector:
        """Its rate, shape (N,), m/s."""
        return self._jacobian @ self.c_rate if self.motor is None else self._motor_part(1)

    @property
    def current(self) -> Vector:
        """Motor currents, shape (N,), A; NaN with ideal actuation."""
        return np.full(self._tendons, np.nan) if self.motor is None else self._motor_part(2)

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the rod: that at the spools less the stretch or slack, shape (N,), m."""
        return self._jacobian @ self.c

    @property
    def tension(self) -> Vector:
        """True tensions, shape (N,), N."""
        if self.motor is None:
            return self._input.copy()
        stretch = self.displacement - self.rod_displacement
        rate = self.velocity - self._jacobian @ self.c_rate
        value = tendon_tension(self.robot.simulation, stretch, rate, self.tendon_offset_m, self.stiffness_share)
        return np.array(value, dtype=float).reshape(-1)

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, shape (strings,), m."""
        return self._strings @ self.c

    @property
    def contact_loads(self) -> tuple[ContactLoad, ...]:
        """The truth about every contact now: where it is, and the wrench that the robot feels."""
        return self._contacts.loads(self._kinematics, self.c, self.c_rate, self._time_s - self.contacts_from_s)

    def pose(self, s_m: float) -> Vector:
        """Frame of the backbone at an arc length (m) in the base frame, shape (4, 4); of a plant with contacts."""
        return np.array(self._kinematics.poses(self.c, [s_m])[0])

    @property
    def friction_torque(self) -> Vector:
        """Friction that resists each capstan, shape (capstans,), N.m; empty for a robot without."""
        if not self._friction.capstan_count:
            return np.zeros(0)
        torque = torque_from_tension(self.robot) @ self.tension
        value = self._friction.resistance(
            self.c, self._capstan_speed(self.velocity), torque, self._friction.coefficients
        )
        return np.array(value, dtype=float).reshape(-1)

    def _capstan_speed(self, velocity: Any) -> Any:
        # Half of the difference of both tendons, so that a stretched pair counts as it winds.
        return _speed_of_capstans(self.robot) @ velocity

    @property
    def model(self) -> RodModel:
        """The rod's symbolic model."""
        return self._model

    def _motor_part(self, index: int) -> Vector:
        start = 2 * self._size + index * self._tendons
        return self._y[start : start + self._tendons].copy()

    # --- making it

    def _derivative(self) -> ca.Function:
        """(y, parameters) -> y'; parameters are input (N), generalised force (n), offset, stiffness share, free (N).

        After these come the parameters of the contacts.
        """
        n, N = self._size, self._tendons
        y = ca.MX.sym("y", 2 * n + (3 * N if self.motor is not None else 0))
        own = n + 4 * N
        parameters = ca.MX.sym("parameters", own + self._contacts.size)
        wanted, force, offset, share, free = ca.vertsplit(
            parameters[:own], [0, N, N + n, 2 * N + n, 3 * N + n, 4 * N + n]
        )
        c, rate = y[:n], y[n : 2 * n]
        if self._contacts.size:
            force = force + self._contacts.expression(c, rate, parameters[own:])
        to_force = ca.MX(ca.DM(self._jacobian.T))
        acceleration = self._model.acceleration
        if self.motor is None:
            tension = share * ca.fmax(wanted, 0)
            if self._friction.capstan_count:
                resisting = self._resisting(c, ca.DM(self._friction.jacobian) @ rate, tension)
                force = force - ca.DM(self._friction.jacobian.T) @ resisting  # johnston (38), (41)
            change = [rate, acceleration(c, rate, to_force @ tension + force)]
        else:
            position, speed, current = y[2 * n : 2 * n + N], y[2 * n + N : 2 * n + 2 * N], y[2 * n + 2 * N :]
            stretch = position - ca.DM(self._jacobian) @ c
            stretch_rate = speed - ca.DM(self._jacobian) @ rate
            tension = tendon_tension(self.robot.simulation, stretch, stretch_rate, offset, share)
            load: Any = tension
            if self._friction.capstan_count:
                resisting = self._resisting(c, ca.DM(_speed_of_capstans(self.robot)) @ speed, tension)
                load = tension + ca.DM(tension_from_torque(self.robot)) @ resisting  # half on each of the pair
            change = [
                rate,
                acceleration(c, rate, to_force @ tension + force),
                free * speed,
                free * self.motor.acceleration(position, speed, current, load) - (1 - free) * speed / BLOCK_S,
                (wanted - current) / self.motor.current_time_constant_s,
            ]
        return ca.Function("plant_derivative", [y, parameters], [ca.vertcat(*change)], ["y", "parameters"], ["change"])

    def _resisting(self, c: Any, capstan_speed: Any, tension: Any) -> Any:
        """Friction torque on the capstans, expression; johnston (37)."""
        torque = ca.DM(torque_from_tension(self.robot)) @ tension
        return self._friction.resistance(c, capstan_speed, torque, ca.DM(self._friction.coefficients))

    def _rest(self) -> Vector:
        """Equilibrium without tension; straight where gravity allows it."""
        gradient = np.array(self._model.potential(np.zeros(self._size))[1], dtype=float).ravel()
        if np.abs(gradient).max() < 1e-12:
            return np.zeros(self._size)
        return equilibrium(RodDynamics(self.robot, compile="never"), np.zeros(self._tendons)).c

    def _stable_substep(self, derivative: ca.Function, progress: Callable[[str], None] | None) -> float:
        """The robot file's substep, or the largest whole fraction of it that the fastest mode allows."""
        wanted = self.robot.simulation.substep_s
        fastest = fastest_rate(derivative, self._linearised_at())
        parts = max(1, math.ceil(wanted * fastest / STABLE_PRODUCT))
        if parts > 1 and progress is not None:
            progress(
                f"the plant of {self.robot.name} takes steps of {wanted / parts:.3g} s instead of"
                f" simulation.substep_s = {wanted:g} s: its fastest mode has {fastest:.4g} 1/s"
            )
        return wanted / parts

    def _linearised_at(self) -> tuple[Vector, Vector]:
        """At rest with all tendons tight, where springs and dampers act; moved to the steepest cogging."""
        n, N = self._size, self._tendons
        parameters = np.concatenate([np.zeros(N + n + N), np.ones(2 * N), np.zeros(self._contacts.size)])
        if self.motor is None:
            return np.concatenate([self._start_c, np.zeros(n)]), parameters
        position = self._jacobian @ self._start_c + 1e-3
        y = np.concatenate([self._start_c, np.zeros(n), position, np.zeros(2 * N)])
        return y, parameters


class _StrainPlant(Plant):
    """The plant of a robot with a general rod."""

    def __init__(
        self,
        robot: Robot,
        *,
        actuation: str = "motors",
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        compile: str = "auto",
        contacts: Sequence[Contact] = (),
    ) -> None:
        self._begin(robot, actuation, rng, contacts)
        if compile == "never":
            raise ParameterError("compile", compile, "auto or always: the plant of a general rod is machine code")
        self._body = StrainBody(robot, self.motor)
        self._rod_kinematics = _RodKinematics(robot, self._body.rod)
        self._start_c = self._body.rest()
        self.substep_s, self.compiled = LONGEST_STEP_S, True
        if progress is not None and robot.simulation.substep_s != LONGEST_STEP_S:
            progress(
                f"the plant of {robot.name} takes implicit steps of {LONGEST_STEP_S:g} s instead of"
                f" simulation.substep_s = {robot.simulation.substep_s:g} s: its rod is general"
            )
        self.reset()

    def reset(self, c: ArrayLike | None = None) -> None:
        self._at = self._body.at_rest(self._checked_start(c))
        self._renew()

    def advance(
        self, tension_command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None = None
    ) -> None:
        force = self._take(tension_command, duration_s, generalized_force)
        if duration_s == 0:
            return
        steps, step_s = steps_of(duration_s)
        for k in range(steps):
            push, surfaces = force, None
            if self._contacts.size:
                now_s = self._time_s + k * step_s - self.contacts_from_s
                values, pushed = self._contacts.parameters(self._rod_kinematics, self._at.c, self._at.c_rate, now_s)
                push = force + pushed
                surfaces = Surfaces(values, self._contacts.surface_count, CONTACT_FRICTION_SPEED_M_PER_S)
            drive = Drive(self._input, push, self.tendon_offset_m, self.stiffness_share, self.motor_free, surfaces)
            try:
                self._at = self._body.step(self._at, drive, step_s)
            except ConvergenceError as error:
                raise ContinuumRobotError(
                    f"the simulation of {self.robot.name} diverged at {self._time_s:.3f} s: reduce the gains ({error})"
                ) from error
        self._time_s += duration_s

    @property
    def c(self) -> Vector:
        return self._at.c.copy()

    @property
    def c_rate(self) -> Vector:
        return self._at.c_rate.copy()

    @property
    def velocity(self) -> Vector:
        if self.motor is None:
            return np.asarray(self._body.rod.displacement_jacobian(self._at.c) @ self._at.c_rate)
        return self._at.speed_m_per_s.copy()

    @property
    def rod_displacement(self) -> Vector:
        return self._body.rod.tendon_displacement(self._at.c)

    @property
    def tension(self) -> Vector:
        return self._at.tension_n.copy()

    @property
    def string_extension(self) -> Vector:
        return self._body.rod.string_extension(self._at.c)

    @property
    def contact_loads(self) -> tuple[ContactLoad, ...]:
        now_s = self._time_s - self.contacts_from_s
        return self._contacts.loads(self._rod_kinematics, self._at.c, self._at.c_rate, now_s)

    def pose(self, s_m: float) -> Vector:
        return self._body.rod.poses(self._at.c, [s_m])[0]

    @property
    def friction_torque(self) -> Vector:
        return np.zeros(0)

    @property
    def model(self) -> RodModel:
        raise ContinuumRobotError(f"{self.robot.name} has a general rod, see continuum_robot.rod.strain_rod")

    def _reach(self) -> _Kinematics | _RodKinematics:
        return self._rod_kinematics

    def _motor_part(self, index: int) -> Vector:
        return (self._at.wound_m, self._at.speed_m_per_s, self._at.current_a)[index].copy()


class _RodKinematics:
    """The general rod as the contacts ask for it."""

    def __init__(self, robot: Robot, rod: StrainRod) -> None:
        self.robot, self._rod = robot, rod
        self.poses, self.body_jacobian = rod.poses, rod.body_jacobian


def _speed_of_capstans(robot: Robot) -> Vector:
    """Matrix from the speeds of all tendons (m/s) to those of the capstans (rad/s), shape (capstans, N)."""
    matrix = np.zeros((len(drives(robot)), robot.tendon_count))
    for row, drive in zip(matrix, drives(robot), strict=True):
        row[drive.pulled], row[drive.released] = 0.5 / drive.path_per_radian_m, -0.5 / drive.path_per_radian_m
    return matrix


class _Kinematics:
    """Pose and body Jacobian for the contacts."""

    def __init__(self, robot: Robot, pose: FastFunction | None, jacobian: FastFunction | None) -> None:
        self.robot, self._pose, self._jacobian = robot, pose, jacobian

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        if self._pose is None:
            raise ContinuumRobotError("the plant was made without contacts")
        return np.array([self._pose(c, place) for place in np.atleast_1d(np.asarray(s, dtype=float))])

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        if self._jacobian is None:
            raise ContinuumRobotError("the plant was made without contacts")
        return self._jacobian(c, s)


def fastest_rate(derivative: ca.Function, at: tuple[Vector, Vector]) -> float:
    """Largest magnitude of an eigenvalue of the linearised plant, 1/s.

    Parameters
    ----------
    derivative : (y, parameters) -> y'
    at : y, shape (n_y,), and parameters, shape (n_p,), at which to linearise
    """
    y, parameters = ca.MX.sym("y", derivative.size1_in(0)), ca.MX.sym("p", derivative.size1_in(1))
    jacobian = ca.Function("jacobian", [y, parameters], [ca.jacobian(derivative(y, parameters), y)])
    return float(np.abs(np.linalg.eigvals(np.array(jacobian(*at), dtype=float))).max())


def _runge_kutta_4(derivative: ca.Function, name: str) -> ca.Function:
    """(y, parameters, h) -> y after one step of the classical method; the derivative stays a function."""
    y, parameters, h = ca.MX.sym("y", derivative.size1_in(0)), ca.MX.sym("p", derivative.size1_in(1)), ca.MX.sym("h")
    k1 = derivative(y, parameters)
    k2 = derivative(y + h / 2 * k1, parameters)
    k3 = derivative(y + h / 2 * k2, parameters)
    k4 = derivative(y + h * k3, parameters)
    return ca.Function(name, [y, parameters, h], [y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)], ["y", "p", "h"], ["next"])


def _repeated(step: ca.Function, count: int, name: str) -> ca.Function:
    """The step ``count`` times with the same parameters; calls, not copies of the code."""
    y, parameters, h = (ca.MX.sym(step.name_in(i), step.size1_in(i)) for i in range(3))
    value: Any = y
    for _ in range(count):
        value = step(value, parameters, h)
    return ca.Function(name, [y, parameters, h], [value], ["y", "p", "h"], ["next"])
