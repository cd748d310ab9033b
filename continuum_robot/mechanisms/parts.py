# SPDX-License-Identifier: Apache-2.0
"""What the stack needs of a robot that is a mechanism, by the kind of the mechanism: how it looks, what holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationDrawing
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.mechanisms.rolling_joint.drawing import RollingDrawing
from continuum_robot.mechanisms.rolling_joint.feedforward import RollingFeedforward
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.rolling_joint import RollingJoint

Array = NDArray[np.float64]
Feedforward = Callable[[Array], tuple[Array, Array]]


class Drawing(Protocol):
    """Frames and lines of a mechanism from the values that describe its pose, all in the base frame, m."""

    size: int
    frame_names: tuple[str, ...]

    def frames(self, coefficients: Array) -> Array:
        """Frames under their names, the last one at the tip, shape (frames, 4, 4).

        Parameters
        ----------
        coefficients : what the shape estimator of the mechanism says, shape (n,), m
        """

    def outlines(self, coefficients: Array) -> list[Array]:
        """Closed outlines of the parts, each of shape (points, 3).

        Parameters
        ----------
        coefficients : what the shape estimator of the mechanism says, shape (n,), m
        """

    def tendons(self, coefficients: Array) -> list[Array]:
        """Path of every tendon, each of shape (points, 3).

        Parameters
        ----------
        coefficients : what the shape estimator of the mechanism says, shape (n,), m
        """


def make_drawing(robot: Robot) -> Drawing:
    """How a mechanism looks.

    Parameters
    ----------
    robot : with a mechanism

    Raises
    ------
    ParameterError : no mechanism, or surfaces that cannot be used
    """
    if isinstance(robot.mechanism, RollingJoint):
        return RollingDrawing(robot)
    if isinstance(robot.mechanism, EquilibriumModulation):
        return ModulationDrawing(robot)
    raise _no_mechanism(robot)


def make_feedforward(robot: Robot) -> Feedforward:
    """Force that holds a wanted coordinate: coordinates, shape (m,), m, to elastic and gravity force, shape (m,), N.

    Parameters
    ----------
    robot : with a mechanism and control settings

    Raises
    ------
    ParameterError : no mechanism, or no control settings
    """
    if isinstance(robot.mechanism, RollingJoint):
        return RollingFeedforward(robot)
    if isinstance(robot.mechanism, EquilibriumModulation):
        return ModulationForce(robot)
    raise _no_mechanism(robot)


def _no_mechanism(robot: Robot) -> ParameterError:
    return ParameterError("robot", robot.name, "a robot with a mechanism")
