# SPDX-License-Identifier: Apache-2.0
"""The trajectory that reference_source plays: kind, amplitude and frequency, as its parameters allow.

Names
-----
snapshot : newest state of the stack
"""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.parameter_request import Question
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.controls.steering import Steering
from continuum_robot.app.view.steering_range import on_step, slider_step

Array = NDArray[np.float64]

_SOURCE = "reference_source"


class Trajectory:
    """A folder in the container that is open; it fills once the reference source is heard."""

    def __init__(self, server: viser.ViserServer, commander: Commander, steering: Steering, status: Status) -> None:
        self._gui, self._commander, self._steering, self._status = server.gui, commander, steering, status
        self._unit = steering.unit
        self.kind: Any = None
        self.amplitude: Any = None
        self.frequency: Any = None
        self.play: Any = None
        self._folder = server.gui.add_folder("Trajectory of reference_source")
        names = ("reference.kind", "reference.amplitude_m", "reference.frequency_hz")
        self._question = Question(commander, _SOURCE, names, self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Look for the reference source."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        kinds = tuple(kind for kind in found["reference.kind"].choices if kind != "csv")
        amplitude = np.array(found["reference.amplitude_m"].value, dtype=float)
        frequency = [float(value) for value in found["reference.frequency_hz"].value or [0.1]]
        reach = float(self._unit.per_m * self._steering.reach.high_m.max())
        gui = self._gui
        with self._folder:
            now = found["reference.kind"].value
            self.kind = gui.add_dropdown("kind", kinds, initial_value=now if now in kinds else kinds[0])
            largest = float(self._unit.per_m * np.abs(amplitude).max())
            step = slider_step(max(reach, largest))
            high = on_step(max(reach, largest), step)
            self.amplitude = gui.add_slider(
                f"amplitude, {self._unit.name}", min=0.0, max=high, step=step, initial_value=min(largest, high)
            )
            self.frequency = gui.add_slider(
                "frequency, Hz", min=0.02, max=0.5, step=0.01, initial_value=float(np.clip(frequency[0], 0.02, 0.5))
            )
            self.play = gui.add_button("Play")
        self.play.on_click(lambda _event: self._play(amplitude, len(frequency)))

    def _play(self, shape: Array, count: int) -> None:
        """The amplitudes keep their proportions."""
        largest = float(np.abs(shape).max())
        desired = float(self.amplitude.value) / self._unit.per_m
        amplitude = desired * shape / largest if largest > 0 else np.full(shape.size, desired)
        values = {
            "reference.kind": str(self.kind.value),
            "reference.amplitude_m": [float(value) for value in amplitude],
            "reference.frequency_hz": [float(self.frequency.value)] * count,
        }

        def answer(success: bool, sentence: str) -> None:
            self._status.show(f"{_SOURCE} {sentence}." if success else f"Refused: {sentence}")
            if success:
                self._steering.leave()

        def start(success: bool, sentence: str) -> None:
            if success:
                self._commander.play(self._steering.asking(answer))
            else:
                answer(success, sentence)

        self._commander.set_parameters(_SOURCE, values, self._steering.asking(start))
