# SPDX-License-Identifier: Apache-2.0
"""What runs along the rod: tendons, the capstans or servos that drive them, strings of encoders, a fibre."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.doors import TENDON_ROUTINGS
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.segments.routing import RoutedPath, Routing, StraightRouting

Vector = NDArray[np.float64]

_SAME_ANGLE_RAD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Tendons:
    """The n tendons that end at a segment's tip, on a circle; equally spaced, and parallel to the backbone, if not
    stated otherwise.
    """

    count: int = quantity(
        "number of tendons; at least 3 to bend in every direction, 2 in every segment to bend in their plane alone,"
        " fewer where routed tendons do the rest",
        ge=0,
        le=64,
    )
    pitch_radius_m: float = quantity("distance of the tendons from the backbone", gt=0, le=1)
    angle_offset_rad: float = quantity(
        "angle psi_0 of the first tendon from +x; with uneven_angles_rad: by which all are turned", default=0.0,
        ge=-2 * math.pi, le=2 * math.pi
    )  # fmt: skip
    uneven_angles_rad: tuple[float, ...] = quantity(
        "angle of each tendon from angle_offset_rad on, if they are not equally spaced", default=(),
        ge=-2 * math.pi, le=4 * math.pi
    )  # fmt: skip
    diameter_m: float = quantity(
        "diameter of a tendon, 0: its mass and stiffness are neglected", default=0.0, ge=0, le=0.1
    )
    density_kg_per_m3: float = quantity("density", default=0.0, ge=0, le=25000)
    youngs_modulus_pa: float = quantity("Young's modulus", default=0.0, ge=0, le=1e12)
    strands: int = quantity(
        "strands of wire that a tendon consists of: 2 where it runs out, around a pulley and back. Displacement is that"
        " of the path, tension the sum over the strands",
        default=1,
        ge=1,
        le=8,
    )
    from_base: bool = quantity(
        "runs from the robot's base; false: from the segment's own start, where its actuators ride", default=True
    )
    stiffness_n_per_m: tuple[float, ...] = quantity(
        "axial stiffness of each up to its spool, or of all; none: the robot's tendon_stiffness_n_per_m", default=(),
        gt=0, le=1e9
    )  # fmt: skip
    friction_coefficient: float = quantity(
        "dry friction of a tendon in guides and disks, the capstan law's mu; of the simulated robot",
        default=0.0,
        ge=0,
        lt=1,
    )
    guide_turn_rad: float = quantity(
        "angle through which each is led between spool and base; makes friction", default=0.0, ge=0, le=20
    )
    routing: Routing = quantity(
        "path in the cross-section, the same for each from its angle", factory=StraightRouting, door=TENDON_ROUTINGS
    )

    def __post_init__(self) -> None:
        angles = self.uneven_angles_rad
        if angles and len(angles) != self.count:
            raise refuse("uneven_angles_rad", angles, f"{self.count} angles, one a tendon")
        if len(self.stiffness_n_per_m) not in (0, 1, self.count):
            raise refuse("stiffness_n_per_m", self.stiffness_n_per_m, f"1 value, or {self.count}, one a tendon")
        if angles and self._gaps_rad.min() < _SAME_ANGLE_RAD:
            raise refuse("uneven_angles_rad", angles, "a different angle for each tendon")
        if self.routing.parallel:  # one way to say it, so that all else need not look
            radius_m, angle_rad = self.routing.parallel_place(self.pitch_radius_m, self.angle_offset_rad)
            place = {"pitch_radius_m": radius_m, "angle_offset_rad": angle_rad, "routing": StraightRouting()}
            for key, value in place.items():
                object.__setattr__(self, key, value)

    @property
    def _gaps_rad(self) -> Vector:
        """Between neighbours, shape (n,), rad."""
        around = np.sort(np.mod(self.angles_rad, 2 * np.pi))
        return np.diff(around, append=around[0] + 2 * np.pi)

    @property
    def even(self) -> bool:
        """Whether they are equally spaced, however that is spelled."""
        angles, steps = np.array(self.uneven_angles_rad), 2 * np.pi * np.arange(self.count) / self.count
        apart = np.mod(angles - angles[:1] - steps[: angles.size] + np.pi, 2 * np.pi) - np.pi
        return bool(np.abs(apart).max(initial=0.0) < _SAME_ANGLE_RAD)

    @property
    def surround(self) -> bool:
        """Whether they pull in every direction: neighbours are less than half a turn apart."""
        return bool(self.count > 2 and self._gaps_rad.max() < np.pi - _SAME_ANGLE_RAD)

    @property
    def angles_rad(self) -> Vector:
        """psi_j = psi_0 + 2 pi (j - 1) / n, counter-clockwise seen from the tip, or as stated, shape (n,), rad."""
        if not self.even:
            return self.angle_offset_rad + np.array(self.uneven_angles_rad)
        first = self.angle_offset_rad + (self.uneven_angles_rad or (0.0,))[0]
        return first + 2 * np.pi * np.arange(self.count) / self.count

    @property
    def mass_per_length_kg_per_m(self) -> float:
        """Mass of one tendon per length, kg/m."""
        return self.density_kg_per_m3 * math.pi / 4 * self.diameter_m**2

    @property
    def bending_stiffness_nm2(self) -> float:
        """E I of one tendon, N.m^2."""
        return self.youngs_modulus_pa * math.pi / 64 * self.diameter_m**4


@dataclass(frozen=True, slots=True, kw_only=True)
class Capstans:
    """Capstans, each of which drives two opposite tendons of a segment with four: johnston sections 4.3, 5.1.3, 5.3.

    Capstan 1 drives tendons 1 and 3, capstan 2 drives 2 and 4; turning positively pulls the former of the two in.
    """

    radius_m: float = quantity("radius at which the wire winds, r_c", gt=0, le=0.5)
    lead_m: float = quantity("advance of the wire along the capstan in a turn, gamma", default=0.0, ge=0, le=0.1)
    inertia_kg_m2: float = quantity("inertia of a capstan with its gears and motor as it feels it, J_A", gt=0, le=10)
    pretension_n: float = quantity("tension of each wire at rest, f_pl; makes friction", default=0.0, ge=0, le=1e5)
    friction_coefficients: tuple[float, ...] = quantity(
        "mu_1, mu_2: friction of the wires of each capstan in the holes of the disks",
        default=(0.0, 0.0),
        length=2,
        ge=0,
        lt=1,
    )

    @property
    def wire_per_radian_m(self) -> float:
        """Wire that is spooled for a radian of the capstan, m: johnston (10)."""
        return math.sqrt((2 * math.pi * self.radius_m) ** 2 + self.lead_m**2) / (2 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTendon:
    """One tendon on a path of its own, ending anywhere."""

    name: str = quantity("name, unique in the robot", filled=True)
    end_m: float = quantity("arc length from the base at which it ends", gt=0, le=10)
    pitch_radius_m: float = quantity("distance from the backbone at its start", gt=0, le=1)
    angle_rad: float = quantity("angle from +x at its start", default=0.0, ge=-2 * math.pi, le=2 * math.pi)
    start_m: float = quantity("arc length from the base at which it starts", default=0.0, ge=0, le=10)
    stiffness_n_per_m: float | None = quantity(
        "axial stiffness up to its spool; none: the robot's tendon_stiffness_n_per_m", default=None, gt=0, le=1e9
    )
    friction_coefficient: float = quantity(
        "dry friction of the tendon in guides and disks, the capstan law's mu; of the simulated robot",
        default=0.0,
        ge=0,
        lt=1,
    )
    guide_turn_rad: float = quantity(
        "angle through which it is led between spool and base; makes friction", default=0.0, ge=0, le=20
    )
    routing: Routing = quantity("path in the cross-section", factory=StraightRouting, door=TENDON_ROUTINGS)

    def __post_init__(self) -> None:
        if self.start_m >= self.end_m:
            raise refuse("start_m", self.start_m, f"less than end_m = {self.end_m:g} m")

    @property
    def path(self) -> RoutedPath:
        """Where it runs."""
        return _path(self, self.end_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class String:
    """A string of an encoder: a tendon without tension, parallel to the backbone, from its start to its anchor."""

    name: str = quantity("name, unique in the robot", filled=True)
    anchor_m: float = quantity("arc length of the anchor from the base", gt=0, le=10)
    pitch_radius_m: float = quantity("distance from the backbone", gt=0, le=1)
    angle_rad: float = quantity("angle from +x", ge=-2 * math.pi, le=2 * math.pi)
    start_m: float = quantity(
        "arc length from the base at which it starts: 0, or the disk on which its encoder rides",
        default=0.0,
        ge=0,
        le=10,
    )
    routing: Routing = quantity("path in the cross-section", factory=StraightRouting, door=TENDON_ROUTINGS)

    def __post_init__(self) -> None:
        if self.start_m >= self.anchor_m:
            raise refuse("start_m", self.start_m, f"less than anchor_m = {self.anchor_m:g} m")

    @property
    def path(self) -> RoutedPath:
        """Where it runs."""
        return _path(self, self.anchor_m)


def _path(one: RoutedTendon | String, end_m: float) -> RoutedPath:
    own = {key: getattr(one, key) for key in ("name", "start_m", "pitch_radius_m", "angle_rad", "routing")}
    return RoutedPath(end_m=end_m, **own)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedTendons:
    """Stretch, zero, friction and way of tendons driven by displacement; lists in tendon order."""

    stiffness_n_per_m: tuple[float, ...] = quantity("tension per stretch of a tendon and its drive", gt=0, le=1e12)
    zero_m: tuple[float, ...] = quantity(
        "stretch of a tendon at reading 0 on the straight robot; negative: slack", ge=-0.1, le=0.1
    )
    gain: tuple[float, ...] = quantity("tendon spooled over what the servo reads", gt=0, le=10)
    friction_fraction: tuple[float, ...] = quantity(
        "fraction of its tension that friction in the robot takes up before the tendon slides", ge=0, lt=1
    )
    spiral_rad_per_m: float = quantity(
        "turn of all tendons about the backbone from base to tip, counter-clockwise seen from the tip; the angles are "
        "those in the middle of a segment",
        default=0.0,
        ge=-100,
        le=100,
    )
    straight_over_m: float = quantity(
        "distance between disks, over which tendons run straight while the backbone bends; 0: they follow it",
        default=0.0,
        ge=0,
        le=1,
    )

    @property
    def bends_paths(self) -> bool:
        """Whether tendons run otherwise than their routing states."""
        return self.spiral_rad_per_m != 0 or self.straight_over_m != 0

    def paths(self, routed: Sequence[RoutedPath], middles_m: Sequence[float]) -> tuple[RoutedPath, ...]:
        """Paths of the tendons, by those of their routing."""
        if not self.bends_paths:
            return tuple(routed)
        return tuple(
            replace(
                path,
                spiral_rad_per_m=self.spiral_rad_per_m,
                about_m=(path.start_m + path.end_m) / 2 if math.isnan(middle_m) else middle_m,
                straight_over_m=self.straight_over_m,
            )
            for path, middle_m in zip(routed, middles_m, strict=True)
        )
