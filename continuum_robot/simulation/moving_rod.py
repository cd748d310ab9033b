# SPDX-License-Identifier: Apache-2.0
"""A rod that moves in implicit steps, with its tendons, spools, motors, capstans and what touches it.

What moves is the rod of rucker (21)-(27) on its strain basis; motors and tendons are those of
:mod:`continuum_robot.simulation.motors`, friction of capstans is that of johnston (37), on both of their tendons (32)
or, where tensions are given, on the rod (38). All is solved together by rod/kernel/plant.hpp.
"""

from __future__ import annotations

import ctypes as ct
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import ELEMENTS, KNOTS, STIFFNESSES, moved_anchor
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel.call import CAPSTAN, MOTOR, Drive, Spool, State
from continuum_robot.rod.rod import METHODS, Rod
from continuum_robot.simulation.motors import FRICTION_SPEED_M_PER_S, MotorModel

Vector = NDArray[np.float64]

TOLERANCE = 1e-8
"""Of a stage, rad: a thousandth of what an encoder of 20 bits on the rod would see."""


@dataclass(frozen=True, slots=True)
class Springs:
    """Tendons as springs and dampers that only pull; dT/ds = k (1 + a T)."""

    stiffness_n_per_m: float
    stiffening_per_n: float = 0.0
    damping_ns_per_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Motion:
    """A motion at the times asked for."""

    time_s: Vector
    c: Vector
    c_rate: Vector
    evaluations: int
    shortest_step_s: float


def unsolved() -> ConvergenceError:
    """The error of a step whose equations were not solved."""
    return ConvergenceError("time step of the rod", math.nan, TOLERANCE, 0)


class MovingRod:
    """A rod in motion. Its rod's numbers (masses, stiffness, gravity) may be written between two steps.

    Not for use by two threads at once. All arrays are read, and those of the state written, in place.
    """

    def __init__(
        self,
        rod: Rod,
        *,
        springs: Springs | None = None,
        motor: MotorModel | None = None,
        friction: CapstanFriction | None = None,
        hysteresis: RodHysteresis | None = None,
        rubbing: Vector | None = None,
        surfaces: int = 0,
        linear: bool = False,
        method: str = "sdirk",
        tolerance: float = TOLERANCE,
    ) -> None:
        if method not in METHODS:
            raise ParameterError("method", method, "one of " + ", ".join(METHODS))
        if not 0 < tolerance < 1e-2:
            raise ParameterError("tolerance", tolerance, "above 0, below 0.01")
        n, count = rod.n, rod.tendon_count
        self.rod, self._motor, self._springs, self._midpoint = rod, motor, springs, method == "midpoint"
        self._friction = friction if friction is not None and friction.capstan_count else None
        self._hysteresis = hysteresis if hysteresis is not None and hysteresis.acts else None
        self._state = np.zeros(3 * n + 4 * count)
        self.strains = self._state[: 2 * n]
        self.c, self.c_rate, self.momentum = self._state[: 3 * n].reshape(3, n)
        tendons = self._state[3 * n :].reshape(4, count)
        self.spooled_m, self.speed_m_per_s, self.current_a, self.tension_n = tendons
        self.spools = tendons[:3]
        self.desired, self.offset_m, self.stiffness_fraction, self.motor_free, self._phase = np.zeros((5, count))
        self.force, self.given_force = np.zeros((2, n))
        self.largest_current_a = np.full(count, np.inf)
        self.touching = np.zeros(n + surfaces * (4 + 3 * n))
        self.stiffness_fraction[:] = self.motor_free[:] = 1.0
        self._slip = None if motor is None else motor.slip(self.spooled_m)
        self._anchors = np.zeros((ELEMENTS, count))
        self._rubbing = rubbing
        self._stops = np.zeros((3, count))  # stiffness, anchors, limits
        self._stops[0] = 1.0 if rubbing is None else rubbing[1]
        pasts = self._hysteresis, self._slip, self._friction, self._rubbing
        self._changes = any(one is not None for one in pasts)
        self._lost_before: tuple[Vector | None, float] = None, 1.0
        self._make(surfaces, METHODS[method], tolerance, linear)

    def _make(self, surfaces: int, method: int, tolerance: float, linear: bool) -> None:
        rod, friction = self.rod, self._friction
        at = kernel.at
        capstans = np.zeros(0, CAPSTAN)
        self._lost = np.zeros((0, 2))
        self._capstan_rows = np.zeros((0, rod.n))
        if friction is not None:
            own = drives(friction.robot)
            capstans = np.array(
                [(o.pulled, o.released, o.path_per_radian_m, o.capstans.radius_m, o.strands) for o in own], CAPSTAN
            )
            self._lost, self._capstan_rows = np.zeros((len(own), 2)), np.ascontiguousarray(friction.jacobian)
            self._look_at = rod.prepared("pose", "jacobian")
        self._drive = Drive(
            *map(at, (self.desired, self.given_force, self.offset_m, self.stiffness_fraction, self.motor_free)),
            *map(at, (self._phase, self._anchors, self._lost, self._capstan_rows, self.touching)),
            at(self.largest_current_a),
            None if self._rubbing is None else at(self._stops),
        )
        self._given = State(
            *map(at, (self.c, self.c_rate, self.momentum)),
            *map(at, (self.spooled_m, self.speed_m_per_s, self.current_a, self.tension_n)),
        )
        shape, numbers, self._kept = rod.form(linear=linear)
        spool = self._laws()
        library = rod.compiled()
        library.rod_plant_new.restype, library.rod_plant_run.restype = ct.c_void_p, ct.c_long
        plant = library.rod_plant_new(
            ct.byref(shape), ct.byref(numbers), *_at(rod.scale, rod.rest_m), ct.byref(spool), len(capstans),
            *_at(capstans), surfaces, ct.byref(self._drive), ct.byref(self._given), method, ct.c_double(tolerance),
        )  # fmt: skip
        self._kept += (shape, numbers, spool, capstans)
        self._plant, self._shortest_s = ct.c_void_p(plant), ct.c_double(math.inf)
        self._shortest = ct.byref(self._shortest_s)
        self._shape_held = shape
        self._shape, self._run, self._reset = ct.byref(shape), library.rod_plant_run, library.rod_plant_reset
        weakref.finalize(self, library.rod_plant_free, self._plant)

    def _laws(self) -> Spool:
        springs, motor = self._springs, self._motor
        if springs is None:
            return Spool()
        spool = Spool(turns=1, creep=FRICTION_SPEED_M_PER_S, current_time_constant=1.0)
        self._motors = np.zeros(len(self._phase), MOTOR)
        self._motors["mass"] = 1.0
        spool.motor = kernel.at(self._motors)
        spool.stiffness, spool.stiffening = springs.stiffness_n_per_m, springs.stiffening_per_n
        spool.damping = springs.damping_ns_per_m
        if motor is None:
            self.motor_free[:] = 0.0
            return spool
        own, servo = self._motors, motor.servo
        own["newton_per_ampere"], own["mass"], own["viscous"] = (
            motor.newton_per_ampere, motor.mass_kg, motor.viscous_ns_per_m,
        )  # fmt: skip
        own["coulomb"], own["cogging"] = motor.coulomb_n, motor.cogging_n
        own["cogging_rad_per_m"], spool.current_time_constant = motor.cogging_rad_per_m, motor.current_time_constant_s
        self._phase[:] = motor.cogging_phase_rad
        if servo is not None:
            own["servo_stiffness"], own["servo_damping"] = servo.stiffness_n_per_m, servo.damping_ns_per_m
            own["no_load_speed"] = servo.no_load_speed_m_per_s
        if self._slip is not None:
            travel = motor.friction_travel_m
            self._elements = KNOTS * travel, STIFFNESSES[:, None] * motor.coulomb_n / travel
            spool.elements, (spool.reach, spool.slip) = ELEMENTS, map(kernel.at, self._elements)
        return spool

    def turn_rotors(self, phase_rad: Vector) -> None:
        """Other angles of the motors' cogging at the straight configuration, (N,), rad."""
        self._phase[:] = phase_rad

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Of the kernel's step, and of its first, second and last argument."""
        run, plant = ct.cast(self._run, ct.c_void_p).value, self._plant.value
        return run or 0, ct.addressof(self._shape_held), plant or 0, ct.addressof(self._shortest_s)

    @property
    def keeps_nothing(self) -> bool:
        """Whether no force depends on the past of the motion, or on the shape but slowly."""
        return not self._changes

    def reset(self, c: ArrayLike, c_rate: ArrayLike | None = None, *, spooled_m: ArrayLike | None = None) -> None:
        """Be at a state, without currents."""
        self._state[:] = 0.0
        self.c[:] = c
        self.c_rate[:] = 0.0 if c_rate is None else c_rate
        self.spooled_m[:] = self.displacement_m if spooled_m is None else spooled_m
        if self._hysteresis is not None:
            self._hysteresis.reset(self.c)
        if self._slip is not None:
            self._slip.reset(self.spooled_m)
        if self._rubbing is not None:
            self._stops[1], self._stops[2] = self.displacement_m, 0.0
        self._lost_before = None, 1.0
        self._reset(self._shape, self._plant)

    def step(self, duration_s: float, count: int = 1) -> int:
        """Move for a time in equal steps; all that is given stays constant in it."""
        step_s = ct.c_double(duration_s / count)
        evaluations, changes = 0, self._changes
        for _ in range(count if changes else 1):
            self.given_force[:] = self.force
            if changes:
                self._look(duration_s / count)
            used = self._run(self._shape, self._plant, step_s, 1 if changes else count, self._shortest)
            if used < 0:
                raise unsolved()
            evaluations += used
        return evaluations

    def follow(self, time_s: ArrayLike, step_s: float, given: Callable[[float], object] | None = None) -> Motion:
        """Move from the state now, at the first of some times, to the others."""
        times = np.asarray(time_s, dtype=float)
        if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
            raise ParameterError("time_s", time_s, "two increasing times or more, s")
        if not (math.isfinite(step_s) and step_s > 0):
            raise ParameterError("step_s", step_s, "a positive time in s")
        kept, evaluations = [(self.c.copy(), self.rate())], 0
        self._shortest_s.value = math.inf
        for begin_s, end_s in pairwise(times.tolist()):
            count = max(1, math.ceil((end_s - begin_s) / step_s * (1 - 1e-9)))
            own_s = (end_s - begin_s) / count
            for k in range(count):
                if given is not None:
                    given(begin_s + (k + (0.5 if self._midpoint else 1.0)) * own_s)
                evaluations += self.step(own_s)
            kept.append((self.c.copy(), self.rate()))
        positions, rates = (np.array(part) for part in zip(*kept, strict=True))
        return Motion(times, positions, rates, evaluations, self._shortest_s.value)

    def _look(self, step_s: float) -> None:
        """What depends on the past of the motion, or on the shape but slowly, at the start of a step."""
        if self._hysteresis is not None:
            self.given_force -= self._hysteresis.move(self.c)
        if self._slip is not None:
            self._slip.move(self.spooled_m)
            self._anchors[:] = self._slip.anchors
        if self._friction is not None:
            lost, (before, last_s) = 1.0 - self.kept_by_wires(), self._lost_before
            # As in the middle of the step, so that its error is of second order.
            self._lost[:] = np.maximum(lost if before is None else lost + (lost - before) * (step_s / last_s / 2), 0.0)
            self._lost_before = lost, step_s
        if self._rubbing is not None:
            stiffness, anchor, limit = self._stops
            anchor[:] = moved_anchor(self.displacement_m, anchor, limit, stiffness)
            limit[:] = self._rubbing[0] * self.tension_n

    def kept_by_wires(self) -> Vector:
        """Fractions of their tension that both wires of each capstan keep at c, (capstans, 2)."""
        if self._friction is None:
            return np.ones((0, 2))
        return self._friction.kept(self._look_at(self.c, self.c_rate), self.rod, slopes=False)[0]

    @property
    def displacement_m(self) -> Vector:
        """Of the tendons at the rod, (N,), m."""
        return self.rod.rest_m - self.rod.lengths(self.c).length_m

    def rate(self) -> Vector:
        """Rate of the coefficients that belongs to the momentum, (n,)."""
        if not self._midpoint:
            return self.c_rate.copy()
        return np.asarray(np.linalg.solve(self.rod.terms(self.c, self.c_rate).mass, self.momentum))


def _at(*arrays: NDArray[np.generic]) -> list[ct.c_void_p]:
    return [ct.c_void_p(kernel.at(array)) for array in arrays]
