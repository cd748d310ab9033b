# SPDX-License-Identifier: Apache-2.0
"""One segment: rod, disks, tendons and basis together."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.segments.backbone import Backbone, Disks, Hysteresis
from continuum_robot.robot.segments.tendons import Capstans, Tendons

CAPSTAN_TENDONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Elbow:
    """A motor between a segment's end and what follows, held at the angle 0: johnston section 13.1."""

    maximum_torque_nm: float = quantity("largest torque about the x axis of the segment's end", gt=0, le=1e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment: a length of backbone with disks, and the tendons that end at its tip."""

    name: str = quantity("name, unique in the robot", filled=True)
    length_m: float = quantity("length of the backbone", gt=0, le=10)
    backbone: Backbone = quantity("the rod")
    disks: Disks = quantity("the spacer disks")
    tendons: Tendons = quantity("the tendons that end here")
    basis: Basis = quantity("strain basis", factory=Basis)
    bending_damping_nms: float = quantity(
        "d_theta: bending moment per rate of the bending angle", default=0.0, ge=0, le=10
    )
    hysteresis: Hysteresis | None = quantity("bending moment that lags behind the curvature; none: none", default=None)
    capstans: Capstans | None = quantity("capstans that drive opposite tendons; none: a motor each", default=None)
    elbow: Elbow | None = quantity("motor between this segment's end and the next one", default=None)

    def __post_init__(self) -> None:
        last_m = float(self.disks.positions_m(self.length_m).max(initial=0.0))
        if last_m > self.length_m + 1e-12:
            raise refuse(
                f"disks.individual[{len(self.disks.individual) - 1}].arc_length_m"
                if self.disks.individual
                else "disks.arc_lengths_m",
                last_m,
                f"at most the segment's length_m = {self.length_m:g} m",
            )
        if self.capstans is not None and self.tendons.count != CAPSTAN_TENDONS:
            raise refuse(
                "tendons.count",
                self.tendons.count,
                f"{CAPSTAN_TENDONS}, as the segment has capstans that drive opposite tendons",
            )
        if self.capstans is not None and self.tendons.friction_coefficient:
            raise refuse(
                "tendons.friction_coefficient",
                self.tendons.friction_coefficient,
                "0 beside capstans, which have friction_coefficients of their own",
            )
        if self.capstans is not None and not self.tendons.even:
            raise refuse("tendons.uneven_angles_rad", self.tendons.uneven_angles_rad, "none beside capstans")
        if self.tendons.pitch_radius_m > self.disks.radius_m:
            raise refuse(
                "tendons.pitch_radius_m",
                self.tendons.pitch_radius_m,
                f"at most the disks' radius_m = {self.disks.radius_m:g} m",
            )
