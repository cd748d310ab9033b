# SPDX-License-Identifier: Apache-2.0
"""Controllers by the name that a robot file's ``control.law`` has: those of this package, and those of others.

Another package offers a class that is made with a robot, and is a
:class:`~continuum_robot.control.controller.Controller`, under a name of the entry points
``continuum_robot.controllers``.
"""

from __future__ import annotations

from collections.abc import Callable

from continuum_robot.control.controller import Controller
from continuum_robot.control.inverse_dynamics import InverseDynamicsController
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import PID_LAW
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTROLLERS, added, offered

LAWS: dict[str, Callable[[Robot], Controller]] = {"inverse_dynamics": InverseDynamicsController}
"""Controllers of this package beside the PID, which is compiled with the cycle."""


def control_law(robot: Robot) -> Controller | None:
    """The controller that a robot's file asks for; None for the PID of muhmann's fig. 4.

    Parameters
    ----------
    robot : with ``control`` settings

    Raises
    ------
    ParameterError : no such controller; names those there are
    """
    law = PID_LAW if robot.control is None else robot.control.law
    if law == PID_LAW:
        return None
    if law in LAWS:
        return LAWS[law](robot)
    make = added(CONTROLLERS, law, "control.law")
    if make is None:
        known = ", ".join([PID_LAW, *LAWS, *offered(CONTROLLERS)])
        raise ParameterError("control.law", law, f"one of {known}, or a name of the entry points {CONTROLLERS}")
    made: Controller = make(robot)
    return made
