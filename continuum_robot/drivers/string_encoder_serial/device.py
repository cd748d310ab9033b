# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from continuum_robot.drivers.protocols import Vector
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.drivers.survey import FOUND, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

_LISTEN_S = 1.2
_POLL_S = 0.01


def make(robot: Robot, settings: StringEncoderSerial, port: str = "", **options: Any) -> StringEncoderReader:
    """The driver, not open yet; options as of :class:`.StringEncoderReader`."""
    names = [string.name for string in robot.strings]
    return StringEncoderReader(settings, names, port=port or None, **{"clock": time.monotonic, **options})


def emulator(
    robot: Robot, settings: StringEncoderSerial, extension: Callable[[], Vector], **options: Any
) -> SimulatedStringEncoderBoard:
    """An emulated board on the strings' extensions, shape (k,), m; options as of the board."""
    names = [string.name for string in robot.strings]
    return SimulatedStringEncoderBoard(settings, names, extension, **options)


def survey(robot: Robot, settings: StringEncoderSerial) -> list[Finding]:
    """Listen to the board."""
    name = "string-encoder board"
    reader = StringEncoderReader(settings, [string.name for string in robot.strings])
    try:
        reader.open()
        end_s = time.monotonic() + _LISTEN_S
        reading = reader.read(time.monotonic())
        while reader.board is None and time.monotonic() < end_s:
            time.sleep(_POLL_S)
            reading = reader.read(time.monotonic())
    except DeviceError as error:
        return [absent(name, settings.port, error)]
    finally:
        reader.close()
    words = []
    if (board := reader.board) is not None:
        version = ".".join(str(board.firmware >> shift & 0xFF) for shift in (16, 8, 0))
        words.append(f"serial number {board.serial_number}, firmware {version}, up for {board.uptime_s} s")
    rejected = reader.statistics()["frames_rejected"]
    if rejected:
        words.append(f"{rejected:.0f} damaged frames")
    words += reading.device_faults
    return [Finding(name, settings.port, FOUND, "; ".join(words) or "sends frames")]
