# SPDX-License-Identifier: Apache-2.0
"""What nodes, page and client ask of a robot beyond its description, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import AnyShapeEstimator
from continuum_robot.models.drawing import Drawing
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]
Feedforward = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class RigidPart:
    """A rigid part of a robot under the name of its frame on tf.

    Attributes
    ----------
    frame : name of the frame
    low_m, high_m : corners of the box around it in that frame, (3,), m; None: it has no extent, or is a plate
    radius_m, thickness_m : of a plate across z, m; 0: no plate
    centre_m : height of the plate's middle, m
    dark : drawn darker than the others
    """

    frame: str
    low_m: tuple[float, float, float] | None = None
    high_m: tuple[float, float, float] | None = None
    radius_m: float = 0.0
    thickness_m: float = 0.0
    centre_m: float = 0.0
    dark: bool = False


def plate_and_tip(radius_m: float, thickness_m: float) -> tuple[RigidPart, RigidPart]:
    """The plate that a robot stands on, twice as wide as the disk at its tip, and that disk.

    Parameters
    ----------
    radius_m, thickness_m : of the disk, m
    """
    wide_m = 2.0 * radius_m
    thick_m = wide_m / 4
    return (
        RigidPart("base", radius_m=wide_m, thickness_m=thick_m, centre_m=-thick_m / 2, dark=True),
        RigidPart("tip", radius_m=radius_m, thickness_m=thickness_m),
    )


@dataclass(frozen=True)
class Summary:
    """What ``check`` prints of a robot's construction.

    Attributes
    ----------
    parts : what it consists of, in words
    columns : a table: name of each part to its rows by their names; empty: none
    lines : further ones to read
    numbers : values by keys that end in their units
    """

    parts: str
    columns: dict[str, dict[str, str]]
    lines: list[str]
    numbers: dict[str, Any]


class RobotModel(Protocol):
    """Model of a robot: shape estimator, feed-forward, drawing, plant; made by :func:`.making.robot_model`.

    Attributes
    ----------
    robot : its description, whose ``traits`` say what the stack can do with it
    """

    robot: Robot

    @property
    def largest_push_n(self) -> float:
        """Force at the tip up to which the page offers pushes, N; 0 where it offers none."""

    def shape_estimator(self, watch: WatchSettings) -> AnyShapeEstimator:
        """Estimator of the shape, with settings of the watch over the sensors of a robot that needs its strings."""

    def feedforward(self) -> Feedforward:
        """Force that holds desired coordinates: coordinates (m,), m, to elastic and gravity force, (m,) each, N."""

    def drawing(self) -> Drawing:
        """How it looks."""

    def rigid_parts(self) -> Sequence[RigidPart]:
        """Its rigid parts, the first at the base and the last at the tip."""

    def summary(self) -> Summary:
        """What ``check`` prints of its construction."""
