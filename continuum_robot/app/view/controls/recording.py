# SPDX-License-Identifier: Apache-2.0
"""Recording: by the stack's recorder, or by one of the page's own where the stack has none."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path

import viser

from continuum_robot.app.client.connection import recorder_parameters
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.running.processes import ProcessGroup, node_command
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.gui import Program, note, show
from continuum_robot.robot.description import Robot

_NAME = "recorder"
_ASK_S = 0.5
GRACE_S = 30.0
"""How long a recorder may take to end: where it is killed, the recording has no index."""


class Recording:
    """A checkbox and a sentence, in the container that is open."""

    def __init__(
        self, server: viser.ViserServer, commander: Commander, robot: Robot, status: Status, directory: Path
    ) -> None:
        self._commander, self._robot, self._status, self._directory = commander, robot, status, directory
        self._program = Program()
        self._snapshot = RobotState()
        self._own: ProcessGroup | None = None
        self._own_records, self._asked_s = False, -math.inf
        self.record = server.gui.add_checkbox("record", initial_value=False)
        self.record.on_update(lambda _event: self._switch(bool(self.record.value)))
        self._note = server.gui.add_html("")
        # Episodes of a data set: `continuum-robot export` keeps those that end well.
        self.marks = {
            mark: server.gui.add_button(title, hint=hint, disabled=True)
            for mark, title, hint in (
                ("begin", "Begin episode", "What follows is an episode of a data set."),
                ("end", "Keep episode", "It ends here, and is kept."),
                ("discard", "Discard episode", "It ends here, and an export leaves it out."),
            )
        }
        for mark, button in self.marks.items():
            button.on_click(partial(self._mark, mark))

    def update(self, snapshot: RobotState) -> None:
        """Follow the stack's recorder, and say where recordings go."""
        self._snapshot = snapshot
        self._poll()
        state = snapshot.nodes.get(_NAME)
        records = self._own_records if state is None else state == "active"
        for mark, button in self.marks.items():
            show(button, "disabled", not records or snapshot.episode == (mark == "begin"))
        if state is not None:
            recording = state == "active"
            if self.record.value != recording:
                self._program.move(self.record, recording)
            words = "The stack's recorder writes all topics" if recording else "The stack's recorder rests"
        elif self._own is not None and not self._own_records:
            words = "The recorder starts; nothing is written yet"
        elif self._own is not None:
            words = f"All topics are written to a folder named by the date in {self._directory}"
        else:
            words = f"Switch on to write all topics to {self._directory}"
        words += ". Recordings are MCAP files: ros2 bag, PlotJuggler and Foxglove open them."
        show(self._note, "content", note(words))

    def _mark(self, mark: str, _event: object) -> None:
        self._commander.mark_episode(mark, self._say)

    def _say(self, success: bool, sentence: str) -> None:
        self._status.show(f"{sentence.capitalize()}." if success else f"Refused: {sentence}")

    def _poll(self) -> None:
        """A recorder of the page's own that ended by itself records no more."""
        codes = {} if self._own is None else self._own.ended()
        if codes:
            self._own = None
            self._program.move(self.record, False)
            self._status.show(f"The recording has ended: the recorder exited with code {codes[_NAME]}, see the log.")
        now_s = time.monotonic()
        if self._own is not None and not self._own_records and now_s - self._asked_s > _ASK_S:
            self._asked_s, group = now_s, self._own

            def answer(answered: bool, state: str) -> None:
                self._own_records = answered and state == "active" and self._own is group

            self._commander.ask_recorder(answer)

    def close(self) -> None:
        """End a recording of the page's own."""
        group, self._own = self._own, None
        if group is not None:
            group.stop()

    def _switch(self, desired: bool) -> None:
        if self._program.moves:
            return
        if self._commander.has_recorder and self._own is None:
            self._commander.record(desired, self._status.show_if_refused)
        elif not desired:
            self.close()
        elif self._own is None:
            parameters = recorder_parameters(self._robot, self._snapshot, self._directory)
            command = node_command(_NAME, parameters, self._commander.namespace)
            group = ProcessGroup({_NAME: command}, grace_s=GRACE_S)
            group.start()
            self._own, self._own_records = group, False
