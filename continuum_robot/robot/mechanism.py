# SPDX-License-Identifier: Apache-2.0
"""What all mechanisms have in common: one part, which has all tendons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from continuum_robot.robot.traits import Traits


class Mechanism(ABC):
    """What a robot is instead of a rod with segments."""

    __slots__ = ()

    kind: str

    @property
    @abstractmethod
    def tendon_names(self) -> tuple[str, ...]:
        """Names of all tendons, in tendon order."""

    @property
    def part_names(self) -> tuple[str, ...]:
        """The mechanism's kind."""
        return (self.kind,)

    @property
    def tendon_count(self) -> int:
        """Number of all tendons."""
        return len(self.tendon_names)

    @property
    def tendon_slices(self) -> tuple[slice, ...]:
        """All tendons."""
        return (slice(0, self.tendon_count),)

    def _traits(self, **others: Any) -> Traits:
        """There is no rod for the contact monitor, and there are no simulated motor boards."""
        return Traits(
            kind=self.kind,
            without_boards="a mechanism has no simulated boards",
            without_contact="no contact monitor has a model of a mechanism",
            without_tip_control="a mechanism is steered by its coordinates",
            without_compiled_cycle="the feed-forward of a mechanism is Python code",
            without_bending_command="a mechanism has no segments",
            without_statics="a mechanism is no elastic rod",
            simulated_tip=False,
            coefficient_units=("", "per_s", "m"),
            **others,
        )
