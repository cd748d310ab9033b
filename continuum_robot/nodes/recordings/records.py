# SPDX-License-Identifier: Apache-2.0
"""Where a node finds the records of its robot: homing, cogging, floor."""

from __future__ import annotations

from pathlib import Path

from continuum_robot.identification.procedures.record import calibration_folder, simulated_folder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.parameters import ParameterServer


def declare_record_folder(parameters: ParameterServer) -> None:
    """Declare the parameter of :func:`record_folder`."""
    meaning = "where records of the robot are kept, empty: in the user's data folder"
    parameters.declare("calibration_folder", "", meaning, read_only=True)


def record_folder(node: ManagedNode) -> Path:
    """The folder of a node's records; those of simulated robots lie apart."""
    given = str(node.parameters.get("calibration_folder"))
    folder = Path(given).expanduser() if given else calibration_folder()
    return simulated_folder(folder) if node.simulated else folder
