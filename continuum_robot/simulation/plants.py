# SPDX-License-Identifier: Apache-2.0
"""The simulated robots by name, for what runs on each of them."""

from __future__ import annotations

from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.plant import Plant

ROD = "rod"
MUJOCO = "mujoco"
PLANTS: dict[str, type[Plant]] = {ROD: Plant, MUJOCO: MujocoPlant}
"""The rod of this package, and MuJoCo's chain of rigid links."""
