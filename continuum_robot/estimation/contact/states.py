# SPDX-License-Identifier: Apache-2.0
"""The contact monitor's states: clear, contact, collision, with hysteresis and delay in time, and the estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.location import LocationEstimate
from continuum_robot.estimation.contact.settings import ForceLimits, MonitorSettings
from continuum_robot.estimation.contact.wrench import WrenchEstimate

Vector = NDArray[np.float64]

CLEAR, CONTACT, COLLISION, INVALID, TARING = "clear", "contact", "collision", "invalid", "taring"
SETTLING = "settling"
STATES = (CLEAR, CONTACT, COLLISION, INVALID, TARING, SETTLING)


@dataclass(frozen=True, slots=True)
class ContactEstimate:
    """The monitor's output after an update."""

    state: str
    reason: str
    accelerating: bool
    residual: Vector
    residual_covariance: Vector
    contact_threshold: Vector
    collision_threshold: Vector
    ratio: float
    wrench: WrenchEstimate
    wrench_arc_length_m: float
    wrench_location_assumed: bool
    location: LocationEstimate | None
    named_values: Mapping[str, float] = field(default_factory=dict)

    @property
    def in_contact(self) -> bool:
        """Whether a contact or a collision is reported."""
        return self.state in (CONTACT, COLLISION)


@dataclass(slots=True)
class _Level:
    """A threshold with hysteresis and delay in time."""

    raised: bool = False
    since_s: float = 0.0

    def update(self, above: bool, below: bool, dt: float, settings: MonitorSettings) -> bool:
        changing = below if self.raised else above
        self.since_s = self.since_s + dt if changing else 0.0
        if changing and self.since_s >= (settings.clear_after_s if self.raised else settings.raise_after_s) - 1e-9:
            self.raised, self.since_s = not self.raised, 0.0
        return self.raised


class ContactStates:
    """Contact and collision, each left below a fraction of its threshold; a suspected sensor holds both back."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """No contact, and no sensor has been suspected yet."""
        self.lower()
        self.held_s = 0.0

    def lower(self) -> None:
        """Report nothing any more."""
        self._contact, self._collision = _Level(), _Level()

    def update(
        self,
        ratio: float,
        force_n: float,
        dt: float,
        *,
        placed: bool,
        suspects: Sequence[str],
        limits: ForceLimits,
        settings: MonitorSettings,
    ) -> str:
        """State after one more cycle; "invalid" where a suspect has held a contact back for longer than
        ``suspect_s``.
        """
        soft, least_n, most_n = settings.hysteresis, limits.contact_force_n, limits.collision_force_n
        collision_ratio = ratio * limits.contact_factor / limits.collision_factor
        hit = force_n > most_n and placed and ratio > 1
        held = bool(suspects) and ratio > 1 and not self._contact.raised and not self._collision.raised
        self.held_s = self.held_s + dt if held else 0.0
        if self.held_s > settings.suspect_s:
            return INVALID
        touched = self._contact.update(
            ratio > 1 and force_n >= least_n and not held, ratio < soft or force_n < soft * least_n, dt, settings
        )
        collided = self._collision.update(
            (collision_ratio > 1 or hit) and not held,
            collision_ratio < soft and not (force_n > soft * most_n and placed),
            dt,
            settings,
        )
        return COLLISION if collided else CONTACT if touched else SETTLING if held else CLEAR
