# SPDX-License-Identifier: Apache-2.0
"""What the page says of states and faults: the name, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.tendon_safety import (
    COMMAND_NOT_FINITE,
    COMMAND_OUT_OF_RANGE,
    COMMAND_TIMEOUT,
    COMMAND_WRONG_SIZE,
    CURRENT_MISMATCH,
    DEVICE_FAULT,
    DISPLACEMENT_JUMP,
    DISPLACEMENT_OUT_OF_RANGE,
    ESTOP,
    FAULTS,
    FROZEN_READING,
    INCONSISTENT_DISPLACEMENT,
    READING_NOT_FINITE,
    READING_TIMEOUT,
    TENSION_OUT_OF_RANGE,
)

REMEDIES: dict[str, str] = {
    COMMAND_TIMEOUT: "See whether clarke_controller runs and is active, and whether the computer is busy; then reset.",
    COMMAND_NOT_FINITE: "Whoever writes tendon_commands sent NaN: correct that program, then reset.",
    COMMAND_WRONG_SIZE: "Whoever writes tendon_commands was made for another robot: stop it, then reset.",
    COMMAND_OUT_OF_RANGE: "Look at the gains and at whoever writes tendon_commands, then reset.",
    READING_TIMEOUT: "The motors do not answer in time: check power and wiring, and the computer's load; then reset.",
    READING_NOT_FINITE: "A sensor lost its value: check its wiring, then reset.",
    FROZEN_READING: "A sensor stands still: check its wiring and power it off and on; home; then reset.",
    DISPLACEMENT_JUMP: "An encoder lost its count, or a tendon slipped: home the robot, then reset.",
    INCONSISTENT_DISPLACEMENT: "Look for a slack, slipped or broken tendon, mend it, home the robot, then reset.",
    DISPLACEMENT_OUT_OF_RANGE: "Take the reference back inside of the robot's reach, then reset.",
    TENSION_OUT_OF_RANGE: "See what blocks or pulls the robot; lower the gains where it swings; then reset.",
    CURRENT_MISMATCH: "A motor is off or a phase is open: check power and motor cables, then reset.",
    DEVICE_FAULT: "The driver's log and /diagnostics name the board's fault; docs/faults.md says what to do.",
    ESTOP: "See that the robot and everybody near it are safe, release the stop, then reset.",
}
"""What to do about each fault of the driver."""

_OTHERS: dict[str, tuple[str, str]] = {
    "node_lost": ("a node is gone or hangs", "Start its program again and look at its log, then reset."),
    "two_writers": ("two programs write tendon_commands", "Stop one of them, then reset."),
    "internal_error": ("a defect of the driver's program", "Keep the log, restart the stack, and report it."),
    "startup_failed": ("the stack did not come up", "The log names the node and its reason; remove it, then reset."),
    "resume_failed": ("the stack did not resume", "The log names the node and its reason; remove it, then reset."),
    "reset_failed": ("the reset did not succeed", "The cause is still there: remove it, then reset again."),
}

STATES: dict[str, str] = {
    "": "No stack is heard. Start one: continuum-robot up",
    "down": "The stack is down: motors have no power over the robot. Reset brings it up.",
    "starting": "The stack is coming up: nodes are configured, then activated.",
    "up": "The loop is closed: the controller pulls the tendons so that the robot follows the reference.",
    "stopping": "The stack is going down: the tendons are released.",
    "fault": "A fault is latched: the tendons went to their safe tension and stay there until a reset.",
}
"""What the states of the stack mean."""

DRIVER_STATES: dict[str, str] = {
    "unconfigured": "not connected to the motors",
    "inactive": "reads the sensors, torque is off",
    "active": "torque is on",
    "safe": "holds the safe tension",
}
"""What the states of the tendon driver mean."""


@dataclass(frozen=True)
class FaultWords:
    """A fault as a reader understands it.

    Attributes
    ----------
    name : as it latches
    cause : what it means
    remedy : what to do
    """

    name: str
    cause: str
    remedy: str


def explain(fault: str) -> FaultWords:
    """Words for a fault as ``stack_status`` names it.

    Parameters
    ----------
    fault : e.g. ``command_timeout`` or ``node_lost: clarke_controller``
    """
    name, _, detail = fault.partition(": ")
    if name in FAULTS:
        return FaultWords(fault, FAULTS[name], REMEDIES[name])
    cause, remedy = _OTHERS.get(name, ("not in the list of faults", "See the log and docs/faults.md, then reset."))
    return FaultWords(fault, f"{cause}: {detail}" if detail else cause, remedy)
