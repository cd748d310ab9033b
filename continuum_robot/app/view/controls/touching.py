# SPDX-License-Identifier: Apache-2.0
"""What the robot does when something touches it, and the way back to its reference."""

from __future__ import annotations

from typing import Any

import viser

from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.question import Question
from continuum_robot.app.view.controls.status import Status
from continuum_robot.robot.reaction_settings import REACTIONS

_STRATEGY = "reaction.strategy"


class Touching:
    """A choice and a button in the container that is open; they appear once the reference source is heard.

    Parameters
    ----------
    server : of the page
    commander : spun
    status : where answers are shown

    Attributes
    ----------
    strategy : dropdown, None before the reference source was heard
    resume : button, None before
    """

    def __init__(self, server: viser.ViserServer, commander: Commander, status: Status) -> None:
        self._gui, self._commander, self._status = server.gui, commander, status
        self.strategy: Any = None
        self.resume: Any = None
        self._folder = server.gui.add_folder("When something touches", visible=False)
        self._question = Question(commander, SOURCE, [_STRATEGY], self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Look for the reference source in a ``snapshot``."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        described = found[_STRATEGY]
        with self._folder:
            self.strategy = self._gui.add_dropdown(
                "the robot should", REACTIONS, initial_value=str(described.value), hint=described.descriptor.description
            )
            self.resume = self._gui.add_button("Go on", hint="Back to the reference from where it holds.")
        self.strategy.on_update(
            lambda _event: self._commander.set_parameters(
                SOURCE, {_STRATEGY: self.strategy.value}, self._status.tell_if_refused
            )
        )
        self.resume.on_click(lambda _event: self._commander.resume(self._status.tell_if_refused))
        self._folder.visible = True
