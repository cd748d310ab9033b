# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: commands to its motors, pushes, contacts and faults, and what can be seen of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.geometry.finite import all_finite
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.bodies.rod_body import Drive, PlantBody, RodBody
from continuum_robot.simulation.contact import Contact, ContactLoad, Kinematics, PlantContacts
from continuum_robot.simulation.faults import DYNAMICS, check_plant_settings
from continuum_robot.simulation.motors import MotorModel
from continuum_robot.simulation.moving_rod import unsolved
from continuum_robot.simulation.wiring import Wiring

Vector = NDArray[np.float64]

ACTUATIONS = ("motors", "ideal")


@dataclass(frozen=True, slots=True)
class PlantState:
    """State of the plant."""

    time_s: float
    c: Vector
    c_rate: Vector
    motor_position_m: Vector
    motor_velocity_m_per_s: Vector
    current_a: Vector


class Plant:
    """A robot that moves under commands to its tendons: tensions, or displacements where its actuators take these.

    With ``actuation="motors"`` a commanded tension becomes a current, limited to the motor's largest, with the lag of
    the current loop, and a commanded displacement what the servo's position loop makes of it; the motor has inertia,
    friction and cogging; the tendon is a spring and damper between spool and rod that only pulls, so it can go slack.
    With ``actuation="ideal"`` the tension is the command at once, and a negative command is 0, as in muhmann's
    simulation. On a robot with capstans the wires' friction in the disks resists the spools, johnston (32)-(37), or the
    rod with ideal actuation. Deterministic for the generator and the sequence of calls.

    Motors are counted, and their displacements and currents seen, as the driver believes them; where the robot's
    ``simulation.wiring_errors`` differ, commands and readings do, not the tensions of its tendons.

    Parameters
    ----------
    robot : with ``actuators`` for ``actuation="motors"``
    actuation : "motors" or "ideal"
    rng : draws the rotors' angles; None: from the robot's seed
    progress : receives a line when something takes long or is not as the robot's file states
    contacts : what touches the robot, by the plant's time

    Attributes
    ----------
    substep_s : longest step of the integrator, s
    tendon_offset_m : additional length of each tendon, 0 normally, shape (N,), m; may be written between calls
    stiffness_fraction : 1 for a sound tendon, 0 for one that is cut, shape (N,); may be written
    motor_free : 1 for a sound motor, 0 for one that is stuck, shape (N,); may be written
    current_limit_a : largest current of each motor, shape (N,), A; may be written
    newton_per_ampere : tension for the current of each motor, shape (N,), N/A, in the driver's order
    wiring : what differs between its motors and those that the driver believes
    contacts_from_s : plant time at which the contacts' own time begins, 0 normally, s; may be written

    Raises
    ------
    ParameterError : unknown actuation, no actuators, or a contact at a place that the robot does not have
    ContinuumRobotError : the kernel's library was not built
    """

    LEVEL = DYNAMICS

    def __init__(
        self,
        robot: Robot,
        *,
        actuation: str = "motors",
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        contacts: Sequence[Contact] = (),
    ) -> None:
        if actuation not in ACTUATIONS:
            raise ParameterError("actuation", actuation, "one of " + ", ".join(ACTUATIONS))
        if actuation == "motors" and robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self.robot, self.actuation = robot, actuation
        self._size, self._tendons = robot.coefficient_count, robot.tendon_count
        self._contacts = PlantContacts(robot, contacts)
        self._no_force, self._coupling = np.zeros(self._size), coupling_of(robot)
        self.wiring = Wiring(robot, self._coupling)
        self._wired = actuation == "motors" and not self.wiring.right
        check_plant_settings(robot, self.LEVEL, self._coupling)
        self._fastest_m_per_s = np.zeros(self._tendons)  # without such a limit
        if robot.actuators is not None:
            winds = robot.actuators.each("motor_rad_per_m", self._tendons)
            self._fastest_m_per_s = robot.simulation.no_load_speed_rad_per_s / winds
        self._is_bounded = bool(self._fastest_m_per_s.any())
        rng = np.random.default_rng(robot.simulation.seed) if rng is None else rng
        self.motor: MotorModel | None = None
        if actuation == "motors" and robot.actuators is not None:
            # A motor brings its own mechanics to whichever tendon it really pulls.
            self.motor = MotorModel.from_actuators(robot.actuators, self._tendons, rng, self.wiring.to_tendons)
            self.newton_per_ampere = robot.actuators.each("newton_per_ampere", self._tendons)
        self._body: PlantBody = self._make_body(progress)
        self.substep_s = self._body.substep_s
        self.reset()

    def _make_body(self, _progress: Callable[[str], None] | None) -> PlantBody:
        return RodBody(self.robot, self.motor, self._contacts)

    # --- running it

    def reset(self, c: ArrayLike | None = None) -> None:
        """At rest, without tension and current, motors spooled so that no tendon is slack; nothing is broken.

        Parameters
        ----------
        c : (n,) strain coefficients, 1/m; None: the rod's equilibrium under gravity alone

        Raises
        ------
        ParameterError : wrong shape or not finite
        """
        start = self._body.rest if c is None else np.asarray(c, dtype=float)
        if start.shape != (self._size,) or not np.isfinite(start).all():
            raise ParameterError("c", c, f"{self._size} finite coefficients")
        self._body.reset(start)
        self._time_s = 0.0
        self._push: tuple[float, Vector] | None = None
        self._input = np.zeros(self._tendons)
        self.tendon_offset_m = np.zeros(self._tendons)
        self.stiffness_fraction = np.ones(self._tendons)
        self.motor_free = np.ones(self._tendons)
        self.current_limit_a = np.array(largest_currents_a(self.robot))
        self._asked = self._allowed = np.zeros(self._tendons)
        self.contacts_from_s = 0.0

    def restart(self, rng: np.random.Generator) -> None:
        """Be what a new one with this generator is: :meth:`reset`, with other angles of the rotors."""
        self.reset()
        if self.motor is not None:
            self.motor.cogging_phase_rad[:] = rng.uniform(0, 2 * np.pi, self._tendons)
            self._rod_body.moving.turn_rotors(self.motor.cogging_phase_rad)

    def advance(self, command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None = None) -> None:
        """Integrate with constant commands.

        Parameters
        ----------
        command : (N,) tensions, N, of which ``limited`` reports what cannot be given; or the displacements that servos
            shall hold, m, counted as ``displacement`` is, NaN where their torque is off
        duration_s : s
        generalized_force : (n,) other force on the strain coefficients, e.g. of a contact, N.m^2; None: none

        Raises
        ------
        ParameterError : wrong shape, not finite, or a negative duration
        ContinuumRobotError : the integration diverged
        """
        given = np.asarray(command, dtype=float)
        if given.shape != (self._tendons,) or not (self.has_servos or all_finite(given)):
            kind = "displacements in m" if self.has_servos else "finite tensions in N"
            raise ParameterError("command", command, f"{self._tendons} {kind}")
        if not 0 <= duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a duration of at least 0 s")
        force = self._no_force
        if generalized_force is not None:
            force = force + np.asarray(generalized_force, dtype=float)
        if self._push is not None:
            force = force + self._pushed()
        self._input = self._limit(given)
        if duration_s > 0:
            self._body.advance(self._drive(force), duration_s)
            self._time_s += duration_s

    @property
    def ordinary_body(self) -> RodBody | None:
        """The rod, where tensions are commanded to motors that each pull a tendon; else None."""
        body = self._body
        usual = not (self.has_servos or self._is_bounded or self._coupling is not None)
        return body if usual and isinstance(body, RodBody) and body.ordinary else None

    def step(self, step: Any, duration_s: float) -> None:
        """As :meth:`advance`, by a compiled :class:`.BoardStep` of its ordinary body, which has the command."""
        steps = max(1, math.ceil(duration_s / self.substep_s * (1 - 1e-3)))
        if not step.advance(duration_s, steps):
            raise self.diverged()
        self._time_s += duration_s

    def moved(self, time_s: float) -> None:
        """Steps of its ordinary body elsewhere have brought it to a time, s."""
        self._time_s = time_s

    def diverged(self) -> ContinuumRobotError:
        """The error of a step of the rod that has no solution."""
        return self._rod_body.diverged(unsolved(), self._time_s)

    @property
    def is_pushed(self) -> bool:
        """Whether somebody pushes."""
        return self._push is not None

    def take(self, asked: Vector, allowed: Vector) -> None:
        """A step will write what was asked of the motors, and what they give, A, (N,), into these arrays."""
        self._asked, self._allowed, self._input = asked, allowed, allowed

    def _drive(self, force: Vector) -> Drive:
        free, largest_a, offset_m = self.motor_free, self.current_limit_a, self.tendon_offset_m
        if self._wired:
            free, largest_a = self.wiring.to_tendons(free), self.wiring.to_tendons(largest_a)
            offset_m = offset_m + self.wiring.slack_m
        return Drive(
            self._input,
            force,
            offset_m,
            self.stiffness_fraction,
            free,
            largest_a,
            self._time_s,
            self.contacts_from_s,
        )

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
        place_m = min(float(arc_length_m), self.robot.length_m)
        self._reach.prepare(place_m)
        self._push = (place_m, force)

    def set_payload(self, payload_kg: float) -> None:
        """Hang another mass at the tip in place of the one before, between two steps.

        Parameters
        ----------
        payload_kg : kg

        Raises
        ------
        ParameterError : not a mass, or a plant that cannot change it
        """
        take = getattr(self._body, "set_payload", None)
        if take is None:
            raise ParameterError("payload_kg", payload_kg, "no change of MuJoCo's chain: bring it up with the payload")
        self.robot = self.robot.carrying(payload_kg)
        take(payload_kg)

    def set_gravity(self, gravity_m_per_s2: ArrayLike) -> None:
        """Go on in another gravity, as a stage turns the robot, between two steps.

        Parameters
        ----------
        gravity_m_per_s2 : in the base frame, (3,), m/s^2

        Raises
        ------
        ParameterError : not three finite values
        """
        self._body.set_gravity(np.asarray(gravity_m_per_s2, dtype=float))

    def release(self) -> None:
        """End the push."""
        self._push = None

    def _pushed(self) -> Vector:
        """Generalised force of the push at the shape now, shape (n,)."""
        push = self._push  # another thread may release meanwhile
        if push is None:
            return np.zeros(self._size)
        c = self.c
        if not math.isfinite(c.sum()):  # an error after the last step
            return np.zeros(self._size)
        rotation = self._reach.poses(c, [push[0]])[0, :3, :3]
        jacobian: Vector = self._reach.body_jacobian(c, push[0])
        return jacobian[:3].T @ (rotation.T @ push[1])

    def _limit(self, command: Vector) -> Vector:
        """What the motors (currents, A, or places of servos, m) or ideal tendons (tensions, N) make of a command."""
        if self.motor is None:
            self._asked, self._allowed = command, np.maximum(command, 0.0)  # a tendon cannot push
            return self._allowed
        if self.has_servos:
            return self.wiring.pulled(command, self.displacement) if self._wired else command
        if self._coupling is not None:
            radius = self._coupling.radius_at(self.displacement)
            command = self._coupling.each_tendons(self._coupling.forces(command) * radius)
        current, least, most = command / self.newton_per_ampere, -self.current_limit_a, self.current_limit_a
        if self._is_bounded:
            slower = self.velocity * (most / self._fastest_m_per_s)
            least, most = np.clip((least - slower, most - slower), least, most)
        allowed = np.minimum(np.maximum(current, least), most)
        self._asked, self._allowed = current, allowed
        return self.wiring.driven(allowed) if self._wired else allowed

    # --- what can be seen

    @cached_property
    def has_servos(self) -> bool:
        """Whether its motors take displacements."""
        return self.motor is not None and self.motor.servo is not None

    @property
    def limited(self) -> NDArray[np.bool_]:
        """Where the latest tension was beyond what the motors give, or negative, shape (N,)."""
        return np.asarray(self._allowed != self._asked)

    @property
    def rod(self) -> Rod:
        """What moves, of a plant whose body is a rod of this package."""
        return self._rod_body.moving.rod

    @property
    def _rod_body(self) -> RodBody:
        if not isinstance(self._body, RodBody):
            raise ParameterError("plant", type(self).__name__, "a rod")
        return self._body

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
        return self._body.c

    @property
    def c_rate(self) -> Vector:
        """Their rates, shape (n,), 1/(m.s)."""
        return self._body.c_rate

    @property
    def state(self) -> PlantState:
        """The whole state, as copies."""
        return PlantState(self._time_s, self.c, self.c_rate, self.displacement, self.velocity, self.current)

    @property
    def displacement(self) -> Vector:
        """Displacement of the tendons at the spools, which the motors' encoders see, shape (N,), m."""
        if self.motor is None:
            return self._body.rod_displacement
        spooled: Vector = self._body.spools[0]
        return self.wiring.seen(spooled) if self._wired else spooled

    @property
    def velocity(self) -> Vector:
        """Its rate, shape (N,), m/s."""
        if self.motor is None:
            return self._body.rod_velocity
        rate: Vector = self._body.spools[1]
        return self.wiring.seen_rate(rate) if self._wired else rate

    @property
    def current(self) -> Vector:
        """Motor currents, shape (N,), A; NaN with ideal actuation."""
        if self.motor is None:
            return np.full(self._tendons, np.nan)
        current: Vector = self._body.spools[2]
        return self.wiring.measured(current) if self._wired else current

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the rod: that at the spools less the stretch or slack, shape (N,), m."""
        return self._body.rod_displacement

    @property
    def tension(self) -> Vector:
        """True tensions, shape (N,), N."""
        return self._body.tension(self._drive(self._no_force))

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, shape (strings,), m."""
        return self._body.string_extension

    @property
    def linked(self) -> Vector:
        """For sensors in other processes, (linked_count,): the strings' extensions, m, the tip's frame by rows, and the
        curvatures at a fibre's gratings, 1/m.
        """
        tip = self.pose(self.robot.length_m)[:3].ravel()
        return np.concatenate((self.string_extension, tip, self._body.fiber_curvature))

    @property
    def contact_loads(self) -> tuple[ContactLoad, ...]:
        """The truth about every contact now: where it is, and the wrench that the robot feels."""
        return self._contacts.loads(self._body.kinematics, self.c, self.c_rate, self._time_s - self.contacts_from_s)

    def pose(self, s_m: float) -> Vector:
        """Frame of the backbone at an arc length (m) in the base frame, shape (4, 4)."""
        return np.array(self._reach.poses(self.c, [s_m])[0])

    @cached_property
    def _reach(self) -> Kinematics:
        return self._body.reach()

    @property
    def friction_torque(self) -> Vector:
        """Friction that resists each capstan, shape (capstans,), N.m; empty for a robot without."""
        return self._body.friction_torque(self.tension, self.velocity)


def largest_currents_a(robot: Robot) -> Vector:
    """Of every tendon's motor, (N,), A; infinite without actuators."""
    if robot.actuators is None:
        return np.full(robot.tendon_count, math.inf)
    return robot.actuators.each("maximum_current_a", robot.tendon_count)
