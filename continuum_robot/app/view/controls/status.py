# SPDX-License-Identifier: Apache-2.0
"""Emergency stop, reset, start, the state of the stack in words, and the line in which the page answers."""

from __future__ import annotations

import html

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view import state_texts as words
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.gui import note, show
from continuum_robot.nodes.reference.motion_start import HOLDING

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
            lambda success, sentence: self.show(sentence if success else f"The stop was not confirmed: {sentence}")
        )

    def _reset(self) -> None:
        self.show("Reset: the stack goes down, faults are cleared, the stack comes up ...")
        self._commander.reset(
            lambda success, sentence: self.show("" if success else f"The reset did not succeed: {sentence}")
        )


def _answer(sentence: str) -> str:
    """Room for two lines also where there is none: what stands below must not move under a mouse."""
    return f'<div class="cr-answer">{note(sentence)}</div>'


def banner(snapshot: RobotState) -> str:
    """State of the stack and faults in words, as HTML."""
    state = snapshot.stack if snapshot.alive or snapshot.stack in ("starting", "down") else ""
    color = "#c92a2a" if snapshot.faults or snapshot.estop else _STATE_COLORS.get(state, "#5c6370")
    kind = "simulated" if snapshot.simulated else "hardware"
    title = (state or "no stack").upper() + (f" · {kind}" if state else "")
    if snapshot.holding:
        title += f" · {HOLDING.upper()}"
    if snapshot.estop:
        title = "EMERGENCY STOP IS LATCHED"
    shown = words.START if snapshot.holding else words.STATES.get(state, "")
    parts = [f"<b>{html.escape(title)}</b><br>{html.escape(shown)}"]
    if snapshot.driver and state:
        parts.append(f"Motors: {html.escape(words.DRIVER_STATES.get(snapshot.driver, snapshot.driver))}.")
    if state and snapshot.driver_message not in ("", snapshot.driver):
        parts.append(f"Driver: {html.escape(snapshot.driver_message)}.")
    for fault in snapshot.faults:
        found = words.explain(fault)
        parts.append(f"<b>{html.escape(found.name)}</b>: {html.escape(found.cause)}.<br>➜ {html.escape(found.remedy)}")
    idle = [f"{name} {what}" for name, what in snapshot.nodes.items() if what != "active"]
    if idle and state in ("up", "fault"):
        parts.append("Not active: " + html.escape(", ".join(idle)) + ".")
    if snapshot.shape_problem:
        parts.append("Shape: " + html.escape(snapshot.shape_problem))
    return f'<div class="cr-banner" style="background:{color}">' + "<br>".join(parts) + "</div>"
