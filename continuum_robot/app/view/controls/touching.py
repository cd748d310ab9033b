# SPDX-License-Identifier: Apache-2.0
"""What the robot does when something touches it, and the way back to its reference."""

from __future__ import annotations

from typing import Any

import viser

from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.choice import Choice
from continuum_robot.app.view.controls.status import Status
from continuum_robot.robot.reaction_settings import REACTIONS


class Touching(Choice):
    """The strategy, and a button that lets the reference go on."""

    def __init__(self, server: viser.ViserServer, commander: Commander, status: Status) -> None:
        self.resume: Any = None
        super().__init__(
            server,
            commander,
            status,
            folder="When something touches",
            title="the robot should",
            node=SOURCE,
            parameter="reaction.strategy",
            words=REACTIONS,
        )

    def _add_more(self) -> None:
        self.resume = self._gui.add_button("Go on", hint="Back to the reference from where it holds.")
        self.resume.on_click(lambda _event: self._commander.resume(self._status.show_if_refused))
