# SPDX-License-Identifier: Apache-2.0
"""What the stack can do with a robot, by what it is made of: a rod, rolling joints or equilibrium modulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROD = "rod"
LENGTHS, STATICS = "lengths", "statics"


@dataclass(frozen=True)
class Traits:
    """What the stack can do with a robot; each ``without_...`` is the reason why not, "" where it can."""

    kind: str = ROD
    without_boards: str = ""
    without_contact: str = ""
    without_tip_control: str = ""
    without_compiled_cycle: str = ""
    without_clarke: str = ""
    without_bending_command: str = ""
    without_statics: str = ""
    nonlinear_lengths: str = ""
    shape_from: str = LENGTHS
    simulated_tip: bool = True
    tip_nodes: tuple[str, ...] = ()
    shown_in_um: bool = False
    coordinate_names: tuple[str, ...] = ()
    coordinate_ranges_m: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    coefficient_units: tuple[str, str, str] | None = None
