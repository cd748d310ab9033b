# SPDX-License-Identifier: Apache-2.0
"""What the simulated robot asks of the rod, tendons and motors that it moves, whichever kind of rod it has."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.contact import Kinematics

Vector = NDArray[np.float64]


class Drive(NamedTuple):
    """What a body takes as given while it is advanced; not a dataclass, as one is made in every cycle.

    Attributes
    ----------
    desired : (N,) currents in A with motors, or positions in m with servos, NaN: torque off; tensions in N without
    force : (n,) generalised force, N.m^2 for curvatures
    offset_m : additional length of each tendon, (N,), m
    stiffness_fraction : 1 for a sound tendon, 0 for one that is cut, (N,)
    motor_free : 1 for a sound motor, 0 for one that is stuck, (N,)
    current_limit_a : largest current of each motor, (N,), A
    time_s : plant time at which it begins, s
    contacts_from_s : plant time at which the contacts' own time begins, s
    """

    desired: Vector
    force: Vector
    offset_m: Vector
    stiffness_fraction: Vector
    motor_free: Vector
    current_limit_a: Vector
    time_s: float
    contacts_from_s: float


class PlantBody(Protocol):
    """Rod, tendons and motors with their state; vectors that it gives are copies.

    Attributes
    ----------
    substep_s : step of the integrator in use, s
    """

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
