# SPDX-License-Identifier: Apache-2.0
"""Names and meanings of the faults of tendons, commands and readings that latch the driver's safe state."""

from __future__ import annotations

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

# In the order of the bits of fault_codes.py, which is that in which faults of one cycle latch.
FAULTS: dict[str, str] = {
    READING_TIMEOUT: "the newest reading is older than limits.reading_timeout_s",
    DEVICE_FAULT: "an actuator reports a fault",
    READING_NOT_FINITE: "a reading holds NaN or infinity",
    DISPLACEMENT_OUT_OF_RANGE: "a displacement exceeds limits.maximum_displacement_m",
    INCONSISTENT_DISPLACEMENT: "displacements of a segment miss the Clarke manifold: slack, slipped or broken tendon",
    TENSION_OUT_OF_RANGE: "a measured tension exceeds limits.maximum_n, or is negative, by more than the margin",
    DISPLACEMENT_JUMP: "a displacement changed faster than a tendon can move",
    FROZEN_READING: "a displacement repeats bit by bit although the robot moves",
    CURRENT_MISMATCH: "measured and commanded current disagree",
    MOTOR_HOT: "a motor reached its error temperature, or has not cooled down to its warning temperature since",
    COMMAND_WRONG_SIZE: "a command does not hold one number a tendon of the kind that the actuators take, tension or"
    " displacement",
    COMMAND_NOT_FINITE: "a command holds NaN or infinity",
    COMMAND_OUT_OF_RANGE: "a command lies so far outside of the limits that its sender cannot be in order",
    COMMAND_TIMEOUT: "no fresh command within limits.command_timeout_s",
    LOOP_TOO_SLOW: "commands answer states that are too old for the control loop, or too many deadlines are missed",
    ESTOP: "the emergency stop was requested",
    LOOP_HANGS: "a control cycle does not end: a device call or the controller's update does not return",
    DISPLACEMENT_LAG: "a servo does not reach its commanded displacement: stalled, overloaded or without power",
    SLACK_TENDON: "the load of a tendon that was taut is below limits.slack_n: it is slack, slipped or broken",
}
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

_BY_CODE = tuple(FAULTS)
_CLASS_OF = {name: key for key, names in STOP_CLASSES.items() for name in names}


def stop_class(fault: str) -> str:
    """The key of the robot file's ``stop`` section that decides what follows from a fault."""
    return _CLASS_OF[fault]


def fault_name(code: int) -> str:
    """The name of a fault."""
    return _BY_CODE[code]


def fault_names(bits: int) -> tuple[str, ...]:
    """The names of faults, in the order of their bits."""
    return tuple(name for code, name in enumerate(_BY_CODE) if bits >> code & 1)
