# SPDX-License-Identifier: Apache-2.0
"""Controllers of other packages, by the name that a robot file's ``control.law`` has.

Another package offers a class that is made with a robot, and is a
:class:`~continuum_robot.control.controller.Controller`, under a name of the entry points
``continuum_robot.controllers``; where it has a dataclass as ``settings``, it is made with these too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from continuum_robot.control.controller import Controller
from continuum_robot.robot.control_settings import LAWS
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTROLLERS, made


def foreign_law(robot: Robot, settings: Callable[[str, Any], Any] | None = None) -> Controller:
    """The controller of another package that a robot's file asks for.

    Parameters
    ----------
    robot : with ``control`` settings
    settings : gives the controller its settings, from its name and the defaults; None: these

    Raises
    ------
    ParameterError : no such controller; names those there are
    """
    law = "" if robot.control is None else robot.control.law
    own: Controller = made(CONTROLLERS, law, "control.law", robot, known=LAWS, settings=settings)
    return own
