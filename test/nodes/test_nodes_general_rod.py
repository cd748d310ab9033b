# SPDX-License-Identifier: Apache-2.0
"""The stack of a robot with helical tendons without a controller: tensions over DDS, and the shape that they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonCommands
from ros_probe import PATIENT, patient_robot

from continuum_robot.nodes.topics import qos
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod

pytestmark = [pytest.mark.ros]

ROBOT = patient_robot("rucker_helical")
# Commands come in real time, between steps of simulated time.
OPTIONS = {"controller": "none", "start_motion": False, "parameters": {"tendon_driver": PATIENT}}


def test_without_a_controller_nothing_gives_references(stack):
    assert "tendon_driver" in stack.nodes
    assert "shape_estimator" in stack.nodes
    assert not {"clarke_controller", "reference_source"} & stack.nodes.keys()


def test_every_tendon_is_drawn_along_its_path(probe):
    """Around the backbone, in the middle of four tendons: at the pitch radius, and turning from base to tip."""
    robot = load_robot(ROBOT)
    lines = next(marker for marker in probe.wait_for_message("markers").markers if marker.ns.endswith("tendons"))
    points = np.array([[point.x, point.y, point.z] for point in lines.points]).reshape(robot.tendon_count, -1, 2, 3)
    around = points[:, :, 0] - points[:, :, 0].mean(axis=0)
    radius_m = robot.segments[0].tendons.pitch_radius_m
    np.testing.assert_allclose(np.linalg.norm(around, axis=-1), radius_m, rtol=1e-6)
    turned = np.unwrap(np.arctan2(around[..., 1], around[..., 0]), axis=1)
    assert np.all(np.abs(turned[:, -1] - turned[:, 0]) > np.pi / 2)


def test_commanded_tensions_bend_it_and_its_shape_is_seen(probe):
    """Tendon 1 alone moves the tip by centimetres."""
    rod = Rod(load_robot(ROBOT))
    desired = [2.0, 0.5, 0.5, 0.5]
    before = tip(rod, probe.wait_for_message("shape").coefficients)
    probe.wait_for_message("tendon_states")

    def obeyed() -> bool:
        sequence = probe.newest("tendon_states").sequence
        # Transient local, as everything that lock-step hears.
        message = TendonCommands(writer="probe", sequence=sequence, tension=desired)
        probe.publish(TendonCommands, "tendon_commands", message, qos.latched())
        return np.allclose(probe.newest("tendon_states").commanded_tension, desired, atol=1e-3)

    probe.wait(obeyed, 10.0, "the tensions do not arrive")
    statics = tip(rod, rod.equilibrium(desired).c)
    assert np.linalg.norm(statics - before) > 0.02

    def bent() -> bool:
        obeyed()
        found = tip(rod, probe.newest("shape").coefficients)
        # Friction and cogging of the motors change the tensions by up to 1.3 N, and the rod swings for long.
        return bool((found - before) @ (statics - before) > 0.5 * np.sum((statics - before) ** 2))

    probe.wait(bent, 20.0, "the shape does not follow")
    path = probe.wait_for_message("backbone", 20.0)
    assert len(path.poses) > 10
    assert np.isfinite([pose.pose.position.x for pose in path.poses]).all()


def tip(rod: Rod, c: Sequence[float]) -> np.ndarray:
    return rod.poses(np.array(c), [rod.length_m])[0, :3, 3]
