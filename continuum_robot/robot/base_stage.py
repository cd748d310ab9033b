# SPDX-License-Identifier: Apache-2.0
"""The stage that carries the whole robot: it inserts it along its axis, and turns it about that.

Its coordinates s are (insertion, rotation), m and rad. The stage's frame stands still, with z along the axis; at s = 0
it is the carriage's. The pose of the robot's base is that of the carriage, times the base's place on it:

    T(s) = [R_z(s_2), s_1 e_z] T_base.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3, so3
from continuum_robot.robot.schema import quantity, refuse

Vector = NDArray[np.float64]

AXES = ("insertion", "rotation")
STAGE_FRAME = "stage"
"""Frame_id of the stage's frame."""
_NO_AXIS = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """The axis that moves the robot along z of the stage."""

    lead_m: float = quantity(
        "insertion for a turn of its motor, or of the gear behind that, whose ratio stands with the motor",
        default=0.002,
        gt=0,
        le=1,
    )
    range_m: tuple[float, ...] = quantity("least and largest insertion, with 0 between them", length=2, ge=-10, le=10)
    speed_m_per_s: float = quantity("largest speed", gt=0, le=10)
    acceleration_m_per_s2: float = quantity("largest acceleration", gt=0, le=1000)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Range, speed and acceleration."""
        return *self.range_m, self.speed_m_per_s, self.acceleration_m_per_s2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The axis that turns the robot about z of the stage."""

    range_rad: tuple[float, ...] = quantity(
        "least and largest rotation, with 0 between them", length=2, ge=-1000, le=1000
    )
    speed_rad_per_s: float = quantity("largest speed", gt=0, le=100)
    acceleration_rad_per_s2: float = quantity("largest acceleration", gt=0, le=1e4)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Range, speed and acceleration."""
        return *self.range_rad, self.speed_rad_per_s, self.acceleration_rad_per_s2


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStage:
    """What carries the robot, with motors of its own. An axis that it does not have stays at 0."""

    insertion: Insertion | None = quantity("the axis along z of the stage", default=None)
    rotation: Rotation | None = quantity("the axis about z of the stage", default=None)
    base_m: tuple[float, ...] = quantity(
        "place of the robot's base on the carriage", default=(0.0, 0.0, 0.0), length=3, ge=-10, le=10
    )
    base_rad: tuple[float, ...] = quantity(
        "rotation vector of the robot's base on the carriage", default=(0.0, 0.0, 0.0), length=3, ge=-7, le=7
    )
    command_timeout_s: float = quantity(
        "time without a command after which it comes to rest and holds", default=0.5, gt=0, le=5
    )

    def __post_init__(self) -> None:
        if self.insertion is None and self.rotation is None:
            raise refuse("insertion", None, "an axis: insertion, rotation or both")
        for axis, key, (low, high) in zip(AXES, ("range_m", "range_rad"), self.ranges.tolist(), strict=True):
            if getattr(self, axis) is not None and not (low <= 0 <= high and low < high):
                raise refuse(f"{axis}.{key}", [low, high], "the least first, and 0 between both")

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which axes it has, (2,)."""
        return np.array([self.insertion is not None, self.rotation is not None])

    @property
    def ranges(self) -> Vector:
        """Least and largest coordinate of each axis, (2, 2), m and rad; zeros of an axis that it does not have."""
        return self._numbers[:, :2]

    @property
    def lead_m(self) -> float:
        """Insertion for a turn of its motor, m; 1 without that axis."""
        return 1.0 if self.insertion is None else self.insertion.lead_m

    @property
    def speed(self) -> Vector:
        """Largest of each axis, (2,), m/s and rad/s; 1 of an axis that it does not have."""
        return self._numbers[:, 2]

    @property
    def acceleration(self) -> Vector:
        """Largest of each axis, (2,), m/s^2 and rad/s^2; 1 of an axis that it does not have."""
        return self._numbers[:, 3]

    @property
    def _numbers(self) -> Vector:
        return np.array([_NO_AXIS if one is None else one.numbers for one in (self.insertion, self.rotation)])

    @property
    def base_on_carriage(self) -> Vector:
        """Pose of the robot's base on the carriage, (4, 4)."""
        return se3.transform(so3.exp(np.array(self.base_rad)), np.array(self.base_m))

    def pose(self, position: ArrayLike) -> Vector:
        """Pose of the robot's base in the stage's frame, (4, 4)."""
        insertion, rotation = self.checked(position)
        carriage = se3.transform(so3.exp(np.array([0.0, 0.0, rotation])), np.array([0.0, 0.0, insertion]))
        return np.asarray(carriage @ self.base_on_carriage)

    def jacobian(self, position: ArrayLike, in_base: ArrayLike) -> Vector:
        """Derivative of places of the robot in the stage's frame by the coordinates, (..., 3, 2); zero
        without an axis.
        """
        places = se3.apply(self.pose(position), in_base)
        slope = np.zeros((*places.shape, 2))
        slope[..., 2, 0], slope[..., 0, 1], slope[..., 1, 1] = 1.0, -places[..., 1], places[..., 0]
        return slope * self.has

    def gravity(self, position: ArrayLike, at_zero_m_per_s2: ArrayLike) -> Vector:
        """Gravity in the base frame, (3,), m/s^2."""
        turn, still = self.pose(position)[:3, :3], self.base_on_carriage[:3, :3]
        return np.asarray(turn.T @ still @ np.asarray(at_zero_m_per_s2, dtype=float))

    def turns(self, gravity_m_per_s2: ArrayLike) -> bool:
        """Whether its rotation changes a gravity, (3,), m/s^2, in the base frame: one with a part across the axis."""
        return self.rotation is not None and not np.allclose(self.gravity((0, 1), gravity_m_per_s2), gravity_m_per_s2)

    def checked(self, position: ArrayLike) -> Vector:
        """Coordinates of the stage, (2,), m and rad. Raises :class:`ParameterError` for others."""
        values = np.array(position, dtype=float)
        if values.shape != (2,) or not np.isfinite(values).all():
            raise ParameterError("position", position, "insertion and rotation of the stage, finite, in m and rad")
        return values
