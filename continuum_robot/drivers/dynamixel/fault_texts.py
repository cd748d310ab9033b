# SPDX-License-Identifier: Apache-2.0
"""Faults of Dynamixel servos, as they latch and as the pages of docs/faults describe them."""

from __future__ import annotations

from continuum_robot.drivers.bus_servos import OUT_OF_RANGE, SILENT_SERVO
from continuum_robot.drivers.fault_text import HOME, RESET, FaultText
from continuum_robot.drivers.polled import POSITION_JUMP, RECEIVE_TIMEOUT

TORQUE_OFF = "torque_off"
HARDWARE_ERROR = "hardware_error"

WHERE = "`/diagnostics` of tendon_driver as `<port> servo <number>: {name}`, with [device_fault](device_fault.md)"
FAULTS: dict[str, FaultText] = {
    SILENT_SERVO: FaultText(
        "a servo does not answer",
        ("no supply", "a loose cable in the chain", "another baud rate or number than in the robot file"),
        "A servo does not answer.",
        ("Check supply and cables, from the adapter on.", RESET),
    ),
    RECEIVE_TIMEOUT: FaultText(
        "no command came in time, so the torque went off, or the servos hold where they are",
        ("the loop stood still",),
        "The driver's bus thread counts `receive_timeout_ms`, and the servo's own watchdog guards against a dead host.",
        ("Relieve the computer.", RESET),
    ),
    TORQUE_OFF: FaultText(
        "a servo is off that was switched on, perhaps it restarted",
        ("the servo restarted, or switched off by itself",),
        "A servo is off that was switched on.",
        ("Check the supply.", HOME),
    ),
    POSITION_JUMP: FaultText(
        "a position jumped farther than a servo can turn",
        ("the servo restarted within another turn",),
        "A position moved farther than a servo can turn.",
        (HOME,),
    ),
    OUT_OF_RANGE: FaultText(
        "a command lies beyond the turn, or the turns, that the servo can hold",
        ("the spool sits on its horn so that the motion crosses the end of the turn", "the zero is lost"),
        "A goal is outside of the servo's position limits: it is held at them.",
        (
            "Move the horn on the spool so that the straight robot is in the middle of the turn, or set"
            " `hardware.tendon_actuators.mode: extended_position` where the servo has it.",
            HOME,
        ),
    ),
    HARDWARE_ERROR: FaultText(
        "a servo reports input_voltage, overheating, motor_encoder, electrical_shock or overload",
        ("input_voltage, overheating, motor_encoder, electrical_shock or overload, as the servo names it",),
        "The servo's hardware error status.",
        ("Remove the cause that it names.", "Reset: the servo then restarts.", HOME),
    ),
}
