# SPDX-License-Identifier: Apache-2.0
"""A desk of simulated devices behind real wires, and the robot file that names their ports.

Where a laboratory has other channels, CONTINUUM_ROBOT_TEST_CAN names them, e.g. ``socketcan:vcan0,vcan1,vcan2`` or
``udp_multicast:239.74.163.2:43113,239.74.163.2:43114,239.74.163.2:43115``: simulated boards and driver then talk there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import can
import yaml

from continuum_robot.drivers.odri_can.bus import bus_options
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.simulation.wire.can_wire import PythonCanWire, SlcanAdapter
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.pacing import Pacer

ROBOT = "opencr_five_tendon"
STEP_S = 0.004
LABORATORY = os.environ.get("CONTINUUM_ROBOT_TEST_CAN", "")


@dataclass(frozen=True)
class Desk:
    """What stands there: the robot file, the devices, the motor boards' ends of their wires."""

    file: Path
    hardware: SimulatedHardware
    ends: list[Any]


def wires(hardware: SimulatedHardware, folder: Path) -> tuple[str, list[str], list[Any]]:
    """Interface, channels, and the boards' ends of the wires."""
    if not LABORATORY:
        adapters = [SlcanAdapter(folder / channel) for channel in hardware.boards]
        return "slcan", [adapter.port for adapter in adapters], adapters
    interface, _, names = LABORATORY.partition(":")
    channels = names.split(",")
    return interface, channels, [PythonCanWire(can.Bus(**bus_options(interface, channel))) for channel in channels]


@contextlib.contextmanager
def stand(folder: Path, *, strings: bool = False, force: bool = False) -> Iterator[Desk]:
    """Three boards, each on a channel of its own, and further devices, until the end of the block."""
    hardware = SimulatedHardware(load_robot(ROBOT), strings=strings, force=force, folder=folder)
    hardware.open()
    interface, names, ends = wires(hardware, folder)
    channels = dict(zip(hardware.boards, names, strict=True))
    for board, end in zip(hardware.boards.values(), ends, strict=True):
        board.wire = end
    robot = yaml.safe_load(find_robot_file(ROBOT).read_text(encoding="utf-8"))
    motors = robot["hardware"]["tendon_actuators"]
    motors["interface"], motors["receive_timeout_ms"] = interface, 800
    motors["current_mismatch_time_s"] = 1.0  # a busy machine steps the boards late
    motors["channels"] = names
    for motor in motors["motors"]:
        motor["channel"] = channels[motor["channel"]]
    if hardware.string_board is not None:
        robot["hardware"]["string_encoders"]["port"] = str(hardware.string_board.port)
    if hardware.rokubi is not None:
        robot["hardware"]["force_sensor"] = {"kind": "rokubi_serial", "port": str(hardware.rokubi.port)}
    file = folder / "robot.yaml"
    file.write_text(yaml.safe_dump(robot, sort_keys=False), encoding="utf-8")
    pacer = Pacer(hardware.step, STEP_S)
    pacer.start()
    try:
        yield Desk(file, hardware, ends)
    finally:
        pacer.stop()
        hardware.close()
