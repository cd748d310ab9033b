# SPDX-License-Identifier: Apache-2.0
"""Names, sizes and units of what a policy sees and gives: one vocabulary for environments, policies and the cycle.

An observation is named ``topic.field`` as in docs/reference/topics.md and msg/, or ``topic`` alone if the message has
one field of interest. Values are in SI units, as in the messages; nothing is scaled but by those who ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import motion_limits, reach
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import POLICY_ACTIONS
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]

CLARKE, TENSION, DISPLACEMENT = POLICY_ACTIONS


@dataclass(frozen=True)
class Observation:
    """What a policy may see.

    Attributes
    ----------
    name : ``topic.field``
    size : number of values
    unit : of the values, separated by commas if they differ
    scale : in these units, shape (size,): values divided by it are about within [-1, 1]
    """

    name: str
    size: int
    unit: str
    scale: Vector


@dataclass(frozen=True)
class Action:
    """What a policy may give.

    Attributes
    ----------
    name : ``clarke``: a reference of the Clarke coordinates for the controller of the stack; ``tension`` or
        ``displacement``: of every tendon, as the actuators take
    size : number of values
    unit : of the values
    low, high : range, shape (size,), in the unit
    """

    name: str
    size: int
    unit: str
    low: Vector
    high: Vector

    def to_si(self, scaled: ArrayLike) -> Vector:
        """SI values of values in [-1, 1], shape (..., size)."""
        return np.asarray(self.low + (np.asarray(scaled, float) + 1) / 2 * (self.high - self.low))

    def from_si(self, value: ArrayLike) -> Vector:
        """Values in [-1, 1] of SI values, shape (..., size)."""
        return np.asarray(2 * (np.asarray(value, float) - self.low) / (self.high - self.low) - 1)


def observations(robot: Robot) -> dict[str, Observation]:
    """All observations that a robot has, by name.

    Raises
    ------
    ParameterError : a robot file without limits
    """
    limits = robot.limits
    if limits is None:
        raise ParameterError("robot", robot.name, "a robot file with the section limits")
    tendons, coordinates = robot.tendon_count, robot.coordinate_count
    position = np.maximum(*np.abs(reach(robot)))
    speed = np.full(coordinates, motion_limits(robot).speed_m_per_s)
    # How far each tendon goes as the coordinates go through their range, one after the other.
    along = np.linalg.norm(controlled_manifold(robot).displacement_matrix * position, axis=1)
    fastest = np.linalg.norm(controlled_manifold(robot).displacement_matrix * speed, axis=1)
    most_n = limits.each("maximum_n", tendons)
    # Force and moment at the tip that take the work of one tendon over its range, through the length or half a turn.
    work = float(most_n.max() * along.max())
    loads = np.repeat([work / robot.length_m, work / np.pi], 3)
    command = DISPLACEMENT if robot.takes_displacements else TENSION
    place = np.full(3, robot.length_m)
    known = {
        "tendon_states.displacement": ("m", along),
        "tendon_states.velocity": ("m/s", fastest),
        "tendon_states.tension": ("N", most_n),
        f"tendon_commands.{command}": ("m", along) if robot.takes_displacements else ("N", most_n),
        "clarke_state.position": ("m", position),
        "clarke_state.velocity": ("m/s", speed),
        "clarke_reference.position": ("m", position),
        "clarke_reference.velocity": ("m/s", speed),
        "string_lengths.extension": ("m", np.full(len(robot.strings), along.max())),
        "tip_target": ("m", place),
        "tip_pose.position": ("m", place),
        "tracked_tip": ("m", place),
        "wrench": ("N, N.m", loads),
        "contact.wrench": ("N, N.m", loads),
        "contact.arc_length": ("m", place[:1]),
        "contact.ratio": ("1", np.ones(1)),
    }
    return {
        name: Observation(name, len(scale), unit, scale)
        for name, (unit, scale) in known.items()
        if len(scale) and not (name.startswith("contact.") and robot.traits.without_contact)
    }


def chosen(robot: Robot, names: Iterable[str]) -> dict[str, Observation]:
    """Observations of a robot by their names; ParameterError for one that it does not have."""
    known, names = observations(robot), list(names)
    for name in names:
        if name not in known:
            raise ParameterError("observation", name, f"one that {robot.name} has: {', '.join(known)}")
    return {name: known[name] for name in names}


def action(robot: Robot, name: str) -> Action:
    """What a policy gives a robot, by its name.

    Raises
    ------
    ParameterError : a robot file without limits, another name, or a command that its actuators do not take
    """
    command = DISPLACEMENT if robot.takes_displacements else TENSION
    if name not in (CLARKE, command):
        raise ParameterError("action", name, f"{CLARKE} or {command}, which {robot.name} takes")
    if robot.limits is None:
        raise ParameterError("robot", robot.name, "a robot file with the section limits")
    if name == CLARKE:
        low, high = reach(robot)
    else:
        key = "maximum_displacement_m" if robot.takes_displacements else "maximum_n"
        high = robot.limits.each(key, robot.tendon_count)
        low = -high if robot.takes_displacements else robot.limits.each("minimum_n", robot.tendon_count)
    return Action(name, len(low), "N" if name == TENSION else "m", low, high)
