# SPDX-License-Identifier: Apache-2.0
"""Emergency stop, reset, start, the state of the stack in words, and the line in which the page answers."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.gui import note, show
from continuum_robot.drivers.named_faults import FAULT_TEXTS
from continuum_robot.nodes.reference.lines import HOLDING

STATES: dict[str, str] = {
    "": "No stack is heard. Start one: continuum-robot up",
    "down": "The stack is down: motors have no power over the robot. Reset brings it up.",
    "starting": "The stack is coming up: nodes are configured, then activated.",
    "up": "The loop is closed: the controller pulls the tendons so that the robot follows the reference.",
    "stopping": "The stack is going down: the tendons are released.",
    "fault": "The tendons went to their safe tension and stay there until a reset.",
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
        return FaultWords(fault, "not in the list of faults", "See the log and docs/reference/faults.md, then reset.")
    text = FAULT_TEXTS[name][0]
    cause = f"{text.plain_meaning}: {detail}" if detail else text.plain_meaning
    return FaultWords(fault, cause, ON_PAGE.get(name, text.remedy))


_STATE_COLORS = {"up": "#2b8a3e", "fault": "#c92a2a", "starting": "#b7791f", "stopping": "#b7791f", "down": "#5c6370"}


class Status:
    """Stop, reset and start, with what they are about."""

    def __init__(self, server: viser.ViserServer, commander: Commander) -> None:
        self._commander = commander
        gui = server.gui
        self.stop = gui.add_button(
            "EMERGENCY STOP", color="red", hint="Latches the driver's stop: tensions go to safe."
        )
        self.stop.on_click(lambda _event: self._stop())
        self._banner = gui.add_html("")
        self.reset = gui.add_button("Reset", hint="Clears the faults and brings the stack up; the robot then holds.")
        self.reset.on_click(lambda _event: self._reset())
        self.start = gui.add_button("Start", disabled=True, hint="Plays the trajectory of reference_source.")
        self.start.on_click(lambda _event: self._commander.play(self.show_if_refused))
        self._answer = gui.add_html(_answer(""))

    def update(self, snapshot: RobotState) -> None:
        """Bring words and buttons up to date."""
        show(self._banner, "content", banner(snapshot))
        show(self.stop, "label", "STOPPED (latched)" if snapshot.estop else "EMERGENCY STOP")
        show(self.reset, "disabled", not (snapshot.faults or snapshot.estop or snapshot.stack == "down"))
        show(self.start, "disabled", not snapshot.holding)

    def show(self, sentence: str) -> None:
        """Show a sentence to the operator."""
        self._answer.content = _answer(sentence)

    def show_if_refused(self, success: bool, sentence: str) -> None:
        """An answer of the stack, where it is a no."""
        if not success:
            self.show(f"Refused: {sentence}")

    def _stop(self) -> None:
        self._commander.drop_reference()
        self._commander.stop_robot(
            lambda success, sentence: self.show("" if success else f"The stop was not confirmed: {sentence}")
        )

    def _reset(self) -> None:
        self.show("Reset: the stack goes down, faults are cleared, the stack comes up ...")
        self._commander.reset(
            lambda success, sentence: self.show("" if success else f"The reset did not succeed: {sentence}")
        )


def _answer(sentence: str) -> str:
    """Room for two lines also where there is none: what stands below must not move under a mouse."""
    return f'<div class="cr-answer">{note(sentence)}</div>'


def banner(snapshot: RobotState, *, recorded: bool = False) -> str:
    """State of the stack and faults in words, as HTML; of a recording without what only a running stack can do."""
    state = snapshot.stack if snapshot.alive or snapshot.stack in ("starting", "down") else ""
    color = "#c92a2a" if snapshot.faults or snapshot.estop else _STATE_COLORS.get(state, "#5c6370")
    kind = "simulated" if snapshot.simulated else "hardware"
    title = (state or "no stack").upper() + (f" · {kind}" if state else "")
    if snapshot.holding:
        title += f" · {HOLDING.upper()}"
    if snapshot.estop:
        title = "EMERGENCY STOP IS LATCHED"
    shown = START if snapshot.holding else STATES.get(state, "")
    if recorded:
        shown = "" if state else "The recording has no state of the stack at this time."
    parts = [f"<b>{html.escape(title)}</b>", *([html.escape(shown)] if shown else [])]
    if snapshot.driver and state and (state, snapshot.driver) != ("fault", "safe"):
        parts.append(f"Motors: {html.escape(DRIVER_STATES.get(snapshot.driver, snapshot.driver))}.")
    # Its faults are listed below; what remains is who stopped it, and what it does in place of releasing the tendons.
    said = snapshot.driver_message.removeprefix(f"safe state: {', '.join(snapshot.driver_faults)}").strip(" ;")
    if state and said not in ("", snapshot.driver):
        stopper = re.fullmatch(r"\((\w+)\)", said)
        parts.append(f"Stopped by: {stopper[1]}." if stopper else f"Driver: {html.escape(said)}.")
    for fault in snapshot.faults:
        found = explain(fault)
        remedy = "" if recorded else f"<br>➜ {html.escape(found.remedy)}"
        parts.append(f"<b>{html.escape(found.name)}</b>: {html.escape(found.cause)}.{remedy}")
    idle = [f"{name} {what}" for name, what in snapshot.nodes.items() if what != "active"]
    if idle and state in ("up", "fault"):
        parts.append("Not active: " + html.escape(", ".join(idle)) + ".")
    if snapshot.shape_problem:
        parts.append("Shape: " + html.escape(snapshot.shape_problem))
    return f'<div class="cr-banner" style="background:{color}">' + "<br>".join(parts) + "</div>"
