# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each fault of Feetech servos."""

from __future__ import annotations

from continuum_robot.drivers.bus_servos import HARDWARE_ERROR
from continuum_robot.drivers.fault_text import RESET, SERVO_FAULTS, WHERE_SERVOS, FaultText

WHERE = WHERE_SERVOS
FAULTS: dict[str, FaultText] = {
    **SERVO_FAULTS,
    HARDWARE_ERROR: FaultText(
        "a servo reports input_voltage, angle_sensor, overheating, overcurrent or overload",
        ("input_voltage, angle_sensor, overheating, overcurrent or overload, as the servo names it",),
        "The servo's status.",
        ("Remove the cause that it names.", "Reset: the servo is switched off, which clears it.", RESET),
    ),
}
