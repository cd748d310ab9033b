# SPDX-License-Identifier: Apache-2.0
"""The stack of a robot with Dynamixel servos on a simulated serial bus: it moves, and faults arrive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.drivers.simulated_wires import SERVOS, simulator_folder

pytestmark = [pytest.mark.ros]

ROBOT = str(Path(__file__).resolve().parents[2] / "examples" / "five_servos.yaml")
OPTIONS = {"simulation_level": "wire", "contact": False}


def test_it_moves_over_the_serial_bus(probe):
    assert (simulator_folder("", "five_servos") / SERVOS).exists()
    probe.wait(probe.moving, 20.0, "no motion is started")
    probe.wait(lambda: probe.travel_m() > 2e-3, 20.0, "no tendon moves")
    states = probe.newest("tendon_states")
    assert states.simulated
    assert np.isfinite([*states.tension, *states.current]).all()
    assert probe.faults() == []


def test_a_servo_that_is_too_hot_stops_the_robot(probe):
    assert probe.inject("servo.overheating", 2).success
    probe.wait_for_fault("motor_hot", 20.0)
    assert probe.inject("").success
