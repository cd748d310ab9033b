# SPDX-License-Identifier: Apache-2.0
"""A parameter of a node that is one of some words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.parameter_request import Question
from continuum_robot.app.view.controls.status import Status


class Choice:
    """A dropdown in a folder of its own in the container that is open; it appears once the node answers."""

    def __init__(
        self,
        server: viser.ViserServer,
        commander: Commander,
        status: Status,
        *,
        folder: str,
        title: str,
        node: str,
        parameter: str,
        words: Sequence[str],
    ) -> None:
        self._gui, self._commander, self._status = server.gui, commander, status
        self._title, self._node, self._parameter, self._words = title, node, parameter, tuple(words)
        self.dropdown: Any = None
        self._folder = server.gui.add_folder(folder, visible=False)
        self._question = Question(commander, node, [parameter], self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Ask the node, by a ``snapshot``, until it answers."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        described = found[self._parameter]
        with self._folder:
            self.dropdown = self._gui.add_dropdown(
                self._title,
                self._words,
                initial_value=str(described.value),
                hint=described.descriptor.description,
            )
            self._add_more()
        self.dropdown.on_update(
            lambda _event: self._commander.set_parameters(
                self._node, {self._parameter: self.dropdown.value}, self._status.show_if_refused
            )
        )
        self._folder.visible = True

    def _add_more(self) -> None:
        """What else is in the folder."""
