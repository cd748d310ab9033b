# SPDX-License-Identifier: Apache-2.0
"""Names and meanings of the faults of tendons, commands and readings that latch the driver's safe state."""

from __future__ import annotations

from continuum_robot.drivers.named_faults import DRIVER_FAULTS

READING_TIMEOUT = "reading_timeout"
DEVICE_FAULT = "device_fault"
READING_NOT_FINITE = "reading_not_finite"
DISPLACEMENT_OUT_OF_RANGE = "displacement_out_of_range"
INCONSISTENT_DISPLACEMENT = "inconsistent_displacement"
TENSION_OUT_OF_RANGE = "tension_out_of_range"
DISPLACEMENT_JUMP = "displacement_jump"
FROZEN_READING = "frozen_reading"
CURRENT_MISMATCH = "current_mismatch"
MOTOR_HOT = "motor_hot"
COMMAND_WRONG_SIZE = "command_wrong_size"
COMMAND_NOT_FINITE = "command_not_finite"
COMMAND_OUT_OF_RANGE = "command_out_of_range"
COMMAND_TIMEOUT = "command_timeout"
LOOP_TOO_SLOW = "loop_too_slow"
ESTOP = "estop"
LOOP_HANGS = "loop_hangs"
DISPLACEMENT_LAG = "displacement_lag"
SLACK_TENDON = "slack_tendon"

_ORDER = (
    READING_TIMEOUT,
    DEVICE_FAULT,
    READING_NOT_FINITE,
    DISPLACEMENT_OUT_OF_RANGE,
    INCONSISTENT_DISPLACEMENT,
    TENSION_OUT_OF_RANGE,
    DISPLACEMENT_JUMP,
    FROZEN_READING,
    CURRENT_MISMATCH,
    MOTOR_HOT,
    COMMAND_WRONG_SIZE,
    COMMAND_NOT_FINITE,
    COMMAND_OUT_OF_RANGE,
    COMMAND_TIMEOUT,
    LOOP_TOO_SLOW,
    ESTOP,
    LOOP_HANGS,
    DISPLACEMENT_LAG,
    SLACK_TENDON,
)
"""Of the bits of fault_codes.py, which is that in which faults of one cycle latch."""

FAULTS: dict[str, str] = {name: DRIVER_FAULTS[name].meaning for name in _ORDER}
"""Name and meaning of every fault that latches the safe state."""

STOP_CLASSES: dict[str, tuple[str, ...]] = {
    "operator": (ESTOP,),
    "commands": (COMMAND_WRONG_SIZE, COMMAND_NOT_FINITE, COMMAND_OUT_OF_RANGE, COMMAND_TIMEOUT),
    "readings": (READING_TIMEOUT, READING_NOT_FINITE, DISPLACEMENT_JUMP, FROZEN_READING),
    "loop_too_slow": (LOOP_TOO_SLOW, LOOP_HANGS),
    "mechanics": (
        DISPLACEMENT_OUT_OF_RANGE,
        INCONSISTENT_DISPLACEMENT,
        TENSION_OUT_OF_RANGE,
        CURRENT_MISMATCH,
        DISPLACEMENT_LAG,
        SLACK_TENDON,
    ),
    "devices": (DEVICE_FAULT,),
    "motor_hot": (MOTOR_HOT,),
}
"""Faults by the key of the robot file's ``stop`` section that decides what follows."""

_CLASS_OF = {name: key for key, names in STOP_CLASSES.items() for name in names}


def stop_class(fault: str) -> str:
    """The key of the robot file's ``stop`` section that decides what follows from a fault."""
    return _CLASS_OF[fault]


def fault_name(code: int) -> str:
    """The name of a fault."""
    return _ORDER[code]


def fault_names(bits: int) -> tuple[str, ...]:
    """The names of faults, in the order of their bits."""
    return tuple(name for code, name in enumerate(_ORDER) if bits >> code & 1)
