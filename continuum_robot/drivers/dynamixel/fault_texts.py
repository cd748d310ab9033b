# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each fault of Dynamixel servos."""

from __future__ import annotations

from continuum_robot.drivers.bus_servos import HARDWARE_ERROR
from continuum_robot.drivers.fault_text import HOME, SERVO_FAULTS, WHERE_SERVOS, FaultText

WHERE = WHERE_SERVOS
FAULTS: dict[str, FaultText] = {
    **SERVO_FAULTS,
    HARDWARE_ERROR: FaultText(
        "a servo reports input_voltage, overheating, motor_encoder, electrical_shock or overload",
        ("input_voltage, overheating, motor_encoder, electrical_shock or overload, as the servo names it",),
        "The servo's hardware error status.",
        ("Remove the cause that it names.", "Reset: the servo then restarts.", HOME),
    ),
}
