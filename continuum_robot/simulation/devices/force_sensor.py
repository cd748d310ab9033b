# SPDX-License-Identifier: Apache-2.0
"""A simulated force-torque sensor without a wire: what drivers/protocols.py asks for, and noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import ForceReading
from continuum_robot.drivers.tare import Tare
from continuum_robot.errors import DeviceError, ParameterError

Vector = NDArray[np.float64]

ROOM_TEMPERATURE_C = 25.0


class SimulatedForceSensor:
    """A sensor that measures a given wrench, a new sample a period."""

    simulated = True

    def __init__(
        self,
        wrench: Callable[[], Vector],
        frame_id: str = "force_sensor",
        *,
        rate_hz: float = 200.0,
        force_noise_n: float = 0.0,
        moment_noise_nm: float = 0.0,
        offset: Vector | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not 0 < rate_hz < math.inf:
            raise ParameterError("rate_hz", rate_hz, "a positive rate in Hz")
        if not (force_noise_n >= 0 and moment_noise_nm >= 0):
            raise ParameterError("noise", (force_noise_n, moment_noise_nm), "two standard deviations of at least 0")
        self.frame_id = frame_id
        self._wrench, self._rate_hz = wrench, rate_hz
        self._noise = np.repeat([force_noise_n, moment_noise_nm], 3)
        self._offset = np.zeros(6) if offset is None else np.asarray(offset, dtype=float)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._tare = Tare()
        self._is_open = False
        self._sample: Vector = np.full(6, math.nan)
        self._stamp_s = -math.inf
        self._start_s: float | None = None
        self._samples = -1

    def open(self) -> None:
        """Start."""
        self._is_open, self._start_s, self._samples = True, None, -1

    def read(self, now_s: float) -> ForceReading:
        """The newest sample."""
        self._require_open()
        if self._start_s is None:
            self._start_s = now_s
        due = math.floor((now_s - self._start_s) * self._rate_hz + 1e-6)
        if due > self._samples:
            self._samples, self._stamp_s = due, now_s
            true = np.asarray(self._wrench(), dtype=float)
            self._sample = true + self._offset + self._noise * self._rng.standard_normal(6)
            self._tare.update(self._sample)
        return ForceReading(self._stamp_s, self._sample - self._tare.bias, now_s - self._stamp_s, ROOM_TEMPERATURE_C)

    @property
    def taring(self) -> bool:
        """Whether a tare is on its way."""
        return self._tare.active

    @property
    def tare_problem(self) -> str:
        """Why the last tare changed nothing; empty where it did."""
        return self._tare.problem

    def start_tare(self, samples: int = 200) -> None:
        """From now on measure from the mean of the next samples."""
        self._require_open()
        self._tare.start(samples)

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._tare.stop("the sensor was closed meanwhile")

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError("simulated force sensor", "is not open", "Open it first.")
