# SPDX-License-Identifier: Apache-2.0
"""The parameter that names the robot which is simulated in place of the one that nodes believe to have."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, kw_only=True)
class TrueRobot:
    """The parameter."""

    true_robot: str = quantity(
        "file of the robot that is simulated in place of the parameter robot, or the name of a shipped truth;"
        " empty: simulation.truth of the robot file; none: the robot itself",
        default="",
    )
