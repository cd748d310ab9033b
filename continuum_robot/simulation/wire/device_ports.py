# SPDX-License-Identifier: Apache-2.0
"""Simulated devices that stand on their own, each on a port that another program opens like that of a real one."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from continuum_robot.drivers.backends import hardware_of
from continuum_robot.drivers.simulated_wires import servos_name
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import file_values, plain
from continuum_robot.runtime.periodic import apply_realtime, simulator_settings
from continuum_robot.simulation.wire.can_wire import SlcanAdapter
from continuum_robot.simulation.wire.hardware import FORCE_PORT, STRINGS_PORT, SimulatedHardware, wired
from continuum_robot.simulation.wire.ports import Pacer


def go_ahead_of_others() -> None:
    """Give this thread, and those that it makes from now on, priority: real devices do not wait for a busy computer.

    Where the user may not, they do. A nice value would act among the programs of one terminal only.
    """
    apply_realtime(simulator_settings())


def put_on_adapters(hardware: SimulatedHardware, folder: Path) -> list[SlcanAdapter]:
    """Give every motor board a CAN adapter with a port in place of its wire in memory."""
    ports = _adapter_ports(hardware.robot, folder)
    adapters = []
    for channel, board in hardware.boards.items():
        board.wire.close()
        board.wire = adapter = SlcanAdapter(ports[channel])
        adapters.append(adapter)
    return adapters


def robot_on_ports(robot: Robot, folder: Path) -> dict[str, Any]:
    """Values of a robot file whose devices, wired as the robot's or made up, stand on the ports of a folder."""
    robot = wired(robot)
    hardware, adapters = plain(dataclasses.asdict(hardware_of(robot))), _adapter_ports(robot, folder)
    given = hardware["tendon_actuators"]
    for number, motors in enumerate(given if isinstance(given, list) else [given]):
        if "channels" in motors:
            _put_on_ports(motors, adapters)
        else:
            motors["port"] = str(folder / servos_name(number))
    for device, port in (("string_encoders", STRINGS_PORT), ("force_sensor", FORCE_PORT)):
        if device in hardware:
            hardware[device]["port"] = str(folder / port)
    hardware.pop("tension_sensors", None)  # nothing emulates them there
    return file_values(robot) | {"hardware": hardware}


def _put_on_ports(boards: dict[str, Any], adapters: dict[str, Path]) -> None:
    """Write the adapters' ports into the section of motor boards."""
    boards |= {"interface": "slcan", "channels": [str(adapters[channel]) for channel in boards["channels"]]}
    for motor in boards["motors"]:
        motor["channel"] = str(adapters[motor["channel"]])


class DevicePorts:
    """Motor boards, string-encoder board and force sensor on ports in a folder. Use as a context manager."""

    def __init__(self, hardware: SimulatedHardware, folder: Path, period_s: float | None = None) -> None:
        self.hardware = hardware
        self.adapters: list[SlcanAdapter] = []
        self._folder = folder
        self._period_s = period_s
        self._pacer: Pacer | None = None

    def open(self) -> None:
        """Switch everything on."""
        self.hardware.open()
        self.hardware.clock = time.monotonic
        if self.hardware.boards:
            self.adapters = put_on_adapters(self.hardware, self._folder)
        self._pacer = Pacer(self.hardware.step, self.hardware.period_s if self._period_s is None else self._period_s)
        self._pacer.start()

    @property
    def running(self) -> bool:
        """Whether the devices live; what one failed with is raised by :meth:`close`."""
        return self._pacer is not None and self._pacer.running

    def close(self) -> None:
        """Switch everything off; the ports go."""
        try:
            if self._pacer is not None:
                self._pacer.stop()
        finally:
            self.hardware.close()

    def __enter__(self) -> DevicePorts:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _adapter_ports(robot: Robot, folder: Path) -> dict[str, Path]:
    sections = hardware_of(robot).motor_sections.values()
    channels = [channel for one in sections for channel in getattr(one, "channels", ())]
    return {channel: folder / f"adapter{index}" for index, channel in enumerate(channels)}
