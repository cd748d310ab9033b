# SPDX-License-Identifier: Apache-2.0
"""What faults of the sensors make of the samples of a simulated device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.simulation import faults
from continuum_robot.simulation.devices.channel import Channel, Stamped

Vector = NDArray[np.float64]


class FaultyReadings:
    """Samples as they are served: late, frozen, lost or wrong where a fault of that kind is active.

    Parameters
    ----------
    board : of the faults
    channel : that the samples come from
    rng : draws the losses
    """

    def __init__(self, board: faults.FaultBoard, channel: Channel, rng: np.random.Generator) -> None:
        self._board, self._channel, self._rng = board, channel, rng
        self._last: tuple[float, Vector, Vector] | None = None

    def forget(self) -> None:
        """Forget all samples."""
        self._channel.clear()
        self._last = None

    def unknown(self, now_s: float, shape: tuple[int, ...]) -> tuple[Vector, Vector]:
        """What is served at a time (s) before the first sample: NaN of a shape (..., channels), infinite ages, s."""
        self._last = now_s, np.full(shape, np.nan), np.full(shape[-1], np.inf)
        return self._last[1].copy(), self._last[2].copy()

    def served(self, sample: Stamped, now_s: float) -> tuple[Vector, Vector]:
        """What is served of a sample."""
        values, age = sample.value, np.zeros(sample.value.shape[-1])
        if not self._board.empty:
            values, age = self._corrupted(sample, now_s)
            self._board.forget_ended(now_s)
        self._last = sample.stamp_s, values, age
        return values.copy(), age.copy()

    def _corrupted(self, sample: Stamped, now_s: float) -> tuple[Vector, Vector]:
        board = self._board
        values = np.atleast_2d(sample.value).copy()
        age = np.zeros(values.shape[1])
        delay_s = board.magnitude(faults.DELAY_READINGS, now_s)
        for index in np.flatnonzero(~np.isnan(delay_s)):
            late = self._channel.read(sample.stamp_s, float(delay_s[index]))
            values[:, index] = np.nan if late is None else np.atleast_2d(late.value)[:, index]
            age[index] = np.inf if late is None else sample.stamp_s - late.stamp_s
        jump = board.magnitude(faults.ENCODER_JUMP, now_s)
        values[0] += np.where(np.isnan(jump), 0.0, jump)
        if self._last is not None:
            last_s, before, before_age = self._last[0], np.atleast_2d(self._last[1]), self._last[2]
            frozen = board.mask(faults.FREEZE_SENSOR, now_s)
            values[:2, frozen] = before[:2, frozen]
            fraction = board.magnitude(faults.DROP_READINGS, now_s)
            dropped = self._rng.random(age.size) < np.where(fraction == 0, 1.0, fraction)
            values[:, dropped] = before[:, dropped]
            age[dropped] = before_age[dropped] + (sample.stamp_s - last_s)
        values[:, board.mask(faults.NAN_READING, now_s)] = np.nan
        return values.reshape(sample.value.shape), age
