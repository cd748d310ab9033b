# SPDX-License-Identifier: Apache-2.0
"""What ``continuum-robot devices`` finds: each device's folder looks for its own, without switching anything on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from continuum_robot.drivers.serial_port import PortInUseError
from continuum_robot.drivers.servo_bus import ATTEMPTS
from continuum_robot.errors import DeviceError

FOUND, MISSING, BUSY, UNEXPECTED = "found", "missing", "in use", "unexpected"


@dataclass(frozen=True, slots=True)
class Finding:
    """A device of the robot file, or something else that was found."""

    device: str
    place: str
    state: str
    detail: str


def absent(device: str, place: str, error: DeviceError) -> Finding:
    """A device that cannot be used."""
    state = BUSY if isinstance(error, PortInUseError) else MISSING
    return Finding(device, place, state, f"{error.problem}. {error.remedy}")


def opened(device: str, place: str, driver: Any, look: Callable[[], str]) -> Finding:
    """Whether a device can be opened, and what is seen of it then; ``driver``: not open."""
    try:
        driver.open()
        return Finding(device, place, FOUND, look())
    except DeviceError as error:
        return absent(device, place, error)
    finally:
        driver.close()


def motors_findings(driver: Any) -> list[Finding]:
    """Which motors of a bus answer; ``driver``: not open, a :class:`.BusActuators` with ``identify``."""
    bus, settings, what = driver.bus, driver.settings, driver.motor
    try:
        bus.open()
        found = []
        for entry in settings.motors:
            words = next(filter(None, (driver.identify(entry.id) for _ in range(ATTEMPTS))), "")
            remedy = f"does not answer. {bus.silent([entry.id]).remedy}"
            state = FOUND if words else MISSING
            found.append(Finding(f"{what} {entry.id}", settings.port, state, words or remedy))
        return found
    except DeviceError as error:
        return [absent(f"{what}s", settings.port, error)]
    finally:
        bus.close()
