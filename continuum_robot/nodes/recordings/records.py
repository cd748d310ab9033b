# SPDX-License-Identifier: Apache-2.0
"""Where a node finds the records of its robot: homing, cogging, floor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from continuum_robot.identification.procedures.record import calibration_folder, simulated_folder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, kw_only=True)
class RecordFolder:
    """The parameter of :func:`record_folder`."""

    calibration_folder: str = quantity(
        "where records of the robot are kept, empty: in the user's data folder", default=""
    )


def record_folder(node: ManagedNode) -> Path:
    """The folder of a node's records; those of simulated robots lie apart."""
    given = str(node.parameters.get("calibration_folder"))
    folder = Path(given).expanduser() if given else calibration_folder()
    return simulated_folder(folder) if node.simulated else folder
