# SPDX-License-Identifier: Apache-2.0
"""The shipped controller and drivers, with the gains of the robot's file, on MuJoCo's chain behind simulated wires."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from virtual_loop import VirtualLoop, rmse

from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.wire.hardware import SimulatedHardware

pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")


def test_it_tracks_within_a_millimetre_over_the_wires():
    robot = load_robot("opencr_five_tendon")
    loop = VirtualLoop(robot, hardware=SimulatedHardware(robot, plant_maker=partial(MujocoPlant, links=20)))
    try:
        loop.activate()
        record = loop.run(3.0)
    finally:
        loop.close()
    assert rmse(record, after_s=1.0).max() < 1e-3
    assert np.ptp(record["reference"][:, 0]) > 5e-3
    assert not loop.faults
