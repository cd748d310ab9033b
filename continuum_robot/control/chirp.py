# SPDX-License-Identifier: Apache-2.0
"""The chirp that excites a segment for its calibration: johnston (71), corrected."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chirp:
    """q(t) = amplitude sin(2 pi ((f_end - f_start) / (2 t_f) t^2 + f_start t) + phase).

    As printed, johnston (71) begins at f_0 = 0.25 Hz and ends at f_1 = 0.01 Hz; the text states the opposite, which
    this does. The defaults are the paper's, for the angle of a capstan; an amplitude in m makes it a tendon
    displacement.
    """

    amplitude: float = quantity("amplitude; 360 degrees of a capstan", "rad", default=2 * math.pi, ge=-100, le=100)
    start_hz: float = quantity("frequency at the start", "Hz", default=0.01, ge=0, le=100)
    end_hz: float = quantity("frequency at the end", "Hz", default=0.25, ge=0, le=100)
    duration_s: float = quantity("time from the one to the other", "s", default=6.0, gt=0, le=3600)
    phase_rad: float = quantity("phase at the start", "rad", default=math.pi / 2, ge=-10, le=10)

    def frequency_hz(self, time_s: ArrayLike) -> Array:
        """Instantaneous frequency at times (s), Hz; the same shape."""
        fraction = np.asarray(time_s, dtype=float) / self.duration_s
        return np.asarray(self.start_hz + (self.end_hz - self.start_hz) * fraction)

    def position(self, time_s: ArrayLike) -> Array:
        """Position at times (s), in the amplitude's unit; the same shape."""
        return self.amplitude * np.sin(self._angle(time_s))

    def rate(self, time_s: ArrayLike) -> Array:
        """Its derivative at times ``time_s`` (s), per s; the same shape (...)."""
        return self.amplitude * 2 * math.pi * self.frequency_hz(time_s) * np.cos(self._angle(time_s))

    def _angle(self, time_s: ArrayLike) -> Array:
        t = np.asarray(time_s, dtype=float)
        slope = (self.end_hz - self.start_hz) / (2 * self.duration_s)
        return 2 * math.pi * (slope * t**2 + self.start_hz * t) + self.phase_rad  # johnston (71), f_0 and f_1 swapped
