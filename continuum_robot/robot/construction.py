# SPDX-License-Identifier: Apache-2.0
"""What a robot is made of, a rod or a mechanism, as everything else asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.traits import Traits


class Construction(Protocol):
    """A rod with segments, or a mechanism."""

    @property
    def traits(self) -> Traits:
        """What the stack can do with it."""

    @property
    def length_m(self) -> float:
        """Length of the whole backbone, m."""

    @property
    def part_names(self) -> tuple[str, ...]:
        """What has a controller's gains of its own."""

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """Names of all tendons, in tendon order."""

    @property
    def tendon_count(self) -> int:
        """Number of all tendons."""

    @property
    def tendon_slices(self) -> tuple[slice, ...]:
        """For each segment, or the mechanism, where its tendons stand in an array over all."""

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates that the tendons control."""

    @property
    def coefficient_count(self) -> int:
        """Number of values that describe the shape."""

    @property
    def clarke_manifold(self) -> ClarkeManifold:
        """Maps between tendons and coordinates; of a rod whose ``traits.without_clarke`` is empty."""


class Mechanism(ABC):
    """What all mechanisms have in common: one part, which has all tendons."""

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
