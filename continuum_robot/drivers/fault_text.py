# SPDX-License-Identifier: Apache-2.0
"""What a user learns of a fault: its meaning, why it happens, how it is noticed, what to do."""

from __future__ import annotations

from typing import NamedTuple

RESET = "Reset the stack: `manage_stack` command 3, or `continuum-robot view`."
# Homing is refused beside a running stack, and a stack that starts has no fault to reset.
HOME = "End the stack, home the robot with `continuum-robot home ROBOT --hardware`, and start the stack again."


class FaultText(NamedTuple):
    """Of a fault that a device reports; a device's folder has its own in ``FAULTS`` of its module ``faults``."""

    meaning: str
    causes: tuple[str, ...]
    noticed: str
    cure: tuple[str, ...]


WHERE_SERVOS = (
    "`/diagnostics` of tendon_driver as `<port> servo <number>: {name}`, with [device_fault](device_fault.md)"
)
SERVO_FAULTS: dict[str, FaultText] = {
    "silent_servo": FaultText(
        "a servo does not answer",
        ("no supply", "a loose cable in the chain", "another baud rate or number than in the robot file"),
        "Five questions in a row without an answer, and no values for 0.15 s. A computer that stalls asks nothing.",
        ("Check supply and cables, from the adapter on.", RESET),
    ),
    "receive_timeout": FaultText(
        "no command came in time, so the torque went off, or the servos hold where they are",
        ("the loop stood still", "the whole computer did, and the servos' own watchdogs struck"),
        "The driver's bus thread counts `receive_timeout_ms`, from command to command and, where servos have a"
        " watchdog, from packet to packet: such a servo then takes no goals until it is switched on again.",
        ("Relieve the computer.", RESET),
    ),
    "torque_off": FaultText(
        "a servo is off that was switched on, perhaps it restarted",
        ("the servo restarted, or switched off by itself",),
        "A servo is off that was switched on.",
        ("Check the supply.", HOME),
    ),
    "position_jump": FaultText(
        "a position jumped farther than a servo can turn",
        ("the servo restarted within another turn",),
        "A position moved farther than a servo can turn.",
        (HOME,),
    ),
    "position_out_of_range": FaultText(
        "a command lies beyond the turn, or the turns, that the servo can hold",
        ("the spool sits on its horn so that the motion crosses the end of the turn", "the zero is lost"),
        "A goal is outside of the servo's position limits: it is held at them.",
        (
            "Move the horn on the spool so that the straight robot is in the middle of the turn, or set"
            " `hardware.tendon_actuators.mode: extended_position` where the servo has it.",
            HOME,
        ),
    ),
    "hardware_error": FaultText(
        "a servo reports an error of its own, such as input_voltage, overheating, motor_encoder or overload",
        ("input_voltage, overheating, overload and so on, as the servo names it",),
        "The servo's error status.",
        ("Remove the cause that it names.", "Reset: the servo then restarts, or is switched off and on.", HOME),
    ),
}
"""Of servos on a serial bus, whatever their kind."""
