# SPDX-License-Identifier: Apache-2.0
"""The parameter that names the robot which is simulated in place of the one that nodes believe to have."""

from __future__ import annotations

from continuum_robot.nodes.base.parameters import ParameterServer


def declare_true_robot(parameters: ParameterServer) -> None:
    """Declare the parameter."""
    meaning = (
        "file of the robot that is simulated in place of the parameter robot, or the name of a shipped truth;"
        " empty: simulation.truth of the robot file; none: the robot itself"
    )
    parameters.declare("true_robot", "", meaning, read_only=True)
