# SPDX-License-Identifier: Apache-2.0
"""What a robot can be asked to follow: coordinates, files, references and functions, checked before they move it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.references import ClarkeReference, Reference, read_csv_reference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]
ReferenceFunction = Callable[[float], ClarkeReference]
Trajectory = str | Path | Reference | Callable[[float], "ArrayLike | ClarkeReference"]


def checked(robot: RobotDescription, clarke: ArrayLike) -> Vector:
    """Clarke coordinates as an array of their own, shape (2m,), m."""
    desired = np.array(clarke, dtype=float)
    if desired.shape != (robot.coordinate_count,) or not np.all(np.isfinite(desired)):
        raise ParameterError("clarke", clarke, f"{robot.coordinate_count} finite values in m")
    if robot.limits is not None:
        pulled_m = np.abs(controlled_manifold(robot).displacement(desired))
        most_m = robot.limits.each("maximum_displacement_m", robot.tendon_count)
        worst = int(np.argmax(pulled_m / most_m))
        if pulled_m[worst] > most_m[worst]:
            raise ParameterError(
                "clarke",
                clarke,
                "tendon displacements of at most limits.maximum_displacement_m ="
                f" {most_m[worst]:g} m, not {pulled_m[worst]:.3g} m of tendon {worst + 1}",
            )
    return desired


def as_function(robot: RobotDescription, trajectory: Trajectory) -> tuple[ReferenceFunction, float]:
    """A trajectory as a function of the time, and how long it lasts, s; inf without end."""
    if isinstance(trajectory, (str, Path)):
        trajectory = read_csv_reference(Path(trajectory).expanduser(), robot.coordinate_count)
    at = getattr(trajectory, "at", None)
    if at is not None:
        return at, float(getattr(trajectory, "duration_s", math.inf))
    if not callable(trajectory):
        raise ParameterError("trajectory", trajectory, "a CSV file, a reference with at(t_s), or a function of t_s")
    return _Differentiated(robot, trajectory), math.inf


class _Differentiated:
    """A user's function as a reference: called once an instant, its velocity from one to the next."""

    def __init__(self, robot: RobotDescription, function: Callable[[float], ArrayLike | ClarkeReference]) -> None:
        self._robot, self._function = robot, function
        self._before: tuple[float, Vector] | None = None

    def __call__(self, t_s: float) -> ClarkeReference:
        value = self._function(t_s)
        if isinstance(value, ClarkeReference):
            return value
        position = checked(self._robot, value)
        velocity = np.zeros_like(position)
        if self._before is not None and t_s > self._before[0]:
            velocity = (position - self._before[1]) / (t_s - self._before[0])
        self._before = t_s, position
        return ClarkeReference(position, velocity, np.zeros_like(position))


def source_parameters(robot: RobotDescription, kind: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """ROS parameters with which the reference source plays a trajectory."""
    values: dict[str, Any] = {}
    if kind is None and robot.reference is not None:
        values = {name: getattr(robot.reference, name) for name in ReferenceSettings.__dataclass_fields__}
    values |= settings if kind is None else {**settings, "kind": kind}
    parameters = {
        f"reference.{name}": [float(one) for one in value] if isinstance(value, (tuple, list, np.ndarray)) else value
        for name, value in values.items()
    }
    # An empty list has no type over ROS; the reference source has a default for it.
    return {name: value for name, value in parameters.items() if value != []}
