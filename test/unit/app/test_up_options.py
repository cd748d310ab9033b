# SPDX-License-Identifier: Apache-2.0
"""Whether ``continuum-robot up`` moves the robot by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.app.running.options import UpOptions
from continuum_robot.app.running.up import stack_of


@pytest.mark.parametrize(
    ("simulated", "start", "moves"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_a_robot_on_its_bus_holds_unless_it_is_asked_to_start(simulated, start, moves):
    def moved(activate):
        up = UpOptions(robot="opencr_five_tendon", simulated=simulated, folder=Path(), autostart=activate, start=start)
        return stack_of(up).start_motion

    assert moved(True) == moves
    assert not moved(False)
