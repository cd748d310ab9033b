# SPDX-License-Identifier: Apache-2.0
"""Actuators and limits of a robot, as its file states them."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Actuators:
    """One kind of tendon actuator, the same on every tendon: a motor with a spool."""

    spool_radius_m: float = quantity("radius at which the tendon winds on the spool", "m", gt=0, le=0.2)
    gear_ratio: float = quantity("turns of the motor for a turn of the spool", "", default=1.0, gt=0, le=1000)
    torque_constant_nm_per_a: float = quantity("motor torque per current", "N.m/A", gt=0, le=10)
    maximum_current_a: float = quantity("largest motor current", "A", gt=0, le=200)
    rotor_inertia_kg_m2: float = quantity("inertia of the rotor", "kg.m^2", gt=0, le=1)
    current_time_constant_s: float = quantity("first-order lag of the current loop", "s", default=0.0005, ge=1e-5, le=1)
    viscous_friction_nms: float = quantity("viscous friction at the motor", "N.m.s", default=0.0, ge=0, le=1)
    coulomb_friction_nm: float = quantity("dry friction at the motor", "N.m", default=0.0, ge=0, le=10)
    cogging_amplitude_nm: float = quantity("amplitude of the cogging torque", "N.m", default=0.0, ge=0, le=10)
    cogging_periods_per_turn: int = quantity("cogging periods in a turn of the motor", "", default=24, ge=1, le=1000)
    encoder_counts_per_turn: int = quantity("encoder counts in a turn of the motor", "", default=20000, ge=16, le=2**26)

    @property
    def newton_per_ampere(self) -> float:
        """Tendon tension for a motor current, N/A."""
        return self.torque_constant_nm_per_a * self.gear_ratio / self.spool_radius_m

    @property
    def maximum_tension_n(self) -> float:
        """Tension at the largest current, N."""
        return self.newton_per_ampere * self.maximum_current_a

    @property
    def reflected_mass_kg(self) -> float:
        """Rotor inertia as a mass that moves with the tendon, kg."""
        return self.rotor_inertia_kg_m2 * (self.gear_ratio / self.spool_radius_m) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TensionLimits:
    """What the tendon driver lets through to the actuators, and what it does when something is wrong."""

    minimum_n: float = quantity("least tension of a tendon while active: no slack", "N", ge=0, le=1e4)
    maximum_n: float = quantity("greatest tension of a tendon", "N", gt=0, le=1e4)
    rate_n_per_s: float = quantity("fastest change of a commanded tension", "N/s", gt=0, le=1e7)
    total_n: float = quantity("greatest sum of all tensions", "N", gt=0, le=1e5)
    safe_n: float = quantity("tension of the safe state", "N", ge=0, le=1e4)
    safe_rate_n_per_s: float = quantity("ramp to the safe state", "N/s", gt=0, le=1e7)
    maximum_displacement_m: float = quantity("largest displacement of a tendon either way", "m", gt=0, le=10)
    command_timeout_s: float = quantity(
        "age of a command at which the safe state begins", "s", default=0.1, ge=0.002, le=5
    )
    reading_timeout_s: float = quantity(
        "age of a reading at which the safe state begins", "s", default=0.05, ge=0.002, le=5
    )
    inconsistency_m: float = quantity(
        "largest root mean square by which displacements of a segment may miss the Clarke manifold",
        "m",
        default=0.002,
        gt=0,
        le=1,
    )

    def __post_init__(self) -> None:
        if self.minimum_n >= self.maximum_n:
            raise refuse("minimum_n", self.minimum_n, f"less than maximum_n = {self.maximum_n:g} N")
        if self.safe_n > self.maximum_n:
            raise refuse("safe_n", self.safe_n, f"at most maximum_n = {self.maximum_n:g} N")
