# SPDX-License-Identifier: Apache-2.0
"""Simulated mechanisms: the motors' reflected mass against damped rolling joints, and equilibrium modulation."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce
from continuum_robot.mechanisms.equilibrium_modulation.segment import modulation_of
from continuum_robot.mechanisms.rolling_joint.building import rolling_joint_of, statics_of
from continuum_robot.mechanisms.rolling_joint.turning import BALANCED, JointTurning
from continuum_robot.robot.actuation import DISPLACEMENT, TENSION
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.devices.plant_link import TIP_VALUES
from continuum_robot.simulation.faults import DYNAMICS, check_plant_settings
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]


class _MechanismPlant:
    """Motors whose tensions and currents follow commands at once."""

    def __init__(self, robot: Robot) -> None:
        actuators, count = robot.actuators, robot.tendon_count
        if actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self._newton_per_ampere, self._mass_kg = actuators.newton_per_ampere, actuators.reflected_mass_kg
        self._motors = MotorModel.from_actuators(actuators, count, np.random.default_rng(robot.simulation.seed))
        self.current_limit_a = np.full(count, actuators.maximum_current_a)
        self._tension: Vector = np.zeros(count)

    def _pull_with(self, command: Vector) -> Vector:
        self._tension = np.clip(command, 0.0, self.current_limit_a * self._newton_per_ampere)
        return self._tension

    @property
    def current(self) -> Vector:
        """Motor currents, shape (N,), A."""
        return self._tension / self._newton_per_ampere

    @property
    def string_extension(self) -> Vector:
        """No strings: shape (0,), m."""
        return np.zeros(0)


class RollingPlant(_MechanismPlant):
    """Joints turn under the tensions: m G^T (G a')' + D a' = G^T tension, by implicit steps.

    a are the joints' angles, G the change of the tendon displacements with them, m the motors' reflected mass, D the
    joints' damping. The motors' friction comes to it, their cogging takes from the tension. Tensions and currents
    follow commands at once, tendons are rigid. At the end of a surface a contact stops.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self._damping_nms = rolling_joint_of(robot).joint_damping_nms
        self._turning = JointTurning(statics_of(robot))
        self._low, self._high = self._turning.limits_rad.T
        self._angles_rad = self._turning.home_rad
        self._joints = self._turning.at(self._angles_rad)
        self._home_m = self._joints.gaps_m.sum(axis=1)
        self._rate = np.zeros(2)  # of the displacements

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (2,), N."""
        tension = self._pull_with(command)
        pull, h = -self._joints.levers_m, BALANCED * duration_s
        # Against its tendons each joint is as stiff as its levers change.
        stiffness = np.maximum(tension @ self._joints.lever_slopes_m, 0.0)
        resisting = self._mass_kg * pull.T @ pull + np.diag(h * self._damping_nms + h**2 * stiffness)
        known = self._mass_kg * self._rate @ pull + h * tension @ pull
        rate: Vector = np.asarray(np.linalg.solve(resisting, known))
        if self._motors.drags:
            rate = self._motors.dragged_rate(resisting, known, pull, self.displacement, rate, h)
        moved = self._angles_rad + duration_s * rate
        self._angles_rad = np.clip(moved, self._low, self._high)
        stopped = self._angles_rad != moved
        mean = pull @ np.where(stopped, 0.0, rate)
        self._rate = mean if stopped.any() else self._rate + (mean - self._rate) / BALANCED
        self._joints = self._turning.at(self._angles_rad)

    @property
    def contact_m(self) -> Vector:
        """Arc length of each contact, shape (n - 1,), m."""
        return self._joints.contact_m

    @property
    def displacement(self) -> Vector:
        """Displacement of the left and the right tendon from the pose of equal tensions, shape (2,), m."""
        return self._home_m - self._joints.gaps_m.sum(axis=1)

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need: the strings' extensions, (strings,), m."""
        return self.string_extension


# Forces are balanced in the middle of a step: at its end, 1 ms would resist by a tenth of what the guides do.
_BALANCED = 0.5


class ModulationPlant(_MechanismPlant):
    """m D^T D x'' + d D^T D x' + K x = D^T tension with x = [q_Re, q_Im, insertion], by implicit Euler steps.

    D maps coordinates to displacements, m and d are the motors' reflected mass and the guides' damping, to which the
    motors' friction comes; their cogging takes from the tension. Currents follow commands at once. The carriage stops
    at both ends of its stroke.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        mechanism = modulation_of(robot)
        self._manifold = clarke_manifold(robot)
        D = self._pull = np.asarray(self._manifold.displacement_matrix)
        self._mass = self._mass_kg * D.T @ D
        self._damping_ns_per_m = mechanism.guide_damping_ns_per_m
        self._inverse_for_s, self._inverted = math.nan, np.eye(3)
        stiffness = ModulationForce(robot).stiffness_n_per_m
        self._stiffness = np.diag([stiffness, stiffness, 0.0])
        self._stroke_m = mechanism.stroke_m
        self.coordinates_m: Vector = np.zeros(3)
        self._rate: Vector = np.zeros(3)

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (N,), N."""
        force = self._pull.T @ self._pull_with(command)
        rate = self._between(force, _BALANCED * duration_s)
        moved = self.coordinates_m + duration_s * rate
        self._rate = self._rate + (rate - self._rate) / _BALANCED
        stopped = not 0.0 <= moved[2] <= self._stroke_m
        if stopped:
            moved = np.array([*moved[:2], np.clip(moved[2], 0.0, self._stroke_m)])
            self._rate = np.array([*self._rate[:2], 0.0])
        self.coordinates_m = moved

    def _between(self, force: Vector, h: float) -> Vector:
        """Rates after ``h`` (s), where forces are balanced, under a force on the coordinates, shape (3,)."""
        known = self._mass @ self._rate + h * (force - self._stiffness @ self.coordinates_m)
        if not self._motors.drags:
            return np.asarray(self._inverse(h) @ known)
        return self._motors.dragged_rate(self._resisting(h), known, self._pull, self.displacement, self._rate, h)

    def _inverse(self, h: float) -> Vector:
        """Of what resists a rate over a step without friction in the motors, shape (3, 3)."""
        if self._inverse_for_s != h:
            self._inverse_for_s, self._inverted = h, np.asarray(np.linalg.inv(self._resisting(h)))
        return self._inverted

    def _resisting(self, h: float) -> Vector:
        """What resists a rate over a step without friction in the motors, shape (3, 3)."""
        D = self._pull
        return self._mass + h * self._damping_ns_per_m * D.T @ D + h**2 * self._stiffness

    @property
    def displacement(self) -> Vector:
        """Displacement of every drive from the straight segment without insertion, shape (N,), m."""
        return self._manifold.displacement(self.coordinates_m)

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need: the coordinates, which move the tip, (3,), m."""
        return self.coordinates_m


_MECHANISMS: dict[str, type[RollingPlant | ModulationPlant]] = {
    "rolling_joint": RollingPlant,
    "equilibrium_modulation": ModulationPlant,
}


class SimulatedBody(Protocol):
    """What moves behind simulated actuators."""

    current_limit_a: Vector

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` under a constant ``command`` (N,): tensions, N, or what servos hold, m."""

    @property
    def displacement(self) -> Vector:
        """Of the tendons, (N,), m."""

    @property
    def current(self) -> Vector:
        """Of the motors, (N,), A."""

    @property
    def string_extension(self) -> Vector:
        """Of the strings, (strings,), m."""

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need, (linked_count,): the strings' extensions, m, after them the tip's
        frame, row by row, and the curvatures at a fibre's gratings, 1/m; or what moves the tip, m.
        """


def linked_count(robot: Robot) -> int:
    """How many values of the simulated robot sensors in other processes need: strings, tip and the curvatures at a
    fibre's gratings, or what moves the tip.
    """
    if robot.traits.tip_nodes:
        return robot.coordinate_count
    if not robot.traits.simulated_tip:
        return len(robot.strings)
    return len(robot.strings) + TIP_VALUES + _curvature_count(robot)


def linked_tip(robot: Robot, values: Vector) -> Vector | None:
    """The true frame of the tip in the base frame, shape (4, 4), None where the simulation does not know it."""
    rows = values[len(robot.strings) : len(robot.strings) + TIP_VALUES]
    if values.size != linked_count(robot) or not np.all(np.isfinite(rows)):
        return None
    tip = np.eye(4)
    tip[:3] = rows.reshape(3, 4)
    return tip


def linked_curvature(robot: Robot, values: Vector) -> Vector | None:
    """The true curvatures about x and y at a fibre's gratings, (2 g,), 1/m; None where the simulation has none."""
    found = values[values.size - _curvature_count(robot) :]
    return np.array(found) if values.size == linked_count(robot) and np.all(np.isfinite(found)) else None


def _curvature_count(robot: Robot) -> int:
    return 2 * len(robot.gratings_m)


def mechanism_body(robot: Robot) -> RollingPlant | ModulationPlant | None:
    """The simulated body of a mechanism; None: a rod, which has a plant with motors."""
    kind = robot.traits.kind
    if kind not in _MECHANISMS:
        return None
    if robot.takes_displacements:
        raise ParameterError("actuators.command", DISPLACEMENT, f"{TENSION}: the simulated {robot.name} has no servos")
    check_plant_settings(robot, DYNAMICS)
    return _MECHANISMS[kind](robot)
