# SPDX-License-Identifier: Apache-2.0
"""A simulated rod with its tendons and motors, but for how it is integrated in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.fiber import curvature_matrix
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.strain.statics import equilibrium
from continuum_robot.simulation.bodies.plant_body import Drive
from continuum_robot.simulation.contact import Kinematics, PlantContacts
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]


class RodBody(ABC):
    """Rod, tendons and motors; a :class:`~continuum_robot.simulation.bodies.plant_body.PlantBody`.

    Parameters
    ----------
    robot : a rod
    motor : of the tendons; None: the tensions are given
    contacts : what touches the rod
    progress : receives a line when something takes long or is not as the robot's file states
    compile : "auto", "always" or "never", as in rod/code/generation.py

    Attributes
    ----------
    substep_s : longest step, s
    """

    substep_s: float

    def __init__(
        self,
        robot: Robot,
        motor: MotorModel | None,
        contacts: PlantContacts,
        *,
        progress: Callable[[str], None] | None = None,
        compile: str = "auto",
    ) -> None:
        self._check(robot)
        self._robot, self._motor, self._contacts = robot, motor, contacts
        self._progress, self._compile = progress, compile
        self._size, self._tendons = robot.coefficient_count, robot.tendon_count
        self._rod = StrainRod.from_robot(robot)
        self._curvature = curvature_matrix(robot)
        # With motors the capstans' inertia is that of the rotors.
        self._model = RodModel(robot, actuator_inertia=motor is None)
        self._hysteresis = RodHysteresis(robot)
        self._make()
        self.reset(self.rest)

    def _check(self, robot: Robot) -> None:  # noqa: B027 - most bodies take any rod
        """Refuse a robot that this body does not take, before anything is made."""

    @abstractmethod
    def _make(self) -> None:
        """Make what integrates it, and set ``substep_s``."""

    @property
    @abstractmethod
    def compiled(self) -> bool:
        """Whether it runs as machine code."""

    @cached_property
    def rest(self) -> Vector:
        """Equilibrium without tension under gravity alone, (n,)."""
        return equilibrium(self._rod).c

    @abstractmethod
    def reset(self, c: Vector) -> None:
        """Be at rest at coefficients ``c`` (n,), in their units, without tension and current, no tendon slack."""

    @abstractmethod
    def advance(self, drive: Drive, duration_s: float) -> None:
        """Integrate for a duration of more than 0 s; raises ContinuumRobotError where it diverges."""

    @property
    @abstractmethod
    def c(self) -> Vector:
        """Strain coefficients, (n,), 1/m for curvatures."""

    @property
    @abstractmethod
    def c_rate(self) -> Vector:
        """Their rates, (n,)."""

    @property
    @abstractmethod
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the motor's current (A), (3, N); with motors."""

    @abstractmethod
    def tension(self, drive: Drive, /) -> Vector:
        """True tensions, (N,), N; of what is given, offsets and fractions of the tendons count."""

    def friction_torque(self, tension_n: Vector, velocity: Vector, /) -> Vector:
        """Friction that resists each capstan, (capstans,), N.m, for tensions (N,) and rates of tendons (N,), m/s."""
        del tension_n, velocity
        return np.zeros(0)

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the rod, (N,), m."""
        return self._rod.tendon_displacement(self.c)

    @property
    def rod_velocity(self) -> Vector:
        """Its rate, (N,), m/s."""
        return np.asarray(self._rod.displacement_jacobian(self.c) @ self.c_rate)

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, (strings,), m."""
        return self._rod.string_extension(self.c)

    @property
    def fiber_curvature(self) -> Vector:
        """Curvature about x and y at every grating of the robot's fibre, (2 g,), 1/m."""
        return np.asarray(self._curvature @ self.c)

    @cached_property
    def kinematics(self) -> Kinematics:
        """Of the rod, for its contacts."""
        return _Kinematics(self._model, self._compile, self._progress)

    def reach(self) -> Kinematics:
        """Of the rod, for a push anywhere, with contacts or without: nothing is compiled for it."""
        return self.kinematics if self._contacts.size else _Kinematics(self._model, "never", None)


class _Kinematics:
    """Pose and body Jacobian for contacts and pushes."""

    def __init__(self, model: RodModel, compile: str, progress: Callable[[str], None] | None) -> None:
        self.robot = model.robot
        name = f"contacts of {self.robot.name}"
        made = compile_functions([model.pose, model.body_jacobian], name, compile=compile, progress=progress)
        self._pose: FastFunction = made["pose"]
        self._jacobian: FastFunction = made["body_jacobian"]

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        return np.array([self._pose(c, place) for place in np.atleast_1d(np.asarray(s, dtype=float))])

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        return self._jacobian(c, s)
