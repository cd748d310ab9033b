# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

import time

from continuum_robot.drivers.openscale.sensors import OpenScaleSensors
from continuum_robot.drivers.openscale.settings import OpenScale
from continuum_robot.drivers.protocols import TensionSensors
from continuum_robot.drivers.survey import FOUND, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot


def make(robot: Robot, settings: OpenScale) -> TensionSensors:
    """The driver, not open yet."""
    return OpenScaleSensors(settings, robot.tendon_count, clock=time.monotonic)


def survey(robot: Robot, settings: OpenScale) -> list[Finding]:
    """Open each board and read it."""
    found = []
    for board in OpenScaleSensors(settings, robot.tendon_count).boards:
        name = f"load cell of tendon {board.cell.tendon}"
        try:
            board.open()
            found.append(Finding(name, board.cell.port, FOUND, f"{board.read(time.monotonic())[1]:.2f} N"))
        except DeviceError as error:
            found.append(absent(name, board.cell.port, error))
        finally:
            board.close()
    return found
