# SPDX-License-Identifier: Apache-2.0
"""Rods: one kernel for kinematics, statics, motion and gradients; tendons, friction, the Cosserat judge."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuum_robot.rod.rod import Rod as Rod

__all__ = ["Rod"]


def __getattr__(name: str) -> Any:
    if name != "Rod":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from continuum_robot.rod.rod import Rod  # noqa: PLC0415  # what needs no rod loads no SciPy

    return Rod
