# SPDX-License-Identifier: Apache-2.0
"""The load cells' section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.doors import TENSION_SENSORS
from continuum_robot.robot.schema import quantity, refuse_repeated

DOOR = TENSION_SENSORS
OPENSCALE = "openscale"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCell:
    """A board with its load cell, and the tendon whose tension it measures."""

    tendon: int = quantity("number of the tendon, from 1, in tendon order", ge=1, le=640)
    port: str = quantity("serial port of its board, e.g. /dev/continuum_robot_load_1", filled=True)
    newton_per_newton: float = quantity(
        "tension of the tendon per force on the cell: 0.5 for a cell behind a pulley that turns the tendon back",
        default=1.0,
        gt=0,
        le=100,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenScale:
    """SparkFun OpenScale boards (HX711), one load cell and one serial port each, tared and calibrated in their menu."""

    kind: str = quantity("openscale", choices=(OPENSCALE,))
    baud_bps: int = quantity("baud rate of all boards, as set in their menu", default=9600, ge=1200, le=1_000_000)
    stale_after_s: float = quantity(
        "silence of a board after which its tension is unknown: three of its report periods", default=1.0, gt=0, le=10
    )
    cells: tuple[LoadCell, ...] = quantity("every board and its tendon")

    def __post_init__(self) -> None:
        for key in ("tendon", "port"):
            used = [getattr(cell, key) for cell in self.cells]
            refuse_repeated(used, f"cells[{{}}].{key}", f"each {key} once: cells[{{}}] has it")
