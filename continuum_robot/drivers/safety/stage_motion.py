# SPDX-License-Identifier: Apache-2.0
"""What a base stage is told in each cycle: within its ranges, speeds and accelerations, and at rest after a fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import LimitedMotion, MotionLimits
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.robot.base_stage import AXES, BaseStage

Vector = NDArray[np.float64]

LAG_S, OLDEST_S = 0.3, 0.25
"""A carriage may be behind by what it moves in the first at full speed; a position may be as old as the second."""
_ROUNDING = 1e-6

NOT_FINITE, OUT_OF_RANGE, LAGS, UNREAD = "command_not_finite", "command_out_of_range", "following_error", "no_reading"


class StageMotion:
    """The motion of a stage to its commands. A fault latches: it comes to rest, and obeys after :meth:`reset`."""

    def __init__(self, stage: BaseStage) -> None:
        self._stage = stage
        limits = [MotionLimits(float(v), float(a)) for v, a in zip(stage.speed, stage.acceleration, strict=True)]
        self._axes = [LimitedMotion(one, np.zeros(1)) for one in limits]
        self.reset(np.zeros(2))

    @property
    def goal(self) -> Vector:
        """What the motors are told, (2,), m and rad."""
        return np.concatenate([axis.reference.position for axis in self._axes])

    def reset(self, position: ArrayLike) -> None:
        """Rest at a position, (2,), m and rad, without a fault."""
        self.faults: list[str] = []
        self._command: tuple[Vector, float] | None = None
        self._rest(np.asarray(position, dtype=float))

    def command(self, position: ArrayLike, now_s: float) -> None:
        """Go to a position; one that cannot be is a fault, and nothing moves."""
        wanted, (low, high) = np.array(position, dtype=float), self._stage.ranges.T
        if wanted.shape != (2,) or not np.isfinite(wanted).all():
            self._latch(NOT_FINITE)
        elif ((wanted < low - _ROUNDING) | (wanted > high + _ROUNDING)).any():
            self._latch(OUT_OF_RANGE)
        else:
            self._command = wanted, now_s

    def hold(self) -> None:
        """Come to rest, and wait for the next command."""
        self._command = None

    def update(self, reading: TendonReading, now_s: float, dt: float) -> Vector:
        """What the motors are told now, (2,), m and rad."""
        for fault in reading.device_faults:
            self._latch(fault)
        measured = reading.displacement_m
        if not np.isfinite(measured).all() or now_s - reading.stamp_s + reading.age_s.max() > OLDEST_S:
            self._latch(UNREAD)
        elif (lagging := np.abs(self.goal - measured) > LAG_S * self._stage.speed).any():
            self._latch(f"{LAGS}: {', '.join(np.array(AXES)[lagging])}")
            self._rest(measured)
        command = self._command
        if command is not None and (self.faults or now_s - command[1] > self._stage.command_timeout_s):
            command = self._command = None
        for index, axis in enumerate(self._axes):
            if command is None:
                axis.along(np.zeros(1), dt)
            else:
                axis.towards(command[0][index : index + 1], dt)
        return self.goal

    def _latch(self, fault: str) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def _rest(self, position: Vector) -> None:
        for axis, place in zip(self._axes, position, strict=True):
            axis.reset([place])
