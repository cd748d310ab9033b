# SPDX-License-Identifier: Apache-2.0
"""Two recordings of the same inputs beside each other: what the nodes answered then and now. Needs no ROS 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuum_robot.app.recordings.inputs import CLARKE, COMMANDS, CONTACT, SHAPE
from continuum_robot.app.recordings.reading import Recording, Series

ROUNDING = 1e-9
"""Differences below this fraction of the largest recorded value come from rounding."""

COMPARED: dict[str, dict[str, str]] = {
    SHAPE: {"coefficients": "per_m", "coefficient_rates": "per_m_s", "residual": "m"},
    CLARKE: {"position": "m", "velocity": "m_per_s", "generalized_force": "n"},
    COMMANDS: {"tension": "n", "displacement": "m"},
    CONTACT: {"residual": "nm2", "contact_threshold": "nm2", "ratio": "", "arc_length": "m", "wrench": "n"},
}
"""Fields that are compared, with the units of their keys."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a topic."""

    topic: str
    field: str
    unit: str
    largest: float
    largest_later: float
    scale: float
    exact: float
    known_in_one_only: int


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """One topic: messages recorded, those that came again, those with the same stamp too, and its fields."""

    topic: str
    recorded: int
    compared: int
    same_stamp: int
    differences: tuple[Difference, ...]
    same_state: float


SETTLED_S = 1.0
"""Filters of which the recording does not hold the beginning have forgotten it after this time."""


def compare(
    then: Recording, now: Recording, *, coefficient_units: tuple[str, str, str] | None = None
) -> list[TopicComparison]:
    """Compare the answers to the same states, by their sequence numbers."""
    found = []
    shape_fields = ("coefficients", "coefficient_rates", "residual")
    own = {SHAPE: dict(zip(shape_fields, coefficient_units, strict=True))} if coefficient_units else {}
    for topic, fields in (COMPARED | own).items():
        if topic not in then.topics or not len(then.topics[topic]):
            continue
        recorded = then.topics[topic]
        again = now.topics.get(topic)
        if again is None or not len(again):
            found.append(TopicComparison(topic, len(recorded), 0, 0, (), math.nan))
            continue
        _, old, new = np.intersect1d(recorded.sequence, again.sequence, return_indices=True)
        # From each recording's own origin; the stamps themselves are whole nanoseconds, far below this.
        shift_s = 1e-9 * (now.origin_ns - then.origin_ns)
        same_stamp = int(np.sum(np.abs(again.stamp_s[new] + shift_s - recorded.stamp_s[old]) < 5e-7))
        later = recorded.stamp_s[old] >= recorded.stamp_s[0] + SETTLED_S
        differences = [
            _difference((topic, name, unit), recorded[name][old], again[name][new], later)
            for name, unit in fields.items()
            if name in recorded.fields and name in again.fields and recorded[name].shape[1] == again[name].shape[1] > 0
        ]
        found.append(
            TopicComparison(
                topic, len(recorded), len(old), same_stamp, tuple(differences), _same(recorded, again, old, new)
            )
        )
    return found


def _difference(names: tuple[str, str, str], old: Any, new: Any, later: Any) -> Difference:
    difference = np.abs(new - old)
    one_only = (np.isfinite(old) != np.isfinite(new)).any(axis=1)
    worst = np.nan_to_num(difference, nan=0.0, posinf=0.0).max(axis=1) if difference.size else np.zeros(len(old))
    finite = np.abs(old[np.isfinite(old)])
    scale = float(finite.max()) if finite.size else 0.0
    return Difference(
        *names,
        float(worst.max()) if worst.size else math.nan,
        float(worst[later].max()) if later.any() else math.nan,
        scale,
        float(np.mean((worst <= ROUNDING * scale) & ~one_only)) if worst.size else math.nan,
        int(one_only.sum()),
    )


def _same(recorded: Series, again: Series, old: Any, new: Any) -> float:
    """Fraction of equal texts in the field ``state``, NaN where there is none."""
    if "state" not in recorded.texts or not len(old):
        return math.nan
    then, now = recorded.texts["state"], again.texts["state"]
    return float(np.mean([then[i] == now[j] for i, j in zip(old, new, strict=True)]))


def comparison_numbers(comparisons: list[TopicComparison]) -> dict[str, Any]:
    """A comparison as flat numbers with the units in the keys."""
    numbers: dict[str, Any] = {}
    for one in comparisons:
        numbers |= {
            f"{one.topic}_recorded": one.recorded,
            f"{one.topic}_compared": one.compared,
            f"{one.topic}_same_stamp": one.same_stamp,
        }
        if not math.isnan(one.same_state):
            numbers[f"{one.topic}_same_state_percent"] = 100.0 * one.same_state
        for difference in one.differences:
            name, unit = f"{one.topic}_{difference.field}", f"_{difference.unit}" if difference.unit else ""
            numbers |= {
                f"{name}_largest_difference{unit}": difference.largest,
                f"{name}_largest_difference_after_{SETTLED_S:g}s{unit}": difference.largest_later,
                f"{name}_largest_recorded{unit}": difference.scale,
                f"{name}_agree_to_rounding_percent": 100.0 * difference.exact,
                f"{name}_known_in_one_only": difference.known_in_one_only,
            }
    return numbers
