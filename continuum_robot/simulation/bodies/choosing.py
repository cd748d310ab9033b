# SPDX-License-Identifier: Apache-2.0
"""What moves behind simulated actuators, by the kind of the robot."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DISPLACEMENT, TENSION
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.bodies.mechanisms import ModulationPlant, RollingPlant
from continuum_robot.simulation.devices.plant_link import TIP_VALUES
from continuum_robot.simulation.effects import DYNAMICS, check_plant_settings

Vector = NDArray[np.float64]

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
