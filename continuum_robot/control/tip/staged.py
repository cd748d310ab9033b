# SPDX-License-Identifier: Apache-2.0
"""The tip of a robot on a stage: n + 2 coordinates, those of its tendons, then insertion and rotation of the stage.

Places are in the stage's frame, which stands still. A coordinate of the stage counts a fifth of a bending angle that
moves the tip as far, so the tendons go where they can, and the stage where they cannot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import LimitedMotion, MotionLimits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.base_stage import BaseStage
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_SHARE = 0.2


def stage_of(robot: Robot) -> BaseStage:
    """The stage of a robot. Raises :class:`ParameterError` where it has none."""
    if robot.base_stage is None:
        raise ParameterError("robot.base_stage", None, f"a stage in the file of robot {robot.name!r}")
    return robot.base_stage


class StagedKinematics(TipKinematics):
    """Tip over n + 2 coordinates."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self._stage = stage_of(robot)
        self.scale = np.append(self.scale, [_SHARE * robot.length_m, _SHARE])
        self.further = 2

    def pose(self, coordinates: Vector) -> Vector:
        """Tip frame, (4, 4), in the stage's frame, at coordinates (2m + 2,)."""
        return np.asarray(self._stage.pose(coordinates[-2:]) @ super().pose(coordinates[:-2]))

    def place(self, coordinates: Vector) -> tuple[Vector, Vector]:
        """Tip position, (3,), m, in the stage's frame, and its Jacobian over the coordinates, (3, 2m + 2)."""
        place, jacobian = super().place(coordinates[:-2])
        base, stage = self._stage.pose(coordinates[-2:]), self._stage.jacobian(coordinates[-2:], place)
        return se3.apply(base, place), np.hstack([base[:3, :3] @ jacobian, stage])


class StagedUse(TendonUse):
    """Limits of the tendons, and the ranges of the stage, over n + 2 coordinates; gravity turns with the stage."""

    def __init__(self, robot: Robot, fraction: float) -> None:
        super().__init__(robot, fraction)
        stage = stage_of(robot)
        self._stage, self._gravity = stage, np.array(robot.gravity_m_per_s2)
        self._turns = robot.gravity_turns
        self._has, (self._low, self._high) = stage.has, stage.ranges[stage.has].T
        self.rows["stage"] = slice(self.count, self.count + 2 * len(self._low))

    def tension(self, coordinates: Vector) -> Vector:
        """Tensions that hold the robot at coordinates (2m + 2,), by the model, (N,), N."""
        self._turn(coordinates)
        return super().tension(coordinates[:-2])

    def use(self, coordinates: Vector) -> Vector:
        """Fractions of all limits at coordinates (2m + 2,); 1 at the end of a range, less inside."""
        self._turn(coordinates)
        along, span = coordinates[-2:][self._has], self._high - self._low
        ranges = 1 + np.concatenate([along - self._high, self._low - along]) / np.tile(span, 2)
        return np.concatenate([super().use(coordinates[:-2]), ranges])

    def _turn(self, coordinates: Vector) -> None:
        if self._turns:
            self.set_gravity(self._stage.gravity(coordinates[-2:], self._gravity))


class StagedMotion(LimitedMotion):
    """A point in the space of n + 2 coordinates; each axis of the stage has limits of its own."""

    def __init__(self, limits: MotionLimits, stage: BaseStage, position: ArrayLike) -> None:
        own = [MotionLimits(float(v), float(a)) for v, a in zip(stage.speed, stage.acceleration, strict=True)]
        self._axes = [LimitedMotion(one, np.zeros(1)) for one in own]
        super().__init__(limits, position)

    @property
    def reference(self) -> ClarkeReference:
        """Where it is and how it moves."""
        return _joined([super().reference, *(axis.reference for axis in self._axes)])

    def reset(self, position: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start again; arguments as of :class:`LimitedMotion`, (2m + 2,)."""
        place = np.asarray(position, dtype=float)
        speed = np.zeros_like(place) if velocity is None else np.asarray(velocity, dtype=float)
        super().reset(place[:-2], speed[:-2])
        for axis, index in zip(self._axes, (-2, -1), strict=True):
            axis.reset(place[[index]], speed[[index]])

    def towards(self, target: ArrayLike, dt: float, drift: ArrayLike | None = None) -> ClarkeReference:
        """One step towards a target, (2m + 2,), in each axis and the tendons' coordinates apart."""
        place = np.asarray(target, dtype=float)
        moved = np.zeros_like(place) if drift is None else np.asarray(drift, dtype=float)
        axes = zip(self._axes, (-2, -1), strict=True)
        at = [axis.towards(place[[index]], dt, moved[[index]]) for axis, index in axes]
        super().towards(place[:-2], dt, moved[:-2])
        return _joined([super().reference, *at])

    def along(self, velocity: ArrayLike, dt: float) -> ClarkeReference:
        """One step with a desired velocity, (2m + 2,); (2m,) of the tendons' coordinates alone, as of the base."""
        speed = np.asarray(velocity, dtype=float)
        if speed.size == self._velocity.size:
            return super().along(speed, dt)
        moved = [axis.along(speed[[index]], dt) for axis, index in zip(self._axes, (-2, -1), strict=True)]
        super().along(speed[:-2], dt)
        return _joined([super().reference, *moved])


def _joined(references: list[ClarkeReference]) -> ClarkeReference:
    names = ("position", "velocity", "acceleration")
    return ClarkeReference(*(np.concatenate([getattr(one, name) for one in references]) for name in names))
