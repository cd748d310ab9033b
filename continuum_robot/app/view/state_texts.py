# SPDX-License-Identifier: Apache-2.0
"""What the page reports of states and faults: the name, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.named_faults import FAULT_TEXTS

STATES: dict[str, str] = {
    "": "No stack is heard. Start one: continuum-robot up",
    "down": "The stack is down: motors have no power over the robot. Reset brings it up.",
    "starting": "The stack is coming up: nodes are configured, then activated.",
    "up": "The loop is closed: the controller pulls the tendons so that the robot follows the reference.",
    "stopping": "The stack is going down: the tendons are released.",
    "fault": "A fault is latched: the tendons went to their safe tension and stay there until a reset.",
}
"""What the states of the stack mean."""

START = "The robot stands where it came up. Start plays the trajectory; sliders and targets move it as well."
"""What there is to do while nobody has started a motion."""

DRIVER_STATES: dict[str, str] = {
    "unconfigured": "not connected to the motors",
    "inactive": "reads the sensors, torque is off",
    "active": "torque is on",
    "safe": "holds the safe tension",
}
"""What the states of the tendon driver mean."""


ON_PAGE: dict[str, str] = {"estop": "See that nobody is in danger, release every pressed button, then press Reset."}
"""What to do where the page itself offers it."""


@dataclass(frozen=True)
class FaultWords:
    """A fault as a reader understands it."""

    name: str
    cause: str
    remedy: str


def explain(fault: str) -> FaultWords:
    """Words for a fault as ``stack_status`` names it."""
    name, _, detail = fault.partition(": ")
    if name not in FAULT_TEXTS:
        return FaultWords(fault, "not in the list of faults", "See the log and docs/faults.md, then reset.")
    text = FAULT_TEXTS[name][0]
    cause = f"{text.plain_meaning}: {detail}" if detail else text.plain_meaning
    return FaultWords(fault, cause, ON_PAGE.get(name, text.remedy))
