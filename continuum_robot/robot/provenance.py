# SPDX-License-Identifier: Apache-2.0
"""Where fitted values of a robot file come from: what was found, how well, by which command, from which data."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A fitted quantity and how well the data identify it."""

    key: str = quantity("key in this file, or the fit's name of what several keys follow from", filled=True)
    value: float = quantity("its value in SI units, as the fit has it", ge=-1e12, le=1e12)
    deviation: float = quantity("its standard deviation in the same unit, the prior included", ge=0, le=1e12)
    prior_deviation: float | None = quantity(
        "standard deviation before the data were seen; none: nothing was known", default=None, gt=0, le=1e12
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """How far the fitted robot is from data."""

    of: str = quantity("what, and on which data", filled=True)
    rmse: float = quantity("root mean square in SI units", ge=0, le=1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A fit whose results this file has."""

    command: str = quantity("that made it", filled=True)
    date: str = quantity("of the fit, ISO 8601", default="")
    data: str = quantity("file name of what it was fitted to", filled=True)
    sha256: str = quantity("its SHA-256", default="")
    values: tuple[FoundValue, ...] = quantity(
        "every fitted quantity; those that the data do not show stay in the file as they were", default=()
    )
    errors: tuple[FitError, ...] = quantity("what the fit leaves", default=())
