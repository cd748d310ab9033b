# SPDX-License-Identifier: Apache-2.0
"""The result of the fit: the robot with all that goes into its file, the steps, the unidentified parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.displaced.inverse import MissingPull
from continuum_robot.identification.recordings import TendonRecording
from continuum_robot.identification.repeatability import Repeatability
from continuum_robot.robot.description import Robot
from continuum_robot.robot.provenance import Provenance

Array = NDArray[np.float64]

_OF_A_PATTERN = re.compile(r"^rep\d+_|_hold$|_(?:dir|id)\d+|(?<=^tendon)\d+|(?<=\d_tendon)\d+")


@dataclass(frozen=True)
class FitStep:
    """One step of the fit."""

    name: str
    train_rmse_m: float
    held_out_rmse_m: float
    block_rmse_m: tuple[float, ...]
    kept: bool


@dataclass(frozen=True)
class DisplacedFit:
    """Result of :func:`~continuum_robot.identification.displaced.fit.identify_displaced`."""

    robot: Robot
    recording: TendonRecording
    provenance: Provenance
    steps: tuple[FitStep, ...]
    tendon_deviations: Mapping[str, Array]
    block: NDArray[np.intp]
    held_out_m: Array
    held_out_first_m: Array
    pulls: MissingPull
    repeat: Repeatability
    unidentified: tuple[str, ...]

    def pattern_errors(self) -> dict[str, tuple[int, float]]:
        """Samples with a marker, and error on blocks left out, root mean square, m, by what the robot was doing.

        That is the label without repetition, direction and servo: ``pair12_opp`` for ``rep1_pair12_opp_dir60_hold``.
        """
        centred = self.held_out_m.copy()
        for number in np.unique(self.block):
            centred[self.block == number] -= np.nanmean(self.held_out_m[self.block == number], axis=0)
        squares = (centred**2).sum(axis=1)
        by_pattern: dict[str, list[float]] = {}
        for label, square in zip(self.recording.labels, squares, strict=True):
            if np.isfinite(square):
                by_pattern.setdefault(_OF_A_PATTERN.sub("", label), []).append(float(square))
        return {pattern: (len(own), math.sqrt(sum(own) / len(own))) for pattern, own in by_pattern.items()}

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        kept = [step for step in self.steps if step.kept]
        by_pattern = self.pattern_errors()
        numbers: dict[str, object] = {
            "tip_rmse_held_out_mm": 1e3 * kept[-1].held_out_rmse_m,
            "tip_rmse_train_mm": 1e3 * kept[-1].train_rmse_m,
            "pull_rmse_held_out_mm": 1e3 * self.pulls.rmse_m,
            "tip_rmse_after_pull_held_out_mm": 1e3 * self.pulls.left_rmse_m,
            **self.repeat.numbers(),
            "n_samples": int(self.recording.seen.sum()),
            "steps_kept": [step.name for step in kept],
            "blocks": [
                f"{self.recording.labels[own[0]]} .. {self.recording.labels[own[-1]]}: {len(own)} samples"
                for own in (np.flatnonzero(self.block == number) for number in np.unique(self.block))
            ],
            "unidentified": list(self.unidentified),
            "tip_rmse_held_out_by_pattern_mm": {name: 1e3 * rmse for name, (_, rmse) in by_pattern.items()},
            "samples_by_pattern": {name: count for name, (count, _) in by_pattern.items()},
        }
        before = None
        for step in self.steps:
            numbers[f"tip_rmse_{step.name}_held_out_mm"] = 1e3 * step.held_out_rmse_m
            numbers[f"tip_rmse_{step.name}_train_mm"] = 1e3 * step.train_rmse_m
            numbers[f"tip_rmse_{step.name}_held_out_by_block_mm"] = [1e3 * value for value in step.block_rmse_m]
            if before is not None:
                numbers[f"gain_of_{step.name}_mm"] = 1e3 * (before.held_out_rmse_m - step.held_out_rmse_m)
            before = step if step.kept else before
        for value in self.provenance.values:
            numbers[value.key] = value.value
            numbers[f"{value.key}_deviation"] = value.deviation
        return numbers
