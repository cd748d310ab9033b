# SPDX-License-Identifier: Apache-2.0
"""The base stage: a slider each for insertion and rotation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.gui import Program, note, show
from continuum_robot.robot.base_stage import AXES, BaseStage

_SHOWN = ((1e3, "mm", 0.5), (180 / math.pi, "deg", 0.5))
"""For each axis: how much of its unit in the one that is shown, that, and the slider's step."""


class StageSliders:
    """Sliders of the axes that the stage has, in the container that is open."""

    def __init__(self, server: viser.ViserServer, commander: Commander, status: Status, stage: BaseStage) -> None:
        self._commander, self._status, self._program = commander, status, Program()
        self._where = np.zeros(2)
        self._known: dict[int, float] = {}  # values that the program has shown, or taken from a hand
        server.gui.add_html(note("Base stage:"))
        self.sliders: dict[int, Any] = {}
        for index in np.flatnonzero(stage.has).tolist():
            (scale, unit, step), (low, high) = _SHOWN[index], stage.ranges[index]
            # Inside of the range, in whole steps.
            slider = server.gui.add_slider(
                f"{AXES[index]} ({unit})", min=step * math.ceil(scale * low / step - 1e-9),
                max=step * math.floor(scale * high / step + 1e-9), step=step, initial_value=0.0,
                hint="Moves the whole robot, within the speed of the stage.",
            )  # fmt: skip
            slider.on_update(lambda _event: self._slide())
            self.sliders[index], self._known[index] = slider, 0.0
        self._problem = server.gui.add_html("")

    def update(self, snapshot: RobotState) -> None:
        """Sliders follow the stage unless this page moves it; it is not moved on once the robot stops."""
        show(self._problem, "content", note(snapshot.stage_problem))
        # In lock-step time may wait for a node, and a slow computer be silent for a while: the stage's node holds then.
        stopped = snapshot.stack not in ("up", "") or snapshot.driver not in ("active", "")
        if snapshot.stage_problem or stopped or not (snapshot.alive or snapshot.in_lockstep):
            self._commander.drop_stage()
        if snapshot.stage.size != 2 or self._commander.moves_stage(snapshot.stage):
            return
        self._where = snapshot.stage
        for index, slider in self.sliders.items():
            scale, _, step = _SHOWN[index]
            shown = float(np.clip(step * round(scale * snapshot.stage[index] / step), slider.min, slider.max))
            if slider.value != self._known[index]:
                continue  # a hand has moved it, and its callback is on the way
            self._known[index] = shown
            if slider.value != shown:
                self._program.move(slider, shown)

    def _slide(self) -> None:
        if self._program.moves:
            return
        place = self._where.copy()
        for index, slider in self.sliders.items():
            scale, _, step = _SHOWN[index]
            self._known[index] = slider.value
            if abs(slider.value - scale * place[index]) > step / 2:  # the other one is shown rounded
                place[index] = slider.value / scale
        self._commander.aim_stage(place, self._status.show_if_refused)
