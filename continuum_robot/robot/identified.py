# SPDX-License-Identifier: Apache-2.0
"""Fitted quantities of a robot file with their deviations, and the motion that they were found from."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedValue:
    """A fitted quantity and how well the data identify it."""

    name: str = quantity("name of the quantity", filled=True)
    value: float = quantity("its value in SI units, as the fit has it", ge=-1e12, le=1e12)
    deviation: float = quantity("its standard deviation in the same unit, the prior included", ge=0, le=1e12)
    prior_deviation: float = quantity("standard deviation before the data were seen", gt=0, le=1e12)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedMotion:
    """Where the masses, stiffness, damping and friction of a file come from: a robot that moved in chirps."""

    date: str = quantity("date of the fit, ISO 8601", filled=True)
    file: str = quantity("file name of the recording", filled=True)
    sha256: str = quantity("its SHA-256", filled=True)
    fitted_values: tuple[FittedValue, ...] = quantity(
        "every fitted quantity; those that the recording does not show stay in the file as they were", default=()
    )
