# SPDX-License-Identifier: Apache-2.0
"""The modulated segment of a described robot."""

from __future__ import annotations

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment, round_stiffness_nm2
from continuum_robot.robot.description import Robot
from continuum_robot.robot.mechanism import EquilibriumModulation


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
