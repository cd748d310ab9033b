# SPDX-License-Identifier: Apache-2.0
"""The faults of a motor board as names: which errors of its status they are, and a status in words."""

from __future__ import annotations

from continuum_robot.drivers.odri_can.codec import ErrorCode, Status
from continuum_robot.drivers.odri_can.fault_texts import FAULTS

BY_CODE = (*list(FAULTS)[:7], *list(FAULTS)[6:])
"""Name of each fault of fault_codes.py; the error that the firmware reserves, 6, is one without a meaning."""


def describe(status: Status) -> str:
    """A status in words."""
    words = ["system on" if status.system_enabled else "system off"]
    for motor in (1, 2):
        state = "on" if status.motor_enabled(motor) else "off"
        words.append(f"motor {motor} {state} and {'ready' if status.motor_ready(motor) else 'not aligned'}")
    error = "no error" if status.error is ErrorCode.NONE else f"error {int(status.error)}: {BY_CODE[status.error]}"
    return ", ".join([*words, error])
