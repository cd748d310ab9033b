# SPDX-License-Identifier: Apache-2.0
"""One segment: rod, disks, tendons and basis together, and the calibration its values come from."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.segments.backbone import Backbone, Disks
from continuum_robot.robot.segments.hysteresis import Hysteresis
from continuum_robot.robot.segments.tendons import Capstans, Tendons


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsCalibration:
    """The fit of a segment's stiffnesses and friction coefficients to a recorded motion."""

    date: str = quantity("date of the fit, ISO 8601", filled=True)
    file: str = quantity("file name of the recording", filled=True)
    sha256: str = quantity("its SHA-256", filled=True)
    stiffness_deviations_nm2: tuple[float, ...] = quantity(
        "standard deviations of the stiffnesses about x and y", length=2, ge=0, le=1e6
    )
    friction_deviations: tuple[float, ...] = quantity(
        "standard deviations of the friction coefficients", length=2, ge=0, le=10
    )
    mass_kg_deviation: float | None = quantity(
        "standard deviation of the mass of the segment, where it was looked for", "kg", default=None, ge=0, le=1e6
    )
    capstan_inertia_kg_m2_deviation: float | None = quantity(
        "the same of a capstan's inertia", "kg.m^2", default=None, ge=0, le=1e6
    )
    bending_damping_nms_deviation: float | None = quantity(
        "the same of the segment's damping", "N.m.s", default=None, ge=0, le=1e6
    )
    rmse_coefficients_per_m: tuple[float, ...] = quantity(
        "RMSE of the strain coefficients, simulated in windows", ge=0, le=1e6
    )
    rmse_tip_m: tuple[float, ...] = quantity(
        "RMSE of the tip's x, y and z, simulated in windows", length=3, ge=0, le=10
    )
    open_loop_rmse_tip_m: tuple[float, ...] = quantity(
        "the same simulated in one piece; empty where that ran away", default=(), ge=0, le=10
    )


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
    calibration: DynamicsCalibration | None = quantity(
        "where fitted stiffnesses and friction coefficients come from", default=None
    )

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
