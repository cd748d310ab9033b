# SPDX-License-Identifier: Apache-2.0
"""Mechanisms, which have one part with all tendons: links that roll on each other, and equilibrium modulation.

Sources: ha section III-A, figures 1 and 2; wang, figures 1 and 2, table 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from continuum_robot.geometry.tendon_modes import AntagonistManifold, ModulatedManifold
from continuum_robot.robot.schema import quantity, refuse
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


_PAIR = 2
_FEWEST_POINTS = 4
_FAR_M = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvatureStretch:
    """Curvature of a contact surface up to an arc length."""

    end_m: float = quantity("arc length up to which it holds, from where the stretch before ends", ge=-1, le=1)
    coefficients: tuple[float, ...] = quantity(
        "of 1, s, s^2, ... with s the arc length: curvature, > 0 bends to the left of the direction of increasing s",
        "1/m, 1/m^2, ...",
        ge=-1e15,
        le=1e15,
    )

    def __post_init__(self) -> None:
        if not self.coefficients:
            raise refuse("coefficients", self.coefficients, "one coefficient or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvatureSurface:
    """A contact surface given by its curvature: arcs, straight stretches, and what lies between."""

    kind: str = quantity("how the surface is given", choices=("curvature",))
    start_m: float = quantity("arc length of its left end", ge=-1, lt=0)
    stretches: tuple[CurvatureStretch, ...] = quantity("from its left end to its right one")
    zero_position_m: tuple[float, ...] = quantity(
        "x and y in the link's frame where the arc length is 0", length=2, ge=-_FAR_M, le=_FAR_M
    )
    zero_heading_rad: float = quantity("heading of the surface there", default=0.0, ge=-3.2, le=3.2)

    def __post_init__(self) -> None:
        ends = [self.start_m, *(stretch.end_m for stretch in self.stretches)]
        if not self.stretches or sorted(set(ends)) != ends or ends[-1] <= 0:
            raise refuse("stretches", tuple(ends[1:]), "increasing end_m, the last above 0 m")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSurface:
    """A contact surface through points: a cubic spline."""

    kind: str = quantity("how the surface is given", choices=("points",))
    x_m: tuple[float, ...] = quantity("x of each point in the link's frame, from left to right", ge=-1, le=1)
    y_m: tuple[float, ...] = quantity("y of each point", ge=-1, le=1)
    zero_position_m: tuple[float, ...] = quantity(
        "the arc length is 0 at the surface's point next to this one", length=2, ge=-_FAR_M, le=_FAR_M
    )
    deviation_m: float = quantity(
        "root mean square by which a smoother curve may miss noisy points", default=0.0, ge=0, le=0.1
    )

    def __post_init__(self) -> None:
        if len(self.x_m) != len(self.y_m) or len(self.x_m) < _FEWEST_POINTS:
            raise refuse("x_m", len(self.x_m), f"as many x as y, {_FEWEST_POINTS} or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingLink:
    """A link. Its frame: x to the right, y towards the tip."""

    parent: CurvatureSurface | PointSurface = quantity("its lower contact surface")
    child: CurvatureSurface | PointSurface = quantity("its upper contact surface")
    entry_arc_lengths_m: tuple[float, ...] = quantity(
        "where the left and the right tendon enter on both surfaces", length=_PAIR, ge=-1, le=1
    )

    def __post_init__(self) -> None:
        if self.entry_arc_lengths_m[0] >= self.entry_arc_lengths_m[1]:
            raise refuse("entry_arc_lengths_m", self.entry_arc_lengths_m, "the left one first")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingJoint(Mechanism):
    """Links that roll on each other, with a left and a right tendon; the plane is x, z of the robot's base frame."""

    kind: str = quantity("kind of mechanism", choices=("rolling_joint",))
    links: tuple[RollingLink, ...] = quantity("from the base to the tip")
    joint_damping_nms: float = quantity("moment per angular velocity of a joint", default=1e-3, gt=0, le=10)
    link_width_m: float = quantity("width of the links, for drawing", default=0.03, gt=0, le=1)

    def __post_init__(self) -> None:
        if len(self.links) < _PAIR:
            raise refuse("links", len(self.links), "two links or more")

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """Names of the tendons."""
        return ("left", "right")

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates that tendon displacements control: both tendons work against each other."""
        return 1

    @property
    def coefficient_count(self) -> int:
        """Number of values that describe the pose: the arc length of each joint's contact."""
        return len(self.links) - 1

    @property
    def length_m(self) -> float:
        """Height of all links on top of each other, from where the arc lengths are 0, m."""
        return sum(link.child.zero_position_m[1] - link.parent.zero_position_m[1] for link in self.links)

    @property
    def clarke_manifold(self) -> AntagonistManifold:
        """Of two tendons against each other."""
        return AntagonistManifold()

    @property
    def traits(self) -> Traits:
        """What the stack can do with it."""
        return self._traits(coordinate_names=("bend",))


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentErrorSettings:
    """The moment lambda by which the simple balance of moments is wrong: wang (18)."""

    k_lambda0_nm: float = quantity("constant part", default=0.0, ge=-1, le=1)
    k_lambdaq_n: float = quantity("by insertion", default=0.0, ge=-100, le=100)
    k_lambda_theta_nm_per_rad: float = quantity("by nominal bending angle, pi/2 for straight", default=0.0, ge=-1, le=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EquilibriumModulation(Mechanism):
    """Push-pull backbones around a central one; modulation backbones in their lumens change where they balance."""

    kind: str = quantity("kind of mechanism", choices=("equilibrium_modulation",))
    length_m: float = quantity("length of the central backbone", gt=0, le=10)
    pitch_radius_m: float = quantity("secondary backbones from the central one", gt=0, le=1)
    backbone_count: int = quantity("number of secondary backbones, the first on +x", default=3, ge=3, le=12)
    youngs_modulus_pa: float = quantity("of all backbones", gt=0, le=1e12)
    backbone_diameter_m: float = quantity("of the central and the secondary backbones", gt=0, le=0.1)
    lumen_diameter_m: float = quantity("inside of them", default=0.0, ge=0, le=0.1)
    modulation_diameter_m: float = quantity("of a modulation backbone", gt=0, le=0.1)
    modulation_count: int = quantity("modulation backbones that are inserted together", default=1, ge=1, le=13)
    stroke_m: float = quantity("deepest insertion that the drive reaches", gt=0, le=10)
    moment_error: MomentErrorSettings = quantity("lambda, from a calibration", factory=MomentErrorSettings)
    macro_resolution_m: float = quantity(
        "least displacement that the drives of the secondary backbones make", default=1e-6, ge=0, le=1e-3
    )

    guide_damping_ns_per_m: float = quantity(
        "force per velocity of each drive in its guides", default=50.0, gt=0, le=1e5
    )

    def __post_init__(self) -> None:
        if self.stroke_m > self.length_m:
            raise refuse("stroke_m", self.stroke_m, f"at most length_m = {self.length_m:g} m")
        if self.lumen_diameter_m >= self.backbone_diameter_m:
            raise refuse(
                "lumen_diameter_m", self.lumen_diameter_m, f"less than backbone_diameter_m = {self.backbone_diameter_m}"
            )
        if self.backbone_diameter_m >= self.pitch_radius_m:
            raise refuse("backbone_diameter_m", self.backbone_diameter_m, "less than pitch_radius_m: they would touch")

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """Names of what the drives pull: each secondary backbone, and the carriage of the modulation, both ways."""
        return (*(f"backbone_{number}" for number in range(1, self.backbone_count + 1)), "insert", "withdraw")

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates: two Clarke coordinates of the backbones, and the insertion."""
        return 3

    @property
    def coefficient_count(self) -> int:
        """Number of values that describe the pose: the same three."""
        return 3

    @property
    def clarke_manifold(self) -> ModulatedManifold:
        """Of the backbones, and the insertion."""
        return ModulatedManifold(self.backbone_count, self.pitch_radius_m)

    @property
    def traits(self) -> Traits:
        """What the stack can do with it."""
        return self._traits(
            tip_nodes=("tip_tracker", "tip_approach"),
            shown_in_um=True,
            coordinate_names=("q_Re", "q_Im", "insertion"),
            coordinate_ranges_m={2: (0.0, self.stroke_m)},
        )
