# SPDX-License-Identifier: Apache-2.0
"""What moves behind simulated actuators of a robot that is a mechanism, by the kind of the mechanism."""

from __future__ import annotations

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.rolling_joint import RollingJoint
from continuum_robot.simulation.modulation_plant import ModulationPlant
from continuum_robot.simulation.rolling_plant import RollingPlant


def linked_count(robot: Robot) -> int:
    """How many values of the simulated robot sensors in other processes need: its strings, or what moves its tip.

    Parameters
    ----------
    robot : any robot
    """
    if isinstance(robot.mechanism, EquilibriumModulation):
        return robot.mechanism.coordinate_count
    return len(robot.strings)


def make_body(robot: Robot) -> RollingPlant | ModulationPlant:
    """The simulated body of a mechanism: what :class:`~continuum_robot.simulation.mirror.Mirror` is for a rod.

    Parameters
    ----------
    robot : with a mechanism and actuators

    Raises
    ------
    ParameterError : no mechanism, or no actuators
    """
    if isinstance(robot.mechanism, RollingJoint):
        return RollingPlant(robot)
    if isinstance(robot.mechanism, EquilibriumModulation):
        return ModulationPlant(robot)
    raise ParameterError("robot", robot.name, "a robot with a mechanism")
