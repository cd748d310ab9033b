# SPDX-License-Identifier: Apache-2.0
"""Description of a segment with equilibrium modulation: wang, figures 1 and 2, table 2."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.geometry.tendon_modes import ModulatedManifold
from continuum_robot.robot.mechanism import Mechanism
from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.traits import Traits


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
