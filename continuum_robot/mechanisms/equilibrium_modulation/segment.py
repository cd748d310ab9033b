# SPDX-License-Identifier: Apache-2.0
"""A segment of push-pull backbones into which a modulation backbone is inserted: wang, figures 1 and 2, table 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.mechanism import EquilibriumModulation

Array = NDArray[Any]

STRAIGHT_RAD = np.pi / 2  # theta_0: wang counts theta from the base plane
_FEWEST_BACKBONES = 3


@dataclass(frozen=True, kw_only=True)
class ModulatedSegment:
    """Geometry and bending stiffness."""

    length_m: float
    pitch_radius_m: float
    central_stiffness_nm2: float
    secondary_stiffness_nm2: tuple[float, ...]
    modulation_stiffness_nm2: float

    def __post_init__(self) -> None:
        for name in ("length_m", "pitch_radius_m", "central_stiffness_nm2"):
            _check_positive(name, getattr(self, name))
        if len(self.secondary_stiffness_nm2) < _FEWEST_BACKBONES:
            raise ParameterError(
                "secondary_stiffness_nm2", self.secondary_stiffness_nm2, f"{_FEWEST_BACKBONES} backbones or more"
            )
        for value in self.secondary_stiffness_nm2:
            _check_positive("secondary_stiffness_nm2", value)
        if not (np.isfinite(self.modulation_stiffness_nm2) and self.modulation_stiffness_nm2 >= 0):
            raise ParameterError("modulation_stiffness_nm2", self.modulation_stiffness_nm2, "0 N.m^2 or more")

    @property
    def count(self) -> int:
        """Number n of secondary backbones."""
        return len(self.secondary_stiffness_nm2)

    @property
    def bending_stiffness_nm2(self) -> float:
        """Of the empty segment, E_p I_p + sum of E_i I_i, N.m^2."""
        return self.central_stiffness_nm2 + sum(self.secondary_stiffness_nm2)

    def backbone_angles_rad(self, delta_rad: ArrayLike) -> Array:
        """sigma_i, of each secondary backbone from the bending plane, (..., n), rad; wang (3)."""
        return np.asarray(delta_rad)[..., None] + 2 * np.pi / self.count * np.arange(self.count)  # wang (3)

    def offsets_m(self, delta_rad: ArrayLike) -> Array:
        """Delta_i, radius of each secondary backbone projected on the bending plane, (..., n), m; wang (3)."""
        return self.pitch_radius_m * np.cos(self.backbone_angles_rad(delta_rad))  # wang (3)

    def backbone_displacement_m(self, theta_rad: ArrayLike, delta_rad: ArrayLike) -> Array:
        """By how much each secondary backbone is pulled in, -q_i of wang (56), (..., n), m."""
        bend = STRAIGHT_RAD - np.asarray(theta_rad)
        return self.offsets_m(delta_rad) * bend[..., None]  # wang (4), (56)

    def configuration(self, displacement_m: ArrayLike) -> tuple[Array, Array]:
        """Nominal theta and delta of displacements; the inverse of :meth:`backbone_displacement_m`."""
        pulled = np.asarray(displacement_m, dtype=float)
        if pulled.shape[-1:] != (self.count,) or not np.isfinite(pulled).all():
            raise ParameterError("displacement_m", displacement_m, f"{self.count} finite displacements in m")
        along = self.backbone_angles_rad(0.0)
        real, imaginary = pulled @ np.cos(along), pulled @ np.sin(along)
        bend = 2 / (self.count * self.pitch_radius_m) * np.hypot(real, imaginary)
        return STRAIGHT_RAD - bend, -np.arctan2(imaginary, real)

    def check(self, theta_rad: ArrayLike, delta_rad: ArrayLike, insertion_m: ArrayLike) -> None:
        """Refuse a configuration that the segment cannot have."""
        theta, delta, insertion = (np.real(value) for value in (theta_rad, delta_rad, insertion_m))
        for name, value in (("theta_rad", theta), ("delta_rad", delta)):
            if not np.isfinite(value).all():
                raise ParameterError(name, value, "a finite angle in rad")
        outside = ~((insertion >= 0) & (insertion <= self.length_m))
        if np.any(outside):
            wrong = float(np.atleast_1d(insertion)[np.atleast_1d(outside)][0])
            raise ParameterError("insertion_m", wrong, f"a depth in [0, {self.length_m:g}] m, the segment's length")
        fraction = 1 + self.offsets_m(delta) * ((theta - STRAIGHT_RAD) / self.length_m)[..., None]
        if np.any(fraction <= 0):
            wrong = float(np.max(np.abs(theta - STRAIGHT_RAD)))
            raise ParameterError(
                "theta_rad",
                float(np.ravel(theta)[np.argmax(np.abs(np.ravel(theta) - STRAIGHT_RAD))]),
                f"a bend that leaves every backbone some length: {wrong:.3g} rad from straight, "
                f"{self.length_m / self.pitch_radius_m:.3g} rad close it",
            )


def round_stiffness_nm2(modulus_pa: float, outer_m: float, inner_m: float = 0.0) -> float:
    """E I of a round tube or wire, N.m^2."""
    return float(modulus_pa * np.pi / 64 * (outer_m**4 - inner_m**4))


def _check_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise ParameterError(name, value, "a positive number")


def modulation_of(robot: Robot) -> EquilibriumModulation:
    """The mechanism of a robot with equilibrium modulation."""
    if not isinstance(robot.mechanism, EquilibriumModulation):
        raise ParameterError("robot", robot.name, "a robot with a mechanism of kind equilibrium_modulation")
    return robot.mechanism


def make_segment(mechanism: EquilibriumModulation) -> ModulatedSegment:
    """Stiffnesses of a described segment."""
    tube = round_stiffness_nm2(mechanism.youngs_modulus_pa, mechanism.backbone_diameter_m, mechanism.lumen_diameter_m)
    wire = round_stiffness_nm2(mechanism.youngs_modulus_pa, mechanism.modulation_diameter_m)
    return ModulatedSegment(
        length_m=mechanism.length_m,
        pitch_radius_m=mechanism.pitch_radius_m,
        central_stiffness_nm2=tube,
        secondary_stiffness_nm2=(tube,) * mechanism.backbone_count,
        modulation_stiffness_nm2=wire * mechanism.modulation_count,
    )


def make_moment_error(mechanism: EquilibriumModulation) -> LinearMomentError:
    """Lambda of a described segment."""
    error = mechanism.moment_error
    return LinearMomentError(error.k_lambda0_nm, error.k_lambdaq_n, error.k_lambda_theta_nm_per_rad)
