# SPDX-License-Identifier: Apache-2.0
"""A fibre with Bragg gratings that lies along the backbone and measures its curvature."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Fiber:
    """Where the gratings are, and how well the interrogator's curvatures are known."""

    gratings_m: tuple[float, ...] = quantity(
        "arc length from the base of each place at which the fibre's cores have gratings", ge=0, le=10
    )
    sigma_per_m: float = quantity(
        "standard deviation of a curvature's systematic error: calibration, twist of the fibre",
        default=0.05,
        gt=0,
        le=100,
    )
    noise_per_m: float = quantity("white part of a curvature's error", default=0.01, gt=0, le=100)

    def __post_init__(self) -> None:
        if not self.gratings_m or list(self.gratings_m) != sorted(set(self.gratings_m)):
            raise refuse("gratings_m", self.gratings_m, "one or more increasing arc lengths")

    @property
    def names(self) -> tuple[str, ...]:
        """Of every curvature that it measures: about x and about y of the first grating, of the second, ..."""
        return tuple(
            f"fiber/grating_{number}.kappa_{axis}"
            for number in range(1, len(self.gratings_m) + 1)
            for axis in ("x", "y")
        )
