# SPDX-License-Identifier: Apache-2.0
"""Names and meanings of the faults of tendons, commands and readings that latch the driver's safe state."""

from __future__ import annotations

COMMAND_TIMEOUT = "command_timeout"
COMMAND_NOT_FINITE = "command_not_finite"
COMMAND_WRONG_SIZE = "command_wrong_size"
COMMAND_OUT_OF_RANGE = "command_out_of_range"
READING_TIMEOUT = "reading_timeout"
READING_NOT_FINITE = "reading_not_finite"
FROZEN_READING = "frozen_reading"
DISPLACEMENT_JUMP = "displacement_jump"
INCONSISTENT_DISPLACEMENT = "inconsistent_displacement"
DISPLACEMENT_OUT_OF_RANGE = "displacement_out_of_range"
TENSION_OUT_OF_RANGE = "tension_out_of_range"
CURRENT_MISMATCH = "current_mismatch"
DEVICE_FAULT = "device_fault"
ESTOP = "estop"

FAULTS: dict[str, str] = {
    COMMAND_TIMEOUT: "no fresh command within limits.command_timeout_s",
    COMMAND_NOT_FINITE: "a command holds NaN or infinity",
    COMMAND_WRONG_SIZE: "a command does not hold one tension a tendon",
    COMMAND_OUT_OF_RANGE: "a command lies so far outside of the limits that its sender cannot be in order",
    READING_TIMEOUT: "the newest reading is older than limits.reading_timeout_s",
    READING_NOT_FINITE: "a reading holds NaN or infinity",
    FROZEN_READING: "a displacement repeats bit by bit although the robot moves",
    DISPLACEMENT_JUMP: "a displacement changed faster than a tendon can move",
    INCONSISTENT_DISPLACEMENT: "displacements of a segment miss the Clarke manifold: slack, slipped or broken tendon",
    DISPLACEMENT_OUT_OF_RANGE: "a displacement exceeds limits.maximum_displacement_m",
    TENSION_OUT_OF_RANGE: "a measured tension exceeds limits.maximum_n, or is negative, by more than the margin",
    CURRENT_MISMATCH: "measured and commanded current disagree",
    DEVICE_FAULT: "an actuator reports a fault",
    ESTOP: "the emergency stop was requested",
}
"""Name and meaning of every fault that latches the safe state."""
