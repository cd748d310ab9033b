# SPDX-License-Identifier: Apache-2.0
"""Servos that take displacements, over topics: what is commanded and published, and commands of the wrong kind."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonCommands
from ros_probe import PATIENT, Probe, patient_robot

from continuum_robot.nodes.topics import qos
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]
ROBOT = patient_robot("three_segment_servo")
# Commands come in real time, between steps of simulated time.
OPTIONS = {
    "controller": "none",
    "start_motion": False,
    "simulation_level": "dynamics",
    "parameters": {"tendon_driver": PATIENT},
}
N, LIMITS = load_robot(ROBOT).tendon_count, load_robot(ROBOT).limits


def command(probe: Probe, **fields: object) -> None:
    message = TendonCommands(writer="probe", sequence=probe.newest("tendon_states").sequence, **fields)
    probe.publish(TendonCommands, "tendon_commands", message, qos.latched())


def test_displacements_are_obeyed_and_published(probe: Probe) -> None:
    desired = 1e-3 * np.linspace(-1.0, 2.0, N)
    first = probe.wait_for_message("tendon_states")
    assert len(first.commanded_displacement) == N
    assert not len(first.commanded_tension)

    def obeyed() -> bool:
        command(probe, displacement=desired.tolist())
        return np.allclose(probe.newest("tendon_states").commanded_displacement, desired, atol=1e-9)

    probe.wait(obeyed, 20.0, "the displacements do not arrive")
    probe.wait(
        # A servo gives way under its load.
        lambda: not obeyed() or np.allclose(probe.newest("tendon_states").displacement, desired, atol=1e-3),
        20.0,
        "the servos do not move",
    )
    assert not probe.faults()


def test_tensions_are_refused_by_name(probe: Probe) -> None:
    def refused() -> bool:
        command(probe, tension=[1.0] * N)
        return bool(probe.faults())

    probe.wait(refused, 20.0, "the tensions were not refused")
    assert probe.faults() == ["command_wrong_size"]
    probe.wait(lambda: "command_wrong_size" in probe.health("/tendon_driver: driver"))
    pay_out_m = LIMITS.pay_out_m
    probe.wait(
        lambda: np.allclose(probe.newest("tendon_states").commanded_displacement, -pay_out_m, atol=1e-5),
        20.0,
        "the tendons were not paid out",
    )
