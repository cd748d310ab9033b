# SPDX-License-Identifier: Apache-2.0
"""Simulated devices that stand on their own, each on a port that another program opens like that of a real one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.wire.can_wire import SlcanAdapter
from continuum_robot.simulation.wire.hardware import FORCE_PORT, STRINGS_PORT, SimulatedHardware, wired
from continuum_robot.simulation.wire.pacing import Pacer

PRIORITY = -10


def go_ahead_of_others() -> None:
    """Give this process priority: real devices do not wait for a busy computer. Where the user may not, they do."""
    with contextlib.suppress(PermissionError):
        os.nice(PRIORITY)


def adapter_port(folder: Path, index: int) -> Path:
    """The port of a CAN channel's adapter.

    Parameters
    ----------
    folder : of the ports
    index : of the channel, from 0
    """
    return folder / f"adapter{index}"


def put_on_adapters(hardware: SimulatedHardware, folder: Path) -> list[SlcanAdapter]:
    """Give every motor board a CAN adapter with a port in place of its wire in memory.

    Parameters
    ----------
    hardware : open
    folder : of the ports

    Returns
    -------
    the adapters, in the order of the channels
    """
    adapters = [SlcanAdapter(adapter_port(folder, index)) for index in range(len(hardware.boards))]
    for board, adapter in zip(hardware.boards.values(), adapters, strict=True):
        board.wire.close()
        board.wire = adapter
    return adapters


def hardware_on_ports(robot: Robot, folder: Path) -> dict[str, Any]:
    """The section ``hardware`` of a robot file, wired as the robot's or made up, its devices on the ports of a folder.

    Parameters
    ----------
    robot : with ``actuators``
    folder : of the ports

    Returns
    -------
    the section in plain Python, without what has its default None

    Raises
    ------
    ParameterError : a robot without actuators
    """
    hardware = wired(robot).hardware
    if hardware is None:
        raise ParameterError("robot.hardware", None, "a hardware section")
    section = _without_none(dataclasses.asdict(hardware))
    boards = section["tendon_actuators"]
    ports = {name: str(adapter_port(folder, index)) for index, name in enumerate(boards["channels"])}
    boards |= {"interface": "slcan", "channels": list(ports.values())}
    for motor in boards["motors"]:
        motor["channel"] = ports[motor["channel"]]
    for device, port in (("string_encoders", STRINGS_PORT), ("force_sensor", FORCE_PORT)):
        if device in section:
            section[device]["port"] = str(folder / port)
    return section


class Desk:
    """Motor boards, string-encoder board and force sensor on ports in a folder. Use as a context manager.

    Parameters
    ----------
    hardware : closed, its serial ports in the same folder
    folder : of the ports
    period_s : at which the devices are stepped, s
    then : called after every step with its time, s

    Attributes
    ----------
    hardware : as given
    adapters : of the motor boards, in the order of the channels

    Raises
    ------
    ParameterError : a period that is not positive
    """

    def __init__(
        self,
        hardware: SimulatedHardware,
        folder: Path,
        period_s: float = 0.001,
        then: Callable[[float], None] | None = None,
    ) -> None:
        self.hardware = hardware
        self.adapters: list[SlcanAdapter] = []
        self._folder, self._then = folder, then
        self._pacer = Pacer(self._step, period_s)

    def open(self) -> None:
        """Switch everything on."""
        self.hardware.open()
        self.adapters = put_on_adapters(self.hardware, self._folder)
        self._pacer.start()

    def close(self) -> None:
        """Switch everything off; the ports go.

        Raises
        ------
        whatever a device failed with meanwhile
        """
        try:
            self._pacer.stop()
        finally:
            self.hardware.close()

    def __enter__(self) -> Desk:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _step(self, now_s: float) -> None:
        self.hardware.step(now_s)
        if self._then is not None:
            self._then(now_s)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, (list, tuple)) else value
