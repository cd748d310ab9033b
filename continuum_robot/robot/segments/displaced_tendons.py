# SPDX-License-Identifier: Apache-2.0
"""Tendons that servos hold at displacements: what lies between a servo and the robot's shape."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.identified import FittedValue
from continuum_robot.robot.schema import quantity, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedTendons:
    """Stretch, zero, friction and way of tendons driven by displacement; lists in tendon order."""

    stiffness_n_per_m: tuple[float, ...] = quantity(
        "tension per stretch of a tendon and its drive", "N/m", gt=0, le=1e12
    )
    zero_m: tuple[float, ...] = quantity(
        "stretch of a tendon at reading 0 on the straight robot; negative: slack", "m", ge=-0.1, le=0.1
    )
    gain: tuple[float, ...] = quantity("tendon spooled over what the servo reads", "", gt=0, le=10)
    friction_fraction: tuple[float, ...] = quantity(
        "fraction of its tension that friction in the robot takes up before the tendon slides", ge=0, lt=1
    )
    spiral_rad_per_m: float = quantity(
        "turn of all tendons about the backbone from base to tip, counter-clockwise seen from the tip; the angles are "
        "those in the middle of a segment",
        "rad/m",
        default=0.0,
        ge=-100,
        le=100,
    )
    straight_over_m: float = quantity(
        "distance between disks, over which tendons run straight while the backbone bends; 0: they follow it",
        "m",
        default=0.0,
        ge=0,
        le=1,
    )
    compliance_per_n: float = quantity(
        "fraction of its length by which the backbone gives way along itself per force of the tendons; 0: it does not",
        "1/N",
        default=0.0,
        ge=0,
        le=1,
    )
    fitted_from: str = quantity("file name of the data that these values were fitted to", default="")
    fitted_sha256: str = quantity("its SHA-256", default="")
    cross_validated_rmse_mm: float = quantity("tip RMSE on blocks left out of the fit", "mm", default=0.0, ge=0, le=1e6)
    fitted_values: tuple[FittedValue, ...] = quantity("every fitted quantity with its standard deviation", default=())

    def check_count(self, tendon_count: int) -> None:
        """Refuse lists that do not have one value for each of ``tendon_count`` tendons (RobotFileError)."""
        for key in ("stiffness_n_per_m", "zero_m", "gain", "friction_fraction"):
            if len(getattr(self, key)) != tendon_count:
                raise refuse(
                    f"displaced_tendons.{key}", len(getattr(self, key)), f"{tendon_count} values, one a tendon"
                )
