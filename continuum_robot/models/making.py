# SPDX-License-Identifier: Apache-2.0
"""The model of a robot, by what it is made of."""

from __future__ import annotations

from collections.abc import Callable

from continuum_robot.models.equilibrium_modulation import ModulationModel
from continuum_robot.models.robot_model import RobotModel
from continuum_robot.models.rod import RodRobotModel
from continuum_robot.models.rolling_joint import RollingJointModel
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD

_MODELS: dict[str, Callable[[Robot], RobotModel]] = {
    ROD: RodRobotModel,
    "rolling_joint": RollingJointModel,
    "equilibrium_modulation": ModulationModel,
}


def robot_model(robot: Robot) -> RobotModel:
    """The model of a robot; what it needs is made when it is asked for.

    Parameters
    ----------
    robot : any robot
    """
    return _MODELS[robot.traits.kind](robot)
