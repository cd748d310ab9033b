# SPDX-License-Identifier: Apache-2.0
"""Feed-forward of the motors' cogging: whether the driver adds it."""

from __future__ import annotations

from typing import Any

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.question import Question
from continuum_robot.app.view.controls.status import Status

_DRIVER, _COGGING = "tendon_driver", "cogging"


class Drives:
    """A choice in the container that is open; it appears once the driver is heard.

    Parameters
    ----------
    server : of the page
    commander : spun
    status : where answers are shown

    Attributes
    ----------
    cogging : dropdown, None before the driver was heard
    """

    def __init__(self, server: viser.ViserServer, commander: Commander, status: Status) -> None:
        self._gui, self._commander, self._status = server.gui, commander, status
        self.cogging: Any = None
        self._folder = server.gui.add_folder("Motors", visible=False)
        self._question = Question(commander, _DRIVER, [_COGGING], self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Look for the driver in a ``snapshot``."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        described = found[_COGGING]
        with self._folder:
            self.cogging = self._gui.add_dropdown(
                "feed cogging forward",
                ("auto", "on", "off"),
                initial_value=str(described.value),
                hint=described.descriptor.description,
            )
        self.cogging.on_update(
            lambda _event: self._commander.set_parameters(
                _DRIVER, {_COGGING: self.cogging.value}, self._status.tell_if_refused
            )
        )
        self._folder.visible = True
