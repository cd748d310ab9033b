# SPDX-License-Identifier: Apache-2.0
"""Where calibrated values of a segment come from."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsCalibration:
    """The fit of a segment's stiffnesses and friction coefficients to a recorded motion."""

    date: str = quantity("date of the fit, ISO 8601", filled=True)
    file: str = quantity("file name of the recording", filled=True)
    sha256: str = quantity("its SHA-256", filled=True)
    stiffness_deviations_nm2: tuple[float, ...] = quantity(
        "standard deviations of the stiffnesses about x and y", "N.m^2", length=2, ge=0, le=1e6
    )
    friction_deviations: tuple[float, ...] = quantity(
        "standard deviations of the friction coefficients", "", length=2, ge=0, le=10
    )
    rmse_coefficients_per_m: tuple[float, ...] = quantity(
        "RMSE of the strain coefficients, simulated in windows", "1/m", ge=0, le=1e6
    )
    rmse_tip_m: tuple[float, ...] = quantity(
        "RMSE of the tip's x, y and z, simulated in windows", "m", length=3, ge=0, le=10
    )
    open_loop_rmse_tip_m: tuple[float, ...] = quantity(
        "the same simulated in one piece; empty where that ran away", "m", default=(), ge=0, le=10
    )
