# SPDX-License-Identifier: Apache-2.0
"""Gains and pretension of the controller, within the ranges that it allows.

Names
-----
snapshot : newest state of the stack
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.parameter_request import Question
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.gui import note
from continuum_robot.app.view.steering_range import on_step, slider_step
from continuum_robot.robot.description import Robot

_LETTERS = {"p": "P", "i": "I", "d": "D"}
_INTEGRAL = "integral_per_s"
_SPAN = 4.0


class Gains:
    """A folder in the container that is open; it appears once the controller is heard."""

    def __init__(self, server: viser.ViserServer, commander: Commander, robot: Robot, status: Status) -> None:
        self._gui, self._commander, self._robot, self._status = server.gui, commander, robot, status
        self.gains: dict[str, Any] = {}
        self.pretension: Any = None
        what = "PID gains of the Clarke controller, one set a segment, and the pretension that keeps tendons taut."
        if robot.takes_displacements:
            what = (
                "The servos have gains of their own. Here is the pretension that keeps tendons taut, and how fast the"
            )
            what += " error of a measured shape or tip is corrected."
        server.gui.add_html(
            note(
                f"{what} A change acts at the controller's next cycle. The ranges are the node's own, for gains at most"
                " four times the start value; what does not fit together is refused with a sentence."
            )
        )
        self._folder = server.gui.add_folder("Controller", visible=False)
        names = [f"gains.{part}.{gain}" for part in robot.part_names for gain in _LETTERS]
        names = [_INTEGRAL] if robot.takes_displacements else names
        self._question = Question(commander, "clarke_controller", ["pretension_n", *names], self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Look for the controller."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        gains = {}
        with self._folder:
            low, high = found["pretension_n"].range or (0.0, math.inf)
            if self._robot.limits is not None:
                high = min(high, self._robot.limits.smallest("maximum_n", self._robot.tendon_count))
            pretension = self._slider("pretension, N", "pretension_n", low, high, found["pretension_n"])
            if _INTEGRAL in found and (self._robot.sees_shape or self._robot.sees_tip):
                low, high = found[_INTEGRAL].range or (0.0, math.inf)
                gains[_INTEGRAL] = self._slider("integral, 1/s", _INTEGRAL, low, high, found[_INTEGRAL])
            for part in self._robot.part_names:
                for gain, letter in _LETTERS.items():
                    name = f"gains.{part}.{gain}"
                    if name not in found:
                        continue
                    low, high = found[name].range or (0.0, math.inf)
                    start = float(found[name].value)
                    title = f"{letter} {part}" if len(self._robot.part_names) > 1 else letter
                    if start > 0:
                        gains[name] = self._slider(title, name, low, min(high, _SPAN * start), found[name])
        self.gains, self.pretension = gains, pretension
        self._folder.visible = True

    def _slider(self, title: str, name: str, low: float, high: float, found: Described) -> Any:
        value = float(np.clip(found.value, low, high))
        step = slider_step(high - low)
        slider = self._gui.add_slider(
            title, min=low, max=on_step(high, step), step=step, initial_value=min(value, on_step(high, step)),
            hint=found.descriptor.description,
        )  # fmt: skip

        def changed(_event: Any) -> None:
            values = {name: float(slider.value)}
            self._commander.set_parameters("clarke_controller", values, self._status.show_if_refused)

        slider.on_update(changed)
        return slider
