# SPDX-License-Identifier: Apache-2.0
"""How well a recording repeats itself, and with that how good any model without memory can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from continuum_robot.identification.recordings import TendonRecording
from continuum_robot.identification.replay import rmse_m

_CLOSE_M, _APART_S, _LATER_S = 1e-3, 30.0, 300.0


@dataclass(frozen=True)
class Repeatability:
    """How far the marker is apart when all servos read nearly the same again, some time later."""

    difference_m: float
    floor_m: float
    later_floor_m: float
    pairs: int

    def numbers(self) -> dict[str, float | int | None]:
        """For JSON, units in the keys."""
        lengths = {
            "repeat_tip_difference_mm": self.difference_m,
            "repeatability_floor_mm": self.floor_m,
            "repeatability_floor_later_mm": self.later_floor_m,
        }
        in_mm = {name: 1e3 * length_m if math.isfinite(length_m) else None for name, length_m in lengths.items()}
        return {**in_mm, "n_repeat_pairs": self.pairs}


def repeatability(recording: TendonRecording, predicted_m: ArrayLike) -> Repeatability:
    """Compare moments whose readings differ by less than 1 mm and that are more than 30 s apart."""
    seen = recording.seen
    readings, place, when = recording.displacement_m[seen], recording.marker_m[seen], recording.time_s[seen]
    model = np.asarray(predicted_m, dtype=float)[seen]
    pairs = cKDTree(readings).query_pairs(_CLOSE_M, output_type="ndarray")
    between_s = np.abs(when[pairs[:, 0]] - when[pairs[:, 1]])
    pairs, later = pairs[between_s > _APART_S], between_s[between_s > _APART_S] > _LATER_S
    apart = place[pairs[:, 0]] - place[pairs[:, 1]]
    left = apart - (model[pairs[:, 0]] - model[pairs[:, 1]])
    size_m = [rmse_m(part) if len(part) else math.nan for part in (apart, left, left[later])]
    return Repeatability(size_m[0], size_m[1] / math.sqrt(2), size_m[2] / math.sqrt(2), len(pairs))
