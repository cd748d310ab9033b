# SPDX-License-Identifier: Apache-2.0
"""A desk of simulated devices behind real wires, and the robot file that names their ports.

Where a laboratory has other channels, CONTINUUM_ROBOT_TEST_CAN names them, e.g. ``socketcan:vcan0,vcan1,vcan2`` or
``udp_multicast:239.74.163.2:43113,239.74.163.2:43114,239.74.163.2:43115``: simulated boards and driver then talk there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import can
import yaml
from board_peers import PythonCanWire
from ros_probe import patient_on_wires

from continuum_robot.drivers.can_bus import BITRATE_BPS, SOCKETCAN, bus_of
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.device_ports import DevicePorts, robot_on_ports
from continuum_robot.simulation.wire.hardware import SimulatedHardware

ROBOT = "opencr_five_tendon"
STEP_S = 0.004
LABORATORY = os.environ.get("CONTINUUM_ROBOT_TEST_CAN", "")


@contextlib.contextmanager
def stand(folder: Path, *, strings: bool = False, force: bool = False) -> Iterator[tuple[Path, DevicePorts]]:
    """The robot file and three boards, each on a channel of its own, and further devices, until the block ends."""
    robot = load_robot(ROBOT)
    data = robot_on_ports(robot, folder)
    motors = patient_on_wires(data)["hardware"]["tendon_actuators"]
    motors["current_mismatch_time_s"] = 2.0  # a busy machine steps the boards late
    hardware = SimulatedHardware(robot, strings=strings, force=force, folder=folder)
    with DevicePorts(hardware, folder, STEP_S) as desk:
        if LABORATORY:
            put_on_channels(desk, motors)
        file = folder / "robot.yaml"
        file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        yield file, desk


def _bus(interface: str, channel: str) -> can.BusABC:
    return (
        can.Bus(interface=interface, channel=channel)
        if interface == SOCKETCAN
        else bus_of(interface, channel, BITRATE_BPS)
    )


def put_on_channels(desk: DevicePorts, motors: dict[str, Any]) -> None:
    """The boards to the laboratory's channels, and these into the robot file."""
    interface, _, names = LABORATORY.partition(":")
    channels = dict(zip(motors["channels"], names.split(","), strict=True))
    for board, channel in zip(desk.hardware.boards.values(), channels.values(), strict=True):
        board.wire = PythonCanWire(_bus(interface, channel))
    motors |= {"interface": interface, "channels": list(channels.values())}
    for motor in motors["motors"]:
        motor["channel"] = channels[motor["channel"]]
