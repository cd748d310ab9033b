# SPDX-License-Identifier: Apache-2.0
"""Description of a mechanism of links that roll on each other: ha section III-A, figures 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.geometry.tendon_modes import AntagonistManifold
from continuum_robot.robot.mechanism import Mechanism
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.traits import Traits

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
