# SPDX-License-Identifier: Apache-2.0
"""The motors of the tendons as their drivers need them: currents for tensions, tendon for turns, in tendon order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.tendon_currents import TendonCurrents
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DisplacementLimits
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Motor, MotorsSection

Vector = NDArray[np.float64]
Kind = TypeVar("Kind", bound=Motor)


class MotorCurrents(Generic[Kind]):
    """Tensions as currents, which are limited, and turns as displacements."""

    def __init__(self, robot: Robot, settings: MotorsSection, motors: Sequence[Kind]) -> None:
        actuators, most = robot.actuators, robot.motor_count
        if actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self.motors: list[Kind] = sorted(motors, key=lambda entry: entry.number)
        numbers, count = [entry.number for entry in self.motors], len(self.motors)
        if not count or len({0, *numbers, most + 1}) != count + 2 or max(numbers) > most:
            what = "tendons" if robot.transmission is None else "motors"
            expected = f"some of the {what} 1 to {most}, each once"
            raise ParameterError("hardware.tendon_actuators.motors", numbers, expected)
        self.polarity: Vector = np.array([entry.polarity for entry in self.motors], dtype=float)
        own = [(entry, actuators.of(entry.number)) for entry in self.motors]
        self.ampere_per_newton: Vector = 1.0 / np.array([entry.newton_per_ampere(one) for entry, one in own])
        self.signed_m_per_rev = self.polarity * np.array([entry.meter_per_turn(one) for entry, one in own])
        self.strongest_a: Vector = np.array([one.maximum_current_a for _, one in own])
        stated_a = getattr(settings, "maximum_current_a", None)
        self.largest_a = np.full(count, stated_a) if stated_a else self.strongest_a
        if actuators.tendons:
            self.largest_a = np.minimum(self.largest_a, self.strongest_a)
        self.nm_per_a: Vector = np.array(
            [entry.torque_constant_nm_per_a or one.torque_constant_nm_per_a for entry, one in own]
        )
        self.largest_nm: Vector = self.largest_a * self.nm_per_a
        self.torque_fraction: Vector = np.ones(count)
        self.speed_rev_per_s = self.acceleration_rev_per_s2 = np.full(count, math.nan)
        if isinstance(limits := robot.limits, DisplacementLimits):
            keys = "maximum_n", "speed_m_per_s", "acceleration_m_per_s2"
            rows = np.array(numbers) - 1
            maximum_n, speed, acceleration = (_of_motors(robot, limits, key)[rows] for key in keys)
            needed_a = maximum_n * self.ampere_per_newton
            self.largest_nm = np.minimum(self.largest_nm, needed_a * self.nm_per_a)
            self.torque_fraction = np.minimum(1.0, needed_a / self.strongest_a)
            self.speed_rev_per_s = speed / np.abs(self.signed_m_per_rev)
            self.acceleration_rev_per_s2 = acceleration / np.abs(self.signed_m_per_rev)
        self._currents = TendonCurrents(self.ampere_per_newton.tolist(), self.largest_a.tolist())

    def currents(self, tension_n: ArrayLike) -> tuple[Vector, NDArray[np.bool_]]:
        """Currents towards the motors, before polarity, shape (N,), A, and which of them were limited."""
        tension = np.asarray(tension_n, dtype=float)
        if tension.shape != self.polarity.shape or not math.isfinite(tension.sum()):
            raise ParameterError("tension_n", tension_n, f"{self.polarity.size} finite tensions in N")
        self._currents.convert(tension.tolist())
        return np.array(self._currents.current_a), np.array(self._currents.limited, dtype=bool)


def _of_motors(robot: Robot, limits: DisplacementLimits, key: str) -> Vector:
    """A limit of the robot's motors, (M,): the least of all tendons that a motor moves."""
    limit = limits.each(key, robot.tendon_count)
    if robot.transmission is None:
        return limit
    moves = robot.transmission.coupling(robot.tendon_count) != 0
    return np.asarray(np.where(moves, limit[:, None], np.inf).min(axis=0))
