# SPDX-License-Identifier: Apache-2.0
"""What the drives of a segment with equilibrium modulation must hold: the backbones' elastic force.

Derived here by virtual work with the moment m_1 of wang (1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.building import make_segment, modulation_of
from continuum_robot.robot.description import Robot

Array = NDArray[Any]


class ModulationForce:
    """Elastic force on [q_Re, q_Im, insertion] by virtual work: m_1 / r against the bend.

    The paper's model states nothing of the force that insertion needs; it is small beside the bend's, and taken as 0.
    """

    def __init__(self, robot: Robot) -> None:
        self._segment = make_segment(modulation_of(robot))
        own = self._segment
        self.stiffness_n_per_m = own.bending_stiffness_nm2 / (own.length_m * own.pitch_radius_m**2)

    def __call__(self, coordinate_m: Array) -> tuple[Array, Array]:
        """Force that holds coordinates."""
        # A constant stiffness: the secondary backbones' lengths change it by (r theta / L)^2 / 2, 0.4 % at 80 degrees.
        force = np.zeros(3)
        force[:2] = self.stiffness_n_per_m * np.asarray(coordinate_m)[:2]
        return force, np.zeros(3)
