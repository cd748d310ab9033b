# SPDX-License-Identifier: Apache-2.0
"""Controllers by the name that a robot file's ``control.law`` has: those of this package, and those of others.

Another package offers a class that is made with a robot, and is a
:class:`~continuum_robot.control.controller.Controller`, under a name of the entry points
``continuum_robot.controllers``; where it has a dataclass as ``settings``, it is made with these too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from continuum_robot.control.controller import Controller
from continuum_robot.control.inverse_dynamics import InverseDynamicsController
from continuum_robot.robot.control_settings import PID_LAW
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTROLLERS, made

LAWS: dict[str, Callable[[Robot], Controller]] = {"inverse_dynamics": InverseDynamicsController}
"""Controllers of this package beside the PID, which is compiled with the cycle."""


def control_law(robot: Robot, settings: Callable[[str, Any], Any] | None = None) -> Controller | None:
    """The controller that a robot's file asks for; None for the PID of muhmann's fig. 4.

    Parameters
    ----------
    robot : with ``control`` settings
    settings : gives another package's controller its settings, from its name and the defaults; None: these

    Raises
    ------
    ParameterError : no such controller; names those there are
    """
    law = PID_LAW if robot.control is None else robot.control.law
    if law == PID_LAW:
        return None
    if law in LAWS:
        return LAWS[law](robot)
    own: Controller = made(CONTROLLERS, law, "control.law", robot, known=[PID_LAW, *LAWS], settings=settings)
    return own
