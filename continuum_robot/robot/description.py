# SPDX-License-Identifier: Apache-2.0
"""The description of a robot: frozen dataclasses in SI units. Base frame: z along the straight backbone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import Actuators, TensionLimits
from continuum_robot.robot.calibration import DynamicsCalibration
from continuum_robot.robot.control_settings import ControlSettings, ReferenceSettings
from continuum_robot.robot.displaced_tendons import DisplacedTendons
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.hardware import Hardware
from continuum_robot.robot.rolling_joint import RollingJoint
from continuum_robot.robot.routing import RoutedPath, Routing, StraightRouting
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.simulation_settings import SimulationSettings

Vector = NDArray[np.float64]

SCHEMA_VERSION = 1
CAPSTAN_TENDONS = 4
BASIS_KINDS = ("constant_bending", "chebyshev_bending", "chebyshev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """A round rod or tube of one material."""

    youngs_modulus_pa: float = quantity("Young's modulus", "Pa", ge=1e4, le=1e12)
    poisson_ratio: float = quantity("Poisson's ratio", "", default=0.33, gt=-1, le=0.5)
    density_kg_per_m3: float = quantity("density", "kg/m^3", ge=1, le=25000)
    outer_diameter_m: float = quantity("outer diameter", "m", gt=0, le=0.2)
    inner_diameter_m: float = quantity("inner diameter, 0 for a solid rod", "m", default=0.0, ge=0, le=0.2)
    bending_stiffness_x_nm2: float | None = quantity(
        "stiffness against curvature about x, instead of E I", "N.m^2", default=None, gt=0, le=1e6
    )
    bending_stiffness_y_nm2: float | None = quantity(
        "stiffness against curvature about y, instead of E I", "N.m^2", default=None, gt=0, le=1e6
    )
    mass_per_length_kg_per_m: float | None = quantity(
        "mass per length of the rod and what is fixed to it, instead of density times cross-section",
        "kg/m",
        default=None,
        ge=0,
        le=1e3,
    )

    def __post_init__(self) -> None:
        if self.inner_diameter_m >= self.outer_diameter_m:
            raise refuse(
                "inner_diameter_m", self.inner_diameter_m, f"less than outer_diameter_m = {self.outer_diameter_m:g} m"
            )

    @property
    def area_m2(self) -> float:
        """Cross-section, m^2."""
        return math.pi / 4 * (self.outer_diameter_m**2 - self.inner_diameter_m**2)

    @property
    def second_moment_m4(self) -> float:
        """Second moment of area about a diameter, m^4."""
        return math.pi / 64 * (self.outer_diameter_m**4 - self.inner_diameter_m**4)

    @property
    def bending_stiffness_nm2(self) -> float:
        """E I, N.m^2."""
        return self.youngs_modulus_pa * self.second_moment_m4

    @property
    def bending_stiffnesses_nm2(self) -> tuple[float, float]:
        """Stiffness against curvature about x and about y, N.m^2."""
        x, y = self.bending_stiffness_x_nm2, self.bending_stiffness_y_nm2
        return (self.bending_stiffness_nm2 if x is None else x, self.bending_stiffness_nm2 if y is None else y)

    @property
    def linear_density_kg_per_m(self) -> float:
        """Mass per length, kg/m."""
        if self.mass_per_length_kg_per_m is not None:
            return self.mass_per_length_kg_per_m
        return self.density_kg_per_m3 * self.area_m2

    @property
    def rotary_inertia_kg_m(self) -> float:
        """Moment of inertia per length about a diameter, kg.m; about the backbone twice that. johnston (14)."""
        if self.mass_per_length_kg_per_m is not None:
            return self.mass_per_length_kg_per_m * self.second_moment_m4 / self.area_m2
        return self.density_kg_per_m3 * self.second_moment_m4

    @property
    def shear_modulus_pa(self) -> float:
        """E / (2 (1 + nu)), Pa."""
        return self.youngs_modulus_pa / (2 * (1 + self.poisson_ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One disk with what is mounted on it: johnston section 5.1.2 and table 3."""

    arc_length_m: float = quantity("arc length from the segment's start", "m", ge=0, le=10)
    mass_kg: float = quantity("mass", "kg", gt=0, le=100)
    center_of_mass_m: tuple[float, ...] = quantity(
        "centre of mass in the backbone's frame at the disk", "m", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    inertia_kg_m2: tuple[float, ...] = quantity(
        "inertia tensor about the centre of mass in the axes of the backbone's frame, row by row",
        "kg.m^2",
        length=9,
        ge=-10,
        le=10,
    )

    def __post_init__(self) -> None:
        tensor = self.inertia_tensor_kg_m2
        if not np.allclose(tensor, tensor.T, rtol=0, atol=1e-12):
            raise refuse("inertia_kg_m2", self.inertia_kg_m2, "a symmetric tensor")
        moments = np.linalg.eigvalsh(tensor)
        # No body has a principal moment above the sum of the other two.
        if moments[0] <= 0 or moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            raise refuse(
                "inertia_kg_m2",
                self.inertia_kg_m2,
                "a tensor with positive principal moments, none greater than the sum of the others (here"
                f" {', '.join(f'{moment:.4g}' for moment in moments)} kg.m^2)",
            )

    @property
    def inertia_tensor_kg_m2(self) -> Vector:
        """Inertia tensor about the centre of mass, shape (3, 3), kg.m^2."""
        return np.array(self.inertia_kg_m2).reshape(3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """Spacer disks of a segment: equal cylinders with their centre on the backbone, or described one by one."""

    mass_kg: float | None = quantity("mass of a disk; not with individual", "kg", default=None, ge=0, le=100)
    radius_m: float = quantity("outer radius", "m", gt=0, le=1)
    thickness_m: float = quantity("thickness", "m", default=0.003, gt=0, le=1)
    count: int = quantity("number of disks, equally spaced, the last at the segment's end", default=0, ge=0, le=200)
    arc_lengths_m: tuple[float, ...] = quantity(
        "arc length of each disk from the segment's start, instead of count", "m", default=(), ge=0, le=10
    )
    individual: tuple[Disk, ...] = quantity("every disk with its own mass and inertia, instead of count", default=())

    def __post_init__(self) -> None:
        if (bool(self.count), bool(self.arc_lengths_m), bool(self.individual)).count(True) != 1:
            raise refuse("count", self.count, "either count or arc_lengths_m or individual")
        for key, arc_lengths_m in (
            ("arc_lengths_m", self.arc_lengths_m),
            ("individual", tuple(disk.arc_length_m for disk in self.individual)),
        ):
            if list(arc_lengths_m) != sorted(set(arc_lengths_m)):
                raise refuse(key, arc_lengths_m, "increasing arc lengths")
        if (self.mass_kg is None) != bool(self.individual):
            raise refuse("mass_kg", self.mass_kg, "the mass of a disk in kg, or individual disks with a mass each")

    def positions_m(self, segment_length_m: float) -> Vector:
        """Arc lengths of the disks from the segment's start, shape (disks,), m.

        Parameters
        ----------
        segment_length_m : length of the backbone of their segment, m
        """
        if self.individual:
            return np.array([disk.arc_length_m for disk in self.individual])
        if self.arc_lengths_m:
            return np.array(self.arc_lengths_m)
        return segment_length_m * np.arange(1, self.count + 1) / self.count

    @property
    def disk_count(self) -> int:
        """Number of disks."""
        return self.count or len(self.arc_lengths_m) or len(self.individual)

    @property
    def masses_kg(self) -> Vector:
        """Mass of each disk, shape (disks,), kg."""
        if self.mass_kg is None:
            return np.array([disk.mass_kg for disk in self.individual])
        return np.full(self.disk_count, self.mass_kg)

    @property
    def inertia_transverse_kg_m2(self) -> float:
        """Moment of inertia of one of the equal disks about a diameter, kg.m^2; 0 with individual disks."""
        return (self.mass_kg or 0.0) * (3 * self.radius_m**2 + self.thickness_m**2) / 12

    @property
    def inertia_axial_kg_m2(self) -> float:
        """Moment of inertia of one of the equal disks about the backbone, kg.m^2; 0 with individual disks."""
        return (self.mass_kg or 0.0) * self.radius_m**2 / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tendons:
    """The n tendons that end at a segment's tip, equally spaced on a circle; parallel to the backbone if not routed."""

    count: int = quantity("number of tendons", ge=3, le=64)
    pitch_radius_m: float = quantity("distance of the tendons from the backbone", "m", gt=0, le=1)
    angle_offset_rad: float = quantity(
        "angle psi_0 of the first tendon from +x", "rad", default=0.0, ge=-2 * math.pi, le=2 * math.pi
    )
    diameter_m: float = quantity(
        "diameter of a tendon, 0: its mass and stiffness are neglected", "m", default=0.0, ge=0, le=0.1
    )
    density_kg_per_m3: float = quantity("density", "kg/m^3", default=0.0, ge=0, le=25000)
    youngs_modulus_pa: float = quantity("Young's modulus", "Pa", default=0.0, ge=0, le=1e12)
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
    routing: Routing = quantity("path in the cross-section, the same for each from its angle", factory=StraightRouting)

    @property
    def angles_rad(self) -> Vector:
        """psi_j = psi_0 + 2 pi (j - 1) / n, counter-clockwise seen from the tip, shape (n,), rad."""
        return self.angle_offset_rad + 2 * np.pi * np.arange(self.count) / self.count

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

    radius_m: float = quantity("radius at which the wire winds, r_c", "m", gt=0, le=0.5)
    lead_m: float = quantity("advance of the wire along the capstan in a turn, gamma", "m", default=0.0, ge=0, le=0.1)
    inertia_kg_m2: float = quantity(
        "inertia of a capstan with its gears and motor as it feels it, J_A", "kg.m^2", gt=0, le=10
    )
    pretension_n: float = quantity("tension of each wire at rest, f_pl; makes friction", "N", default=0.0, ge=0, le=1e5)
    friction_coefficients: tuple[float, ...] = quantity(
        "mu_1, mu_2: friction of the wires of each capstan in the holes of the disks",
        "",
        default=(0.0, 0.0),
        length=2,
        ge=0,
        lt=1,
    )

    @property
    def wire_per_radian_m(self) -> float:
        """Wire that is wound for a radian of the capstan, m: johnston (10)."""
        return math.sqrt((2 * math.pi * self.radius_m) ** 2 + self.lead_m**2) / (2 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elbow:
    """A motor between a segment's end and what follows, held at the angle 0: johnston section 13.1."""

    maximum_torque_nm: float = quantity("largest torque about the x axis of the segment's end", "N.m", gt=0, le=1e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Strain basis of a segment: each strain as a sum of shifted Chebyshev polynomials of its arc length.

    ``constant_bending`` and ``chebyshev_bending`` have curvature alone, of the order ``order``. ``chebyshev`` has an
    order for each kind of strain, where 0 is constant along the segment, and a strain without an order is rigid.
    """

    kind: str = quantity("family of functions", default="constant_bending", choices=BASIS_KINDS)
    order: int = quantity("highest order of the curvature of chebyshev_bending", default=0, ge=0, le=12)
    bending_order: int | None = quantity("chebyshev: highest order of the curvatures", default=None, ge=0, le=24)
    torsion_order: int | None = quantity("chebyshev: highest order of the torsion", default=None, ge=0, le=24)
    shear_order: int | None = quantity("chebyshev: highest order of both shears", default=None, ge=0, le=24)
    extension_order: int | None = quantity("chebyshev: highest order of the extension", default=None, ge=0, le=24)

    def __post_init__(self) -> None:
        own = {
            "bending_order": self.bending_order,
            "torsion_order": self.torsion_order,
            "shear_order": self.shear_order,
            "extension_order": self.extension_order,
        }
        if self.kind == "constant_bending" and self.order != 0:
            raise refuse("order", self.order, "0 for a constant basis; use chebyshev_bending for more")
        if self.kind == "chebyshev":
            if self.order != 0:
                raise refuse("order", self.order, "no order for chebyshev; give bending_order, torsion_order, ...")
            if all(order is None for order in own.values()):
                raise refuse("bending_order", None, "an order for one strain at least")
        else:
            for key, order in own.items():
                if order is not None:
                    raise refuse(key, order, f"nothing for {self.kind}; it belongs to the kind chebyshev")

    @property
    def bending_alone(self) -> bool:
        """Whether curvature is the only strain, as the kinds for bending have it."""
        return self.kind != "chebyshev"

    @property
    def functions(self) -> tuple[tuple[int, int], ...]:
        """For each coefficient the row of the strain (u_x, u_y, u_z, v_x, v_y, v_z) and the order of its polynomial.

        Curvatures interleaved by order, as in the kinds for bending; then torsion, shears interleaved, extension.
        """
        if self.bending_alone:
            groups: tuple[tuple[tuple[int, ...], int | None], ...] = (((0, 1), self.order),)
        else:
            groups = (
                ((0, 1), self.bending_order),
                ((2,), self.torsion_order),
                ((3, 4), self.shear_order),
                ((5,), self.extension_order),
            )
        return tuple(
            (row, order)
            for rows, highest in groups
            if highest is not None
            for order in range(highest + 1)
            for row in rows
        )

    @property
    def highest_order(self) -> int:
        """Highest order of any strain."""
        return max(order for _, order in self.functions)

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of the segment."""
        return len(self.functions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment: a length of backbone with disks, and the tendons that end at its tip."""

    name: str = quantity("name, unique in the robot", filled=True)
    length_m: float = quantity("length of the backbone", "m", gt=0, le=10)
    backbone: Backbone = quantity("the rod")
    disks: Disks = quantity("the spacer disks")
    tendons: Tendons = quantity("the tendons that end here")
    basis: Basis = quantity("strain basis", factory=Basis)
    bending_damping_nms: float = quantity(
        "d_theta: bending moment per rate of the bending angle", "N.m.s", default=0.0, ge=0, le=10
    )
    capstans: Capstans | None = quantity("capstans that drive opposite tendons; none: a motor each", default=None)
    elbow: Elbow | None = quantity("motor between this segment's end and the next one", default=None)
    calibration: DynamicsCalibration | None = quantity(
        "where fitted stiffnesses and friction coefficients come from", default=None
    )

    def __post_init__(self) -> None:
        last_m = float(self.disks.positions_m(self.length_m)[-1])
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
        if self.tendons.pitch_radius_m > self.disks.radius_m:
            raise refuse(
                "tendons.pitch_radius_m",
                self.tendons.pitch_radius_m,
                f"at most the disks' radius_m = {self.disks.radius_m:g} m",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class String:
    """A string of an encoder: a tendon without tension, parallel to the backbone, from its start to its anchor."""

    name: str = quantity("name, unique in the robot", filled=True)
    anchor_m: float = quantity("arc length of the anchor from the base", "m", gt=0, le=10)
    pitch_radius_m: float = quantity("distance from the backbone", "m", gt=0, le=1)
    angle_rad: float = quantity("angle from +x", "rad", ge=-2 * math.pi, le=2 * math.pi)
    start_m: float = quantity(
        "arc length from the base at which it starts: 0, or the disk on which its encoder rides",
        "m",
        default=0.0,
        ge=0,
        le=10,
    )
    routing: Routing = quantity("path in the cross-section", factory=StraightRouting)

    def __post_init__(self) -> None:
        if self.start_m >= self.anchor_m:
            raise refuse("start_m", self.start_m, f"less than anchor_m = {self.anchor_m:g} m")

    @property
    def path(self) -> RoutedPath:
        """Where it runs."""
        return RoutedPath(
            name=self.name,
            start_m=self.start_m,
            end_m=self.anchor_m,
            pitch_radius_m=self.pitch_radius_m,
            angle_rad=self.angle_rad,
            routing=self.routing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTendon:
    """One tendon on a path of its own, ending anywhere."""

    name: str = quantity("name, unique in the robot", filled=True)
    end_m: float = quantity("arc length from the base at which it ends", "m", gt=0, le=10)
    pitch_radius_m: float = quantity("distance from the backbone at its start", "m", gt=0, le=1)
    angle_rad: float = quantity("angle from +x at its start", "rad", default=0.0, ge=-2 * math.pi, le=2 * math.pi)
    start_m: float = quantity("arc length from the base at which it starts", "m", default=0.0, ge=0, le=10)
    routing: Routing = quantity("path in the cross-section", factory=StraightRouting)

    def __post_init__(self) -> None:
        if self.start_m >= self.end_m:
            raise refuse("start_m", self.start_m, f"less than end_m = {self.end_m:g} m")

    @property
    def path(self) -> RoutedPath:
        """Where it runs."""
        return RoutedPath(
            name=self.name,
            start_m=self.start_m,
            end_m=self.end_m,
            pitch_radius_m=self.pitch_radius_m,
            angle_rad=self.angle_rad,
            routing=self.routing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """How columns of recorded data map to this robot, and where the tracked marker sits."""

    displacement_columns: tuple[str, ...] = quantity("column of each tendon's displacement in mm, in tendon order")
    displacement_signs: tuple[float, ...] = quantity("+1: the column counts pulling in positive", "", ge=-1, le=1)
    marker_in_tip_m: tuple[float, ...] = quantity(
        "marker in the tip frame", "m", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    base_in_tracker_m: tuple[float, ...] = quantity(
        "origin of the base frame in the tracker's", "m", default=(0.0, 0.0, 0.0), length=3, ge=-100, le=100
    )
    base_rotation_in_tracker_rad: tuple[float, ...] = quantity(
        "rotation vector of the base frame in the tracker's", "rad", default=(0.0, 0.0, 0.0), length=3, ge=-7, le=7
    )
    fitted_from: str = quantity("file name of the data that these values were fitted to", default="")
    fitted_sha256: str = quantity("its SHA-256", default="")
    fitted_rmse_mm: float = quantity("tip RMSE of the fit on that data", "mm", default=0.0, ge=0, le=1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot:
    """A tendon-driven continuum robot. Tendons are numbered segment by segment from the base, then by angle.

    Attributes
    ----------
    file_name : name of the file that it was read from; empty for a mapping
    """

    schema_version: int = quantity("version of this file format", ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    name: str = quantity("the robot's name", filled=True)
    segments: tuple[Segment, ...] = quantity("from the base to the tip; none with a mechanism", default=())
    mechanism: RollingJoint | EquilibriumModulation | None = quantity(
        "what the robot is instead of a backbone with segments", default=None
    )
    description: str = quantity("what robot this is, for a reader", default="")
    gravity_m_per_s2: tuple[float, ...] = quantity(
        "gravity in the base frame", "m/s^2", default=(0.0, 0.0, 0.0), length=3, ge=-100, le=100
    )
    actuators: Actuators | None = quantity("the tendon actuators; none: geometry and statics only", default=None)
    limits: TensionLimits | None = quantity("limits of the tendon driver", default=None)
    control: ControlSettings | None = quantity("the Clarke controller", default=None)
    reference: ReferenceSettings | None = quantity("default trajectory", default=None)
    simulation: SimulationSettings = quantity("the simulated robot", factory=SimulationSettings)
    strings: tuple[String, ...] = quantity("strings of the string encoders", default=())
    routed_tendons: tuple[RoutedTendon, ...] = quantity(
        "tendons on paths of their own beside those of the segments; for statics and dynamics of the general rod",
        default=(),
    )
    hardware: Hardware | None = quantity("its devices and their wiring; none: simulated only", default=None)
    recording: Recording | None = quantity("how recorded data maps to this robot", default=None)
    displaced_tendons: DisplacedTendons | None = quantity(
        "what lies between servos that hold tendons at displacements and the robot's shape", default=None
    )
    assumed: tuple[str, ...] = quantity("dotted keys whose values no source states", default=())
    file_name: str = field(default="", init=False, compare=False)

    def __post_init__(self) -> None:
        if bool(self.segments) == (self.mechanism is not None):
            raise refuse("segments", len(self.segments), "at least one segment, or else a mechanism")
        names = [segment.name for segment in self.segments]
        if len(set(names)) != len(names):
            raise refuse("segments", names, "a different name for each segment")
        for index, string in enumerate(self.strings):
            if string.anchor_m > self.length_m + 1e-12:
                raise refuse(
                    f"strings[{index}].anchor_m", string.anchor_m, f"at most the robot's length, {self.length_m:g} m"
                )
        for index, segment in enumerate(self.segments):
            if index and segment.capstans is not None and segment.tendons.from_base:
                raise refuse(
                    f"segments[{index}].tendons.from_base",
                    True,
                    "false: the capstans of a later segment ride on the end of the one before",
                )
        string_names = [string.name for string in self.strings]
        if len(set(string_names)) != len(string_names):
            raise refuse("strings", string_names, "a different name for each string")
        self._check_paths()
        if self.control is not None and len(self.control.gains) != len(self.part_names):
            raise refuse("control.gains", len(self.control.gains), f"{len(self.part_names)} entries, one a segment")
        if self.reference is not None:
            self._check_reference(self.reference)
        if self.displaced_tendons is not None:
            self.displaced_tendons.check_count(self.tendon_count)
        if self.recording is not None:
            for key in ("displacement_columns", "displacement_signs"):
                value = getattr(self.recording, key)
                if len(value) != self.tendon_count:
                    raise refuse(f"recording.{key}", value, f"{self.tendon_count} entries, one a tendon")
            columns = self.recording.displacement_columns
            if len(set(columns)) != len(columns):
                raise refuse("recording.displacement_columns", columns, "a different column for each tendon")
        if self.limits is not None:
            self._check_limits(self.limits)

    def _check_paths(self) -> None:
        names = [tendon.name for tendon in self.routed_tendons]
        if len(set(names)) != len(names):
            raise refuse("routed_tendons", names, "a different name for each tendon")
        for index, tendon in enumerate(self.routed_tendons):
            if tendon.end_m > self.length_m + 1e-12:
                raise refuse(
                    f"routed_tendons[{index}].end_m", tendon.end_m, f"at most the robot's length, {self.length_m:g} m"
                )
        keys = [
            f"segments[{index}].tendons.routing"
            for index, segment in enumerate(self.segments)
            for _ in range(segment.tendons.count)
        ]
        keys += [f"routed_tendons[{index}]" for index in range(len(self.routed_tendons))]
        found = [
            (key, path)
            for key, path in zip(keys, self.tendon_paths, strict=True)
            if path.name in names or not path.parallel
        ]
        found += [
            (f"strings[{index}].routing", string.path)
            for index, string in enumerate(self.strings)
            if not string.path.parallel
        ]
        for key, path in found:
            for start_m, segment in zip(self.segment_starts_m, self.segments, strict=True):
                radius_m = path.largest_radius_m(float(start_m), float(start_m) + segment.length_m)
                if radius_m > segment.disks.radius_m * (1 + 1e-9):
                    raise refuse(
                        key,
                        radius_m,
                        f"a path within the disks of {segment.name}, at most their radius_m ="
                        f" {segment.disks.radius_m:g} m from the backbone",
                    )

    def _check_limits(self, limits: TensionLimits) -> None:
        if self.actuators is not None and limits.maximum_n > self.actuators.maximum_tension_n:
            raise refuse(
                "limits.maximum_n",
                limits.maximum_n,
                f"at most {self.actuators.maximum_tension_n:.4g} N, which the actuators give at maximum_current_a",
            )
        for key in ("minimum_n", "safe_n"):
            least = getattr(limits, key) * self.tendon_count
            if limits.total_n < least:
                raise refuse(
                    "limits.total_n",
                    limits.total_n,
                    f"at least {least:g} N, which {self.tendon_count} tendons at {key} need",
                )
        if self.control is not None and self.control.pretension_n > limits.maximum_n:
            raise refuse(
                "control.pretension_n", self.control.pretension_n, f"at most limits.maximum_n = {limits.maximum_n:g} N"
            )

    def check_hardware(self) -> None:
        """Refuse a hardware section that does not fit the robot. Robots made from others may keep one that does not.

        Raises
        ------
        RobotFileError : a tendon without a motor, a string that is not there, and the like; names the key
        """
        hardware = self.hardware
        if hardware is None:
            return
        if self.actuators is None:
            raise refuse("actuators", None, "the actuators' properties too, since hardware is given")
        hardware.check_tendons(self.tendon_count)
        hardware.check_strings([string.name for string in self.strings])
        board = hardware.tendon_actuators
        if self.limits is not None and board.receive_timeout_ms <= 1000 * self.limits.command_timeout_s:
            raise refuse(
                "hardware.tendon_actuators.receive_timeout_ms",
                board.receive_timeout_ms,
                f"more than limits.command_timeout_s = {self.limits.command_timeout_s:g} s: the driver releases first",
            )

    def _check_reference(self, reference: ReferenceSettings) -> None:
        coordinates = self.coordinate_count
        allowed = (0, coordinates) if reference.kind in ("hold", "csv") else (coordinates,)
        if len(reference.amplitude_m) not in allowed:
            raise refuse("reference.amplitude_m", reference.amplitude_m, f"{coordinates} values, two a segment")
        if len(reference.frequency_hz) not in (0, 1, coordinates):
            raise refuse("reference.frequency_hz", reference.frequency_hz, f"1 or {coordinates} values")

    @property
    def part_names(self) -> tuple[str, ...]:
        """What has a controller's gains of its own: the segments' names, or the mechanism's kind."""
        if self.mechanism is not None:
            return (self.mechanism.kind,)
        return tuple(segment.name for segment in self.segments)

    def changed(self, **fields: Any) -> Robot:
        """The same robot with other values in some fields, still of its file. Raises :class:`RobotFileError`."""
        robot = replace(self, **fields)
        object.__setattr__(robot, "file_name", self.file_name)
        return robot

    @property
    def length_m(self) -> float:
        """Length of the whole backbone, m."""
        if self.mechanism is not None:
            return self.mechanism.length_m
        return sum(segment.length_m for segment in self.segments)

    @property
    def segment_starts_m(self) -> Vector:
        """Arc length of each segment's start from the base, shape (segments,), m."""
        ends = np.cumsum([0.0, *(segment.length_m for segment in self.segments)])
        return ends[:-1]

    @property
    def disk_arc_lengths_m(self) -> Vector:
        """Arc length of every disk from the base, shape (disks,), m."""
        return np.concatenate(
            [
                start + segment.disks.positions_m(segment.length_m)
                for start, segment in zip(self.segment_starts_m, self.segments, strict=True)
            ]
        )

    @property
    def tendon_count(self) -> int:
        """Number of all tendons."""
        if self.mechanism is not None:
            return len(self.mechanism.tendon_names)
        return sum(segment.tendons.count for segment in self.segments)

    @property
    def tendon_slices(self) -> tuple[slice, ...]:
        """For each segment, or the mechanism, where its tendons stand in an array over all tendons."""
        if self.mechanism is not None:
            return (slice(0, self.tendon_count),)
        ends = np.cumsum([segment.tendons.count for segment in self.segments])
        return tuple(
            slice(int(end) - segment.tendons.count, int(end)) for end, segment in zip(ends, self.segments, strict=True)
        )

    @property
    def tendon_paths(self) -> tuple[RoutedPath, ...]:
        """Path of every tendon: the segments' in tendon order, then the routed ones."""
        return (
            *(
                RoutedPath(
                    name=f"{segment.name}/tendon_{j + 1}",
                    start_m=0.0 if segment.tendons.from_base else float(start_m),
                    end_m=float(start_m) + segment.length_m,
                    pitch_radius_m=segment.tendons.pitch_radius_m,
                    angle_rad=float(angle),
                    routing=segment.tendons.routing,
                )
                for start_m, segment in zip(self.segment_starts_m, self.segments, strict=True)
                for j, angle in enumerate(segment.tendons.angles_rad)
            ),
            *(tendon.path for tendon in self.routed_tendons),
        )

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """``<segment>/tendon_<j>`` with j from 1, in tendon order; the mechanism's own names."""
        if self.mechanism is not None:
            return self.mechanism.tendon_names
        return tuple(
            f"{segment.name}/tendon_{j + 1}" for segment in self.segments for j in range(segment.tendons.count)
        )

    @property
    def newton_per_ampere(self) -> Vector:
        """Tension of every tendon for its motor's current, shape (N,), N/A; NaN without actuators.

        As the hardware section says where it has every tendon's motor, else as the actuators say.
        """
        if self.actuators is None:
            return np.full(self.tendon_count, np.nan)
        values = np.full(self.tendon_count, self.actuators.newton_per_ampere)
        motors = () if self.hardware is None else self.hardware.tendon_actuators.motors
        if sorted(entry.tendon for entry in motors) == list(range(1, self.tendon_count + 1)):
            for entry in motors:
                values[entry.tendon - 1] = entry.newton_per_ampere(self.actuators)
        return values

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates that the tendons control: Clarke coordinates, two a segment, or the mechanism's."""
        if self.mechanism is not None:
            return self.mechanism.coordinate_count
        return 2 * len(self.segments)

    @property
    def coefficient_count(self) -> int:
        """Number of strain coefficients of the whole robot, or of values that describe the mechanism's pose."""
        if self.mechanism is not None:
            return self.mechanism.coefficient_count
        return sum(segment.basis.coefficient_count for segment in self.segments)
