# SPDX-License-Identifier: Apache-2.0
"""What a robot does when something touches it, as its file states it."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity

IGNORE, HOLD, RETRACT, COMPLY, GUIDE, PRESS = "ignore", "hold", "retract", "comply", "guide", "press"
REACTIONS = (IGNORE, HOLD, RETRACT, COMPLY, GUIDE, PRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionSettings:
    """How the reference of the Clarke coordinates answers a contact."""

    strategy: str = quantity(
        "ignore; hold: stop; retract: back along its path until the force has gone; comply: yield as mass, "
        "damper and spring; guide: be led by hand; press: keep a force on the contact",
        default=IGNORE,
        choices=REACTIONS,
        live=True,
    )
    speed_m_per_s: float = quantity(
        "of yielding and of the return, Clarke coordinates; 0: that of motions to targets",
        default=0.0,
        ge=0,
        le=100,
        live=True,
    )
    acceleration_m_per_s2: float = quantity(
        "of yielding and of retract, Clarke coordinates: tensions have to follow; 0: twice that of motions to targets",
        default=0.0,
        ge=0,
        le=1000,
        live=True,
    )
    clear_m: float = quantity(
        "further travel of retract once the force has gone, Clarke coordinates; 0: a fiftieth of the largest there is",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )
    largest_m: float = quantity(
        "largest distance from the reference of comply, guide and press; 0: half of the largest displacement",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )
    mass_kg: float = quantity(
        "of comply and guide, at the tip; 0: settles in a twentieth of a second", default=0.0, ge=0, le=1e4, live=True
    )
    damping_ns_per_m: float = quantity(
        "of comply, guide and press, at the tip; 0: five times as slow as the gains follow",
        default=0.0,
        ge=0,
        le=1e7,
        live=True,
    )
    stiffness_n_per_m: float = quantity(
        "of comply, at the tip; 0: a twentieth of that of the rod itself", default=0.0, ge=0, le=1e7, live=True
    )
    press_n: float = quantity("force on the contact with press, at the tip", default=1.0, gt=0, le=1e4, live=True)
