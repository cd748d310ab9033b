# SPDX-License-Identifier: Apache-2.0
"""What the stack can do with a robot, by what it is made of: a rod, rolling joints or equilibrium modulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROD = "rod"
LENGTHS, STATICS = "lengths", "statics"


@dataclass(frozen=True)
class Traits:
    """What the stack can do with a robot; each ``without_...`` is the reason why not, "" where it can.

    Attributes
    ----------
    kind : ``rod``, or the kind of mechanism
    without_boards : simulated motor boards and a plant with motors
    without_contact : contact monitor, and pushes on the simulated robot
    without_tip_control : the reference source's own tip control
    without_compiled_cycle : the driver's cycle as machine code
    without_clarke : Clarke coordinates of its tendons
    without_bending_command : a command that bends one segment
    without_statics : elastic statics, and what follows from them: workspace, stiffness, statics of held tendons
    nonlinear_lengths : what makes displacements of tendons and strings nonlinear in the coefficients; "" where nothing
    shape_from : ``lengths`` where displacements alone show the shape, else ``statics``
    simulated_tip : the simulation knows the tip's frame
    tip_nodes : nodes that bring the tip to a target instead of the reference source
    shown_in_um : lengths are shown in µm, since the tip is moved by micrometres; else in mm
    coordinate_names : of what its tendons control, as a reader knows it; empty: two a part
    coordinate_ranges_m : coordinates whose range the construction gives: index to least and largest value, m
    coefficient_units : unit suffixes of the shape's coefficients, their rates and the residual
    """

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
